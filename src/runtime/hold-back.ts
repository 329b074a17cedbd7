// Holding all starts back for a while, for what concerns them alike: a full run directory or disk, no process or file
// to spare. Owns how long; who is held back decides what is done then.
import { limits } from '../core/limits.ts';
import type { Clock } from '../core/ports.ts';
import type { Log } from './log.ts';

export class HoldBack {
  readonly #clock: Clock;
  readonly #log: Log;
  #holdMs = 0;
  #untilMs = Number.NEGATIVE_INFINITY;
  #why: string | null = null;

  constructor({ clock, log }: { readonly clock: Clock; readonly log: Log }) {
    this.#clock = clock;
    this.#log = log;
  }

  /** From 1 s, doubling to 60 s with every time that it did not help. False where it holds back already. */
  begin(why: string): boolean {
    const nowMs = this.#clock.observe().uptimeMs;
    if (nowMs < this.#untilMs) {
      return false;
    }
    if (this.#holdMs === 0) {
      this.#log(`nothing is started for now, and tried again: ${why}`);
    }
    this.#holdMs = Math.min(limits.unstartedBackoffMsMax, Math.max(limits.unstartedBackoffMsMin, 2 * this.#holdMs));
    this.#untilMs = nowMs + this.#holdMs;
    this.#why = why;
    return true;
  }

  /** Uptime until which nothing is started; in the past where nothing keeps it back. */
  get untilMs(): number {
    return this.#untilMs;
  }

  /** Why nothing is started now; null where nothing keeps it back. */
  get why(): string | null {
    return this.#why;
  }

  /** What was ready was looked at: whether it helped is told by what runs. */
  looked(): void {
    this.#why = null;
  }

  /** A command has run. True where that ends it. */
  end(): boolean {
    if (this.#holdMs === 0) {
      return false;
    }
    this.#holdMs = 0;
    this.#why = null;
    this.#untilMs = Number.NEGATIVE_INFINITY;
    this.#log('commands are started again');
    return true;
  }
}
