// A runtime among several on one database: one worker after the other, and the verbs, which need no lease. Owns what
// outlives a worker: the shared store, the session that listens, and trying again.
import { resolve } from 'node:path';
import { EdgeError, errorTable, isEdgeError, stopOnDefect } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Alarm, Clock, Ids } from '../core/ports.ts';
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

export type ClusterOptions = {
  readonly engine: Omit<EngineOptions, 'openStore' | 'drives' | 'sharing'>;
  readonly shared: SharedStore;
  readonly leases: Leases;
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly ids: Ids;
};

export type Cluster = {
  /** Resolves when nothing of the whole database runs any more. */
  idle(): Promise<void>;
  close(onStop: OnStop): Promise<void>;
};

const idleLookMs = 500;

/** Opens the first worker; throws what that throws. The store and the leases are closed with it. */
export async function openCluster(options: ClusterOptions): Promise<Cluster> {
  const { engine, shared, leases, clock, alarm, ids } = options;
  const { bootId } = clock.observe();
  const place = `boot ${bootId} run-directory ${runDirectoryOf(resolve(engine.data), engine.runDirectory)}`;
  let hooks: Pick<TurnHooks, 'committed' | 'doubted'> | null = null;
  shared.attach({
    committed: (settled) => hooks?.committed(settled),
    doubted: () => hooks?.doubted?.(),
  });
  let worker: Worker | null = null;
  let isClosing = false;
  const create = (left: readonly string[]) =>
    new Worker({
      left,
      ...{ workerId: ids.fresh(), place, engine, shared, leases, clock, alarm, log: engine.log },
      hook: (next) => {
        hooks = next;
      },
      onOver: (running) => {
        worker = null;
        void next(running);
      },
    });
  const next = async (left: readonly string[]): Promise<void> => {
    if (isClosing) {
      return;
    }
    const fresh = create(left);
    try {
      await fresh.open();
      worker = fresh;
    } catch (error) {
      stopOnDefect(error);
      engine.log(`no worker could be opened yet: ${describeError(error)}`);
      await fresh.close('detach').catch(() => {});
      alarm.set(clock.observe().uptimeMs + limits.redeliveryMs, () => void next(left));
    }
  };
  const first = create([]);
  try {
    await first.open();
    worker = first;
  } catch (error) {
    await first.close('detach').catch(() => {});
    if (!isEdgeError(error) || !errorTable[error.code].isRetryable) {
      throw error;
    }
    engine.log(`no worker could be opened yet: ${describeError(error)}`);
    alarm.set(clock.observe().uptimeMs + limits.redeliveryMs, () => void next([]));
  }
  leases.listen((what) => worker?.heard(what));
  return {
    async idle() {
      for (;;) {
        const counts = await shared.read(read('runCounts', {}));
        if (counts.runningCount === 0) {
          return;
        }
        await new Promise<void>((wake) => {
          alarm.set(clock.observe().uptimeMs + idleLookMs, wake);
        });
      }
    },
    async close(onStop) {
      isClosing = true;
      try {
        await worker?.close(onStop);
      } finally {
        await leases.close();
        await shared.close();
      }
    },
  };
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
