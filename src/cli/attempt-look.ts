// What is seen of an attempt whose end is not recorded: its files in the run directory and its processes, as recovery
// would find them. Looks only.
import type { RunAttempt } from '../core/records.ts';
import { attemptDirectory, readIdentity, readTaken } from '../executor/attempt-files.ts';
import { inspectAttempt } from '../executor/evidence.ts';

export type AttemptLook = {
  /** `over`: its command has ended, and that is not recorded yet. `unknown`: a handler, known to its process alone. */
  readonly state: 'about-to-start' | 'running' | 'over' | 'gone' | 'undecidable' | 'unknown';
  /** Of its command, else of its launcher; null where there is none, or nobody wrote it down. */
  readonly pid: number | null;
  /** Why it cannot be decided, or why nothing is known. */
  readonly why: string | null;
};

/** `bootId` is that of the running kernel. */
export function lookAtAttempt(
  attempt: RunAttempt,
  { runDirectory, bootId }: { readonly runDirectory: string; readonly bootId: string },
): AttemptLook {
  if (attempt.executorType === 'handler') {
    return { state: 'unknown', pid: null, why: 'it runs inside the process that holds the directory' };
  }
  if (attempt.status === 'claimed') {
    return { state: 'about-to-start', pid: null, why: null };
  }
  const directory = attemptDirectory(runDirectory, attempt.id);
  const input = { directory, attemptId: attempt.id, bootId, outputBytesMax: 0 };
  const evidence = inspectAttempt(input, attempt.bootId ?? '');
  const pid = readTaken(directory, attempt.id)?.pid ?? readIdentity(directory, attempt.id)?.pid ?? null;
  switch (evidence.kind) {
    case 'running':
      return { state: 'running', pid, why: null };
    case 'free':
      return { state: 'about-to-start', pid: null, why: null };
    case 'withdrawn':
    case 'ended':
      return { state: 'over', pid: null, why: null };
    case 'absent':
      return { state: 'gone', pid: null, why: `it has no directory in ${runDirectory}` };
    case 'undecidable':
      return { state: 'undecidable', pid, why: evidence.why };
  }
}
