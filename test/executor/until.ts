// Not a test itself.

/** Lets the event loop turn until something that surely happens has happened. */
export async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Lets the event loop turn so many times: a moment of something that is going on which differs from try to try. */
export async function turn(times: number): Promise<void> {
  for (let turns = 0; turns < times; turns += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}
