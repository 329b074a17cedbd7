// From what the executor reports to what the completion protocol takes.
import type { AttemptFacts } from '../core/completion.ts';
import type { AttemptEnd } from '../executor/attempt-end.ts';

/** Keeps what is unknown unknown: a status that may have been a signal is recorded as exit code with a note. */
export function factsOf(end: AttemptEnd): AttemptFacts {
  switch (end.kind) {
    case 'exited':
      return {
        kind: 'exited',
        exitCode: end.exitCode,
        signal: end.signal,
        outputBytes: end.outputBytes,
        outputTruncated: end.outputTruncated,
        note: end.note,
      };
    case 'spawn-failed':
      return { kind: 'spawn-failed', errorCode: end.errorCode, errorSummary: end.errorSummary };
    case 'withdrawn':
      return { kind: 'withdrawn' };
    case 'lost':
      return { kind: 'lost', errorSummary: end.errorSummary };
  }
}
