// Which runs alone keep files of a generation that was replaced or removed, so that these files go when the last of
// them ends. Costs nothing while there is none, which is nearly always: no alarm, no read, no row.
import { limits } from '../core/limits.ts';

export type PackageHolders = {
  /**
   * Carries out one look at all runs; `hold` is told each one that keeps such files. Answers whether to look again at
   * once, because all of those that are remembered have ended meanwhile.
   */
  look(find: (hold: (runId: string) => void) => Promise<void>): Promise<boolean>;
  /** Whether this was the last one that is remembered: then it is time to look again. */
  ended(runId: string): boolean;
};

export function createPackageHolders(): PackageHolders {
  // A page of them is enough: when these have ended, the next look finds the others.
  let remembered = new Set<string>();
  let endedMeanwhile: Set<string> | null = null;
  return {
    async look(find) {
      const found = new Set<string>();
      const ended = new Set<string>();
      endedMeanwhile = ended;
      try {
        await find((runId) => {
          if (found.size < limits.pageMax) {
            found.add(runId);
          }
        });
      } finally {
        endedMeanwhile = null;
      }
      remembered = found.difference(ended);
      return found.size > 0 && remembered.size === 0;
    },
    ended(runId) {
      endedMeanwhile?.add(runId);
      return remembered.delete(runId) && remembered.size === 0;
    },
  };
}
