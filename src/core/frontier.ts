// The frontier: which steps of a run become ready or skipped, and whether the run ends. Pure and total: everything it
// needs is given, nothing it answers is a claim to start anything.
import { assert, EdgeError } from './errors.ts';
import { draft, type EventDraft, type RunEndStatus } from './events.ts';
import type { Plan, PlanStep } from './plan.ts';
import { isIntact } from './record-seal.ts';
import type { Run, RunRows, StepRun } from './records.ts';
import { isTerminalRun, isTerminalStep, type StepStatus } from './states.ts';

export type FrontierDecision =
  /** Steps move and possibly the run ends: append `events` under the run's present version. */
  | { readonly kind: 'advanced'; readonly events: readonly EventDraft[]; readonly readyStepRunIds: readonly string[] }
  /** Nothing moves now; what is ready may still wait for an attempt. */
  | { readonly kind: 'unchanged'; readonly readyStepRunIds: readonly string[] }
  /** Steps may move, and the run ends with this pass. */
  | { readonly kind: 'terminal'; readonly events: readonly EventDraft[]; readonly status: RunEndStatus }
  /** The run had ended before, and its steps agree. */
  | { readonly kind: 'settled'; readonly status: RunEndStatus };

export const dependencyNotSucceeded = 'dependency_not_succeeded';

const runErrorCodes = {
  succeeded: null,
  failed: 'workflow_step_failed',
  timed_out: 'workflow_step_timed_out',
  cancelled: 'workflow_step_cancelled',
} as const satisfies Record<RunEndStatus, string | null>;

const blockingEnds: readonly StepStatus[] = ['failed', 'skipped', 'cancelled', 'timed_out'];

/**
 * Decides one pass. Rows must be the run and exactly one intact StepRun per plan step. Rule 2 (a need did not succeed)
 * wins over needs that still run and is applied as deep as it goes; then rule 3 (all needs succeeded), then rule 4.
 * Throws `damaged` where the evidence does not fit the plan, or a finished run does not follow from its steps.
 */
export function decideFrontier(plan: Plan, rows: RunRows): FrontierDecision {
  verifyEvidence(plan, rows);
  const { run } = rows;
  if (isTerminalRun(run.status)) {
    return settle(plan, rows);
  }
  const stepOf = (step: PlanStep) => rows.steps.get(step.stepRunId)!;
  if (run.cancelRequestedAtMs !== null) {
    return { kind: 'unchanged', readyStepRunIds: [] };
  }
  const statuses = new Map<string, StepStatus>(plan.steps.map((step) => [step.stepKey, stepOf(step).status]));
  const skipped = spreadSkips(plan, statuses);
  const events: EventDraft[] = [];
  for (const step of plan.steps) {
    const blocker = skipped.get(step.stepKey);
    if (blocker !== undefined) {
      const errorSummary = `needs ${blocker.key}, which is ${wordOf(blocker.status)}`;
      const payload = { resultCode: dependencyNotSucceeded, errorSummary };
      events.push(draft('step.skipped', payload, { stepRunId: step.stepRunId }));
      statuses.set(step.stepKey, 'skipped');
    } else if (
      statuses.get(step.stepKey) === 'pending' &&
      step.needs.every((need) => statuses.get(need) === 'succeeded')
    ) {
      events.push(draft('step.readied', { due: null }, { stepRunId: step.stepRunId }));
      statuses.set(step.stepKey, 'ready');
    }
  }
  if ([...statuses.values()].every(isTerminalStep)) {
    const status = aggregateStatus([...statuses.values()]);
    return { kind: 'terminal', status, events: [...events, endDraft(status, findCulprit(plan, rows, statuses))] };
  }
  const readyStepRunIds = plan.steps
    .filter(({ stepKey }) => statuses.get(stepKey) === 'ready')
    .map(({ stepRunId }) => stepRunId);
  return events.length > 0 ? { kind: 'advanced', events, readyStepRunIds } : { kind: 'unchanged', readyStepRunIds };
}

/** `failed` if any step failed or was skipped; else `timed_out`, else `cancelled` if any; else `succeeded`. */
export function aggregateStatus(statuses: readonly StepStatus[]): RunEndStatus {
  assert(statuses.every(isTerminalStep), 'a run ends when all its steps have');
  const has = (status: StepStatus) => statuses.includes(status);
  if (has('failed') || has('skipped')) {
    return 'failed';
  }
  if (has('timed_out')) {
    return 'timed_out';
  }
  return has('cancelled') ? 'cancelled' : 'succeeded';
}

/** The pending steps that can never run, each with the need that is to blame, as deep as it goes. */
function spreadSkips(
  plan: Plan,
  statuses: ReadonlyMap<string, StepStatus>,
): ReadonlyMap<string, { key: string; status: StepStatus }> {
  const dependents = new Map<string, string[]>();
  for (const { stepKey, needs } of plan.steps) {
    for (const need of needs) {
      dependents.set(need, [...(dependents.get(need) ?? []), stepKey]);
    }
  }
  const skipped = new Map<string, { key: string; status: StepStatus }>();
  const queue = [...statuses].filter(([, status]) => blockingEnds.includes(status));
  for (let entry = queue.shift(); entry !== undefined; entry = queue.shift()) {
    const [key, status] = entry;
    for (const dependent of dependents.get(key) ?? []) {
      if (statuses.get(dependent) === 'pending' && !skipped.has(dependent)) {
        skipped.set(dependent, { key, status });
        queue.push([dependent, 'skipped']);
      }
    }
  }
  return skipped;
}

type Culprit = { readonly stepKey: string; readonly status: StepStatus };

/** What came to a bad end by itself explains more than what only missed it: the lowest is told. */
const blameRanks: Readonly<Partial<Record<StepStatus, number>>> = { failed: 0, timed_out: 0, cancelled: 1, skipped: 2 };

/** The step that is to blame: the first that failed or timed out, whatever its place in the plan. */
function findCulprit(plan: Plan, { steps }: RunRows, statuses: ReadonlyMap<string, StepStatus>): Culprit | null {
  const bad = plan.steps.flatMap(({ stepKey, stepRunId }) => {
    const status = statuses.get(stepKey)!;
    const rank = blameRanks[status];
    // Of one that ends in this very pass there is no time yet.
    const endedAtMs = steps.get(stepRunId)?.finishedAtMs ?? Number.MAX_SAFE_INTEGER;
    return rank === undefined ? [] : [{ stepKey, status, rank, endedAtMs }];
  });
  // Those that ended in the same millisecond stay in the order of the plan.
  bad.sort((left, right) => left.rank - right.rank || left.endedAtMs - right.endedAtMs);
  return bad[0] ?? null;
}

/** As people read it. */
function wordOf(status: StepStatus): string {
  return status.replaceAll('_', ' ');
}

function endDraft(status: RunEndStatus, culprit: Culprit | null): EventDraft {
  const errorCode = runErrorCodes[status];
  const errorSummary =
    errorCode === null || culprit === null ? null : `step ${culprit.stepKey} ${wordOf(culprit.status)}`;
  const payload = { errorCode, errorSummary };
  switch (status) {
    case 'succeeded':
      return draft('workflow.succeeded', payload);
    case 'failed':
      return draft('workflow.failed', payload);
    case 'timed_out':
      return draft('workflow.timed_out', payload);
    case 'cancelled':
      return draft('workflow.cancelled', payload);
  }
}

function settle(plan: Plan, rows: RunRows): FrontierDecision {
  const { run } = rows;
  const statuses = plan.steps.map((step) => rows.steps.get(step.stepRunId)!.status);
  const agrees =
    statuses.every(isTerminalStep) && (run.cancelRequestedAtMs !== null || aggregateStatus(statuses) === run.status);
  if (!agrees) {
    throw damaged(run, `has ended ${run.status}, which does not follow from its steps`);
  }
  return { kind: 'settled', status: run.status as RunEndStatus };
}

function verifyEvidence(plan: Plan, rows: RunRows): void {
  const { run, steps } = rows;
  const isOwn =
    run.id === plan.runId &&
    run.planId === plan.planId &&
    run.planDigest === plan.planDigest &&
    run.projectId === plan.target.projectId &&
    run.workflowId === plan.workflowId &&
    run.publicationDigest === plan.target.publicationDigest;
  if (!isOwn || !isIntact(run) || run.version !== run.eventSequence) {
    throw damaged(run, 'is not the run of its plan, or was altered');
  }
  if (steps.size !== plan.steps.length) {
    throw damaged(run, `has ${steps.size} step runs for ${plan.steps.length} steps`);
  }
  for (const step of plan.steps) {
    verifyStep(run, step, steps.get(step.stepRunId));
  }
}

function verifyStep(run: Run, step: PlanStep, stepRun: StepRun | undefined): void {
  const isOwn =
    stepRun !== undefined &&
    stepRun.runId === run.id &&
    stepRun.stepKey === step.stepKey &&
    stepRun.taskRef === step.taskRef &&
    stepRun.taskSourceDigest === step.taskSourceDigest &&
    stepRun.required === step.required;
  if (!isOwn || !isIntact(stepRun)) {
    throw damaged(run, `step ${step.stepKey} is missing, altered, or not the step of its plan`);
  }
}

function damaged(run: Run, what: string): EdgeError {
  const hint = `run \`verify ${run.id}\` to see what differs`;
  return new EdgeError('damaged', `run ${run.id} ${what}`, { hint, runId: run.id });
}
