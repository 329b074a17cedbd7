// Recovery at start: what became of the attempts that an earlier process left behind, one by one, first matching row of
// the table in the protocols. It never ends a run and never guesses; what cannot be decided is left and reported.
import type { AttemptFacts } from '../core/completion.ts';
import { limits } from '../core/limits.ts';
import type { RunAttempt, RunRows, Span } from '../core/records.ts';
import { isTerminalAttempt } from '../core/states.ts';
import type { AttemptEnd } from '../executor/attempt-end.ts';
import type { Executor } from '../executor/executor.ts';
import { advance } from '../protocol/advance.ts';
import { complete } from '../protocol/attempt.ts';
import { converge } from '../protocol/cancel.ts';
import { operation } from '../protocol/protocol.ts';
import { type RunCursor, type RunPage, read } from '../protocol/reads.ts';
import { setAsideRun } from '../protocol/set-aside.ts';
import type { Store } from '../store/store.ts';
import type { Attempts } from './attempts.ts';
import { describeError, type Log } from './log.ts';

export type RecoveryOptions = {
  readonly store: Store;
  readonly executor: Executor;
  readonly attempts: Attempts;
  /** Takes the end of an attempt as the executor's own reports are taken: its output is kept, then it completes. */
  readonly report: (attemptId: string, end: AttemptEnd) => void;
  readonly log: Log;
};

/** Calls `visit` for every running run that is not set aside; one whose evidence is damaged is set aside on the way. */
export async function forEachRunningRun(
  { store, log }: Pick<RecoveryOptions, 'store' | 'log'>,
  visit: (runId: string) => Promise<void>,
): Promise<void> {
  let after: RunCursor | null = null;
  do {
    const page: RunPage = await store.read(read('runningRuns', { limit: limits.pageMax, after }));
    for (const runId of page.runIds) {
      try {
        await visit(runId);
      } catch (error) {
        log(`run ${runId}: set aside: ${describeError(error)}`);
        const summary = error instanceof Error ? error.message : String(error);
        await store.submit(operation(setAsideRun, { runId, code: 'damaged', summary }));
      }
    }
    after = page.next;
  } while (after !== null);
}

/** Settles or takes over every attempt of one run that has not ended, then moves the run on. */
export async function recoverRun(options: RecoveryOptions, runId: string): Promise<void> {
  const { store } = options;
  const rows = await store.read(read('run', { runId }));
  if (rows === null) {
    return;
  }
  for (const attempt of rows.attempts.values()) {
    if (!isTerminalAttempt(attempt.status) && !options.attempts.has(attempt.id)) {
      await recoverAttempt(options, rows, attempt);
    }
  }
  const next = rows.run.cancelRequestedAtMs === null ? operation(advance, { runId }) : operation(converge, { runId });
  await store.submit<unknown>(next);
}

async function recoverAttempt(options: RecoveryOptions, rows: RunRows, attempt: RunAttempt): Promise<void> {
  const { store, executor, attempts, log } = options;
  const place = { runId: rows.run.id, stepRunId: attempt.stepRunId, attemptId: attempt.id };
  const settle = async (facts: AttemptFacts) => {
    await store.submit(operation(complete, { ...place, facts }));
  };
  if (attempt.status === 'claimed') {
    return settle({ kind: 'withdrawn' });
  }
  if (attempt.executorType === 'handler') {
    return settle({ kind: 'lost', errorSummary: 'its handler ended with the process' });
  }
  const evidence = executor.inspect(attempt.id, attempt.bootId ?? '');
  switch (evidence.kind) {
    case 'withdrawn':
      return settle({ kind: 'withdrawn' });
    case 'free':
      return withdraw(options, { attempt, settle, adopt: () => adopt(options, rows, attempt) });
    case 'ended':
      return takeEnd(options, { attempt, end: evidence.end });
    case 'absent':
      return settle({ kind: 'lost', errorSummary: 'its directory in the run directory is gone' });
    case 'running':
      return adopt(options, rows, attempt);
    case 'undecidable':
      attempts.noteUndecided(attempt.id);
      log(`attempt ${attempt.id} of run ${rows.run.id}: cannot be decided: ${evidence.why}`);
  }
}

/** No command had taken the start yet: whoever creates `taken` first decides. */
async function withdraw(
  { executor }: RecoveryOptions,
  next: {
    readonly attempt: RunAttempt;
    readonly settle: (facts: AttemptFacts) => Promise<void>;
    readonly adopt: () => Promise<void>;
  },
): Promise<void> {
  switch (executor.withdraw(next.attempt.id)) {
    case 'withdrawn':
      return next.settle({ kind: 'withdrawn' });
    case 'taken':
      return next.adopt();
    case 'absent':
      return next.settle({ kind: 'lost', errorSummary: 'its directory in the run directory is gone' });
  }
}

/** Its command may be alive: it is watched until its end, held to what is left of its deadline and to earlier stops. */
async function adopt(options: RecoveryOptions, rows: RunRows, attempt: RunAttempt): Promise<void> {
  await watch(options, attempt, attempt.deadline);
  options.executor.adopt(attempt.id);
  if (attempt.stopReason !== null || rows.run.cancelRequestedAtMs !== null) {
    options.attempts.halt(attempt.id);
  }
}

/** Its command is over: what it left running and the rest of its output are waited for, its deadline is not. */
async function takeEnd(
  options: RecoveryOptions,
  { attempt, end }: { readonly attempt: RunAttempt; readonly end: AttemptEnd },
): Promise<void> {
  await watch(options, attempt, null);
  if (end.kind === 'exited') {
    options.executor.adopt(attempt.id);
  } else {
    options.report(attempt.id, end);
  }
}

async function watch({ store, attempts }: RecoveryOptions, attempt: RunAttempt, deadline: Span | null): Promise<void> {
  const place = { runId: attempt.runId, stepRunId: attempt.stepRunId, attemptId: attempt.id };
  const context = await store.read(read('step', place));
  const graceMs = context?.task.graceMs ?? limits.graceMsDefault;
  attempts.watch({ place, executorType: 'process', graceMs, deadline });
}

/**
 * Removes the directories of attempts that nobody looks after: a process died between making one and the barrier, or
 * between the completion and its removal. While runs are set aside, everything is kept for `doctor`.
 */
export async function sweepAttemptDirectories(
  { store, executor, attempts }: RecoveryOptions,
  bootId: string,
): Promise<void> {
  const aside = await store.read(read('allSetAside', { limit: 1 }));
  if (aside.length > 0) {
    return;
  }
  for (const attemptId of executor.stored().filter((id) => !attempts.has(id) && !attempts.isUndecided(id))) {
    const { kind } = executor.inspect(attemptId, bootId);
    if (kind !== 'running' && kind !== 'undecidable') {
      executor.release(attemptId);
    }
  }
}
