// A machine with little memory and half a processor: a workflow of six steps that print, from install to its end, with
// everything that it starts, inside one control group. For root alone.
import { modes } from '../operation.ts';
import { works } from './answer.ts';
import { packageOf } from './ground.ts';
import { drainMsMax } from './launch.ts';
import { findGroupObstacle, withGroup } from './mounts.ts';
import { type FaultScenario, type Stage, tryPoint } from './scenario.ts';

const memoryBytes = 64 * 1024 * 1024;
const processors = 0.5;

export const memoryScenarios: readonly FaultScenario[] = [
  { name: 'memory limit of 64 MiB, half a processor', isQuick: true, modes, findObstacle: findGroupObstacle, run },
];

function run(stage: Stage): Promise<void> {
  return withGroup({ memoryBytes, processors }, (group) =>
    tryPoint(stage, 'install, start, serve', { beginning: 'nothing' }, async (journey, site) => {
      const within = { wrap: group.wrap, limitMs: drainMsMax };
      const troubles = [
        ...(await journey.ask(['package', 'install', packageOf(site)], works, within)),
        ...(await journey.start('wide', works, { ...within, workflowId: 'wide' })),
        ...(await journey.ask(['serve', '--until-idle'], works, within)),
      ];
      const [peak, kills] = [group.peakBytes(), group.kills()];
      if (peak !== null) {
        stage.tally.note('peakBytes', peak);
      }
      const killed = kills === null || kills === 0 ? [] : [`the kernel killed ${kills} processes for want of memory`];
      return [...troubles, ...killed, ...(await journey.findTrouble())];
    }),
  );
}
