// The attempts that this process looks after, started here or adopted: their deadlines, their stops, and the delivery
// of their ends. `closing` and `committed` of every turn come through here. Decides nothing about runs.
import type { AttemptFacts } from '../core/completion.ts';
import { remainingMs } from '../core/deadline.ts';
import { InvariantError, isEdgeError, stopOnDefect } from '../core/errors.ts';
import type { Alarm, CancelAlarm, Clock } from '../core/ports.ts';
import type { Span } from '../core/records.ts';
import type { ExecutorType } from '../core/states.ts';
import type { Executor } from '../executor/executor.ts';
import type { HandlerExecutor } from '../executor/handlers.ts';
import { type AttemptPlace, complete, type Launch, observeAttempt, requestStop } from '../protocol/attempt.ts';
import { operation } from '../protocol/protocol.ts';
import { setAsideRun } from '../protocol/set-aside.ts';
import type { Turn } from '../store/store.ts';
import type { EndingAttempt } from './attempt-output.ts';
import type { Deliveries } from './deliveries.ts';
import { describeError, type Log } from './log.ts';
import { type StartsPort, workflowKeyOf } from './starts.ts';

type InFlight = {
  readonly place: AttemptPlace;
  readonly workflowKey: string;
  readonly executorType: ExecutorType;
  readonly graceMs: number;
  readonly beganUptimeMs: number;
  isObserved: boolean;
  /** Its command is over; its completion is on the way to the database. */
  isOver: boolean;
  /** A stop of it, or of its run, was asked for before its end. */
  isStopping: boolean;
  /** When a stop was carried out on it while it had no result; long ago, where an earlier process may have done so. */
  haltedUptimeMs: number | null;
  cancelDeadline: CancelAlarm | null;
};

export type AttemptsOptions = {
  readonly executor: Executor;
  readonly handlers: HandlerExecutor;
  readonly starts: StartsPort;
  readonly deliveries: Deliveries;
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly trustedFromMs: number;
  /** Begins a launch whose barrier is durable. */
  readonly begin: (launch: Launch) => void;
  readonly log: Log;
};

/** An attempt to look after, started by this process or an earlier one. */
export type WatchedAttempt = {
  readonly place: AttemptPlace;
  readonly packageName: string;
  readonly workflowId: string;
  readonly executorType: ExecutorType;
  readonly graceMs: number;
  /** Null: it is not held to one any more. */
  readonly deadline: Span | null;
  /** A stop of it, or of its run, is durable. */
  readonly isStopping: boolean;
};

/** An attempt is seen alive after a second; noted with the next commit that happens anyway. */
const observedAfterMs = 1_000;

/** Of /proc/uptime, from which a receipt has its time. */
const uptimeTickMs = 10;

export class Attempts {
  readonly #options: AttemptsOptions;
  readonly #inFlight = new Map<string, InFlight>();
  /** With the run of each. */
  readonly #undecided = new Map<string, string>();
  #isClosed = false;

  constructor(options: AttemptsOptions) {
    this.#options = options;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get count(): number {
    return this.#inFlight.size;
  }

  /** Tells every in-process handler to stop: nobody could record what comes of it. */
  stopHandlers(): void {
    for (const { place, executorType } of this.#inFlight.values()) {
      if (executorType === 'handler') {
        this.#options.handlers.stop(place.attemptId);
      }
    }
  }

  ids(): readonly string[] {
    return [...this.#inFlight.keys()];
  }

  has(attemptId: string): boolean {
    return this.#inFlight.has(attemptId);
  }

  /** What is known of an attempt in flight before its end is recorded; null of any other. */
  find(attemptId: string): EndingAttempt | null {
    const entry = this.#inFlight.get(attemptId);
    return entry === undefined ? null : { runId: entry.place.runId, isStopping: entry.isStopping };
  }

  /** Neither its end nor its life can be proven: it is left as it is, and holds no slot. False: that was known. */
  noteUndecided(place: { readonly runId: string; readonly attemptId: string }): boolean {
    const isNew = !this.#undecided.has(place.attemptId);
    this.#undecided.set(place.attemptId, place.runId);
    return isNew;
  }

  /** The runs of what is left undecided. */
  undecidedRuns(): ReadonlySet<string> {
    return new Set(this.#undecided.values());
  }

  isUndecided(attemptId: string): boolean {
    return this.#undecided.has(attemptId);
  }

  /** Last in a turn: starts what there is a slot for, and notes who was seen alive where the turn writes anyway. */
  closing(turn: Turn): void {
    const running = [...this.#inFlight.values()].filter((entry) => !entry.isOver);
    this.#options.starts.fill(
      turn,
      running.map(({ workflowKey }) => workflowKey),
    );
    const nowMs = this.#options.clock.observe().uptimeMs;
    for (const entry of running) {
      if (!entry.isObserved && nowMs - entry.beganUptimeMs >= observedAfterMs && turn.isWriting()) {
        this.#observe(turn, entry);
      }
    }
  }

  #observe(turn: Turn, entry: InFlight): void {
    try {
      turn.operate(operation(observeAttempt, entry.place));
    } catch (error) {
      if (!isEdgeError(error) || error.code !== 'damaged') {
        throw error;
      }
      // Whoever ends it meets the same damage, and sets its run aside.
      entry.isObserved = true;
    }
  }

  /** The observation is durable. */
  noteObserved(attemptId: string): void {
    const entry = this.#inFlight.get(attemptId);
    if (entry !== undefined) {
      entry.isObserved = true;
    }
  }

  /** A barrier became durable: begin, and hold the attempt to its deadline. After `close` it is left to the next. */
  begin(launch: Launch): void {
    if (this.#isClosed) {
      return;
    }
    const { runId, stepRunId, attemptId, packageName, workflowId, executorType, deadline } = launch;
    const place = { runId, stepRunId, attemptId };
    const { graceMs } = launch.task;
    this.watch({ place, packageName, workflowId, executorType, graceMs, deadline, isStopping: false });
    this.#options.begin(launch);
  }

  /** Looks after an attempt from now on, with what is left of its deadline. */
  watch({ place, executorType, graceMs, deadline, isStopping, ...workflow }: WatchedAttempt): void {
    const { alarm, clock, trustedFromMs } = this.#options;
    const now = clock.observe();
    const entry: InFlight = {
      place,
      workflowKey: workflowKeyOf(workflow),
      executorType,
      graceMs,
      beganUptimeMs: now.uptimeMs,
      isObserved: false,
      isOver: false,
      isStopping,
      haltedUptimeMs: isStopping ? Number.NEGATIVE_INFINITY : null,
      cancelDeadline: null,
    };
    this.#undecided.delete(place.attemptId);
    this.#inFlight.set(place.attemptId, entry);
    if (deadline !== null) {
      const ringsAtMs = now.uptimeMs + remainingMs(deadline, now, trustedFromMs);
      entry.cancelDeadline = alarm.set(ringsAtMs, () => this.requestStop(place.attemptId, 'timeout'));
    }
  }

  /** Makes a stop durable; it is carried out when that is (`halt`). A command that has ended keeps its own end. */
  requestStop(attemptId: string, reason: 'timeout' | 'shutdown'): void {
    const entry = this.#inFlight.get(attemptId);
    if (entry !== undefined && !this.#hasEnded(entry)) {
      entry.isStopping = true;
      const stop = operation(requestStop, { ...entry.place, reason });
      void this.#options.deliveries.deliver({
        what: `attempt ${attemptId}: its stop (${reason})`,
        operation: stop,
        // A run whose evidence is damaged takes no intent any more; its command must not keep its slot for that.
        onRefused: () => this.halt(attemptId),
      });
    }
  }

  /** Its result is there, though what it left running, or the rest of its output, may still be waited for. */
  #hasEnded({ isOver, executorType, place }: InFlight): boolean {
    return isOver || (executorType === 'process' && this.#options.executor.hasEnded(place.attemptId));
  }

  /** A cancel is on its way to the database: what ends from now on may count as cancelled, and is kept as such. */
  noteCancel(runId: string): void {
    for (const entry of this.#inFlight.values()) {
      entry.isStopping ||= entry.place.runId === runId;
    }
  }

  /** Effect of a durable stop intent. A start that no command has taken yet is taken back instead. */
  halt(attemptId: string, graceMsMax: number = Number.POSITIVE_INFINITY): void {
    const { executor, handlers } = this.#options;
    const entry = this.#inFlight.get(attemptId);
    if (entry === undefined || entry.isOver) {
      return;
    }
    entry.isStopping = true;
    if (!this.#hasEnded(entry)) {
      entry.haltedUptimeMs ??= this.#options.clock.observe().uptimeMs;
    }
    if (entry.executorType === 'handler') {
      handlers.stop(attemptId);
    } else {
      executor.stop(attemptId, { graceMs: Math.min(entry.graceMs, graceMsMax) });
    }
  }

  /** `halt` for everything of a run that this process looks after. */
  haltRun(runId: string, graceMsMax?: number): void {
    for (const [attemptId, { place }] of this.#inFlight) {
      place.runId === runId && this.halt(attemptId, graceMsMax);
    }
  }

  /**
   * Whether a stop was carried out before a command ended, or may have been. `endUptimeMs` is rounded down to the tick
   * of the kernel's uptime, so a stop within the same tick may have come first.
   */
  isStoppedBefore(attemptId: string, endUptimeMs: number | null): boolean {
    const haltedUptimeMs = this.#inFlight.get(attemptId)?.haltedUptimeMs ?? null;
    return haltedUptimeMs !== null && (endUptimeMs === null || endUptimeMs + uptimeTickMs > haltedUptimeMs);
  }

  /**
   * A command or handler is over: its slot is free, and its deadline met. Once its facts are there (its output is kept
   * first), its completion is offered until the database takes it.
   */
  ended(attemptId: string, facts: AttemptFacts | Promise<AttemptFacts>): void {
    const entry = this.#inFlight.get(attemptId);
    if (entry === undefined || entry.isOver) {
      return;
    }
    entry.isOver = true;
    entry.cancelDeadline?.();
    if (entry.executorType === 'handler') {
      this.#options.starts.noteRun();
    }
    Promise.resolve(facts).then((known) => this.#deliverEnd(entry.place, known), stopOnDefect);
  }

  #deliverEnd(place: AttemptPlace, facts: AttemptFacts): void {
    if (this.#isClosed) {
      return;
    }
    void this.#options.deliveries.deliver({
      what: `attempt ${place.attemptId}: its end`,
      operation: operation(complete, { ...place, facts }),
      onRefused: (error) => this.#abandon(place, error),
    });
  }

  /** The run's evidence is damaged: it is set aside, and its attempt's receipt stays where it is for `doctor`. */
  #abandon({ runId, attemptId }: AttemptPlace, error: unknown): void {
    this.#inFlight.delete(attemptId);
    const code = isEdgeError(error) ? error.code : 'internal';
    const summary = error instanceof Error ? error.message : String(error);
    const aside = operation(setAsideRun, { runId, code, summary });
    void this.#options.deliveries.deliver({ what: `run ${runId}: that it is set aside`, operation: aside });
  }

  /** A completion became durable: the slot is free and the attempt's directory goes. */
  release(attemptId: string): void {
    const entry = this.#inFlight.get(attemptId);
    entry?.cancelDeadline?.();
    this.#inFlight.delete(attemptId);
    this.#undecided.delete(attemptId);
    if (entry?.executorType !== 'handler') {
      this.removeDirectory(attemptId);
    }
  }

  /** What cannot be removed is in nobody's way: the attempt has ended, and the next start sweeps. */
  removeDirectory(attemptId: string): void {
    try {
      this.#options.executor.release(attemptId);
    } catch (error) {
      if (error instanceof InvariantError) {
        throw error;
      }
      this.#options.log(`attempt ${attemptId}: its directory could not be removed: ${describeError(error)}`);
    }
  }

  /** Begins nothing more and takes no ends. What is still asked to stop is stopped: a cancel may be about to answer. */
  close(): void {
    this.#isClosed = true;
    for (const entry of this.#inFlight.values()) {
      entry.cancelDeadline?.();
    }
  }

  /** Lets go of everything without ending it. */
  letGo(): void {
    this.#options.executor.close();
  }
}
