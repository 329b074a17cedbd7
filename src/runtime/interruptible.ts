// An iteration that whoever follows it can leave while it waits. A generator alone cannot: its `return` queues up
// behind the `next` that waits, for as long as that takes. No `Promise.race` with the end: that would keep something of
// every round for as long as the iteration lives.

export type Leaving = {
  /** Whether `return` was called: nobody takes what comes. */
  readonly isLeft: boolean;
  /** Waits for `promise`, or for the end of the iteration. */
  orUntilLeft(promise: Promise<void>): Promise<void>;
};

type Step<T> = IteratorResult<T, void>;

/**
 * `begin` makes the generator; what it waits for without a bound it must wait for through `orUntilLeft`, and look at
 * `isLeft` then. After `return` nothing more comes, and a `next` that waits is done at once.
 */
export function interruptible<T>(begin: (leaving: Leaving) => AsyncGenerator<T, void>): AsyncIterableIterator<T, void> {
  const done = { done: true, value: undefined } as const;
  const waiting = new Set<(step: Step<T>) => void>();
  let isLeft = false;
  let wake = (): void => {};
  const generator = begin({
    get isLeft() {
      return isLeft;
    },
    orUntilLeft: (promise) =>
      new Promise((resolve, reject) => {
        wake = resolve;
        promise.then(resolve, reject);
      }),
  });
  const iterator: AsyncIterableIterator<T, void> = {
    next: () =>
      new Promise((resolve, reject) => {
        if (isLeft) {
          resolve(done);
          return;
        }
        waiting.add(resolve);
        const settle = () => waiting.delete(resolve);
        generator.next().then(resolve, reject).finally(settle);
      }),
    async return() {
      isLeft = true;
      wake();
      for (const resolve of waiting) {
        resolve(done);
      }
      // It comes back when what it waited for has noticed; nobody waits for that.
      generator.return().catch(() => {});
      return done;
    },
    [Symbol.asyncIterator]: () => iterator,
  };
  return iterator;
}
