// Counts the points of one scenario, and keeps what failed.
export type Tally = {
  /** Tries one point: `work` answers what was wrong. Whatever it throws is wrong, too. */
  point(what: string, work: () => Promise<readonly string[]>): Promise<void>;
  /** A figure beside `tried` and `held`. */
  note(name: string, value: number): void;
  readonly figures: () => Readonly<Record<string, number>>;
  readonly failures: readonly string[];
};

/** A report is read by people: of many failures these are told, and the rest are counted. */
const failuresToldMax = 40;

export function createTally(): Tally {
  const failures: string[] = [];
  const notes: Record<string, number> = {};
  let [tried, held, untold] = [0, 0, 0];
  const fail = (line: string) => {
    if (failures.length < failuresToldMax) {
      failures.push(line);
    } else {
      untold += 1;
    }
  };
  return {
    async point(what, work) {
      tried += 1;
      const troubles = await work().catch((error: unknown) => [`the trial itself failed: ${describe(error)}`]);
      held += troubles.length === 0 ? 1 : 0;
      for (const trouble of troubles) {
        fail(`${what}: ${trouble}`);
      }
    },
    note(name, value) {
      notes[name] = value;
    },
    figures: () => ({ tried, held, ...notes, ...(untold > 0 ? { untold } : {}) }),
    failures,
  };
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message).slice(0, 600) : String(error);
}
