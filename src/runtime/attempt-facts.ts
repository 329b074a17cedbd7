// From what the executor reports to what the completion protocol takes.
import type { AttemptFacts } from '../core/completion.ts';
import type { AttemptEnd } from '../executor/attempt-end.ts';
import type { SpawnFailure } from '../executor/preflight.ts';

const shortages = ['run_directory_full', 'resources_exhausted'] as const;

export type Shortage = SpawnFailure & { readonly errorCode: (typeof shortages)[number] };

/** Whether nothing was started because this machine had no space, process or file to spare: not the task's fault. */
export function isShortage(end: AttemptEnd): end is Shortage {
  return end.kind === 'spawn-failed' && shortages.some((code) => code === end.errorCode);
}

/**
 * Keeps what is unknown unknown: a status that may have been a signal is recorded as exit code with a note.
 * `isStopped`: a stop was carried out before that end, or may have been.
 */
export function factsOf(end: AttemptEnd, { isStopped }: { readonly isStopped: boolean }): AttemptFacts {
  switch (end.kind) {
    case 'exited':
      return {
        kind: 'exited',
        exitCode: end.exitCode,
        signal: end.signal,
        outputBytes: end.outputBytes,
        outputTruncated: end.outputTruncated,
        finishedAtMs: end.finishedAtMs,
        durationMs: end.durationMs,
        note: end.note,
        isStopped,
      };
    case 'spawn-failed':
      return isShortage(end)
        ? { kind: 'unstarted', errorSummary: end.errorSummary }
        : { kind: 'spawn-failed', errorCode: end.errorCode, errorSummary: end.errorSummary };
    case 'withdrawn':
      return { kind: 'withdrawn' };
    case 'lost':
      return { kind: 'lost', errorSummary: end.errorSummary };
  }
}
