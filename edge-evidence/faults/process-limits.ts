// Limits that the kernel sets on a process of any user: the size of its files (writes that are short, then fail), its
// open files, its processes. Without tools but the shell's `ulimit`.
import type { Site } from '../operation.ts';
import { type Expected, findAnswerTrouble, works } from './answer.ts';
import { packageOf } from './ground.ts';
import type { Journey } from './journey.ts';
import {
  type Answer,
  behindShell,
  commandMsMax,
  type LaunchOptions,
  launch,
  launchNode,
  pause,
  troubledMs,
} from './launch.ts';
import {
  type FaultScenario,
  journalModes,
  nothingInTheWay,
  type PointOptions,
  type Stage,
  storageFails,
  tryPoint,
} from './scenario.ts';
import { countThreads, findUserObstacle, plainUserId } from './users.ts';

/** Blocks of 512 or 1024 bytes, as the shell counts. A database of one package has 74 KiB. */
const fileBlocks = { quick: [24], full: [0, 12, 90] } as const;

export const processLimitScenarios: readonly FaultScenario[] = [
  {
    name: 'file size limit',
    isQuick: true,
    modes: journalModes,
    findObstacle: nothingInTheWay,
    async run(stage) {
      for (const blocks of stage.isQuick ? fileBlocks.quick : fileBlocks.full) {
        await tryLimit(stage, `ulimit -f ${blocks}`, storageFails);
      }
    },
  },
  {
    name: 'open files limit',
    isQuick: false,
    modes: journalModes,
    findObstacle: nothingInTheWay,
    async run(stage) {
      const folder = stage.ground.scratch;
      const least = await findLeast((count) => `ulimit -n ${count}`, { folder, from: 8, to: 32 });
      stage.tally.note('leastForNode', least);
      for (const more of [0, 1, 2, 4]) {
        await tryLimit(stage, `ulimit -n ${least + more}`, storageFails);
      }
    },
  },
  {
    name: 'process limit',
    isQuick: false,
    // Threads are counted by user: two of these at a time would disturb each other.
    modes: ['delete-extra'],
    findObstacle: findUserObstacle,
    async run(stage) {
      const userId = plainUserId('counted');
      const present = countThreads(userId ?? process.geteuid?.() ?? 0);
      // bash calls it -u, dash and BusyBox -p.
      const limitOf = (count: number) => `{ ulimit -u ${count} 2>/dev/null || ulimit -p ${count}; }`;
      const folder = stage.ground.scratch;
      const least = await findLeast(limitOf, { folder, from: present + 2, to: present + 20, userId });
      stage.tally.note('leastForNode', least);
      for (const more of [0, 1, 2, 4]) {
        await tryLimit(stage, limitOf(least + more), { ...storageFails, mayNodeGiveUp: true }, { userId });
      }
    },
  },
];

/** What starting Node.js takes on a slow device, and more. */
const nodeMsMax = 5_000;

type Search = { readonly folder: string; readonly from: number; readonly to: number; readonly userId?: number | null };

/**
 * With less than this Node.js itself does not get to run a program, or waits for ever for a thread that it could not
 * start: no fault of what it runs. Looked for from above, since waiting is what takes long.
 */
async function findLeast(
  limitOf: (count: number) => string,
  { folder, from, to, userId = null }: Search,
): Promise<number> {
  // Every thread that Node.js ever starts by itself, and a process beside.
  const program = `require('node:sqlite'); require('node:child_process').spawnSync('/bin/true');
    const { readFile } = require('node:fs').promises;
    Promise.all(Array.from({ length: 32 }, () => readFile('/proc/self/status'))).then(() => process.exit(7));`;
  for (let count = to; count >= from; count -= 1) {
    const options = { wrap: behindShell(limitOf(count)), userId, limitMs: nodeMsMax };
    if ((await launchNode(folder, ['-e', program], options).answered).code !== 7) {
      return count + 1;
    }
  }
  return from;
}

/** Installing, starting a run, and carrying runs on, each under the limit and then without it. */
async function tryLimit(
  stage: Stage,
  line: string,
  expected: Expected,
  options: Omit<PointOptions, 'beginning'> = {},
): Promise<void> {
  const limited = { wrap: behindShell(line) };
  await tryPoint(stage, `${line}, install`, { ...options, beginning: 'nothing' }, async (journey, site) => [
    ...(await journey.ask(['package', 'install', packageOf(site)], expected, limited)),
    ...(await journey.ask(['package', 'install', packageOf(site)], works)),
    ...(await journey.start('third', works)),
    ...(await journey.findTrouble()),
  ]);
  await tryPoint(stage, `${line}, start`, { ...options, beginning: 'queued' }, async (journey) => [
    ...(await journey.start('third', expected, limited)),
    ...(await journey.start('third', works)),
    ...(await journey.findTrouble()),
  ]);
  await tryPoint(stage, `${line}, serve`, { ...options, beginning: 'queued' }, async (journey, site) => [
    ...(await serveTroubled(site, expected, { ...limited, userId: options.userId ?? null })),
    // Under such a limit a command cannot run either: then its run may have failed, and says so.
    ...(await findTroubleBehindLimit(journey)),
  ]);
}

function findTroubleBehindLimit(journey: Journey): Promise<readonly string[]> {
  return journey.findTrouble({ mayEnd: ['failed'] });
}

/** Of who was told to end by SIGTERM: before it listens to signals, it dies of them. */
export function findTroubleWhenTold(answer: Answer, expected: Expected): readonly string[] {
  return answer.signal === 'SIGTERM' ? [] : findAnswerTrouble(answer, expected);
}

/**
 * Carries runs on under a fault that does not go away: it ends by itself, or waits, and then ends when it is told to.
 * What is wrong with how it ended.
 */
export async function serveTroubled(
  site: Site,
  expected: Expected,
  options: LaunchOptions,
): Promise<readonly string[]> {
  const { process: child, answered } = launch(site, ['serve', '--until-idle'], { limitMs: commandMsMax, ...options });
  await Promise.race([answered, pause(troubledMs)]);
  child.kill('SIGTERM');
  return findTroubleWhenTold(await answered, expected).map((what) => `serve: ${what}`);
}
