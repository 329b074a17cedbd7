// How many commands may still be started here, where several processes share a database: what runs, what is being
// started and what is kept for a start on its way are told apart, so that none is counted twice. Decides nothing.

/** A slot that is kept until it is taken by a start, or let go. */
export type KeptSlot = {
  /** Keeps it again, where a try of the transaction has begun anew. */
  readonly keep: () => void;
  /** False where it was taken already. */
  readonly take: () => boolean;
};

export class Slots {
  readonly #max: number;
  #running: readonly string[] = [];
  /** Steps that are being started, each with its run. */
  readonly #starting = new Map<string, string>();
  /** Slots that are kept, each with the run. */
  readonly #kept = new Map<object, string>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Negative where more runs than may: what was adopted. */
  get free(): number {
    return this.#max - this.#running.length - this.#starting.size - this.#kept.size;
  }

  /** Takes what runs now; whether that is less than before. */
  setRunning(running: readonly string[]): boolean {
    const isLess = running.length < this.#running.length;
    this.#running = running;
    return isLess;
  }

  isStartingStep(stepRunId: string): boolean {
    return this.#starting.has(stepRunId);
  }

  /** Also where that is only about to be decided. */
  isStartingRun(runId: string): boolean {
    return [...this.#starting.values(), ...this.#kept.values()].includes(runId);
  }

  begin(stepRunId: string, runId: string): void {
    this.#starting.set(stepRunId, runId);
  }

  /** It runs, or does not start. */
  end(stepRunId: string): void {
    this.#starting.delete(stepRunId);
  }

  /** A slot for a run, which is not kept yet. */
  slotFor(runId: string): KeptSlot {
    const slot = {};
    return { keep: () => void this.#kept.set(slot, runId), take: () => this.#kept.delete(slot) };
  }
}
