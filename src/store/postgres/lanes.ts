// The bounded inbox of a store of several sessions. Work on one run is done in the order in which it was submitted;
// other work goes side by side. Owns order, bound and closing; knows nothing of databases.
import { EdgeError } from '../../core/errors.ts';

export class Lanes {
  readonly #pendingMax: number;
  /** The end of each lane that has work. */
  readonly #tails = new Map<string, Promise<void>>();
  #pending = 0;
  #isClosing = false;
  readonly #drained = Promise.withResolvers<void>();

  constructor(pendingMax: number) {
    this.#pendingMax = pendingMax;
  }

  /**
   * `lane` is whatever its work must not overtake; null where there is none. Rejects with `busy` beyond the bound, with
   * `unavailable` once closing has begun, and with what `work` threw.
   */
  accept<T>(lane: string | null, work: () => Promise<T>): Promise<T> {
    if (this.#isClosing) {
      return Promise.reject(
        new EdgeError('unavailable', 'this process is stopping and takes no more work', { hint: 'try again later' }),
      );
    }
    if (this.#pending >= this.#pendingMax) {
      return Promise.reject(
        new EdgeError('busy', `${this.#pendingMax} operations are waiting already`, { hint: 'try again in a moment' }),
      );
    }
    return this.#run(lane, work);
  }

  /** As `accept`, of what accepted work led to: it is neither counted out nor kept out by closing. */
  continue<T>(lane: string | null, work: () => Promise<T>): Promise<T> {
    return this.#run(lane, work);
  }

  /** Accepted work drains first. */
  close(): Promise<void> {
    this.#isClosing = true;
    this.#settleIfDrained();
    return this.#drained.promise;
  }

  async #run<T>(lane: string | null, work: () => Promise<T>): Promise<T> {
    this.#pending += 1;
    const before = lane === null ? undefined : this.#tails.get(lane);
    const answer = before === undefined ? work() : before.then(work);
    if (lane !== null) {
      const tail = answer.then(
        () => {},
        () => {},
      );
      this.#tails.set(lane, tail);
      void tail.then(() => {
        if (this.#tails.get(lane) === tail) {
          this.#tails.delete(lane);
        }
      });
    }
    try {
      return await answer;
    } finally {
      this.#pending -= 1;
      this.#settleIfDrained();
    }
  }

  #settleIfDrained(): void {
    if (this.#isClosing && this.#pending === 0) {
      this.#drained.resolve();
    }
  }
}
