// Recovery: what became of the attempts that an earlier process left behind, one by one, first matching row of the
// table in the protocols. It never ends a run and never guesses; what cannot be decided is left and reported. Nothing
// that it does matters twice: killed anywhere, it is simply done again.
import type { AttemptFacts } from '../core/completion.ts';
import { EdgeError, isEdgeError, stopOnDefect } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Run, RunAttempt, RunRows, Span } from '../core/records.ts';
import { isTerminalAttempt } from '../core/states.ts';
import type { AttemptEnd } from '../executor/attempt-end.ts';
import type { Executor } from '../executor/executor.ts';
import { advance } from '../protocol/advance.ts';
import { converge } from '../protocol/cancel.ts';
import { type Operation, operation } from '../protocol/protocol.ts';
import { type RunCursor, type RunPage, read, type StrayRun } from '../protocol/reads.ts';
import type { Store } from '../store/store.ts';
import type { Attempts } from './attempts.ts';
import { isDamage, setAsideDamaged } from './damaged-runs.ts';
import type { Deliveries } from './deliveries.ts';
import type { Log } from './log.ts';
import type { StartsPort } from './starts.ts';

export type RecoveryOptions = {
  readonly store: Store;
  readonly executor: Executor;
  readonly attempts: Attempts;
  readonly deliveries: Deliveries;
  /** Takes the end of an attempt as the executor's own reports are taken: its output is kept, then it completes. */
  readonly report: (attemptId: string, end: AttemptEnd) => void;
  readonly starts: Pick<StartsPort, 'takeUp'>;
  readonly log: Log;
};

/**
 * Calls `visit` for every running run that is not set aside; one whose evidence is damaged is set aside on the way.
 * Throws what `visit` throws else: then the storage is what fails.
 */
export async function forEachRunningRun(
  { store, log }: Pick<RecoveryOptions, 'store' | 'log'>,
  visit: (runId: string) => Promise<void>,
): Promise<void> {
  await setAsideStrays({ store, log });
  let after: RunCursor | null = null;
  do {
    const page: RunPage = await store.read(read('runningRuns', { limit: limits.pageMax, after }));
    for (const runId of page.runIds) {
      try {
        await visit(runId);
      } catch (error) {
        stopOnDefect(error);
        if (!isDamage(error)) {
          throw error;
        }
        await setAsideDamaged({ store, log }, runId, error);
      }
    }
    after = page.next;
  } while (after !== null);
}

/** Runs that no page of running runs holds, because their own rows are damaged. */
async function setAsideStrays({ store, log }: Pick<RecoveryOptions, 'store' | 'log'>): Promise<void> {
  let page: readonly StrayRun[];
  let after = '';
  do {
    page = await store.read(read('strayRuns', { limit: limits.pageMax, after }));
    for (const { runId, trouble } of page) {
      const hint = `run \`verify ${runId}\``;
      await setAsideDamaged({ store, log }, runId, new EdgeError('damaged', trouble, { hint, runId }));
    }
    after = page.at(-1)?.runId ?? after;
  } while (page.length === limits.pageMax);
}

/**
 * Settles or takes over every attempt of one run that has not ended, stops what an intent asks to stop, and moves the
 * run on. `noteRun` is told of the run when its attempts are looked after, and before anything of it is started. Throws
 * `damaged`, and what the storage throws at a read.
 */
export async function recoverRun(options: RecoveryOptions, runId: string, noteRun: (run: Run) => void): Promise<void> {
  const { store, attempts } = options;
  const rows = await store.read(read('run', { runId }));
  if (rows === null) {
    return;
  }
  for (const attempt of rows.attempts.values()) {
    if (attempts.has(attempt.id)) {
      haltIfAsked(options, rows, attempt);
    } else if (!isTerminalAttempt(attempt.status)) {
      await recoverAttempt(options, rows, attempt);
    }
  }
  noteRun(rows.run);
  const isCancelled = rows.run.cancelRequestedAtMs !== null;
  if (isCancelled || !options.starts.takeUp(rows)) {
    const next: Operation = isCancelled ? operation(converge, { runId }) : operation(advance, { runId });
    await move(options, runId, next);
  }
}

/** A full disk must not keep the process from starting: what cannot be written now is offered again. */
async function move({ store, deliveries }: RecoveryOptions, runId: string, next: Operation): Promise<void> {
  try {
    await store.submit(next);
  } catch (error) {
    if (!isEdgeError(error) || error.code !== 'full') {
      throw error;
    }
    void deliveries.deliver({ what: `run ${runId}: what follows`, operation: next });
  }
}

async function recoverAttempt(options: RecoveryOptions, rows: RunRows, attempt: RunAttempt): Promise<void> {
  const { executor, attempts, report, log } = options;
  const end = async (facts: AttemptFacts) => {
    if (await watch(options, { rows, attempt, deadline: null })) {
      attempts.ended(attempt.id, facts);
    }
  };
  if (attempt.status === 'claimed') {
    return end({ kind: 'withdrawn' });
  }
  if (attempt.executorType === 'handler') {
    return end({ kind: 'lost', errorSummary: 'its handler ended with the process' });
  }
  const evidence = executor.inspect(attempt.id, attempt.bootId ?? '');
  switch (evidence.kind) {
    case 'withdrawn':
    case 'free':
      return takeBack(options, rows, attempt);
    case 'ended':
      // What it left running and the rest of its output are waited for, its deadline is not.
      if (await watch(options, { rows, attempt, deadline: null })) {
        evidence.end.kind === 'exited' ? executor.adopt(attempt.id) : report(attempt.id, evidence.end);
      }
      return;
    case 'absent':
      return end(directoryGone);
    case 'running':
      if (await watch(options, { rows, attempt, deadline: attempt.deadline })) {
        executor.adopt(attempt.id);
        haltIfAsked(options, rows, attempt);
      }
      return;
    case 'undecidable':
      if (attempts.noteUndecided({ runId: rows.run.id, attemptId: attempt.id })) {
        log(`attempt ${attempt.id} of run ${rows.run.id} is left as it is: ${evidence.why}`);
      }
  }
}

const directoryGone: AttemptFacts = { kind: 'lost', errorSummary: 'its directory in the run directory is gone' };

/** No command had taken the start: whoever creates `taken` first decides. */
async function takeBack(options: RecoveryOptions, rows: RunRows, attempt: RunAttempt): Promise<void> {
  const { executor, attempts } = options;
  const outcome = withdraw(executor, attempt.id);
  if (!(await watch(options, { rows, attempt, deadline: outcome === 'taken' ? attempt.deadline : null }))) {
    return;
  }
  switch (outcome) {
    case 'withdrawn':
      return attempts.ended(attempt.id, { kind: 'withdrawn' });
    case 'absent':
      return attempts.ended(attempt.id, directoryGone);
    case 'taken':
      executor.adopt(attempt.id);
      return haltIfAsked(options, rows, attempt);
  }
}

/** Where not even that can be written (a full run directory), the start is watched like any other. */
function withdraw(executor: Executor, attemptId: string): 'withdrawn' | 'taken' | 'absent' {
  try {
    return executor.withdraw(attemptId);
  } catch {
    return 'taken';
  }
}

/** An intent that was durable before is carried out: the command may never have been told. */
function haltIfAsked({ attempts }: RecoveryOptions, { run }: RunRows, attempt: RunAttempt): void {
  if (attempt.stopReason !== null || run.cancelRequestedAtMs !== null) {
    attempts.halt(attempt.id);
  }
}

/** Looks after it from now on, as if this process had started it. False: somebody else did so meanwhile. */
async function watch(
  { store, attempts }: RecoveryOptions,
  taken: { readonly rows: RunRows; readonly attempt: RunAttempt; readonly deadline: Span | null },
): Promise<boolean> {
  const { rows, attempt, deadline } = taken;
  const { id: runId, packageName, workflowId } = rows.run;
  const { id: attemptId, stepRunId, executorType } = attempt;
  const context = await store.read(read('step', { runId, stepRunId }));
  if (attempts.has(attemptId)) {
    return false;
  }
  const graceMs = context?.task.graceMs ?? limits.graceMsDefault;
  const isStopping = attempt.stopReason !== null || rows.run.cancelRequestedAtMs !== null;
  const place = { runId, stepRunId, attemptId };
  attempts.watch({ place, packageName, workflowId, executorType, graceMs, deadline, isStopping });
  return true;
}
