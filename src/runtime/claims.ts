// Claiming runs that nobody holds: when, and how many. Owns that one claim is under way at a time; what becomes of a
// run that was claimed is for the worker.
import { stopOnDefect } from '../core/errors.ts';
import type { Clock } from '../core/ports.ts';
import { describeError, type Log } from './log.ts';

export type ClaimsOptions = {
  readonly clock: Clock;
  /** How many commands may run at once here. */
  readonly concurrency: number;
  readonly mayClaim: () => boolean;
  /** How many more runs there is room for, where so many commands are about to end. */
  readonly room: (ahead: number) => number;
  readonly claim: (limit: number) => Promise<void>;
  readonly log: Log;
};

/** As many as have ended in that time are claimed ahead: where commands are short, no slot stands empty meanwhile. */
const lookBackMs = 1_000;

export class Claims {
  readonly #options: ClaimsOptions;
  /** Uptimes at which runs have ended here, the latest `concurrency` of them. */
  #endedMs: number[] = [];
  #isUnderWay = false;
  /** Whether the next one is sent without room as well: for what was left in this place. */
  #isDue = false;
  #isAskedAgain = false;

  constructor(options: ClaimsOptions) {
    this.#options = options;
  }

  get isUnderWay(): boolean {
    return this.#isUnderWay;
  }

  noteEnd(): void {
    const { clock, concurrency } = this.#options;
    this.#endedMs = [...this.#endedMs, clock.observe().uptimeMs].slice(-concurrency);
  }

  /** From time to time: also where there is room for nothing new. */
  look(): void {
    this.#isDue = true;
    this.soon();
  }

  soon(): void {
    const { mayClaim, log } = this.#options;
    if (!mayClaim()) {
      return;
    }
    if (this.#isUnderWay) {
      this.#isAskedAgain = true;
      return;
    }
    this.#isUnderWay = true;
    this.#claim()
      .catch((error: unknown) => {
        stopOnDefect(error);
        log(`no run was claimed: ${describeError(error)}`);
      })
      .finally(() => {
        this.#isUnderWay = false;
        if (this.#isAskedAgain) {
          this.#isAskedAgain = false;
          this.soon();
        }
      });
  }

  /** Others get what no slot is free for here, unless one is about to be. */
  async #claim(): Promise<void> {
    const { clock, room, claim } = this.#options;
    const sinceMs = clock.observe().uptimeMs - lookBackMs;
    this.#endedMs = this.#endedMs.filter((endedMs) => endedMs > sinceMs);
    const wanted = room(this.#endedMs.length);
    const isDue = this.#isDue;
    this.#isDue = false;
    if (wanted > 0 || isDue) {
      await claim(Math.max(0, wanted));
    }
  }
}
