// What this process has seen or decided by itself and owes to the database: ends of attempts, stops at a deadline,
// news. Nobody waits for the answer, so an operation that the database does not take now (full, busy) is offered again
// until it does. Owns no decision: what is offered twice must be harmless twice.
import { errorTable, isEdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Alarm, CancelAlarm, Clock } from '../core/ports.ts';
import type { Operation } from '../protocol/protocol.ts';
import type { Store } from '../store/store.ts';
import { describeError, type Log } from './log.ts';

export type Delivery<O> = {
  /** For the log, as in "attempt at-1: its end". */
  readonly what: string;
  readonly operation: Operation<O>;
  /** Called instead of offering it again, where that would never help. */
  readonly onRefused?: (error: unknown) => void;
};

export type DeliveryPorts = {
  readonly store: Pick<Store, 'submit'>;
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly log: Log;
};

export class Deliveries {
  readonly #ports: DeliveryPorts;
  #waiting: (() => void)[] = [];
  #cancelAlarm: CancelAlarm | null = null;
  #isClosed = false;

  constructor(ports: DeliveryPorts) {
    this.#ports = ports;
  }

  /** Resolves with the outcome, durable; with null where it was refused for good, or this process ends before. */
  deliver<O>({ what, operation, onRefused }: Delivery<O>): Promise<O | null> {
    const { store, log } = this.#ports;
    const { promise, resolve } = Promise.withResolvers<O | null>();
    let isTold = false;
    const giveUp = (error: unknown) => {
      if (!this.#isClosed) {
        log(`${what} could not be recorded: ${describeError(error)}`);
        onRefused?.(error);
      }
      resolve(null);
    };
    const offer = () => {
      store.submit(operation).then(resolve, (error: unknown) => {
        if (this.#isClosed || !isTransient(error)) {
          giveUp(error);
          return;
        }
        if (!isTold) {
          isTold = true;
          log(`${what} could not be recorded yet: ${describeError(error)}`);
        }
        this.#offerLater(offer);
      });
    };
    offer();
    return promise;
  }

  /**
   * Takes over what followed another operation and failed alone. What is refused for good was told by the store, and is
   * found again when its run is looked at.
   */
  owe(operation: Operation, error: unknown): void {
    if (!this.#isClosed && isTransient(error)) {
      this.#offerLater(() => void this.deliver({ what: `what follows (${operation.name})`, operation }));
    }
  }

  #offerLater(offer: () => void): void {
    const { clock, alarm } = this.#ports;
    this.#waiting.push(offer);
    // In their order: a stop that came before an end decides over it.
    this.#cancelAlarm ??= alarm.set(clock.observe().uptimeMs + limits.redeliveryMs, () => {
      this.#cancelAlarm = null;
      const waiting = this.#waiting;
      this.#waiting = [];
      for (const again of waiting) {
        again();
      }
    });
  }

  /** Offers nothing any more; what is durable is what the next process goes on from. */
  close(): void {
    this.#isClosed = true;
    this.#cancelAlarm?.();
    this.#waiting = [];
  }
}

/** Whether the same may be taken another time. */
export function isTransient(error: unknown): boolean {
  return isEdgeError(error) && errorTable[error.code].isRetryable;
}
