// The runtime: one store, one executor, and what happens between them. Owns the order of start and stop, and the verbs
// that surfaces call; every one of them is an operation in the store's inbox.
import { remainingMs } from '../core/deadline.ts';
import { EdgeError } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import { limits } from '../core/limits.ts';
import { normalizePlan } from '../core/plan.ts';
import type { Alarm, CancelAlarm, Clock } from '../core/ports.ts';
import { isTerminalRun } from '../core/states.ts';
import type { AttemptEnd } from '../executor/attempt-end.ts';
import { type AdmitOutcome, admit, type StartOutcome, start } from '../protocol/admit.ts';
import { type AdvanceOutcome, advance } from '../protocol/advance.ts';
import type { CompleteOutcome, RequestStopOutcome, StartAttemptOutcome } from '../protocol/attempt.ts';
import { type CancelOutcome, type ConvergeOutcome, cancel } from '../protocol/cancel.ts';
import {
  changeLifecycle,
  type LifecycleInput,
  type LifecycleOutcome,
  type QuarantineOutcome,
  quarantine,
} from '../protocol/package.ts';
import { operation } from '../protocol/protocol.ts';
import { type RunCursor, type RunPage, read } from '../protocol/reads.ts';
import { type ClearOutcome, clearSetAside } from '../protocol/set-aside.ts';
import type { Settled, Store } from '../store/store.ts';
import { checkArguments } from './arguments.ts';
import { Attempts, type AttemptsOptions } from './attempts.ts';
import { describeError } from './log.ts';
import { forEachRunningRun, recoverRun, sweepAttemptDirectories } from './recovery.ts';
import { localProjectId } from './settings.ts';
import { verifyRun } from './verification.ts';

export type RuntimeOptions = AttemptsOptions & {
  /** Whether this runtime carries runs on, or only records what it is told. */
  readonly drives: boolean;
  /** Takes the end of an attempt that recovery found over: see `RecoveryOptions`. */
  readonly report: (attemptId: string, end: AttemptEnd) => void;
  /** Called once after work, when nothing has run for `quietAfterMs`. */
  readonly onQuiet: (() => void) | null;
  /** Called at the end, when nothing is looked after any more and the directory is still held. */
  readonly tidy: () => void;
  /** Longest grace that a stop of the whole runtime leaves a command. */
  readonly stopGraceMsMax: number;
};

export type StartRequest = {
  readonly packageName: string;
  readonly workflowId: string;
  readonly idempotencyKey: string | null;
  readonly requestedBy: string;
};

export type AdvancedRun = AdvanceOutcome;

export class Runtime {
  readonly #options: RuntimeOptions;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #alarm: Alarm;
  readonly attempts: Attempts;
  readonly #runDeadlines = new Map<string, CancelAlarm>();
  /** Woken at every commit; null while nobody waits. */
  #committed: PromiseWithResolvers<void> | null = null;
  #cancelQuiet: CancelAlarm | null = null;
  #closed: Promise<void> | null = null;
  #state: 'new' | 'open' | 'closing' | 'closed' = 'new';

  constructor(options: RuntimeOptions) {
    this.#options = options;
    this.#store = options.store;
    this.#clock = options.clock;
    this.#alarm = options.alarm;
    this.attempts = new Attempts({ ...options, begin: options.begin });
    this.#store.attach({
      closing: (turn) => this.attempts.closing(turn),
      committed: (settled) => this.#carryOut(settled),
    });
  }

  /** Takes over what an earlier process left, then lets turns start what is ready. */
  async open(): Promise<void> {
    this.#state = 'open';
    if (!this.#options.drives) {
      return;
    }
    const recovery = { ...this.#options, attempts: this.attempts };
    await forEachRunningRun(this.#options, async (runId) => {
      await recoverRun(recovery, runId);
      await this.#holdToDeadline(runId);
    });
    await sweepAttemptDirectories(recovery, this.#clock.observe().bootId);
    this.attempts.resume();
  }

  /** Effects of a turn that is durable. Order: starts before stops, so that a stop finds what it stops. */
  #carryOut(settled: readonly Settled[]): void {
    for (const { operation: done, outcome } of settled) {
      if (done.name === 'start-attempt') {
        const started = outcome as StartAttemptOutcome;
        if (started.kind === 'started') {
          this.attempts.begin(started.launch);
        }
      } else if (done.name === 'complete') {
        this.attempts.release((outcome as CompleteOutcome).attemptId);
      } else if (done.name === 'request-stop') {
        const requested = outcome as RequestStopOutcome;
        const isLast = this.#state === 'closing';
        // What was being stopped before gets no more time than the end of the whole runtime leaves it.
        if (requested.kind === 'requested' || (isLast && requested.isStopping)) {
          this.attempts.halt(requested.attemptId, isLast ? this.#options.stopGraceMsMax : undefined);
        }
      } else if (done.name === 'converge') {
        const converged = outcome as ConvergeOutcome;
        for (const attemptId of converged.blockingAttemptIds) {
          this.attempts.halt(attemptId);
        }
        this.#noteEnd(converged.runId, converged.kind === 'ended');
      } else if (done.name === 'advance') {
        const advanced = outcome as AdvanceOutcome;
        this.#noteEnd(advanced.runId, advanced.kind === 'terminal' || advanced.kind === 'settled');
      } else if (done.name === 'start' || done.name === 'admit') {
        this.#noteCreated(outcome as StartOutcome);
      }
    }
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

  #noteEnd(runId: string, hasEnded: boolean): void {
    if (hasEnded) {
      this.#runDeadlines.get(runId)?.();
      this.#runDeadlines.delete(runId);
    }
  }

  #noteCreated(outcome: StartOutcome): void {
    if (outcome.kind === 'created' && this.#options.drives) {
      const { runId } = outcome.receipt;
      this.#watchDeadline(runId);
    }
  }

  /** Until it is watched: a full inbox must not let a run go beyond its timeout. */
  #watchDeadline(runId: string): void {
    this.#holdToDeadline(runId).catch((error: unknown) => {
      if (this.#state === 'open') {
        this.#options.log(`run ${runId}: its deadline is not watched yet: ${describeError(error)}`);
        const again = this.#clock.observe().uptimeMs + limits.redeliveryMs;
        this.#runDeadlines.set(
          runId,
          this.#alarm.set(again, () => this.#watchDeadline(runId)),
        );
      }
    });
  }

  #refuseWhileClosing(): void {
    if (this.#state === 'closing' || this.#state === 'closed') {
      throw new EdgeError('unavailable', 'this runtime is ending', { hint: 'start it again, then try once more' });
    }
  }

  async #holdToDeadline(runId: string): Promise<void> {
    const rows = await this.#store.read(read('run', { runId }));
    if (rows === null || rows.run.deadline === null || isTerminalRun(rows.run.status)) {
      return;
    }
    const now = this.#clock.observe();
    const leftMs = remainingMs(rows.run.deadline, now, this.#options.trustedFromMs);
    this.#runDeadlines.get(runId)?.();
    const ring = () => {
      this.cancel({ runId, requestedBy: 'runtime', reason: 'timeout' }).catch((error: unknown) => {
        this.#options.log(`run ${runId}: its timeout could not be recorded: ${describeError(error)}`);
        const again = this.#clock.observe().uptimeMs + limits.redeliveryMs;
        this.#runDeadlines.set(runId, this.#alarm.set(again, ring));
      });
    };
    this.#runDeadlines.set(runId, this.#alarm.set(now.uptimeMs + leftMs, ring));
  }

  /** Throws `invalid` for arguments of the wrong form, `unavailable` once this runtime ends. */
  async start(request: StartRequest): Promise<StartOutcome> {
    const { packageName, workflowId, idempotencyKey, requestedBy } = request;
    checkArguments({ packageName, workflowId, idempotencyKey, requestedBy });
    this.#refuseWhileClosing();
    return this.#store.submit(operation(start, { projectId: localProjectId, ...request }));
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
   * told to stop. A runtime that does not drive first takes over what may still run of this run.
   */
  async cancel(input: {
    readonly runId: string;
    readonly requestedBy: string;
    readonly reason?: 'user' | 'timeout';
  }): Promise<CancelOutcome> {
    const { runId, requestedBy, reason = 'user' } = input;
    checkArguments({ runId, requestedBy });
    if (!this.#options.drives) {
      await recoverRun({ ...this.#options, attempts: this.attempts }, runId);
    }
    return this.#store.submit(operation(cancel, { runId, reason, requestedBy }));
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
      await recoverRun({ ...this.#options, attempts: this.attempts }, runId);
      await this.#holdToDeadline(runId);
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

  /** The events of a run after a sequence number, and those to come, until it has ended. */
  async *follow(runId: string, after = 0): AsyncGenerator<RunEvent, void> {
    checkArguments({ runId, after });
    let last = after;
    for (;;) {
      // Asked for before reading, so that a commit in between is not missed.
      const committed = this.#nextCommit();
      const page = await this.#store.read(read('events', { runId, after: last, limit: limits.pageMax }));
      for (const event of page) {
        yield event;
        last = event.sequence;
      }
      if (page.length === limits.pageMax) {
        continue;
      }
      const rows = await this.#store.read(read('run', { runId }));
      if (rows === null) {
        throw new EdgeError('not-found', `run ${runId} is unknown`, { hint: 'see `runs list`' });
      }
      const isAside = (await this.#store.read(read('setAside', { runId }))) !== null;
      if (isAside || (isTerminalRun(rows.run.status) && rows.run.eventSequence === last)) {
        return;
      }
      if (this.#state === 'closed') {
        return;
      }
      await committed;
    }
  }

  #nextCommit(): Promise<void> {
    this.#committed ??= Promise.withResolvers<void>();
    return this.#committed.promise;
  }

  /**
   * Resolves when no run can progress any more: nothing runs, is ready, due or waits for a retry. Runs that were set
   * aside, and those with an attempt that cannot be decided, are not waited for.
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
        const rows = await this.#store.read(read('run', { runId }));
        if (![...(rows?.attempts.keys() ?? [])].some((attemptId) => this.attempts.isUndecided(attemptId))) {
          return true;
        }
      }
      after = page.next;
    } while (after !== null);
    return false;
  }

  /**
   * Ends the runtime: `detach` leaves commands running for the next process to take over; `stop` records the stop of
   * each, stops it, and waits for its end. Durable state last.
   */
  close(onStop: 'stop' | 'detach'): Promise<void> {
    this.#closed ??= this.#close(onStop);
    return this.#closed;
  }

  async #close(onStop: 'stop' | 'detach'): Promise<void> {
    this.#state = 'closing';
    this.#cancelQuiet?.();
    this.attempts.pause();
    for (const cancelDeadline of this.#runDeadlines.values()) {
      cancelDeadline();
    }
    if (onStop === 'stop') {
      await this.#stopAttempts();
    }
    const left = onStop === 'stop' ? this.attempts.count : 0;
    this.attempts.close();
    this.#options.tidy();
    await this.#store.close();
    this.#state = 'closed';
    this.#committed?.resolve();
    if (left > 0) {
      throw new EdgeError('unavailable', `${left} attempts did not end, or their end could not be recorded, in time`, {
        hint: 'look at `doctor`; what is known of them is kept for the next start',
      });
    }
  }

  /** Stops everything and waits for the ends, but not for ever: a handler may ignore its abort, a disk may be full. */
  async #stopAttempts(): Promise<void> {
    const isLate = Promise.withResolvers<void>();
    const lateMs = this.#options.stopGraceMsMax + limits.killEscalationMs;
    const cancelAlarm = this.#alarm.set(this.#clock.observe().uptimeMs + lateMs, isLate.resolve);
    let isOver = false;
    void isLate.promise.then(() => {
      isOver = true;
    });
    this.attempts.requestShutdown();
    while (this.attempts.count > 0 && !isOver) {
      await Promise.race([this.#nextCommit(), isLate.promise]);
    }
    cancelAlarm();
  }
}
