// What becomes of an attempt's output at its end: its last part told to whoever listens in this process, and all of it
// kept as the policy says, before the completion commits. Losing output never holds an attempt up: it is said with its
// end.
import { isEdgeError, stopOnDefect } from '../core/errors.ts';
import type { AttemptEnd } from '../executor/attempt-end.ts';
import type { Executor } from '../executor/executor.ts';
import { type OutputSource, readTail } from '../executor/output.ts';
import type { KeptOutput } from './kept-output.ts';
import type { Log } from './log.ts';
import type { KeepOutput } from './settings.ts';

export type EndedOutput = {
  readonly attemptId: string;
  readonly totalBytes: number;
  /** At most 64 KiB, without parts of characters at its ends. */
  readonly tail: Uint8Array;
};

export type OutputListener = (output: EndedOutput) => void;

/** What was known of an attempt before its end. */
export type EndingAttempt = {
  readonly runId: string;
  /** A stop of it, or of its run, was asked for first: whatever its exit code is, it may not count as a success. */
  readonly isStopping: boolean;
};

export type OutputTakerOptions = {
  readonly executor: Pick<Executor, 'openOutput'>;
  readonly kept: Pick<KeptOutput, 'keep'>;
  readonly policy: KeepOutput;
  /** Null for an attempt that nobody looks after any more. */
  readonly find: (attemptId: string) => EndingAttempt | null;
  readonly onOutput: OutputListener | null;
  readonly log: Log;
};

export const tailBytesMax = 64 * 1024;

/** Begins what is recorded with the end of an attempt whose output was lost; `runs logs` looks for these words. */
export const outputNotKept = 'its output could not be kept';

/**
 * Returns what is to be called with each end, while the attempt's directory is still there. It resolves with the end as
 * it is to be recorded.
 */
export function createOutputTaker(
  options: OutputTakerOptions,
): (attemptId: string, end: AttemptEnd) => Promise<AttemptEnd> {
  const { executor, kept, policy, find, onOutput } = options;
  const noteTrouble = createTroubleLog(options.log);
  return async (attemptId, end) => {
    const attempt = find(attemptId);
    const isKept = attempt !== null && isWorthKeeping(policy, end, attempt);
    if ((end.kind !== 'exited' && end.kind !== 'lost') || (!isKept && onOutput === null)) {
      return end;
    }
    const source = executor.openOutput(attemptId);
    try {
      onOutput?.({ attemptId, ...lastPart(source) });
      if (isKept) {
        const isWritten = await kept.keep({ runId: attempt.runId, attemptId }, source);
        if (isWritten) {
          noteTrouble(null);
        }
      }
      return end;
    } catch (error) {
      stopOnDefect(error);
      const why = isEdgeError(error) || error instanceof Error ? error.message : String(error);
      noteTrouble(why);
      return withNote(end, `${outputNotKept}: ${why}`);
    } finally {
      source.close();
    }
  };
}

function lastPart(source: OutputSource) {
  return { totalBytes: source.look().totalBytes, tail: readTail(source, tailBytesMax) };
}

/** Of an attempt that did not succeed, as far as that can be said before its end is recorded. */
function isWorthKeeping(policy: KeepOutput, end: AttemptEnd, { isStopping }: EndingAttempt): boolean {
  switch (policy) {
    case 'always':
      return true;
    case 'never':
      return false;
    case 'failures':
      return isStopping || end.kind !== 'exited' || end.exitCode !== 0 || end.signal !== null;
  }
}

function withNote(end: AttemptEnd, note: string): AttemptEnd {
  switch (end.kind) {
    case 'exited':
      return { ...end, note: end.note === null ? note : `${end.note}; ${note}` };
    case 'lost':
      return { ...end, errorSummary: `${end.errorSummary}; ${note}` };
    default:
      return end;
  }
}

/** A disk that is full fails every attempt's output: said once, and once that it works again. */
function createTroubleLog(log: Log): (why: string | null) => void {
  let isTrouble = false;
  return (why) => {
    if (why !== null && !isTrouble) {
      log(`output cannot be kept: ${why}; said once, and with each attempt`);
    } else if (why === null && isTrouble) {
      log('output is kept again');
    }
    isTrouble = why !== null;
  };
}
