// The failover: operations under way on both sides of the cut, the old primary fenced, its standby promoted.
import type { Client } from 'pg';
import { begin, claim, factsOf } from './before.ts';
import { admitRun, type Drill, planRun, stepOf } from './drill.ts';
import { controls, gates } from './gates.ts';
import { admissionOf, type KnownRun } from './ledger.ts';
import { firstSteps } from './package.ts';
import {
  findUnpromoted,
  pauseReplay,
  sessionNames,
  untilFlushed,
  untilWaiting,
  waitingSessions,
} from './replication.ts';
import type { Pending } from './runtime-process.ts';
import { openSession } from './server.ts';
import { waitFor } from './waiting.ts';

/** An operation that the failover interrupts, and whether its commit had come to the standby by then. */
export type Doubt = {
  readonly name: string;
  readonly run: KnownRun;
  readonly protocol: string;
  readonly input: unknown;
  readonly isThere: boolean;
  /** What giving it again has to be answered: the one where it had happened, the other where it had not. */
  readonly kinds: { readonly happened: string; readonly anew: string };
};

const chain = 'chain';

/** Prepares, before the ledger is closed, the runs that are going to be in doubt. */
export async function prepareDoubts(drill: Drill): Promise<readonly Doubt[]> {
  return [...(await prepareSide(drill, true)), ...(await prepareSide(drill, false)), admissionDoubt(drill, cancelled)];
}

const cancelled = { name: 'an admission whose wait is cancelled', isThere: false };

async function prepareSide(drill: Drill, isThere: boolean): Promise<readonly Doubt[]> {
  const known = drill.ledger.operations.length;
  const side = isThere ? 'on both disks' : 'on the old disk alone';
  const [claimed, started] = [planRun(drill, chain), planRun(drill, chain)];
  const ready = planRun(drill, chain);
  for (const run of [ready, claimed, started]) {
    await admitRun(drill.first, run);
    run.isInDoubt = true;
  }
  const place = stepOf(ready.plan, firstSteps[chain]!);
  const toStart = await claim(drill, stepOf(claimed.plan, firstSteps[chain]!));
  const toEnd = await begin(drill, await claim(drill, stepOf(started.plan, firstSteps[chain]!)));
  // What was noted of these runs is answered otherwise as soon as the doubtful operation has happened.
  drill.ledger.operations.splice(known);
  const claimInput = { ...place, handlerNames: [], busyOfWorkflow: 0 };
  const facts = factsOf(started.plan, toEnd);
  return [
    admissionDoubt(drill, { name: `an admission ${side}`, isThere }),
    {
      ...{ name: `a claim ${side}`, run: ready, protocol: 'admitAttempt', input: claimInput, isThere },
      kinds: { happened: 'existing', anew: 'claimed' },
    },
    {
      ...{ name: `a start ${side}`, run: claimed, protocol: 'startAttempt', input: toStart, isThere },
      kinds: { happened: 'refused', anew: 'started' },
    },
    {
      ...{ name: `a completion ${side}`, run: started, protocol: 'complete', input: { ...toEnd, facts }, isThere },
      kinds: { happened: 'settled', anew: 'completed' },
    },
  ];
}

function admissionDoubt(drill: Drill, { name, isThere }: Pick<Doubt, 'name' | 'isThere'>): Doubt {
  const run = planRun(drill, chain);
  run.isInDoubt = true;
  const { protocol, input } = admissionOf(run.plan);
  return { name, run, protocol, input, isThere, kinds: { happened: 'existing', anew: 'created' } };
}

/** From the first operation in doubt to the first commit on timeline 2. */
export async function failOver(drill: Drill, doubts: readonly Doubt[]): Promise<void> {
  const { ground, board, log } = drill;
  const { old, next, toOld } = ground;
  const give = ({ protocol, input }: Doubt) => drill.first.give({ verb: 'submit', protocol, input });
  const [there, here] = [doubts.filter(({ isThere }) => isThere), doubts.filter(({ isThere }) => !isThere)];
  await pauseReplay(next);
  const pending = new Map<Doubt, Pending>(there.map((doubt) => [doubt, give(doubt)]));
  await untilWaiting(old, sessionNames.product, there.length);
  await untilFlushed(old, next);
  toOld.cut();
  for (const doubt of here) {
    const before = await waitingSessions(old, sessionNames.product);
    pending.set(doubt, give(doubt));
    const after = await untilWaiting(old, sessionNames.product, pending.size);
    if (doubt.name === cancelled.name) {
      // As an operator does who finds a session hanging: PostgreSQL then says COMMIT, with a warning.
      await old.ask('SELECT pg_cancel_backend($1)', [after.find((pid) => !before.includes(pid))]);
    }
  }
  const probe = await writeProbe(drill, 'cut off');
  const crashedMs = performance.now();
  const fenced = board.at(gates.fenced);
  fenced.expect(probe.isOpen(), 'a write is acknowledged by a primary that is cut off from its standby');
  fenced.figure('killed', await old.crash());
  fenced.expect((await probe.ended) !== 'acknowledged', 'a write is acknowledged by a primary that was killed');
  fenced.expect(!(await isReachable(drill)), 'a primary that was killed takes connections');
  await judgeAnswers(drill, pending);
  board.at(controls.unpromoted).take(await findUnpromoted(next));
  await promote(drill, crashedMs);
  log('the standby is promoted');
}

type Probe = { isOpen(): boolean; readonly ended: Promise<'acknowledged' | 'failed'> };

/** A write of the drill's own at the old primary; resolves when its commit waits there. */
export async function writeProbe({ ground }: Drill, name: string): Promise<Probe> {
  const session = await openSession(ground.old);
  let isOpen = true;
  const ended = insertProbe(session, name)
    .then(
      () => 'acknowledged' as const,
      () => 'failed' as const,
    )
    .finally(() => {
      isOpen = false;
      return session.end();
    });
  await waitFor('a write that waits at the old primary', async () => {
    const waiting = await waitingSessions(ground.old, sessionNames.own);
    return waiting.length > 0 || !isOpen ? true : null;
  });
  return { isOpen: () => isOpen, ended };
}

function insertProbe(session: Client, name: string): Promise<unknown> {
  return session.query('INSERT INTO drill_probe (name) VALUES ($1)', [name]);
}

async function isReachable({ ground }: Drill): Promise<boolean> {
  try {
    await (await openSession(ground.old)).end();
    return true;
  } catch {
    return false;
  }
}

/** None may be told as done, and none as certainly not done. */
async function judgeAnswers({ board }: Drill, pending: ReadonlyMap<Doubt, Pending>): Promise<void> {
  const found = board.at(gates.doubted);
  for (const [{ name }, { answer }] of pending) {
    const given = await answer;
    const told = 'outcome' in given ? 'done' : 'failure' in given ? given.failure.code : 'nothing';
    found.expect(told === 'unknown-outcome', `${name} is told as ${told}`);
  }
}

async function promote({ ground, board }: Drill, crashedMs: number): Promise<void> {
  const { next } = ground;
  const found = board.at(gates.promoted);
  const askedMs = performance.now();
  const isDone = await next.value('SELECT pg_promote(true, 60)');
  found.figure('promoteMs', performance.now() - askedMs);
  found.expect(isDone === 'true', 'pg_promote did not come to its end');
  found.take(await findUnpromoted(next));
  // It still waits for a standby that is gone: an operator has to say that there is none for now.
  const session = await openSession(next);
  const commit = insertProbe(session, 'first of timeline 2');
  await untilWaiting(next, sessionNames.own, 1);
  await next.alter('synchronous_standby_names', '');
  await commit;
  await session.end();
  found.figure('killToCommitMs', performance.now() - crashedMs);
}
