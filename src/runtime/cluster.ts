// A runtime among several on one database: one worker after the other, and the verbs, which need no lease. Owns what
// outlives a worker: the shared store, the session that listens, and trying again.
import { resolve } from 'node:path';
import { EdgeError, errorTable, isEdgeError, stopOnDefect } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Alarm, CancelAlarm, Clock, Ids } from '../core/ports.ts';
import { isTerminalAttempt } from '../core/states.ts';
import { type CancelOutcome, cancel } from '../protocol/cancel.ts';
import { operation } from '../protocol/protocol.ts';
import { read } from '../protocol/reads.ts';
import type { Leases, SharedStore } from '../store/leases.ts';
import type { TurnHooks } from '../store/store.ts';
import { checkArguments } from './arguments.ts';
import type { EngineOptions } from './engine.ts';
import { describeError } from './log.ts';
import { runDirectoryOf } from './run-directory.ts';
import type { OnStop } from './settings.ts';
import { Worker } from './worker.ts';

type WorkerHooks = Pick<TurnHooks, 'committed' | 'doubted' | 'owed'>;

export type ClusterOptions = {
  readonly engine: Omit<EngineOptions, 'openStore' | 'drives' | 'sharing'>;
  readonly shared: SharedStore;
  readonly leases: Leases;
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly ids: Ids;
};

const idleLookMs = 500;

/** One worker after the other: when the lease of one is over, the next begins with what that one left running. */
export class Cluster {
  readonly #options: ClusterOptions;
  #hooks: WorkerHooks | null = null;
  #worker: Worker | null = null;
  /** Runs whose commands run on, while there is no worker that looks after them. */
  #left: readonly string[] = [];
  #opening: Promise<unknown> = Promise.resolve();
  #cancelBegin: CancelAlarm | null = null;
  #isClosing = false;

  private constructor(options: ClusterOptions) {
    this.#options = options;
  }

  /**
   * Opens the first worker; where the database cannot be reached now, that is tried again. Throws whatever else that
   * throws. Closing it leaves the store and the leases open.
   */
  static async open(options: ClusterOptions): Promise<Cluster> {
    const cluster = new Cluster(options);
    const { shared, leases } = options;
    shared.attach({
      committed: (settled) => cluster.#hooks?.committed(settled),
      doubted: () => cluster.#hooks?.doubted?.(),
      owed: (operation, error) => cluster.#hooks?.owed?.(operation, error),
    });
    try {
      await cluster.#begin([]);
    } catch (error) {
      if (!isEdgeError(error) || !errorTable[error.code].isRetryable) {
        throw error;
      }
      cluster.#beginLater([], error);
    }
    leases.listen((what) => cluster.#worker?.heard(what));
    return cluster;
  }

  async #begin(left: readonly string[]): Promise<void> {
    const { engine, clock, ids, ...ports } = this.#options;
    const { bootId } = clock.observe();
    const worker = new Worker({
      ...{ ...ports, engine, clock, left, log: engine.log, workerId: ids.fresh() },
      place: `boot ${bootId} run-directory ${runDirectoryOf(resolve(engine.data), engine.runDirectory)}`,
      hook: (hooks) => {
        this.#hooks = hooks;
      },
      onOver: (running) => {
        this.#worker = null;
        this.#left = running;
        this.#begin(running).catch((error: unknown) => this.#beginLater(running, error));
      },
    });
    if (this.#isClosing) {
      return;
    }
    const opened = worker.open();
    this.#opening = opened.catch(() => {});
    try {
      await opened;
      this.#worker = worker;
      this.#left = [];
    } catch (error) {
      await worker.close('detach').catch(stopOnDefect);
      throw error;
    }
  }

  #beginLater(left: readonly string[], error: unknown): void {
    const { engine, clock, alarm } = this.#options;
    stopOnDefect(error);
    engine.log(`no worker could be opened yet: ${describeError(error)}`);
    if (this.#isClosing) {
      return;
    }
    this.#cancelBegin = alarm.set(clock.observe().uptimeMs + limits.redeliveryMs, () => {
      this.#begin(left).catch((reason: unknown) => this.#beginLater(left, reason));
    });
  }

  /** Resolves when nothing of the whole database runs any more; while that cannot be told, it is looked again. */
  async idle(): Promise<void> {
    const { shared, clock, alarm } = this.#options;
    for (;;) {
      const counts = await shared.read(read('runCounts', {})).catch(nullIfTransient);
      if (counts?.runningCount === 0) {
        return;
      }
      await new Promise<void>((wake) => {
        alarm.set(clock.observe().uptimeMs + idleLookMs, wake);
      });
    }
  }

  async close(onStop: OnStop): Promise<void> {
    const { engine } = this.#options;
    this.#isClosing = true;
    this.#cancelBegin?.();
    await this.#opening;
    if (this.#worker === null && this.#left.length > 0) {
      engine.log(`without a lease nothing can be stopped: commands of ${this.#left.length} runs go on here`);
    }
    await this.#worker?.close(onStop);
  }
}

/** Null for what may be otherwise in a moment; throws everything else. */
function nullIfTransient(error: unknown): null {
  if (!isEdgeError(error) || !errorTable[error.code].isRetryable) {
    throw error;
  }
  return null;
}

const cancelLookMs = 50;
const cancelAnswerMsMax = 30_000;

export type CancelPorts = Pick<ClusterOptions, 'shared' | 'leases' | 'clock' | 'alarm'>;

/**
 * Records the intent, wakes whoever holds the run, and answers when no command of it can start any more. Throws
 * `unavailable` where that cannot be told in time; the intent stands all the same.
 */
export async function cancelShared(
  { shared, leases, clock, alarm }: CancelPorts,
  { runId, requestedBy }: { readonly runId: string; readonly requestedBy: string },
): Promise<CancelOutcome> {
  checkArguments({ runId, requestedBy });
  const outcome = await shared.submit(operation(cancel, { runId, reason: 'user', requestedBy }));
  if (outcome.kind === 'settled' || outcome.kind === 'not-found') {
    return outcome;
  }
  // Also where it has ended with that: whoever holds it lets it go.
  await leases.notify(runId);
  const untilMs = clock.observe().uptimeMs + cancelAnswerMsMax;
  while (clock.observe().uptimeMs < untilMs) {
    const rows = await shared.read(read('run', { runId }));
    const inFlight = [...(rows?.attempts.values() ?? [])].filter(({ status }) => !isTerminalAttempt(status));
    const lease = inFlight.length === 0 ? null : await leases.find(runId);
    // Where nobody holds it any more, launchers have let their starts go.
    if (lease === null || !lease.isHeld || lease.hasHalted) {
      return outcome;
    }
    await new Promise<void>((wake) => {
      alarm.set(clock.observe().uptimeMs + cancelLookMs, wake);
    });
  }
  throw new EdgeError('unavailable', `run ${runId} is cancelled, but its runtime has not said that it stopped it`, {
    hint: 'look at the run; its commands are ended when that runtime is reached, or when its lease is over',
  });
}
