// The attempts that this process looks after, started here or adopted, and the two ends of every turn: `closing` fills
// free slots before COMMIT, `committed` carries out what became durable. Decides nothing about runs.
import type { AttemptFacts } from '../core/completion.ts';
import { remainingMs } from '../core/deadline.ts';
import { InvariantError, isEdgeError, stopOnDefect } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Alarm, CancelAlarm, Clock } from '../core/ports.ts';
import type { Span } from '../core/records.ts';
import type { ExecutorType } from '../core/states.ts';
import type { Executor } from '../executor/executor.ts';
import type { HandlerExecutor } from '../executor/handlers.ts';
import {
  type AttemptPlace,
  admitAttempt,
  complete,
  type Launch,
  observeAttempt,
  requestStop,
  startAttempt,
} from '../protocol/attempt.ts';
import { operation } from '../protocol/protocol.ts';
import { type RunCursor, read, type StepPage, type StepPlace } from '../protocol/reads.ts';
import { setAsideRun } from '../protocol/set-aside.ts';
import type { Store, Turn } from '../store/store.ts';
import { describeError, type Log } from './log.ts';

type InFlight = {
  readonly place: AttemptPlace;
  readonly executorType: ExecutorType;
  readonly graceMs: number;
  readonly beganUptimeMs: number;
  isObserved: boolean;
  /** Its command is over; its completion is on the way to the database. */
  isOver: boolean;
  cancelDeadline: CancelAlarm | null;
};

export type AttemptsOptions = {
  readonly store: Store;
  readonly executor: Executor;
  readonly handlers: HandlerExecutor;
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly concurrencyMax: number;
  readonly trustedFromMs: number;
  /** Begins a launch whose barrier is durable. */
  readonly begin: (launch: Launch) => void;
  readonly log: Log;
};

/** An attempt is seen alive after a second; noted with the next commit that happens anyway. */
const observedAfterMs = 1_000;

export class Attempts {
  readonly #options: AttemptsOptions;
  readonly #inFlight = new Map<string, InFlight>();
  /** Ends that the database did not take yet: a full disk, a busy file. */
  readonly #undelivered = new Map<string, AttemptFacts>();
  readonly #undecided = new Set<string>();
  #isStarting = false;
  #cancelDue: CancelAlarm | null = null;
  #cancelRedelivery: CancelAlarm | null = null;

  constructor(options: AttemptsOptions) {
    this.#options = options;
  }

  /** From now on turns start what is ready. Until then, and after `pause`, they only record. */
  resume(): void {
    this.#isStarting = true;
    this.#options.store.wake();
  }

  pause(): void {
    this.#isStarting = false;
    this.#cancelDue?.();
    this.#cancelDue = null;
  }

  get count(): number {
    return this.#inFlight.size;
  }

  ids(): readonly string[] {
    return [...this.#inFlight.keys()];
  }

  has(attemptId: string): boolean {
    return this.#inFlight.has(attemptId);
  }

  /** Neither its end nor its life can be proven: it is left as it is, and holds no slot. */
  noteUndecided(attemptId: string): void {
    this.#undecided.add(attemptId);
  }

  isUndecided(attemptId: string): boolean {
    return this.#undecided.has(attemptId);
  }

  /** Last in a turn: admits and starts as many ready steps as there are free slots, oldest run first. */
  closing(turn: Turn): void {
    if (!this.#isStarting) {
      return;
    }
    const busy = [...this.#inFlight.values()].filter((entry) => !entry.isOver).length;
    let free = this.#options.concurrencyMax - busy;
    let waitMs = Number.POSITIVE_INFINITY;
    let after: RunCursor | null = null;
    // Without a free slot nothing is looked for: the end of an attempt makes the next turn.
    while (free > 0) {
      const page: StepPage = turn.read(read('readySteps', { limit: limits.pageMax, after }));
      for (const step of page.steps) {
        const begun = free > 0 ? this.#startStep(turn, step) : 'none';
        if (begun === 'started') {
          free -= 1;
        } else if (begun !== 'none') {
          waitMs = Math.min(waitMs, begun.waitMs);
        }
      }
      if (page.next === null) {
        break;
      }
      after = page.next;
    }
    this.#observe(turn);
    this.#setDueAlarm(waitMs);
  }

  #startStep(turn: Turn, step: StepPlace): 'started' | 'none' | { readonly waitMs: number } {
    const { executor, handlers, log } = this.#options;
    try {
      const admitted = turn.operate(operation(admitAttempt, { ...step, handlerNames: handlers.names }));
      if (admitted.kind === 'not-due') {
        return { waitMs: admitted.waitMs };
      }
      if (admitted.kind === 'refused' || admitted.kind === 'exhausted') {
        return 'none';
      }
      const { attemptId } = admitted;
      // Before the barrier: where the directory cannot be made, nothing was ever about to start.
      executor.prepare(attemptId);
      return turn.operate(operation(startAttempt, { ...step, attemptId })).kind === 'started' ? 'started' : 'none';
    } catch (error) {
      stopOnDefect(error);
      log(`run ${step.runId}: a step could not be started: ${describeError(error)}`);
      this.#setAside(turn, step.runId, error);
      return 'none';
    }
  }

  #setAside(turn: Turn, runId: string, error: unknown): void {
    if (isEdgeError(error) && error.code === 'damaged') {
      turn.operate(operation(setAsideRun, { runId, code: error.code, summary: error.message }));
    }
  }

  #observe(turn: Turn): void {
    const nowMs = this.#options.clock.observe().uptimeMs;
    for (const entry of this.#inFlight.values()) {
      if (!entry.isObserved && !entry.isOver && nowMs - entry.beganUptimeMs >= observedAfterMs && turn.isWriting()) {
        entry.isObserved = true;
        turn.operate(operation(observeAttempt, entry.place));
      }
    }
  }

  #setDueAlarm(waitMs: number): void {
    const { alarm, clock, store } = this.#options;
    this.#cancelDue?.();
    this.#cancelDue = Number.isFinite(waitMs)
      ? alarm.set(clock.observe().uptimeMs + Math.min(waitMs, limits.alarmMsMax), () => store.wake())
      : null;
  }

  /** A barrier became durable: begin, and hold the attempt to its deadline. */
  begin(launch: Launch): void {
    const { runId, stepRunId, attemptId } = launch;
    this.watch({
      place: { runId, stepRunId, attemptId },
      executorType: launch.executorType,
      graceMs: launch.task.graceMs,
      deadline: launch.deadline,
    });
    this.#options.begin(launch);
  }

  /** Looks after an attempt from now on, with what is left of its deadline. */
  watch(attempt: {
    readonly place: AttemptPlace;
    readonly executorType: ExecutorType;
    readonly graceMs: number;
    readonly deadline: Span | null;
  }): void {
    const { alarm, clock, trustedFromMs } = this.#options;
    const { place, executorType, graceMs, deadline } = attempt;
    const now = clock.observe();
    const entry: InFlight = {
      place,
      executorType,
      graceMs,
      beganUptimeMs: now.uptimeMs,
      isObserved: false,
      isOver: false,
      cancelDeadline: null,
    };
    this.#inFlight.set(place.attemptId, entry);
    if (deadline !== null) {
      const ringsAtMs = now.uptimeMs + remainingMs(deadline, now, trustedFromMs);
      entry.cancelDeadline = alarm.set(ringsAtMs, () => this.#submitStop(place, 'timeout'));
    }
  }

  #submitStop(place: AttemptPlace, reason: 'timeout' | 'shutdown'): void {
    const { store, log, alarm, clock } = this.#options;
    store.submit(operation(requestStop, { ...place, reason })).catch((error: unknown) => {
      log(`attempt ${place.attemptId}: the stop could not be recorded: ${describeError(error)}`);
      const entry = this.#inFlight.get(place.attemptId);
      if (entry !== undefined && reason === 'timeout') {
        const again = clock.observe().uptimeMs + observedAfterMs;
        entry.cancelDeadline = alarm.set(again, () => this.#submitStop(place, reason));
      }
    });
  }

  /** Records a stop of everything in flight, for a shutdown; the stops follow when that is durable. */
  requestShutdown(): void {
    for (const { place } of this.#inFlight.values()) {
      this.#submitStop(place, 'shutdown');
    }
  }

  /** Effect of a durable stop intent. A start that no command has taken yet is taken back instead. */
  halt(attemptId: string, graceMsMax: number = Number.POSITIVE_INFINITY): void {
    const { executor, handlers } = this.#options;
    const entry = this.#inFlight.get(attemptId);
    if (entry === undefined || entry.isOver) {
      return;
    }
    if (entry.executorType === 'handler') {
      handlers.stop(attemptId);
    } else {
      executor.stop(attemptId, { graceMs: Math.min(entry.graceMs, graceMsMax) });
    }
  }

  /** A command or handler is over. Its completion is submitted until the database takes it. */
  ended(attemptId: string, facts: AttemptFacts): void {
    const entry = this.#inFlight.get(attemptId);
    if (entry === undefined || entry.isOver) {
      return;
    }
    entry.isOver = true;
    entry.cancelDeadline?.();
    this.#deliver(entry.place, facts);
  }

  #deliver(place: AttemptPlace, facts: AttemptFacts): void {
    const { store, log } = this.#options;
    store.submit(operation(complete, { ...place, facts })).catch((error: unknown) => {
      log(`attempt ${place.attemptId}: its end could not be recorded: ${describeError(error)}`);
      if (isEdgeError(error) && error.code === 'damaged') {
        this.#abandon(place, error.message);
        return;
      }
      this.#undelivered.set(place.attemptId, facts);
      this.#scheduleRedelivery();
    });
  }

  /** The run's evidence is damaged: it is set aside, and its attempt's receipt stays where it is for `doctor`. */
  #abandon(place: AttemptPlace, summary: string): void {
    const { store, log } = this.#options;
    this.#inFlight.delete(place.attemptId);
    store
      .submit(operation(setAsideRun, { runId: place.runId, code: 'damaged', summary }))
      .catch((error: unknown) => log(`run ${place.runId}: could not be set aside: ${describeError(error)}`));
  }

  #scheduleRedelivery(): void {
    const { alarm, clock } = this.#options;
    if (this.#cancelRedelivery !== null) {
      return;
    }
    const nowMs = clock.observe().uptimeMs;
    this.#cancelRedelivery = alarm.set(nowMs + limits.redeliveryMs, () => {
      this.#cancelRedelivery = null;
      const waiting = [...this.#undelivered];
      this.#undelivered.clear();
      for (const [attemptId, facts] of waiting) {
        const entry = this.#inFlight.get(attemptId);
        if (entry !== undefined) {
          this.#deliver(entry.place, facts);
        }
      }
    });
  }

  /** A completion became durable: the slot is free and the attempt's directory goes. */
  release(attemptId: string): void {
    const entry = this.#inFlight.get(attemptId);
    entry?.cancelDeadline?.();
    this.#inFlight.delete(attemptId);
    if (entry?.executorType !== 'handler') {
      this.#removeDirectory(attemptId);
    }
  }

  /** What cannot be removed is in nobody's way: the attempt has ended, and the next start sweeps. */
  #removeDirectory(attemptId: string): void {
    try {
      this.#options.executor.release(attemptId);
    } catch (error) {
      if (error instanceof InvariantError) {
        throw error;
      }
      this.#options.log(`attempt ${attemptId}: its directory could not be removed: ${describeError(error)}`);
    }
  }

  /** Lets go of everything without ending it. */
  close(): void {
    this.pause();
    this.#cancelRedelivery?.();
    for (const entry of this.#inFlight.values()) {
      entry.cancelDeadline?.();
    }
    this.#options.executor.close();
  }
}
