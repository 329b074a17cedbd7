// Which workflows have a limit of their own, remembered: it is the same for all runs of one generation.
import type { Run } from '../core/records.ts';
import { read, type StepPlace } from '../protocol/reads.ts';
import type { ReadPort } from './verification.ts';

/** Workflows that are remembered: some 100 KB. */
const knownMax = 1_000;

export class WorkflowLimits {
  readonly #reads: ReadPort;
  readonly #limited = new Map<string, boolean>();

  constructor(reads: ReadPort) {
    this.#reads = reads;
  }

  /** False also where that is not known yet. */
  isUnlimited(run: Run): boolean {
    return this.#limited.get(keyOf(run)) === false;
  }

  async isLimited(run: Run, step: StepPlace): Promise<boolean> {
    const key = keyOf(run);
    const known = this.#limited.get(key);
    if (known !== undefined) {
      return known;
    }
    const context = await this.#reads.read(read('step', step));
    const isLimited = context !== null && context.workflow.concurrency !== null;
    if (this.#limited.size >= knownMax) {
      this.#limited.clear();
    }
    this.#limited.set(key, isLimited);
    return isLimited;
  }
}

function keyOf({ packageName, generation, workflowId }: Run): string {
  return `${packageName}/${workflowId}/${generation}`;
}
