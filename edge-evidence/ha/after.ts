// After the failover: what fresh runtimes find on the promoted standby, what they answer, and how they carry it on.

import { compareRecords, FoldError, foldHistory } from '../fold.ts';
import { canonicalText } from '../fold-form.ts';
import { type Admitted, type Drill, noteReceipt, versionOf } from './drill.ts';
import type { Doubt } from './failover.ts';
import { controls, gates } from './gates.ts';
import { findLost, findOtherReceipts, type KnownRun, readSnapshot } from './ledger.ts';
import { rightEnds } from './package.ts';
import type { RuntimeProcess } from './runtime-process.ts';
import type { Worked } from './worker.ts';

/** Two runtimes that know nothing but the address of the new primary. */
export type Fresh = readonly [RuntimeProcess, RuntimeProcess];

export async function judgeAfter(drill: Drill, fresh: Fresh, doubts: readonly Doubt[]): Promise<void> {
  const { board, ledger, log } = drill;
  const [one, other] = fresh;
  const runs = [...ledger.runs.values()];
  board.at(gates.kept).take(await findLost(one, runs));
  for (const runtime of fresh) {
    board.at(gates.receipts).take(await findOtherReceipts(runtime, runs));
  }
  board.at(gates.receipts).figure('receipts', runs.filter(({ receipt }) => receipt !== null).length);
  await judgeReplays(drill, other);
  // Nothing that was given again has written anything.
  board.at(gates.kept).take(await findLost(other, runs));
  board.at(gates.kept).figure('runs', runs.filter(({ before }) => before !== null).length);
  await judgeDoubts(drill, one, doubts);
  await judgeEnds(drill, fresh);
  log('fresh runtimes have carried everything on');
}

async function judgeReplays({ board, ledger }: Drill, runtime: RuntimeProcess): Promise<void> {
  const found = board.at(gates.replayed);
  for (const { protocol, input, again } of ledger.operations) {
    const answer = await runtime.give({ verb: 'submit', protocol, input }).answer;
    const told = 'outcome' in answer ? canonicalText(answer.outcome) : canonicalText(answer);
    found.expect(told === again, `${protocol} is answered ${told.slice(0, 300)}, and not ${again?.slice(0, 300)}`);
  }
}

async function judgeDoubts({ board, watch }: Drill, runtime: RuntimeProcess, doubts: readonly Doubt[]): Promise<void> {
  const found = board.at(gates.settled);
  let happened = 0;
  for (const { name, run, protocol, input, isThere, kinds } of doubts) {
    const versionBefore = run.before?.records.run.version ?? 0;
    const version = await versionOf(watch, run.plan.runId);
    const isNow = version > versionBefore;
    happened += isNow ? 1 : 0;
    found.expect(isNow === isThere, `${name}: ${isNow ? 'it happened' : 'it did not happen'}`);
    const outcome = await runtime.submit<Admitted>(protocol, input);
    const kind = isNow ? kinds.happened : kinds.anew;
    found.expect(outcome.kind === kind, `${name}: given again it is answered ${outcome.kind}, and not ${kind}`);
    if (protocol === 'admit' && outcome.kind === kind) {
      noteReceipt(run, outcome, kind);
    }
    const versionAfter = await versionOf(watch, run.plan.runId);
    found.expect(versionAfter > versionBefore, `${name}: given again it did not happen`);
    found.expect(!isNow || versionAfter === version, `${name}: it happened twice`);
  }
  const { rows } = await watch.query("SELECT FROM drill_probe WHERE name = 'on both disks'");
  found.expect(rows.length === 1, 'a write on both disks is not there, though it had come to the standby');
  found.figure('happened', happened);
  found.figure('didNot', doubts.length - happened);
}

async function judgeEnds({ board, ledger, watch }: Drill, fresh: Fresh): Promise<void> {
  const [one, other] = fresh;
  const runs = [...ledger.runs.values()];
  board.at(controls.unended).take((await readRuns(one, runs)).flatMap(findWrongEnd));
  const lost = new Set(await one.order<readonly string[]>({ verb: 'takeOver' }));
  const worked = await Promise.all([
    one.order<Worked>({ verb: 'carryOn', isBackwards: false }),
    other.order<Worked>({ verb: 'carryOn', isBackwards: true }),
  ]);
  const ended = board.at(gates.ended);
  const found = await readRuns(other, runs);
  ended.take(found.flatMap(findWrongEnd));
  ended.expect(
    worked.every(({ steps }) => steps > 0),
    'one of the two runtimes did not a single step',
  );
  ended.figure(
    'steps',
    worked.reduce((sum, { steps }) => sum + steps, 0),
  );
  ended.figure(
    'yielded',
    worked.reduce((sum, { yielded }) => sum + yielded, 0),
  );
  const once = board.at(gates.once);
  once.take(found.flatMap((entry) => findDoubleAttempts(entry, lost)));
  once.figure('lost', lost.size);
  const { rows } = await watch.query<{ count: string }>('SELECT count(*) AS count FROM ql3.runs');
  once.expect(Number(rows[0]?.count) === runs.length, `there are ${rows[0]?.count} runs of ${runs.length} plans`);
  const folded = board.at(gates.folded);
  for (const entry of found) {
    folded.take(findUnfolded(entry));
  }
}

type Found = { readonly run: KnownRun; readonly now: Awaited<ReturnType<typeof readSnapshot>> };

/** Runs as a runtime finds them, one after the other. */
export async function readRuns(runtime: RuntimeProcess, runs: readonly KnownRun[]): Promise<readonly Found[]> {
  const found: Found[] = [];
  for (const run of runs) {
    found.push({ run, now: await readSnapshot(runtime, run.plan.runId) });
  }
  return found;
}

/** Whether it and its steps ended as its workflow has to end. */
export function findWrongEnd({ run, now }: Found): readonly string[] {
  const right = rightEnds[run.plan.workflowId];
  const steps = Object.fromEntries(now?.records.steps.map(({ stepKey, status }) => [stepKey, status]) ?? []);
  const is = canonicalText({ run: now?.records.run.status ?? 'missing', steps });
  const name = `run ${run.plan.runId} of ${run.plan.workflowId}`;
  return is === canonicalText(right) ? [] : [`${name} is ${is}`];
}

/** Attempts of an ended run: one that ended for each step that ran; beside it only what went down with its runtime. */
function findDoubleAttempts({ run, now }: Found, lost: ReadonlySet<string>): readonly string[] {
  const { steps = [], attempts = [] } = now?.records ?? {};
  return steps.flatMap((step) => {
    const own = attempts.filter(({ stepRunId }) => stepRunId === step.id);
    const done = own.filter(({ status }) => status === 'succeeded' || status === 'failed').length;
    const stray = own.length - done - own.filter(({ id, status }) => status === 'lost' && lost.has(id)).length;
    const expected = step.status === 'skipped' ? 0 : 1;
    const what = `step ${step.stepKey} of run ${run.plan.runId} has ${done} ended and ${stray} stray attempts`;
    return done === expected && stray === 0 ? [] : [what];
  });
}

function findUnfolded({ run, now }: Found): readonly string[] {
  if (now === null) {
    return [`run ${run.plan.runId} is missing`];
  }
  try {
    return compareRecords(foldHistory(now.events), now.records).map((path) => `run ${run.plan.runId}: ${path} differs`);
  } catch (error) {
    if (error instanceof FoldError) {
      return [`run ${run.plan.runId}: ${error.message}`];
    }
    throw error;
  }
}
