// Before the failover: runs in every state, each acknowledgement compared with the standby at once, and what an
// acknowledgement waits for.
import { canonicalText } from '../fold-form.ts';
import { type Admitted, admitRun, type Drill, noteReceipt, planRun, stepOf, versionOf } from './drill.ts';
import { controls, gates } from './gates.ts';
import { admissionOf, type KnownRun, readSnapshot } from './ledger.ts';
import { exitedWith, firstSteps, taskOutcomes, workflowIds } from './package.ts';
import { pauseReplay, resumeReplay, sessionNames, untilFlushed, untilWaiting } from './replication.ts';
import type { Findings } from './scoreboard.ts';
import type { StepPlace } from './worker.ts';

export type Attempt = StepPlace & { readonly attemptId: string };

/** How far a run is when the failover begins. */
const stages = ['admitted', 'claimed', 'started', 'first step done', 'ended'] as const;
type Stage = (typeof stages)[number];

export async function workBefore(drill: Drill): Promise<void> {
  await acknowledgeUnapplied(drill);
  await withholdUnapplied(drill);
  for (let index = 0; index < drill.runCount; index += 1) {
    const workflowId = workflowIds[index % workflowIds.length]!;
    const stage = stages[Math.floor(index / workflowIds.length) % stages.length]!;
    await bringTo(drill, stage, planRun(drill, workflowId));
  }
  drill.log(`${drill.ledger.runs.size} runs, ${drill.ledger.operations.length} operations acknowledged`);
}

/** Notes what each operation is answered when it is given again, and each run as it is now. */
export async function closeLedger({ ledger, first }: Drill): Promise<void> {
  for (const operation of ledger.operations) {
    operation.again = canonicalText(await first.submit(operation.protocol, operation.input));
  }
  for (const run of ledger.runs.values()) {
    run.before = await readSnapshot(first, run.plan.runId);
  }
}

async function bringTo(drill: Drill, stage: Stage, run: KnownRun): Promise<void> {
  await admitApplied(drill, run);
  const place = stepOf(run.plan, firstSteps[run.plan.workflowId]!);
  if (stage === 'claimed') {
    await claim(drill, place);
  } else if (stage === 'started') {
    await begin(drill, await claim(drill, place));
  } else if (stage === 'first step done') {
    await finishStep(drill, run, place);
  } else if (stage === 'ended') {
    await finishRun(drill, run);
  }
}

export async function claim(drill: Drill, place: StepPlace): Promise<Attempt> {
  const input = { ...place, handlerNames: [], busyOfWorkflow: 0 };
  const { attemptId } = (await submit(drill, 'admitAttempt', place.runId, input)) as Attempt;
  return { ...place, attemptId };
}

export async function begin(drill: Drill, attempt: Attempt): Promise<Attempt> {
  await submit(drill, 'startAttempt', attempt.runId, attempt);
  return attempt;
}

async function finishStep(drill: Drill, { plan }: KnownRun, place: StepPlace): Promise<void> {
  const attempt = await begin(drill, await claim(drill, place));
  await submit(drill, 'complete', place.runId, { ...attempt, facts: factsOf(plan, place) });
  drill.ledger.operations.push({ protocol: 'advance', input: { runId: plan.runId }, again: null });
}

/** How the command of a step ends. */
export function factsOf({ steps }: KnownRun['plan'], { stepRunId }: StepPlace) {
  const step = steps.find((entry) => entry.stepRunId === stepRunId);
  // `package/task`, or the task alone: the name ends with it either way.
  return exitedWith(Object.entries(taskOutcomes).find(([task]) => step?.taskRef.endsWith(task))?.[1] ?? 1);
}

async function finishRun(drill: Drill, run: KnownRun): Promise<void> {
  for (;;) {
    const now = await readSnapshot(drill.first, run.plan.runId);
    const ready = now?.records.steps.find(({ status }) => status === 'ready');
    if (ready === undefined) {
      return;
    }
    await finishStep(drill, run, { runId: run.plan.runId, stepRunId: ready.id });
  }
}

/** Carries out an operation that changes a run, and looks for the change on the standby as soon as it is answered. */
async function submit({ first, board, watch, ledger }: Drill, protocol: string, runId: string, input: object) {
  const versionBefore = await versionOf(watch, runId);
  const outcome = await first.submit(protocol, input);
  const version = await versionOf(watch, runId);
  board.at(gates.applied).expect(version > versionBefore, `${protocol} of run ${runId} is not on the standby`);
  ledger.operations.push({ protocol, input, again: null });
  return outcome;
}

async function admitApplied({ first, board, watch, ledger }: Drill, run: KnownRun): Promise<void> {
  await admitRun(first, run);
  const version = await versionOf(watch, run.plan.runId);
  board.at(gates.applied).expect(version > 0, `the admission of run ${run.plan.runId} is not on the standby`);
  ledger.operations.push({ ...admissionOf(run.plan), again: null });
}

/** With `synchronous_commit = on` the standby has written an admission to its disk, and shows nothing of it. */
async function acknowledgeUnapplied(drill: Drill): Promise<void> {
  const { old, next } = drill.ground;
  await old.alter('synchronous_commit', 'on');
  await pauseReplay(next);
  await admitWhilePaused(drill, drill.board.at(controls.unapplied));
  await resumeReplay(next);
  await old.alter('synchronous_commit', 'remote_apply');
}

async function admitWhilePaused(drill: Drill, found: Findings): Promise<void> {
  const run = planRun(drill, 'chain');
  await admitRun(drill.first, run);
  const version = await versionOf(drill.watch, run.plan.runId);
  found.expect(version > 0, `the admission of run ${run.plan.runId} is not on the standby`);
}

/** The same with `remote_apply`: the admission is on both disks, and is not answered until it can be read. */
async function withholdUnapplied(drill: Drill): Promise<void> {
  const { first, board, watch } = drill;
  const { old, next } = drill.ground;
  const found = board.at(gates.waiting);
  const run = planRun(drill, 'chain');
  await pauseReplay(next);
  const pending = first.give(admissionOf(run.plan));
  await untilWaiting(old, sessionNames.product, 1);
  await untilFlushed(old, next);
  found.expect(pending.now() === null, 'an admission is answered although replay is paused');
  found.expect((await versionOf(watch, run.plan.runId)) === 0, 'replay was not paused');
  await resumeReplay(next);
  const answer = await pending.answer;
  found.expect('outcome' in answer, 'an admission is not answered after replay was resumed');
  found.expect((await versionOf(watch, run.plan.runId)) > 0, 'what is answered is not on the standby');
  if ('outcome' in answer) {
    noteReceipt(run, answer.outcome as Admitted, 'created');
  }
}
