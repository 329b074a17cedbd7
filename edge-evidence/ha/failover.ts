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
  timelineOf,
  untilFlushed,
  untilWaiting,
  waitingSessions,
} from './replication.ts';
import type { Pending } from './runtime-process.ts';
import { openSession } from './server.ts';
import { waitFor } from './waiting.ts';

/**
 * What ends the wait of a COMMIT: its session is terminated, its wait cancelled (PostgreSQL then says COMMIT, with a
 * warning), or the primary killed.
 */
export type Cut = 'terminated' | 'cancelled' | 'killed';

/** An operation that the failover interrupts, and whether its commit had come to the standby by then. */
export type Doubt = {
  readonly name: string;
  readonly run: KnownRun;
  readonly protocol: string;
  readonly input: unknown;
  readonly isThere: boolean;
  readonly cut: Cut;
  /** What giving it again has to be answered: the one where it had happened, the other where it had not. */
  readonly kinds: { readonly happened: string; readonly anew: string };
};

const chain = 'chain';

/** Prepares, before the ledger is closed, the runs that are going to be in doubt. The killed one is the last. */
export async function prepareDoubts(drill: Drill): Promise<readonly Doubt[]> {
  return [
    ...(await prepareSide(drill, true)),
    ...(await prepareSide(drill, false)),
    admissionDoubt(drill, { name: 'an admission whose wait is cancelled', isThere: false, cut: 'cancelled' }),
    admissionDoubt(drill, { name: 'an admission that waits when the primary dies', isThere: false, cut: 'killed' }),
  ];
}

async function prepareSide(drill: Drill, isThere: boolean): Promise<readonly Doubt[]> {
  const known = drill.ledger.operations.length;
  const cut = 'terminated';
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
    admissionDoubt(drill, { name: `an admission ${side}`, isThere, cut }),
    {
      ...{ name: `a claim ${side}`, run: ready, protocol: 'admitAttempt', input: claimInput, isThere, cut },
      kinds: { happened: 'existing', anew: 'claimed' },
    },
    {
      ...{ name: `a start ${side}`, run: claimed, protocol: 'startAttempt', input: toStart, isThere, cut },
      kinds: { happened: 'refused', anew: 'started' },
    },
    {
      ...{ name: `a completion ${side}`, run: started, protocol: 'complete', input: { ...toEnd, facts }, isThere, cut },
      kinds: { happened: 'settled', anew: 'completed' },
    },
  ];
}

function admissionDoubt(drill: Drill, told: Pick<Doubt, 'name' | 'isThere' | 'cut'>): Doubt {
  const run = planRun(drill, chain);
  run.isInDoubt = true;
  const { protocol, input } = admissionOf(run.plan);
  return { ...told, run, protocol, input, kinds: { happened: 'existing', anew: 'created' } };
}

/** From the first operation in doubt to the first commit on timeline 2. */
export async function failOver(drill: Drill, doubts: readonly Doubt[]): Promise<void> {
  const { ground, board, log } = drill;
  const { old, next, toOld } = ground;
  const fenced = board.at(gates.fenced);
  const timeline = await timelineOf(old);
  board.at(gates.promoted).expect(timeline === 1, `server ${old.name} writes timeline ${timeline} already`);
  await pauseReplay(next);
  const shared = await writeProbe(drill, 'on both disks');
  for (const doubt of doubts.filter(({ isThere }) => isThere)) {
    await interrupt(drill, doubt);
  }
  await untilFlushed(old, next);
  toOld.cut();
  const lonely = await writeProbe(drill, 'cut off');
  const here = doubts.filter(({ isThere, cut }) => !isThere && cut !== 'killed');
  for (const doubt of here) {
    await interrupt(drill, doubt);
  }
  fenced.figure('shownCutOff', await countShown(drill, here));
  const pending = doubts.filter(({ cut }) => cut === 'killed').map((doubt) => ({ doubt, given: give(drill, doubt) }));
  await untilWaiting(old, sessionNames.product, pending.length);
  fenced.expect(lonely.isOpen(), 'a write is acknowledged by a primary that is cut off from its standby');
  fenced.expect(shared.isOpen(), 'a write is acknowledged although its standby does not apply it');
  const crashedMs = performance.now();
  fenced.figure('killed', await old.crash());
  for (const { ended } of [shared, lonely]) {
    fenced.expect((await ended) !== 'acknowledged', 'a write is acknowledged by a primary that was killed');
  }
  fenced.expect(!(await isReachable(drill)), 'a primary that was killed takes connections');
  for (const { doubt, given } of pending) {
    await judgeAnswer(drill, doubt, given);
  }
  board.at(controls.unpromoted).take(await findUnpromoted(next));
  await promoteStandby(drill, crashedMs);
  log('the standby is promoted');
}

function give({ first }: Drill, { protocol, input }: Doubt): Pending {
  return first.give({ verb: 'submit', protocol, input });
}

/**
 * One after the other: transactions that wait for the standby are under way for all others, and serializable ones of
 * small tables then refuse each other.
 */
async function interrupt(drill: Drill, doubt: Doubt): Promise<void> {
  const { old } = drill.ground;
  const given = give(drill, doubt);
  const [pid] = await untilWaiting(old, sessionNames.product, 1);
  await old.ask(`SELECT ${doubt.cut === 'cancelled' ? 'pg_cancel_backend' : 'pg_terminate_backend'}($1)`, [pid]);
  await judgeAnswer(drill, doubt, given);
}

/**
 * A read waits for no standby: admissions in doubt on the old disk alone are shown there as if they had happened, to
 * whoever gives the plan again. Only being out of reach helps against that, which is why it is a figure and a limit.
 */
export async function countShown({ first }: Drill, doubts: readonly Doubt[]): Promise<number> {
  let shown = 0;
  for (const { run, isThere, protocol } of doubts) {
    if (!isThere && protocol === 'admit') {
      const answer = await first.give(admissionOf(run.plan)).answer;
      shown += 'outcome' in answer ? 1 : 0;
    }
  }
  return shown;
}

/** It may not be told as done, nor as certainly not done. */
async function judgeAnswer({ board }: Drill, { name }: Doubt, { answer }: Pending): Promise<void> {
  const given = await answer;
  const told = 'outcome' in given ? 'done' : 'failure' in given ? given.failure.code : 'nothing';
  board.at(gates.doubted).expect(told === 'unknown-outcome', `${name} is told as ${told}`);
}

type Probe = { isOpen(): boolean; readonly ended: Promise<'acknowledged' | 'failed'> };

/** A write of the drill's own at the old primary; resolves when its commit waits there. */
export async function writeProbe({ ground }: Drill, name: string): Promise<Probe> {
  const before = await waitingSessions(ground.old, sessionNames.own);
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
    return waiting.length > before.length || !isOpen ? true : null;
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

async function promoteStandby({ ground, board }: Drill, crashedMs: number): Promise<void> {
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
