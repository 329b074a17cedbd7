// The event loop of the simulator: what the store puts off with `setImmediate` waits here until the scenario lets it
// go on, one turn at a time, so that anything may happen in between. Promises settle by themselves. Owns the one
// global that is replaced for it; a process that imports this runs nothing but simulations.
const realSetImmediate = globalThis.setImmediate;

export type Loop = {
  /** How many turns wait. */
  pending(): number;
  /** Lets the oldest one go on. */
  runOne(): void;
  /** Nothing that waits will ever happen: the process that waited is dead. */
  clear(): void;
  /** Resolves when no promise is left that could go on by itself. */
  drain(): Promise<void>;
  /** What was thrown where nobody catches it since the last time this was asked. */
  takeDefects(): readonly unknown[];
};

/** Once in a process. */
export function takeOverLoop(): Loop {
  const waiting: (() => void)[] = [];
  const defects: unknown[] = [];
  const put = (run: (...values: unknown[]) => void, ...values: unknown[]) => {
    waiting.push(() => run(...values));
  };
  globalThis.setImmediate = put as unknown as typeof setImmediate;
  process.on('uncaughtException', (error) => defects.push(error));
  process.on('unhandledRejection', (error) => defects.push(error));
  return {
    pending: () => waiting.length,
    runOne: () => waiting.shift()?.(),
    clear() {
      waiting.length = 0;
    },
    drain: () => new Promise((resolve) => realSetImmediate(resolve)),
    takeDefects: () => defects.splice(0),
  };
}
