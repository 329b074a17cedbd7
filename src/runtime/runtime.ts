// The runtime: one store, one executor, and what happens between them. Owns the order of start and stop, and the verbs
// that surfaces call; every one of them is an operation in the store's inbox.
import { EdgeError } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import { limits } from '../core/limits.ts';
import { normalizePlan } from '../core/plan.ts';
import type { Alarm, CancelAlarm, Clock } from '../core/ports.ts';
import type { AttemptEnd } from '../executor/attempt-end.ts';
import type { Executor } from '../executor/executor.ts';
import type { HandlerExecutor } from '../executor/handlers.ts';
import { type AdmitOutcome, admit, type StartOutcome, start } from '../protocol/admit.ts';
import { type AdvanceOutcome, advance } from '../protocol/advance.ts';
import type { Launch } from '../protocol/attempt.ts';
import { type CancelOutcome, cancel } from '../protocol/cancel.ts';
import {
  changeLifecycle,
  type LifecycleInput,
  type LifecycleOutcome,
  type QuarantineOutcome,
  quarantine,
} from '../protocol/package.ts';
import { operation } from '../protocol/protocol.ts';
import { type RunCursor, type RunPage, read } from '../protocol/reads.ts';
import { type RetryInput, type RetryOutcome, retry } from '../protocol/retry.ts';
import { type ClearOutcome, clearSetAside } from '../protocol/set-aside.ts';
import type { Settled, Store } from '../store/store.ts';
import { checkArguments } from './arguments.ts';
import { factsOf, isShortage } from './attempt-facts.ts';
import { Attempts } from './attempts.ts';
import { setAsideWhatIsDamaged } from './damaged-runs.ts';
import { Deliveries } from './deliveries.ts';
import { carryOut } from './effects.ts';
import { Followers } from './followers.ts';
import { Leftovers } from './leftovers.ts';
import { describeError, type Log } from './log.ts';
import { RunDeadlines } from './run-deadlines.ts';
import { localProjectId, type OnStop } from './settings.ts';
import { createStarts, type StartsOptions, type StartsPort } from './starts.ts';
import { TakeOver } from './take-over.ts';
import { verifyRun } from './verification.ts';

export type RuntimeOptions = {
  readonly store: Store;
  readonly executor: Executor;
  readonly handlers: HandlerExecutor;
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly concurrencyMax: number;
  readonly trustedFromMs: number;
  readonly runDirectory: string;
  /** Whether this runtime carries runs on, or only records what it is told. */
  readonly drives: boolean;
  /** Begins a launch whose barrier is durable. */
  readonly begin: (launch: Launch) => void;
  /** Takes what an attempt has written, while its directory is there; resolves with its end as it is to be recorded. */
  readonly takeOutput: (attemptId: string, end: AttemptEnd) => Promise<AttemptEnd>;
  /** Called once after work, when nothing has run for `quietAfterMs`. */
  readonly onQuiet: (() => void) | null;
  /** Told of every run that ends here, behind its commit. Must not throw. */
  readonly onRunEnd: ((runId: string) => void) | null;
  /** Called at the end, when nothing is looked after any more and the directory is still held. */
  readonly tidy: () => void;
  /** Longest grace that a stop of the whole runtime leaves a command. */
  readonly stopGraceMsMax: number;
  /** Whether others may carry runs on, and have attempts in the same run directory. */
  readonly isShared?: boolean;
  readonly createStarts?: ((options: StartsOptions) => StartsPort) | undefined;
  readonly log: Log;
};

export type StartRequest = {
  readonly packageName: string;
  readonly workflowId: string;
  readonly idempotencyKey: string | null;
  readonly requestedBy: string;
};

export type RetryRequest = Omit<RetryInput, 'projectId'>;

export class Runtime {
  readonly #options: RuntimeOptions;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #alarm: Alarm;
  readonly #starts: StartsPort;
  readonly #deliveries: Deliveries;
  readonly deadlines: RunDeadlines;
  readonly leftovers: Leftovers;
  readonly #followers: Followers;
  readonly takeOver: TakeOver;
  readonly attempts: Attempts;
  /** Woken at every commit; null while nobody waits. */
  #committed: PromiseWithResolvers<void> | null = null;
  #cancelQuiet: CancelAlarm | null = null;
  #closed: Promise<void> | null = null;
  #state: 'new' | 'open' | 'closing' | 'closed' = 'new';
  #isStopping = false;

  constructor(given: RuntimeOptions) {
    const options = { ...given, store: setAsideWhatIsDamaged(given.store, given.log) };
    const { store, handlers } = options;
    this.#options = options;
    this.#store = store;
    this.#clock = options.clock;
    this.#alarm = options.alarm;
    const isRunOver = (runId: string) => this.deadlines.isOver(runId);
    const startsOptions = { ...options, handlerNames: handlers.names, isRunOver };
    this.#starts = (options.createStarts ?? createStarts)(startsOptions);
    this.#deliveries = new Deliveries(options);
    this.deadlines = new RunDeadlines({ ...options, deliveries: this.#deliveries });
    this.#followers = new Followers(store);
    this.attempts = new Attempts({ ...options, starts: this.#starts, deliveries: this.#deliveries });
    const { attempts } = this;
    const made = { attempts, starts: this.#starts, deliveries: this.#deliveries, deadlines: this.deadlines };
    const parts = { ...options, ...made };
    this.leftovers = new Leftovers(parts);
    this.takeOver = new TakeOver({ ...parts, report: (attemptId, end) => this.report(attemptId, end) });
    store.attach({
      closing: (turn) => this.attempts.closing(turn),
      committed: (settled) => this.#carryOut(settled),
      owed: (operation, error) => this.#deliveries.owe(operation, error),
      undone: (error) => this.#starts.holdBack(describeError(error)),
      doubted: () => {
        this.#followers.wakeAll();
        this.takeOver.doubt();
      },
    });
  }

  /** Takes over what an earlier process left, then lets turns start what is ready. */
  async open(): Promise<void> {
    this.#state = 'open';
    if (!this.#options.drives) {
      return;
    }
    try {
      await this.takeOver.run();
      await this.leftovers.sweep();
      this.takeOver.finish();
    } catch (error) {
      await this.close('detach').catch(() => {});
      throw error;
    }
  }

  /** Why nothing is started now; null where nothing keeps it back. */
  heldBack(): string | null {
    return this.#starts.heldBack();
  }

  /** Takes the executor's word on the end of an attempt. */
  report(attemptId: string, end: AttemptEnd): void {
    // Once closed, it is left to whoever opens this next.
    if (this.attempts.isClosed || this.leftovers.take(attemptId, end)) {
      return;
    }
    if (isShortage(end)) {
      this.#starts.holdBack(end.errorSummary);
    } else if (end.kind === 'exited' || end.kind === 'lost') {
      this.#starts.noteRun();
    }
    const isStopped = this.attempts.isStoppedBefore(attemptId, end.kind === 'exited' ? end.endUptimeMs : null);
    const kept = this.#options.takeOutput(attemptId, end);
    this.attempts.ended(
      attemptId,
      kept.then((taken) => factsOf(taken, { isStopped })),
    );
  }

  #carryOut(settled: readonly Settled[]): void {
    const { drives, stopGraceMsMax } = this.#options;
    carryOut(settled, {
      attempts: this.attempts,
      lastGraceMs: this.#isStopping ? stopGraceMsMax : null,
      runCreated: (runId) => (drives && this.#options.isShared !== true ? this.deadlines.find(runId) : undefined),
      runEnded: (runId) => {
        this.deadlines.forget(runId);
        this.leftovers.runEnded(runId);
        this.#options.onRunEnd?.(runId);
      },
    });
    this.deadlines.lookAtClock();
    this.#followers.wake(settled);
    this.#committed?.resolve();
    this.#committed = null;
    this.#noteWork();
  }

  /** One alarm at most, however much work there is; while attempts run, their ends come here again. */
  #noteWork(): void {
    const { onQuiet } = this.#options;
    if (onQuiet === null || this.#cancelQuiet !== null || this.attempts.count > 0 || this.#state !== 'open') {
      return;
    }
    const quietAtMs = this.#clock.observe().uptimeMs + limits.quietAfterMs;
    this.#cancelQuiet = this.#alarm.set(quietAtMs, () => {
      this.#cancelQuiet = null;
      if (this.attempts.count === 0) {
        onQuiet();
      }
    });
  }

  #refuseWhileClosing(): void {
    if (this.#state === 'closing' || this.#state === 'closed') {
      throw new EdgeError('unavailable', 'this runtime is ending', { hint: 'start it again, then try once more' });
    }
  }

  /** Throws `invalid` for arguments of the wrong form, `unavailable` once this runtime ends. */
  async start(request: StartRequest): Promise<StartOutcome> {
    const { packageName, workflowId, idempotencyKey, requestedBy } = request;
    checkArguments({ packageName, workflowId, idempotencyKey, requestedBy });
    this.#refuseWhileClosing();
    return this.#store.submit(operation(start, { projectId: localProjectId, ...request }));
  }

  /** A new run of the same workflow, as it is installed now, which names the run that it retries. */
  async retry(request: RetryRequest): Promise<RetryOutcome> {
    const { runId, idempotencyKey, requestedBy } = request;
    checkArguments({ runId, idempotencyKey, requestedBy });
    this.#refuseWhileClosing();
    return this.#store.submit(operation(retry, { projectId: localProjectId, ...request }));
  }

  /** `plan` comes from outside: throws `invalid` with every mistake before anything is read. */
  async admit(request: { readonly plan: unknown; readonly requestedBy: string }): Promise<AdmitOutcome> {
    const plan = normalizePlan(request.plan);
    checkArguments({ requestedBy: request.requestedBy });
    this.#refuseWhileClosing();
    return this.#store.submit(operation(admit, { plan, requestedBy: request.requestedBy }));
  }

  async changeLifecycle(input: Omit<LifecycleInput, 'projectId'>): Promise<LifecycleOutcome> {
    checkArguments({ packageName: input.packageName });
    return this.#store.submit(operation(changeLifecycle, { projectId: localProjectId, ...input }));
  }

  async quarantine(input: {
    readonly packageName: string;
    readonly reason: string;
    readonly requestedBy: string;
  }): Promise<QuarantineOutcome> {
    checkArguments(input);
    return this.#store.submit(operation(quarantine, { projectId: localProjectId, ...input }));
  }

  /**
   * Records the intent; by the time this resolves, starts that no command had taken are taken back and the others are
   * told to stop. A runtime that does not drive first takes over what may still run of this run; one that does looks
   * once more at what it could not decide.
   */
  async cancel(input: { readonly runId: string; readonly requestedBy: string }): Promise<CancelOutcome> {
    const { runId, requestedBy } = input;
    checkArguments({ runId, requestedBy });
    if (!this.#options.drives || this.attempts.undecidedRuns().has(runId)) {
      await this.takeOver.recover(runId);
    }
    this.attempts.noteCancel(runId);
    return this.#store.submit(operation(cancel, { runId, reason: 'user', requestedBy }));
  }

  /** Takes a run back that was set aside, if it is sound now, and carries it on. Throws `damaged` if it is not. */
  async clearSetAside(runId: string): Promise<ClearOutcome> {
    const { differences } = await verifyRun(this.#store, runId);
    if (differences.length > 0) {
      throw new EdgeError('damaged', `run ${runId} is not sound, so it stays set aside`, {
        hint: 'restore a backup if its evidence is needed',
        mistakes: differences.map((rule) => ({ file: null, path: `run ${runId}`, line: null, rule })),
      });
    }
    const outcome = await this.#store.submit(operation(clearSetAside, { runId }));
    if (this.#options.drives && outcome.kind === 'cleared') {
      await this.takeOver.recover(runId);
    }
    return outcome;
  }

  /** One bounded page of frontier passes, driven by the caller. */
  async advancePage(
    limit: number,
    after: RunCursor | null = null,
  ): Promise<{
    readonly outcomes: readonly AdvanceOutcome[];
    readonly next: RunCursor | null;
  }> {
    checkArguments({ limit });
    const page = await this.#store.read(read('candidates', { limit, after }));
    const outcomes: AdvanceOutcome[] = [];
    for (const runId of page.runIds) {
      outcomes.push(await this.#store.submit(operation(advance, { runId })));
    }
    return { outcomes, next: page.next };
  }

  /**
   * The events of a run after a sequence number, and those to come, until it has ended. `return` ends it at once, also
   * while an event is waited for.
   */
  follow(runId: string, after = 0): AsyncIterableIterator<RunEvent, void> {
    return this.#followers.follow({ runId, after });
  }

  #nextCommit(): Promise<void> {
    this.#committed ??= Promise.withResolvers<void>();
    return this.#committed.promise;
  }

  /**
   * Resolves when no run can progress any more: nothing runs, is ready, due or waits for a retry. Runs that were set
   * aside, and attempts that cannot be decided, are not waited for.
   */
  async idle(): Promise<void> {
    for (;;) {
      const committed = this.#nextCommit();
      if (this.#state === 'closed' || (this.attempts.count === 0 && !(await this.#canProgress()))) {
        return;
      }
      await committed;
    }
  }

  async #canProgress(): Promise<boolean> {
    let after: RunCursor | null = null;
    do {
      const page: RunPage = await this.#store.read(read('runningRuns', { limit: limits.pageMax, after }));
      for (const runId of page.runIds) {
        if (!this.attempts.undecidedRuns().has(runId) || (await this.#hasReadyStep(runId))) {
          return true;
        }
      }
      after = page.next;
    } while (after !== null);
    return false;
  }

  async #hasReadyStep(runId: string): Promise<boolean> {
    const rows = await this.#store.read(read('run', { runId }));
    return [...(rows?.steps.values() ?? [])].some(({ status }) => status === 'ready');
  }

  /**
   * Ends the runtime: `detach` leaves commands running for the next process to take over; `stop` records the stop of
   * each, stops it, and waits for its end. Durable state last, once whoever still asks for it was answered, too.
   */
  close(onStop: OnStop, answered = Promise.resolve()): Promise<void> {
    this.#closed ??= this.#close(onStop, answered);
    return this.#closed;
  }

  async #close(onStop: OnStop, answered: Promise<void>): Promise<void> {
    this.#state = 'closing';
    this.#cancelQuiet?.();
    this.takeOver.close();
    this.#starts.close();
    this.deadlines.close();
    await Promise.all([answered, onStop === 'stop' ? this.#stopAttempts() : null]);
    const left = onStop === 'stop' ? this.attempts.count : 0;
    this.attempts.close();
    this.#deliveries.close();
    this.#tidy();
    await this.#store.close().finally(() => this.attempts.letGo());
    this.#state = 'closed';
    this.#followers.end();
    this.#committed?.resolve();
    if (left > 0) {
      throw new EdgeError('unavailable', `${left} attempts did not end, or their end could not be recorded, in time`, {
        hint: 'look at `doctor`; what is known of them is kept for the next start',
      });
    }
  }

  /** What cannot be taken away is in nobody's way. */
  #tidy(): void {
    try {
      this.#options.tidy();
    } catch (error) {
      this.#options.log(`the run directory could not be tidied up: ${describeError(error)}`);
    }
  }

  /** Stops everything and waits for the ends, but not for ever: a handler may ignore its abort, a disk may be full. */
  async #stopAttempts(): Promise<void> {
    const isLate = Promise.withResolvers<void>();
    const lateMs = this.#options.stopGraceMsMax + limits.stopEndMsMax;
    const cancelAlarm = this.#alarm.set(this.#clock.observe().uptimeMs + lateMs, isLate.resolve);
    let isOver = false;
    void isLate.promise.then(() => {
      isOver = true;
    });
    this.#isStopping = true;
    for (const attemptId of this.attempts.ids()) {
      this.attempts.requestStop(attemptId, 'shutdown');
    }
    while (this.attempts.count > 0 && !isOver) {
      await Promise.race([this.#nextCommit(), isLate.promise]);
    }
    cancelAlarm();
  }
}
