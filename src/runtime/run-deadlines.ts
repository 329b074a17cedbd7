// The timeouts of runs: one alarm entry for each running run that has one. At its end a cancel intent (`timeout`) is
// recorded; what follows is the cancellation's.
import { remainingMs } from '../core/deadline.ts';
import { limits } from '../core/limits.ts';
import type { Alarm, CancelAlarm, Clock } from '../core/ports.ts';
import type { Run } from '../core/records.ts';
import { isTerminalRun } from '../core/states.ts';
import { cancel } from '../protocol/cancel.ts';
import { operation } from '../protocol/protocol.ts';
import { read } from '../protocol/reads.ts';
import type { Store } from '../store/store.ts';
import { type Deliveries, isTransient } from './deliveries.ts';
import { describeError, type Log } from './log.ts';

export type RunDeadlinesOptions = {
  readonly store: Pick<Store, 'read'>;
  readonly deliveries: Deliveries;
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly trustedFromMs: number;
  readonly log: Log;
};

export class RunDeadlines {
  readonly #options: RunDeadlinesOptions;
  readonly #alarms = new Map<string, CancelAlarm>();
  /** Held by uptime alone: they began in an earlier boot, and the wall clock could not be believed yet. */
  readonly #untrusted = new Set<string>();
  /** Their time is over, whether or not that could be recorded yet. */
  readonly #over = new Set<string>();
  #isClosed = false;

  constructor(options: RunDeadlinesOptions) {
    this.#options = options;
  }

  /** Holds a run to what is left of its deadline; a second time it is set anew. */
  hold(run: Run): void {
    const { clock, alarm, trustedFromMs } = this.#options;
    const { id: runId, deadline } = run;
    this.forget(runId);
    if (deadline === null || isTerminalRun(run.status) || this.#isClosed) {
      return;
    }
    const now = clock.observe();
    if (deadline.bootId !== now.bootId && now.wallMs < trustedFromMs) {
      this.#untrusted.add(runId);
    }
    const leftMs = remainingMs(deadline, now, trustedFromMs);
    if (leftMs === 0) {
      this.#over.add(runId);
    }
    this.#alarms.set(
      runId,
      alarm.set(now.uptimeMs + leftMs, () => this.#ring(runId)),
    );
  }

  /** The same for a run of which only the id is known; tried again until it was read. */
  find(runId: string): void {
    const { store, clock, alarm, log } = this.#options;
    store.read(read('run', { runId })).then(
      (rows) => {
        if (rows !== null) {
          this.hold(rows.run);
        }
      },
      (error: unknown) => {
        if (this.#isClosed) {
          return;
        }
        log(`run ${runId}: its timeout is not watched: ${describeError(error)}`);
        // A full inbox must not let a run go beyond its timeout.
        if (isTransient(error)) {
          const again = clock.observe().uptimeMs + limits.redeliveryMs;
          this.#alarms.set(
            runId,
            alarm.set(again, () => this.find(runId)),
          );
        }
      },
    );
  }

  /** Whether the time of a run is over: nothing of it is started then, also while the disk takes no intent. */
  isOver(runId: string): boolean {
    return this.#over.has(runId);
  }

  forget(runId: string): void {
    this.#alarms.get(runId)?.();
    this.#alarms.delete(runId);
    this.#untrusted.delete(runId);
    this.#over.delete(runId);
  }

  /** Called when there is something to do anyway: once the clock is believed, it may tell that more time has gone. */
  lookAtClock(): void {
    if (this.#untrusted.size > 0 && this.#options.clock.observe().wallMs >= this.#options.trustedFromMs) {
      const runIds = [...this.#untrusted];
      this.#untrusted.clear();
      for (const runId of runIds) {
        this.find(runId);
      }
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const cancelAlarm of this.#alarms.values()) {
      cancelAlarm();
    }
    this.#alarms.clear();
  }

  #ring(runId: string): void {
    this.forget(runId);
    this.#over.add(runId);
    const intent = operation(cancel, { runId, reason: 'timeout', requestedBy: 'runtime' });
    void this.#options.deliveries.deliver({ what: `run ${runId}: its timeout`, operation: intent });
  }
}
