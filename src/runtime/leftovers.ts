// What is left in the run directory of attempts that have ended, found at the start: receipts that came too late to be
// counted, and processes that nobody looks after any more. Those that are proven to be an attempt's are ended; all of
// it is told as news of the run. Records of attempts never change here.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { isEdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Clock } from '../core/ports.ts';
import type { RunAttempt, RunRows } from '../core/records.ts';
import { isTerminalAttempt, isTerminalRun } from '../core/states.ts';
import type { AttemptEnd } from '../executor/attempt-end.ts';
import { attemptDirectory } from '../executor/attempt-files.ts';
import type { AttemptEvidence } from '../executor/evidence.ts';
import type { Executor } from '../executor/executor.ts';
import { type NewsType, recordNews } from '../protocol/news.ts';
import { operation } from '../protocol/protocol.ts';
import { read } from '../protocol/reads.ts';
import type { Store } from '../store/store.ts';
import type { Attempts } from './attempts.ts';
import { isDamage } from './damaged-runs.ts';
import type { Deliveries } from './deliveries.ts';
import { describeError, type Log } from './log.ts';
import type { StartsPort } from './starts.ts';

export type LeftoversOptions = {
  readonly store: Store;
  readonly executor: Executor;
  readonly attempts: Attempts;
  readonly starts: StartsPort;
  readonly deliveries: Deliveries;
  readonly clock: Clock;
  readonly runDirectory: string;
  /** Others have attempts in the same run directory: only those that have ended are looked at. */
  readonly isShared?: boolean;
  readonly log: Log;
};

/** An attempt that has ended and still has a directory. */
type Leftover = {
  readonly rows: RunRows;
  readonly attempt: RunAttempt;
  /** Lets its step start again. */
  readonly unbar: () => void;
  /** Its command was still running when it was found. */
  readonly wasRunning: boolean;
  /** Only the history of a run that has ended takes news. */
  isRunOver: boolean;
};

type News = { readonly type: NewsType; readonly summary: string };

export class Leftovers {
  readonly #options: LeftoversOptions;
  readonly #ending = new Map<string, Leftover>();
  /** Facts about runs that go on: told when they end. */
  readonly #pending = new Map<string, { readonly leftover: Leftover; readonly news: readonly News[] }[]>();

  constructor(options: LeftoversOptions) {
    this.#options = options;
  }

  /**
   * Looks through the directories of attempts that nobody looks after: a process died between making one and the
   * barrier, or between the completion and its removal. Those of runs that are set aside are kept for `doctor`.
   */
  async sweep(): Promise<void> {
    const { store, executor, attempts, log } = this.#options;
    const hasAside = (await store.read(read('allSetAside', { limit: 1 }))).length > 0;
    for (const attemptId of executor.stored().filter((id) => !attempts.has(id) && !attempts.isUndecided(id))) {
      try {
        await this.#look(attemptId, hasAside);
      } catch (error) {
        if (!isEdgeError(error)) {
          throw error;
        }
        log(`attempt ${attemptId}: its directory is left as it is: ${describeError(error)}`);
      }
    }
  }

  /** The runs of attempts whose directories are there. */
  storedRuns(): readonly string[] {
    const { executor, runDirectory } = this.#options;
    const runIds = executor.stored().map((attemptId) => readRunId(attemptDirectory(runDirectory, attemptId)));
    return [...new Set(runIds.filter((runId) => runId !== null))];
  }

  async #look(attemptId: string, hasAside: boolean): Promise<void> {
    const { store, executor, attempts, clock, log } = this.#options;
    const runId = readRunId(attemptDirectory(this.#options.runDirectory, attemptId));
    const rows = runId === null ? null : await this.#readRun(runId);
    if (rows === 'damaged') {
      return;
    }
    const attempt = rows?.attempts.get(attemptId) ?? null;
    if (this.#options.isShared === true && (attempt === null || !isTerminalAttempt(attempt.status))) {
      return;
    }
    if (rows === null || attempt === null) {
      const evidence = executor.inspect(attemptId, clock.observe().bootId);
      if (evidence.kind === 'running' || evidence.kind === 'undecidable') {
        log(`attempt ${attemptId} is not in the records and may be running; it is left as it is`);
      } else if (!hasAside) {
        // Of an attempt whose barrier was never committed, or of another database: nothing of it runs.
        attempts.removeDirectory(attemptId);
      }
      return;
    }
    const isAside = (await store.read(read('setAside', { runId: rows.run.id }))) !== null;
    if (!isAside && isTerminalAttempt(attempt.status)) {
      await this.#settle({ rows, attempt }, executor.inspect(attemptId, attempt.bootId ?? ''));
    }
  }

  /** Those of a damaged run stay for `doctor`, which is told here: no list of running runs may lead to it any more. */
  async #readRun(runId: string): Promise<RunRows | null | 'damaged'> {
    try {
      return await this.#options.store.read(read('wholeRun', { runId }));
    } catch (error) {
      if (!isDamage(error)) {
        throw error;
      }
      return 'damaged';
    }
  }

  async #settle(found: Pick<Leftover, 'rows' | 'attempt'>, evidence: AttemptEvidence): Promise<void> {
    const { executor, attempts, starts, log } = this.#options;
    const { attempt } = found;
    switch (evidence.kind) {
      case 'undecidable':
        log(`attempt ${attempt.id}, which has ended, is left as it is: ${evidence.why}`);
        return;
      case 'free':
        // Its launcher, if there is one, finds the start taken.
        executor.withdraw(attempt.id);
        attempts.removeDirectory(attempt.id);
        return;
      case 'ended':
      case 'running': {
        const wasRunning = evidence.kind === 'running';
        if (!wasRunning && evidence.end.kind !== 'exited') {
          attempts.removeDirectory(attempt.id);
          return;
        }
        const isRunOver = isTerminalRun(found.rows.run.status);
        const leftover = { ...found, wasRunning, isRunOver, unbar: starts.bar(attempt.stepRunId) };
        await this.#end(leftover);
        return;
      }
      default:
        attempts.removeDirectory(attempt.id);
    }
  }

  /** Ends what lives of it: a running command by TERM and KILL, what a command left behind by the output drain. */
  async #end(leftover: Leftover): Promise<void> {
    const { store, executor } = this.#options;
    const { attempt, rows, wasRunning } = leftover;
    this.#ending.set(attempt.id, leftover);
    if (wasRunning) {
      // Told before it is ended: killed in between, the next start would find nothing to tell any more.
      await this.#tell(leftover, [{ type: 'workflow.leftover_found', summary: describeRunning(attempt) }]);
    }
    executor.adopt(attempt.id);
    if (wasRunning) {
      const context = await store.read(read('step', { runId: rows.run.id, stepRunId: attempt.stepRunId }));
      executor.stop(attempt.id, { graceMs: context?.task.graceMs ?? limits.graceMsDefault });
    }
  }

  /** Takes the executor's report on one of these; false where it is none. */
  take(attemptId: string, end: AttemptEnd): boolean {
    const leftover = this.#ending.get(attemptId);
    if (leftover === undefined) {
      return false;
    }
    this.#ending.delete(attemptId);
    leftover.unbar();
    void this.#tell(leftover, newsOf(leftover, end)).then((isTold) => {
      if (isTold) {
        this.#options.attempts.removeDirectory(attemptId);
      }
    });
    return true;
  }

  /** A run has ended: what was found of it before is news now. */
  runEnded(runId: string): void {
    const waiting = this.#pending.get(runId) ?? [];
    this.#pending.delete(runId);
    for (const leftover of this.#ending.values()) {
      leftover.isRunOver ||= leftover.rows.run.id === runId;
    }
    for (const { leftover, news } of waiting) {
      void this.#record(leftover, news).then((isTold) => {
        if (isTold && !this.#ending.has(leftover.attempt.id)) {
          this.#options.attempts.removeDirectory(leftover.attempt.id);
        }
      });
    }
  }

  /** Answers whether the facts are durable, or need not be: then the directory may go. */
  async #tell(leftover: Leftover, news: readonly News[]): Promise<boolean> {
    const { run } = leftover.rows;
    for (const { summary } of news) {
      this.#options.log(`run ${run.id}: ${summary}`);
    }
    if (news.length === 0 || leftover.isRunOver) {
      return this.#record(leftover, news);
    }
    this.#pending.set(run.id, [...(this.#pending.get(run.id) ?? []), { leftover, news }]);
    return false;
  }

  async #record({ rows, attempt }: Leftover, news: readonly News[]): Promise<boolean> {
    const { deliveries } = this.#options;
    const { id: runId, version } = rows.run;
    const what = `run ${runId}: news of attempt ${attempt.number}`;
    const outcomes = news.map((fact) => {
      const record = operation(recordNews, { runId, attemptId: attempt.id, version, ...fact });
      return deliveries.deliver({ what, operation: record });
    });
    return (await Promise.all(outcomes)).every((outcome) => outcome !== null);
  }
}

const runIdWord = / 'QL_RUN_ID=([A-Za-z0-9][A-Za-z0-9._:-]{0,35})' /;

/** The run that an attempt was started for, as its command was told. A hint: the records decide. */
function readRunId(directory: string): string | null {
  try {
    return runIdWord.exec(readFileSync(path.join(directory, 'command'), 'latin1'))?.[1] ?? null;
  } catch {
    return null;
  }
}

function describeRunning({ number, status }: RunAttempt): string {
  return `attempt ${number}, recorded as ${status}, was still running; its processes are ended`;
}

/** Only what the record does not say already: nothing is known of an attempt that was lost. */
function newsOf({ attempt, wasRunning }: Leftover, end: AttemptEnd): readonly News[] {
  const { number, status } = attempt;
  const news: News[] = [];
  const isUnknown = status === 'lost' && attempt.exitCode === null && attempt.signal === null;
  if (!wasRunning && isUnknown && end.kind === 'exited') {
    const how = end.signal === null ? `exit code ${end.exitCode}` : `ended by ${end.signal}`;
    const note = end.note === null ? '' : `; ${end.note}`;
    const summary = `attempt ${number}, recorded as lost, left a receipt: ${how}${note}`;
    news.push({ type: 'workflow.late_receipt_found', summary });
  }
  if (!wasRunning && end.kind === 'exited' && end.leftoversCount > 0) {
    const summary = `attempt ${number} had left ${end.leftoversCount} processes running; they were ended`;
    news.push({ type: 'workflow.leftover_found', summary });
  }
  if ('isForced' in end && end.isForced) {
    news.push({ type: 'workflow.stop_forced', summary: `processes of attempt ${number} were ended by KILL` });
  }
  return news;
}
