// Cancellation: what a durable cancel intent turns a run into. Pure and bounded: one pass over the steps. Attempts that
// may be running block their step and the run; their completion or recovery comes back here.
import { draft, type EventDraft } from './events.ts';
import type { RunAttempt, RunRows, StepRun } from './records.ts';
import { startWithdrawn } from './retry.ts';
import { isTerminalRun, isTerminalStep } from './states.ts';

export type Convergence = {
  readonly kind: 'unchanged' | 'blocked' | 'ended';
  readonly events: readonly EventDraft[];
  /** Attempts that may be running: whoever holds them must stop them. */
  readonly blockingAttemptIds: readonly string[];
};

/** `rows`: the run, all its steps, and its attempts that have not ended. */
export function decideConvergence(rows: RunRows): Convergence {
  const { run, steps, attempts } = rows;
  if (run.cancelRequestedAtMs === null || isTerminalRun(run.status)) {
    return { kind: 'unchanged', events: [], blockingAttemptIds: [] };
  }
  const isTimeout = run.cancelReason === 'timeout';
  const live = new Map([...attempts.values()].map((attempt) => [attempt.stepRunId, attempt]));
  const events: EventDraft[] = [];
  const blockingAttemptIds: string[] = [];
  for (const step of steps.values()) {
    const attempt = live.get(step.id);
    if (isTerminalStep(step.status)) {
      continue;
    }
    if (attempt === undefined) {
      events.push(endStep(step, isTimeout));
    } else if (attempt.status === 'claimed') {
      events.push(endClaimed(step, attempt, isTimeout));
    } else {
      blockingAttemptIds.push(attempt.id);
    }
  }
  if (blockingAttemptIds.length > 0) {
    return { kind: 'blocked', events, blockingAttemptIds };
  }
  const payload = isTimeout
    ? { errorCode: 'workflow_timed_out', errorSummary: 'ended at the workflow timeout' }
    : { errorCode: 'workflow_cancelled', errorSummary: `cancelled (${run.cancelReason})` };
  const ended = isTimeout ? draft('workflow.timed_out', payload) : draft('workflow.cancelled', payload);
  return { kind: 'ended', events: [...events, ended], blockingAttemptIds };
}

/** Ready and waiting steps take the intent's end; pending and lost ones are cancelled under any reason. */
function endStep(step: StepRun, isTimeout: boolean): EventDraft {
  const payload = { resultCode: 'run_cancelled', errorSummary: null };
  const isTimedOut = isTimeout && (step.status === 'ready' || step.status === 'waiting_approval');
  return isTimedOut
    ? draft('step.timed_out', { ...payload, resultCode: 'run_timed_out' }, { stepRunId: step.id })
    : draft('step.cancelled', payload, { stepRunId: step.id });
}

function endClaimed(step: StepRun, attempt: RunAttempt, isTimeout: boolean): EventDraft {
  const head = { stepRunId: step.id, attemptId: attempt.id };
  const known = {
    exitCode: null,
    signal: null,
    outputBytes: null,
    outputTruncated: null,
    finishedAtMs: null,
    durationMs: null,
    errorCode: startWithdrawn,
    errorSummary: null,
    stepResultCode: startWithdrawn,
    stepDue: null,
  };
  return isTimeout
    ? draft('attempt.timed_out', { ...known, stepStatus: 'timed_out' }, head)
    : draft('attempt.cancelled', { ...known, stepStatus: 'cancelled' }, head);
}
