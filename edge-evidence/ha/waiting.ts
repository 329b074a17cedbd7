// Waiting for what another process does, where nothing tells.
import { setTimeout as sleep } from 'node:timers/promises';
import { EvidenceError } from '../operation.ts';

const everyMs = 20;
const patienceMs = 60_000;

/** Asks again until the answer is not null, and answers it. Throws EvidenceError when the patience is over. */
export async function waitFor<T>(what: string, ask: () => Promise<T | null>): Promise<T> {
  const untilMs = performance.now() + patienceMs;
  for (;;) {
    const answer = await ask();
    if (answer !== null) {
      return answer;
    }
    if (performance.now() > untilMs) {
      throw new EvidenceError(`${what}: did not happen within ${patienceMs / 1000} s`);
    }
    await sleep(everyMs);
  }
}
