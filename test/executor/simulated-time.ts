// A clock and an alarm for one executor. Not a test itself.
import { limits } from '../../src/core/limits.ts';
import type { Alarm, Clock } from '../../src/core/ports.ts';
import { realClock } from '../../src/runtime/ports.ts';

/** Clock and alarm whose time moves only by `advance`. It starts at the real uptime, which /proc shows too. */
export function simulateTime() {
  const real = realClock().observe();
  const entries = new Set<{ readonly atMs: number; readonly ring: () => void }>();
  let nowMs = real.uptimeMs;
  const clock: Clock = { observe: () => ({ ...real, uptimeMs: nowMs }) };
  const alarm: Alarm = {
    set(atMs, ring) {
      const entry = { atMs, ring };
      entries.add(entry);
      return () => entries.delete(entry);
    },
  };
  const advance = (byMs: number) => {
    nowMs += byMs;
    for (const entry of [...entries].filter(({ atMs }) => atMs <= nowMs)) {
      if (entries.delete(entry)) {
        entry.ring();
      }
    }
  };
  /** To the nearest alarm, where there is one. */
  const advanceToNext = () => {
    const nextMs = Math.min(...[...entries].map(({ atMs }) => atMs));
    if (Number.isFinite(nextMs)) {
      advance(Math.max(0, nextMs - nowMs));
    }
  };
  return { clock, alarm, advance, advanceToNext, entriesCount: () => entries.size };
}

export type SimulatedTime = ReturnType<typeof simulateTime>;

/**
 * Lets the looks come by which an attempt ends whose processes are gone: while others start on this machine, one alone
 * is not believed.
 */
export function lookAgain(time: SimulatedTime): void {
  for (let looks = 0; looks <= limits.doubtfulLooksMax; looks += 1) {
    time.advance(limits.orphanLookMsMax);
  }
}
