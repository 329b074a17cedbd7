// A wall clock that is wrong or steps, as on a device without a clock of its own. The product runs unmodified under a
// preload that shifts what Node.js reads; the monotonic clock is left alone, as the kernel leaves it.
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Site } from '../operation.ts';
import { works } from './answer.ts';
import { startDaemon } from './daemon.ts';
import { endProcesses } from './ground.ts';
import { readTrace } from './journey.ts';
import { becomesTrue, type LaunchOptions } from './launch.ts';
import { type FaultScenario, journalModes, nothingInTheWay, type Stage, tryPoint } from './scenario.ts';

const preload = `const { readFileSync } = require('node:fs');
const read = Date.now;
const shift = () => Number(readFileSync(process.env.FAULT_CLOCK, 'latin1'));
Date.now = () => read() + shift();
`;

const dayMs = 86_400_000;
const steps: Readonly<Record<string, readonly [beforeMs: number, afterMs: number]>> = {
  'a year ahead': [0, 365 * dayMs],
  'a year back': [0, -365 * dayMs],
  'from 1970 to now': [-56 * 365 * dayMs, 0],
  'now to 1970': [0, -56 * 365 * dayMs],
};

export const clockScenarios: readonly FaultScenario[] = [
  {
    name: 'clock step while a command runs',
    isQuick: false,
    modes: journalModes,
    findObstacle: nothingInTheWay,
    async run(stage) {
      for (const [what, shifts] of Object.entries(steps)) {
        await tryStep(stage, what, shifts);
      }
    },
  },
  {
    name: 'reboot while a command runs',
    isQuick: false,
    modes: journalModes,
    findObstacle: nothingInTheWay,
    run: tryReboot,
  },
];

function clockOf(site: Site): { readonly options: LaunchOptions; set(shiftMs: number): void } {
  const [file, hook] = [join(site.root, 'clock'), join(site.root, 'clock.cjs')];
  writeFileSync(hook, preload);
  return {
    options: { nodeArgs: ['-r', hook], env: { FAULT_CLOCK: file } },
    set: (shiftMs) => writeFileSync(file, `${Math.round(shiftMs)}`),
  };
}

function tryStep(stage: Stage, what: string, [beforeMs, afterMs]: readonly [number, number]): Promise<void> {
  return tryPoint(stage, what, { beginning: 'installed' }, async (journey, site) => {
    const { options, set } = clockOf(site);
    set(beforeMs);
    const daemon = await startDaemon(site, options);
    const before = await journey.start('held', works, { ...options, workflowId: 'held' });
    const isHeld = await becomesTrue(() => readTrace(site).length === 1);
    set(afterMs);
    const during = await journey.start('next', works, options);
    writeFileSync(join(site.root, 'gate'), '');
    return [
      ...before,
      ...(isHeld ? [] : ['the command does not begin']),
      ...during,
      ...(await journey.endsBy(daemon)),
      ...(await daemon.stop()),
      ...(await journey.findTrouble()),
    ];
  });
}

/** Processes and run directory are gone, another boot has begun: what ran is lost, and what waited goes on. */
function tryReboot(stage: Stage): Promise<void> {
  return tryPoint(stage, 'killed, and another boot', { beginning: 'queued' }, async (journey, site) => {
    const daemon = await startDaemon(site);
    const before = await journey.start('held', works, { workflowId: 'held' });
    await becomesTrue(() => readTrace(site).length >= 1);
    daemon.process.kill('SIGKILL');
    await daemon.answered;
    endProcesses(site);
    rmSync(site.run, { recursive: true, force: true });
    writeFileSync(join(site.root, 'gate'), '');
    const next = await journey.ask(['serve', '--until-idle', '--boot-id', 'another-boot'], works);
    return [...before, ...next, ...(await journey.findTrouble({ mayEnd: ['failed'] }))];
  });
}
