// Completion: from what is known of an attempt's end to the events that end it and its step together.
//
// Order of judgement, first match wins:
//   1. proven unstarted            → given back (or takes the end of a durable cancel or timeout)
//   2. an intent that was durable  → its end, whatever the exit code: task timeout, cancel; shutdown where it was
//                                    carried out: a command that ended before that was stopped by nobody
//   3. lost                        → lost, and its step fails or is retried where the task allows that
//   4. the command's own outcome   → succeeded, or failed and perhaps retried
import { assert } from './errors.ts';
import { type AttemptEndPayload, type AttemptEndStatus, draft, type EventDraft } from './events.ts';
import { limits } from './limits.ts';
import type { Now } from './ports.ts';
import type { Run, RunAttempt, StepRun } from './records.ts';
import { decideRestart, decideRetry, type RetryCause, type RetryPolicy, startWithdrawn } from './retry.ts';
import { isTerminalAttempt } from './states.ts';
import { cutText } from './text.ts';

/** What the executor knows. `exitCode` and `signal` are null where a command left none. */
export type AttemptFacts =
  | {
      readonly kind: 'exited';
      readonly exitCode: number | null;
      readonly signal: string | null;
      readonly outputBytes: number | null;
      readonly outputTruncated: boolean | null;
      /** Wall time of the command's end, and how long it ran by the monotonic clock. */
      readonly finishedAtMs: number | null;
      readonly durationMs: number | null;
      readonly note: string | null;
      /** A stop of this attempt was carried out before its end, or may have been. */
      readonly isStopped: boolean;
    }
  /** An in-process handler: it has no exit code, only success or the text of what it threw. */
  | { readonly kind: 'returned'; readonly errorSummary: string | null }
  | { readonly kind: 'spawn-failed'; readonly errorCode: string; readonly errorSummary: string }
  | { readonly kind: 'withdrawn' }
  /** Nothing was started, for want of something that the next try may find: space, a process, a file. */
  | { readonly kind: 'unstarted'; readonly errorSummary: string }
  | { readonly kind: 'lost'; readonly errorSummary: string | null };

export type CompletionInput = {
  readonly run: Run;
  readonly step: StepRun;
  /** All attempts of the step, this one included. */
  readonly attempts: readonly RunAttempt[];
  readonly attempt: RunAttempt;
  readonly facts: AttemptFacts;
  readonly policy: RetryPolicy;
  readonly now: Now;
};

type Known = Omit<AttemptEndPayload, 'stepStatus' | 'stepResultCode' | 'stepDue'>;

const nothingKnown: Known = {
  exitCode: null,
  signal: null,
  outputBytes: null,
  outputTruncated: null,
  finishedAtMs: null,
  durationMs: null,
  errorCode: null,
  errorSummary: null,
};

/** The events that end an attempt and its step, in order. The attempt must not have ended. */
export function decideCompletion(input: CompletionInput): readonly EventDraft[] {
  const { run, attempt, facts } = input;
  assert(!isTerminalAttempt(attempt.status), 'an attempt ends once');
  const isUnstarted = facts.kind === 'withdrawn' || facts.kind === 'unstarted' || attempt.status === 'claimed';
  if (run.cancelRequestedAtMs !== null && attempt.stopReason !== 'timeout') {
    return endByCancel(input, isUnstarted ? startWithdrawn : 'cancelled');
  }
  if (isUnstarted) {
    const known = {
      ...nothingKnown,
      errorCode: startWithdrawn,
      errorSummary: summarize('no command ran', input),
    };
    if (attempt.stopReason === 'timeout') {
      return [
        end(input, 'timed_out', known, { stepStatus: 'timed_out', stepResultCode: startWithdrawn, stepDue: null }),
      ];
    }
    return [
      end(input, 'lost', known, {
        stepStatus: 'ready',
        stepResultCode: null,
        stepDue: decideRestart(earlierAttempts(input), input.now),
      }),
    ];
  }
  if (attempt.stopReason === 'timeout') {
    const known = {
      ...knownOf(input),
      errorCode: 'task_timed_out',
      errorSummary: summarize('stopped at its task timeout', input),
    };
    return endWithRetry(input, 'timed_out', known);
  }
  if (facts.kind === 'lost' || (attempt.stopReason === 'shutdown' && !endedByItself(facts))) {
    return endLost(input);
  }
  if (isSuccess(facts)) {
    return [end(input, 'succeeded', knownOf(input), { stepStatus: 'succeeded', stepResultCode: null, stepDue: null })];
  }
  return endWithRetry(input, 'failed', knownOf(input));
}

function endedByItself(facts: AttemptFacts): boolean {
  return facts.kind === 'exited' && !facts.isStopped;
}

function isSuccess(facts: AttemptFacts): boolean {
  return facts.kind === 'exited'
    ? facts.exitCode === 0 && facts.signal === null
    : facts.kind === 'returned' && facts.errorSummary === null;
}

function earlierAttempts({ attempts, attempt }: CompletionInput): readonly RunAttempt[] {
  return attempts.filter(({ id }) => id !== attempt.id);
}

type StepEnd = Pick<AttemptEndPayload, 'stepStatus' | 'stepResultCode' | 'stepDue'>;

function end(input: CompletionInput, status: AttemptEndStatus, known: Known, stepEnd: StepEnd): EventDraft {
  const head = { actorType: 'executor' as const, stepRunId: input.step.id, attemptId: input.attempt.id };
  const payload = { ...known, ...stepEnd };
  switch (status) {
    case 'succeeded':
      return draft('attempt.succeeded', payload, head);
    case 'failed':
      return draft('attempt.failed', payload, head);
    case 'cancelled':
      return draft('attempt.cancelled', payload, head);
    case 'timed_out':
      return draft('attempt.timed_out', payload, head);
    case 'lost':
      return draft('attempt.lost', payload, head);
  }
}

/** A cancel intent ends attempt and step alike, and a step under it never becomes ready again. */
function endByCancel(input: CompletionInput, errorCode: string): readonly EventDraft[] {
  const status = input.run.cancelReason === 'timeout' ? 'timed_out' : 'cancelled';
  const why =
    status === 'timed_out' ? 'stopped at the workflow timeout' : `stopped: run cancelled (${input.run.cancelReason})`;
  const known = { ...knownOf(input), errorCode, errorSummary: summarize(why, input) };
  return [end(input, status, known, { stepStatus: status, stepResultCode: errorCode, stepDue: null })];
}

function endWithRetry(input: CompletionInput, status: 'failed' | 'timed_out', known: Known): readonly EventDraft[] {
  const resultCode = known.errorCode ?? status;
  const retry = decide(input, status, resultCode);
  const stepEnd: StepEnd =
    retry.kind === 'retry'
      ? { stepStatus: 'ready', stepResultCode: null, stepDue: retry.due }
      : { stepStatus: status, stepResultCode: retry.resultCode, stepDue: null };
  return [end(input, status, known, stepEnd)];
}

/** The step passes through `lost`, so that its history says so, and leaves it in the same append. */
function endLost(input: CompletionInput): readonly EventDraft[] {
  const { attempt, step } = input;
  const errorCode = attempt.stopReason === 'shutdown' ? 'shutdown' : 'lost';
  const why = errorCode === 'shutdown' ? 'stopped with the runtime' : 'nobody can say what became of its command';
  const known = { ...knownOf(input), errorCode, errorSummary: summarize(why, input) };
  const lost = end(input, 'lost', known, { stepStatus: 'lost', stepResultCode: errorCode, stepDue: null });
  const retry = decide(input, 'lost', errorCode);
  const next =
    retry.kind === 'retry'
      ? draft('step.readied', { due: retry.due }, { stepRunId: step.id })
      : draft(
          'step.failed',
          { resultCode: retry.resultCode, errorSummary: known.errorSummary },
          { stepRunId: step.id },
        );
  return [lost, next];
}

function decide(input: CompletionInput, cause: RetryCause, resultCode: string) {
  if (input.run.cancelRequestedAtMs !== null) {
    return { kind: 'give-up' as const, resultCode };
  }
  return decideRetry({ cause, resultCode, attempts: input.attempts, policy: input.policy, now: input.now });
}

function knownOf(input: CompletionInput): Known {
  const { facts } = input;
  switch (facts.kind) {
    case 'exited': {
      const { exitCode, signal, outputBytes, outputTruncated, durationMs, note } = facts;
      const finishedAtMs = facts.finishedAtMs === null ? null : placeEnd(facts.finishedAtMs, input);
      const errorCode = signal !== null ? 'signal' : exitCode === 0 ? null : 'exit_code';
      const what = signal !== null ? `ended by ${signal}` : exitCode === 0 ? null : `exit code ${exitCode}`;
      const errorSummary = bounded([what, note].filter((part) => part !== null).join('; ') || null);
      return { exitCode, signal, outputBytes, outputTruncated, finishedAtMs, durationMs, errorCode, errorSummary };
    }
    case 'spawn-failed':
      return { ...nothingKnown, errorCode: facts.errorCode, errorSummary: bounded(facts.errorSummary) };
    case 'returned': {
      const errorCode = facts.errorSummary === null ? null : 'handler_error';
      return { ...nothingKnown, durationMs: sinceStart(input), errorCode, errorSummary: bounded(facts.errorSummary) };
    }
    case 'lost':
    case 'unstarted':
      return { ...nothingKnown, errorSummary: bounded(facts.errorSummary) };
    case 'withdrawn':
      return { ...nothingKnown, errorSummary: 'its start was taken back' };
  }
}

/** Times within a run never go backwards: a wall clock that was set meanwhile cannot put an end before its start. */
function placeEnd(finishedAtMs: number, { run, attempt, now }: CompletionInput): number {
  const startedAtMs = attempt.startedAtMs ?? attempt.claimedAtMs;
  return Math.max(startedAtMs, Math.min(finishedAtMs, Math.max(now.wallMs, run.updatedAtMs)));
}

/** A handler runs in this process: from its start barrier until now. */
function sinceStart({ attempt, now }: CompletionInput): number | null {
  const { deadline } = attempt;
  return deadline?.bootId === now.bootId ? Math.max(0, now.uptimeMs - deadline.startUptimeMs) : null;
}

function summarize(why: string, input: CompletionInput): string {
  const detail = knownOf(input).errorSummary;
  return cutText(detail === null ? why : `${why}; ${detail}`, limits.errorSummaryBytesMax);
}

/** What executors and handlers say has no bound of its own. */
function bounded(errorSummary: string | null): string | null {
  return errorSummary === null ? null : cutText(errorSummary, limits.errorSummaryBytesMax);
}
