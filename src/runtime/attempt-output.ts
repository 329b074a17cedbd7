// What becomes of an attempt's output at its end: told to whoever listens in this process, and kept where the command
// did not succeed, before the completion commits. Losing output never holds an attempt up.
import type { AttemptEnd } from '../executor/attempt-end.ts';
import type { Executor } from '../executor/executor.ts';
import { joinOutput, type KeptOutput } from './kept-output.ts';
import { describeError, type Log } from './log.ts';

export type OutputListener = (attempt: { readonly attemptId: string; readonly output: Uint8Array }) => void;

/** Returns what is to be called with each end, while the attempt's directory is still there. */
export function createOutputTaker(options: {
  readonly executor: Pick<Executor, 'collectOutput'>;
  readonly kept: KeptOutput;
  readonly onOutput: OutputListener | null;
  readonly log: Log;
}): (attemptId: string, end: AttemptEnd) => void {
  const { executor, kept, onOutput, log } = options;
  return (attemptId, end) => {
    const hasOutput = end.kind === 'exited' || end.kind === 'lost';
    const isKept = end.kind === 'lost' || (end.kind === 'exited' && (end.exitCode !== 0 || end.signal !== null));
    if (!hasOutput || (!isKept && onOutput === null)) {
      return;
    }
    try {
      const output = joinOutput(executor.collectOutput(attemptId));
      onOutput?.({ attemptId, output });
      if (isKept) {
        kept.keep(attemptId, output);
      }
    } catch (error) {
      log(`attempt ${attemptId}: its output could not be kept: ${describeError(error)}`);
    }
  };
}
