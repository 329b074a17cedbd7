// One piece of work on package files at a time: a sweep must not meet a copy whose installation is not committed yet.
// Owns when files are removed while the process lives: after a change of packages, and when the last run ends that
// kept them.
import type { PackageHolders } from './package-holders.ts';

export type PackageLane = {
  /** Carries out what somebody asked for, after everything before it. */
  inTurn<T>(work: () => Promise<T>): Promise<T>;
  /** Told of every run that ends. Must not throw, and does nothing for nearly every one. */
  runEnded(runId: string): void;
  /** For the end of the process: finishes a removal that was begun, unless somebody's own work is before it. */
  close(): Promise<void>;
};

/** `sweep` removes what nothing needs any more, and never rejects. */
export function createPackageLane(options: {
  readonly holders: PackageHolders;
  readonly sweep: () => Promise<void>;
}): PackageLane {
  let last: Promise<unknown> = Promise.resolve();
  let askedCount = 0;
  let isClosed = false;
  const follow = <T>(work: () => Promise<T>): Promise<T> => {
    const next = last.then(work);
    // Its failure is told to whoever asked for it, and keeps nobody from their turn.
    last = next.catch(() => {});
    return next;
  };
  return {
    async inTurn(work) {
      askedCount += 1;
      try {
        return await follow(work);
      } finally {
        askedCount -= 1;
      }
    },
    runEnded(runId) {
      if (options.holders.ended(runId) && !isClosed) {
        void follow(options.sweep);
      }
    },
    async close() {
      isClosed = true;
      // A copy of 64 MiB is not waited for: what it leaves is removed by the next start.
      if (askedCount === 0) {
        await last;
      }
    },
  };
}
