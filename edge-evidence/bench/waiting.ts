// Waiting for what another process does, where nothing tells.
import { setTimeout as sleep } from 'node:timers/promises';
import { EdgeError } from '../../src/core/errors.ts';

/** Asks again until it is true. Throws `unavailable` when that takes longer than the patience. */
export async function waitUntil(
  isTrue: () => boolean,
  { what, everyMs = 20, patienceMs = 180_000 }: { what: string; everyMs?: number; patienceMs?: number },
): Promise<void> {
  const untilMs = performance.now() + patienceMs;
  while (!isTrue()) {
    if (performance.now() > untilMs) {
      throw new EdgeError('unavailable', `${what} did not happen within ${patienceMs / 1000} s`, {
        hint: 'measure on a machine with less load',
      });
    }
    await sleep(everyMs);
  }
}
