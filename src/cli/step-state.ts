// How the state of a run or step is said to people: one word, one glyph, one tone. Honest about what is unknown. Pure.
import { startWithdrawn } from '../core/retry.ts';
import type { AttemptStatus, RunStatus, StepStatus } from '../core/states.ts';
import type { AttemptInspection, StepInspection } from '../runtime/inspection.ts';
import { neutralize } from './plain-text.ts';
import type { StateGlyph, Tone } from './terminal.ts';
import { formatCountdown, formatElapsed } from './times.ts';

export type StateText = { readonly word: string; readonly glyph: StateGlyph; readonly tone: Tone | null };

const stepTexts: Readonly<Record<StepStatus, StateText>> = {
  pending: { word: 'waiting', glyph: 'waiting', tone: 'dim' },
  ready: { word: 'ready', glyph: 'ready', tone: null },
  waiting_approval: { word: 'waiting for approval', glyph: 'ready', tone: 'yellow' },
  running: { word: 'running', glyph: 'running', tone: 'cyan' },
  succeeded: { word: 'succeeded', glyph: 'succeeded', tone: 'green' },
  failed: { word: 'failed', glyph: 'failed', tone: 'red' },
  skipped: { word: 'skipped', glyph: 'skipped', tone: 'dim' },
  cancelled: { word: 'cancelled', glyph: 'cancelled', tone: 'yellow' },
  timed_out: { word: 'timed out', glyph: 'failed', tone: 'red' },
  lost: { word: 'lost', glyph: 'unknown', tone: 'yellow' },
};

const attemptWords: Readonly<Record<AttemptStatus, string>> = {
  claimed: 'about to start',
  // The start is durable: what is said of its step. Whether its command has begun, the record does not tell.
  starting: 'running',
  running: 'running',
  succeeded: 'succeeded',
  failed: 'failed',
  cancelled: 'cancelled',
  timed_out: 'timed out',
  lost: 'lost: nobody can say what became of it',
};

/** `nowMs` is wall time; a run that is being cancelled says of its running steps that they are stopping. */
export function describeStep(
  step: Pick<StepInspection, 'status' | 'dueAtMs'>,
  context: { readonly nowMs: number; readonly isCancelling: boolean },
): StateText {
  const state = stepTexts[step.status];
  if (step.status === 'ready' && step.dueAtMs !== null && step.dueAtMs > context.nowMs) {
    return { word: `retry in ${formatCountdown(step.dueAtMs - context.nowMs)}`, glyph: 'ready', tone: 'yellow' };
  }
  return step.status === 'running' && context.isCancelling ? { ...state, word: 'stopping', tone: 'yellow' } : state;
}

export function describeRun(run: {
  readonly status: RunStatus;
  readonly cancelRequestedAtMs: number | null;
}): StateText {
  return run.status === 'running' && run.cancelRequestedAtMs !== null
    ? { word: 'cancelling', glyph: 'running', tone: 'yellow' }
    : stepTexts[run.status];
}

/** An end that is known is told as it is, also where the record calls it lost. */
export function attemptWord({
  status,
  errorCode,
  exitCode,
  signal,
}: Pick<AttemptInspection, 'status' | 'errorCode' | 'exitCode' | 'signal'>): string {
  if (status === 'lost' && errorCode === 'shutdown') {
    return 'stopped with the runtime';
  }
  if (status === 'lost' && errorCode === startWithdrawn) {
    return 'taken back: no command ran';
  }
  return status === 'lost' && (exitCode !== null || signal !== null) ? 'lost' : attemptWords[status];
}

/** How long a run or attempt took or has taken so far; null where it has not started. */
export function elapsedOf(
  record: {
    readonly startedAtMs: number | null;
    readonly finishedAtMs: number | null;
    readonly durationMs?: number | null;
  },
  nowMs: number,
): string | null {
  const { startedAtMs, finishedAtMs, durationMs } = record;
  // A wall clock may have been set meanwhile; the command's own time was measured by the monotonic one.
  return startedAtMs === null ? null : formatElapsed(durationMs ?? (finishedAtMs ?? nowMs) - startedAtMs);
}

/** A step takes as long as its last attempt; one that waits for another shows how long the last one took. */
export function elapsedOfStep(step: StepInspection, nowMs: number): string | null {
  return elapsedOf(step.startedAtMs === null ? step : (step.attempts.at(-1) ?? step), nowMs);
}

/** Names what a signal of the kernel's stands for. */
export function nameLimit(text: string): string {
  return text.replaceAll('ended by SIGXCPU', 'ended by SIGXCPU: its cpu limit is used up');
}

/** Why a step ended as it did, where there is something to say. */
export function reasonOf(step: Pick<StepInspection, 'status' | 'errorSummary' | 'resultCode'>): string | null {
  const isPlain = step.status === 'succeeded' || step.status === 'running' || step.status === 'pending';
  return isPlain ? null : neutralizeOrNull(step.errorSummary ?? step.resultCode?.replaceAll('_', ' ') ?? null);
}

function neutralizeOrNull(text: string | null): string | null {
  return text === null ? null : neutralize(nameLimit(text));
}
