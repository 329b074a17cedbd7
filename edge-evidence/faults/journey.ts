// What an operator did with one site and was told, held against what is there in the end. An acknowledged run must be
// there, must come to its end once the cause of trouble is gone, and each of its commands must have run exactly once.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { findDatabaseTrouble } from '../database.ts';
import type { Site } from '../operation.ts';
import { type Expected, findAnswerTrouble, quote, works } from './answer.ts';
import { type Daemon, findDeath } from './daemon.ts';
import { type Beginning, type Ground, packageName, stepsOf } from './ground.ts';
import { becomesTrue, call, drainMsMax, type LaunchOptions } from './launch.ts';

export type Journey = {
  readonly site: Site;
  /** Starts a run; what is told is remembered. Answers what is wrong with the answer. */
  start(key: string, expected: Expected, options?: StartOptions): Promise<readonly string[]>;
  /** Remembers what another way of starting a run has told. */
  acknowledge(key: string, runId: string, workflowId?: string): void;
  /** Any other command, judged by how it ends. */
  ask(words: readonly string[], expected: Expected, options?: LaunchOptions): Promise<readonly string[]>;
  /** Whether everything that was acknowledged comes to its end while a daemon works, and nobody does anything. */
  endsBy(daemon: Daemon): Promise<readonly string[]>;
  /** Carries everything to its end, now that nothing stands in the way, and compares. */
  findTrouble(options?: FinishOptions): Promise<readonly string[]>;
};

export type StartOptions = LaunchOptions & { readonly workflowId?: string };

export type FinishOptions = {
  /** Ends of a run that the fault itself explains, beside `succeeded`. */
  readonly mayEnd?: readonly string[];
};

type Acknowledged = { readonly runId: string; readonly workflowId: string };
export type ListedRun = {
  readonly id: string;
  readonly status: string | null;
  readonly idempotencyKey: string | null;
  readonly setAside: unknown;
};

/** `common` is how every command of this journey is launched, such as the user whose it is. */
export function createJourney(site: Site, ground: Ground, beginning: Beginning, common: LaunchOptions = {}): Journey {
  const acknowledged = new Map<string, Acknowledged>();
  const acknowledge = (key: string, runId: string, workflowId = 'main') => {
    acknowledged.set(key, { runId, workflowId });
  };
  if (beginning === 'queued' || beginning === 'there') {
    ground.queued.forEach((runId, key) => void acknowledge(key, runId));
  }
  const note = (key: string, workflowId: string, runId: string): readonly string[] => {
    const before = acknowledged.get(key)?.runId ?? runId;
    acknowledge(key, runId, workflowId);
    return runId !== '' && runId === before ? [] : [`the key ${key} led to “${before}”, and now to “${runId}”`];
  };
  return {
    site,
    acknowledge,
    async start(key, expected, { workflowId = 'main', ...options } = {}) {
      const words = ['workflow', 'start', `${packageName}/${workflowId}`, '--key', key];
      const answer = await call(site, words, { ...common, ...options });
      const troubles = findAnswerTrouble(answer, expected).map((what) => `workflow start: ${what}`);
      return answer.code === 0 && !answer.isLate
        ? [...troubles, ...note(key, workflowId, answer.out.trim())]
        : troubles;
    },
    async ask(words, expected, options) {
      const answer = await call(site, words, { ...common, ...options });
      const name = words.filter((word) => !word.includes('/')).join(' ');
      return findAnswerTrouble(answer, expected).map((what) => `${name}: ${what}`);
    },
    async endsBy(daemon) {
      const isOver = async () => !daemon.isAlive() || (await haveAllEnded({ site, acknowledged, common }));
      const isEnded = await becomesTrue(isOver, { waitMsMax: drainMsMax, pauseMs: 200 });
      const unended = isEnded
        ? []
        : [`not everything came to its end within ${drainMsMax} ms, though the cause was gone`];
      return [...(await findDeath(daemon)), ...unended];
    },
    findTrouble: (options = {}) => findEndTrouble({ site, acknowledged, common }, options),
  };
}

type Told = {
  readonly site: Site;
  readonly acknowledged: ReadonlyMap<string, Acknowledged>;
  readonly common: LaunchOptions;
};

async function haveAllEnded({ site, common }: Told): Promise<boolean> {
  const runs = await listRuns(site, common);
  return runs?.every(({ status }) => status !== 'running') ?? false;
}

async function findEndTrouble(
  { site, acknowledged, common }: Told,
  { mayEnd = [] }: FinishOptions,
): Promise<readonly string[]> {
  const answer = await call(site, ['serve', '--until-idle'], { ...common, limitMs: drainMsMax });
  const troubles = findAnswerTrouble(answer, works);
  if (troubles.length > 0 || answer.code !== 0) {
    return [`once the cause was gone, serve --until-idle did not end well: ${troubles.join(', ')}${quote(answer.err)}`];
  }
  const runs = await listRuns(site, common);
  if (runs === null) {
    return ['once the cause was gone, the runs could not be listed'];
  }
  return [
    ...compareRuns(runs, acknowledged, mayEnd),
    ...compareCommands(readTrace(site), runs, acknowledged),
    ...findDatabaseTrouble(join(site.data, 'qinglong.db')),
  ];
}

/** What the product says that there is; null where it does not answer. */
export async function listRuns(site: Site, options: LaunchOptions = {}): Promise<readonly ListedRun[] | null> {
  const { code, out } = await call(site, ['runs', 'list', '--limit', '64', '--json'], options);
  try {
    return code === 0 ? (JSON.parse(out) as { readonly runs: readonly ListedRun[] }).runs : null;
  } catch {
    return null;
  }
}

function compareRuns(
  runs: readonly ListedRun[],
  acknowledged: ReadonlyMap<string, Acknowledged>,
  mayEnd: readonly string[],
): readonly string[] {
  const ends = ['succeeded', ...mayEnd];
  const lost = [...acknowledged].filter(([key, { runId }]) =>
    runs.every(({ id, idempotencyKey }) => id !== runId || idempotencyKey !== key),
  );
  const unended = runs.filter(({ status }) => !ends.includes(status ?? ''));
  const keys = runs.map(({ idempotencyKey }) => idempotencyKey).filter((key) => key !== null);
  return [
    ...lost.map(([key, { runId }]) => `acknowledged and lost: run ${runId} of key ${key}`),
    ...unended.map(({ id, status }) => `run ${id} is ${status}, and ${ends.join(' or ')} was to be`),
    ...(new Set(keys).size === keys.length ? [] : ['one key led to two runs']),
  ];
}

function compareCommands(
  trace: readonly string[],
  runs: readonly ListedRun[],
  acknowledged: ReadonlyMap<string, Acknowledged>,
): readonly string[] {
  const troubles = runs.flatMap(({ id, status }) => {
    const workflowId = [...acknowledged.values()].find(({ runId }) => runId === id)?.workflowId ?? 'main';
    return (stepsOf[workflowId] ?? []).flatMap((step) => {
      const count = trace.filter((line) => line === `${id} ${step}`).length;
      const isRight = count === 1 || (count === 0 && status !== 'succeeded');
      return isRight ? [] : [`run ${id} is ${status}, and the command of its step ${step} ran ${count} times`];
    });
  });
  const strangers = trace.filter((line) => !runs.some(({ id }) => line.startsWith(`${id} `)));
  return [...troubles, ...strangers.map((line) => `a command ran of a run that is not there: ${line}`)];
}

/** One line for each command that ran: its run and its step. */
export function readTrace({ data }: Site): readonly string[] {
  try {
    return readFileSync(join(dirname(data), 'trace'), 'utf8')
      .split('\n')
      .filter((line) => line !== '');
  } catch {
    return [];
  }
}
