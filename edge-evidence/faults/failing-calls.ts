// Every operation, with one of its system calls made to fail: out of space, an error of the device, a file system that
// turned read-only, a write that is cut short before that; once, or from there on. Which pairs of a call and a fault
// are tried is drawn from the seed, with every kind of fault and of call getting its turn.
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Ended, Operation, Site } from '../operation.ts';
import { operations } from '../operations/all.ts';
import type { Random } from '../random.ts';
import { createJudge } from '../recorder/judge.ts';
import { readSite, recordSubject, restoreSite, type Subject, waitForCommands, watchOf } from '../recorder/record.ts';
import { type Call, readRecording } from '../recorder/recording.ts';
import { buildShim, type CallKind, type Fault, noShim } from '../recorder/shim.ts';
import { type Judge, readStandard, type Standard } from '../recorder/standard.ts';
import { type Expected, quote } from './answer.ts';
import { endProcesses } from './ground.ts';
import { type Answer, call, commandMsMax, drainMsMax, launch, pause, troubledMs } from './launch.ts';
import { findTroubleWhenTold } from './process-limits.ts';
import type { FaultScenario, Place, Stage } from './scenario.ts';
import { findExcused, findNaming } from './yielding.ts';

/** Calls that change something, and can fail for want of space or because of the device. */
const faultyKinds: readonly CallKind[] = ['write', 'sync', 'create', 'rename', 'unlink', 'truncate', 'mkdir', 'link'];

type FaultKind = { readonly name: string } & Pick<Fault, 'error' | 'lasts'> & { readonly isShort?: boolean };

const errors = ['ENOSPC', 'EIO', 'EROFS'] as const;

export const faultKinds: readonly FaultKind[] = [true, false].flatMap((lasts) => [
  ...errors.map((error) => ({ name: `${error} ${lasts ? 'from there on' : 'once'}`, error, lasts })),
  { name: `short write, then ENOSPC ${lasts ? 'from there on' : 'once'}`, error: 'ENOSPC', lasts, isShort: true },
]);

/** What is true of each of them; a fault may also strike where nothing depends on it. */
export function expectedOf({ error }: Pick<Fault, 'error'>): Expected {
  const codes = ['unavailable', 'unknown-outcome', ...(error === 'ENOSPC' ? ['full'] : [])];
  return { codes, mayHold: true, mayTellRun: true };
}

const pointsPerOperation = { quick: 2, full: 3 } as const;
const quickOperations = ['admission'];

export const failingCallScenarios: readonly FaultScenario[] = operations.map((operation, index) => ({
  name: `failing calls: ${operation.name}`,
  isQuick: quickOperations.includes(operation.name),
  // The two delete modes differ in one sync: a third of the operations in the second of them has to do.
  modes: index % 3 === 0 ? ['delete-extra', 'delete-full', 'wal-full'] : ['delete-extra', 'wal-full'],
  findObstacle: findShimObstacle,
  run: (stage) => tryCalls(stage, operation),
}));

const shims = new Map<string, string | null>();

/** Built once for a scratch folder. */
export function shimOf({ scratch }: Pick<Place, 'scratch'>): string | null {
  if (!shims.has(scratch)) {
    shims.set(scratch, buildShim(join(scratch, 'shim')));
  }
  return shims.get(scratch) ?? null;
}

export function findShimObstacle(place: Place): string | null {
  return shimOf(place) === null ? noShim : null;
}

async function tryCalls(stage: Stage, operation: Operation): Promise<void> {
  const { ground, tally, random, isQuick } = stage;
  const scratch = join(ground.scratch, `calls-${operation.name}-${ground.mode}`);
  const { bundle, mode } = ground;
  const subject: Subject = { operation, mode, bundle, scratch, shim: shimOf(ground) ?? '' };
  const recorded = await recordSubject(subject);
  const judge = createJudge(join(scratch, 'judged'));
  const trial: Trial = { subject, judge, standard: readStandard(recorded, judge) };
  const calls = recorded.calls.filter(({ kind }) => faultyKinds.includes(kind));
  tally.note('calls', calls.length);
  tally.note('pairs', countPairs(calls));
  for (const pair of drawPairs(calls, random, isQuick ? pointsPerOperation.quick : pointsPerOperation.full)) {
    await tally.point(describePair(pair, recorded.calls), () => tryPair(trial, pair));
  }
}

export type Pair = { readonly call: Call; readonly fault: FaultKind };

const fits = ({ call: { kind, data }, fault }: Pair) => fault.isShort !== true || (kind === 'write' && data.length > 1);

function countPairs(calls: readonly Call[]): number {
  return calls.flatMap((at) => faultKinds.filter((fault) => fits({ call: at, fault }))).length;
}

/** Kinds of faults and of calls in turn, from a beginning that is drawn; which of the calls of a kind is drawn, too. */
export function drawPairs(calls: readonly Call[], random: Random, count: number): readonly Pair[] {
  const kinds = [...new Set(calls.map(({ kind }) => kind))];
  const [faultAt, kindAt] = [random.between(0, faultKinds.length - 1), random.between(0, kinds.length - 1)];
  return Array.from({ length: calls.length === 0 ? 0 : count }, (_, index) => {
    const fault = faultKinds[(faultAt + index) % faultKinds.length]!;
    // One further with each round, so that no kind of call meets the same faults alone.
    const turn = kindAt + index + Math.floor(index / faultKinds.length);
    const kind = fault.isShort === true ? 'write' : kinds[turn % kinds.length];
    const fitting = calls.filter((at) => at.kind === kind && fits({ call: at, fault }));
    return { call: random.pick(fitting.length > 0 ? fitting : calls), fault };
  });
}

export function faultAt({ call: { number, kind, data }, fault: { error, lasts, isShort } }: Pair): Fault {
  // Whatever lasts concerns every call that changes something, as a full disk or a read-only one does.
  const kinds = lasts ? faultyKinds : [kind];
  const short = isShort === true ? { bytesMax: Math.floor(data.length / 2) } : {};
  return { number, error, lasts, kinds, ...short };
}

/** `EIO once at call 25 (create data/qinglong.db-journal)`; `calls` are all of them: they tell which file it is. */
export function describePair({ call: at, fault }: Pair, calls: readonly Call[]): string {
  const path = findNaming(calls, at)?.path ?? '';
  const name = path.split('/').slice(-2).join('/');
  return `${fault.name} at call ${at.number} (${[at.kind, name].join(' ').trim()})`;
}

type Trial = { readonly subject: Subject; readonly judge: Judge; readonly standard: Standard };

async function tryPair({ subject, judge, standard }: Trial, pair: Pair): Promise<readonly string[]> {
  const { operation } = subject;
  const site = restoreSite(subject);
  try {
    const log = join(subject.scratch, 'struck');
    rmSync(log, { force: true });
    const env = watchOf(subject, { fault: faultAt(pair), log });
    const { answer, isTold } = await act(operation.act(site), { site, env, lasts: pair.fault.lasts });
    await waitForCommands(site);
    const { facts, trouble } = judge.judge(readSite(site));
    const commit = standard.facts.lastIndexOf(facts);
    const isExact = operation.endsAlike && operation.isOrdered;
    const isDone = commit === standard.facts.length - 1;
    const troubles = [
      ...findTroubleWhenTold(answer, expectedOf(pair.fault)),
      ...trouble.map((what) => `what it left is not sound: ${what}`),
      ...(isExact && commit < 0 && trouble.length === 0 ? ['what it left is what no uncut execution passes'] : []),
      // Told to end, it ends with 0, whatever is left to be done.
      ...(isExact && answer.code === 0 && !isDone && !isTold ? ['it answered 0, and what it did is not there'] : []),
    ];
    const calls = existsSync(log) ? readRecording(log) : [];
    const again = await call(site, operation.again(site), { limitMs: drainMsMax });
    await waitForCommands(site);
    const excused = findExcused({ operation, site, fault: pair.fault, calls });
    const atEnd = judge.judge(readSite(site));
    return [
      ...troubles,
      ...operation
        .findTrouble(site, endedOf(again))
        .filter((what) => !excused.includes(what))
        .map((what) => `done again without the fault: ${what}`),
      ...atEnd.trouble.map((what) => `done again without the fault, it is not sound: ${what}`),
      ...(isExact && atEnd.facts !== standard.facts.at(-1)
        ? [`done again, it came to another end${quote(again.err)}`]
        : []),
    ];
  } finally {
    endProcesses(site);
  }
}

type Act = { readonly site: Site; readonly env: Readonly<Record<string, string>>; readonly lasts: boolean };

type Acted = { readonly answer: Answer; readonly isTold: boolean };

/** Who carries runs on waits for better times; under a fault that lasts it is told to end. */
async function act(words: readonly string[], { site, env, lasts }: Act): Promise<Acted> {
  const { process: child, answered } = launch(site, words, { env, limitMs: commandMsMax });
  let isTold = false;
  if (lasts && words[0] === 'serve') {
    isTold = await Promise.race([answered.then(() => false), pause(troubledMs).then(() => true)]);
    child.kill('SIGTERM');
  }
  return { answer: await answered, isTold };
}

function endedOf({ code, signal, out, err }: Answer): Ended {
  return { code, signal: signal as Ended['signal'], out, err };
}
