// Simulated time: one machine's wall clock, uptime and boot, and everything that is to happen at an uptime. Timers of
// the machine's commands outlive a crash of the runtime, those of a runtime go with it, a reboot takes all.
import type { Alarm, Clock, Ids, Now } from '../../src/core/ports.ts';

type Entry = { readonly atMs: number; readonly order: number; readonly ring: () => void; readonly owner: object };

export type SimulatedTime = {
  readonly clock: Clock;
  now(): Now;
  /** An alarm whose entries are `owner`'s; `drop` takes them all away. */
  alarmOf(owner: object): Alarm;
  drop(owner: object): void;
  countOf(owner: object): number;
  /**
   * What the wall clock would show now if it had never been set back in this boot: what was measured by it then goes on
   * by uptime.
   */
  latestWallMs(): number;
  /** The uptime of the nearest entry; null where there is none. */
  nextMs(): number | null;
  /** Moves time on by so much, and rings what is due then. */
  advance(byMs: number): void;
  /** A step of the wall clock. */
  stepWall(byMs: number): void;
  /** Another boot, with this wall clock; every entry is gone. */
  reboot(wallMs: number): void;
};

// No alarm that is due may keep setting another one for ever.
const ringsMax = 10_000;

export function simulateTime(startWallMs: number): SimulatedTime {
  let now: Now = { wallMs: startWallMs, uptimeMs: 100_000, bootId: bootIdOf(1) };
  let boots = 1;
  let orders = 0;
  let latestOffsetMs = now.wallMs - now.uptimeMs;
  const entries = new Set<Entry>();
  const nearest = (): Entry | null => {
    let found: Entry | null = null;
    for (const entry of entries) {
      if (found === null || entry.atMs < found.atMs || (entry.atMs === found.atMs && entry.order < found.order)) {
        found = entry;
      }
    }
    return found;
  };
  return {
    clock: { observe: () => now },
    now: () => now,
    alarmOf: (owner) => ({
      set(atMs, ring) {
        const entry = { atMs, order: orders++, ring, owner };
        entries.add(entry);
        return () => entries.delete(entry);
      },
    }),
    drop(owner) {
      for (const entry of entries) {
        if (entry.owner === owner) {
          entries.delete(entry);
        }
      }
    },
    countOf: (owner) => [...entries].filter((entry) => entry.owner === owner).length,
    latestWallMs: () => now.uptimeMs + latestOffsetMs,
    nextMs: () => nearest()?.atMs ?? null,
    advance(byMs) {
      now = { ...now, wallMs: now.wallMs + byMs, uptimeMs: now.uptimeMs + byMs };
      for (let rings = 0; rings < ringsMax; rings += 1) {
        const entry = nearest();
        if (entry === null || entry.atMs > now.uptimeMs) {
          return;
        }
        entries.delete(entry);
        entry.ring();
      }
      throw new RangeError('an alarm that is due sets another one for ever');
    },
    stepWall(byMs) {
      now = { ...now, wallMs: Math.max(0, now.wallMs + byMs) };
      latestOffsetMs = Math.max(latestOffsetMs, now.wallMs - now.uptimeMs);
    },
    reboot(wallMs) {
      boots += 1;
      entries.clear();
      now = { wallMs, uptimeMs: 20_000, bootId: bootIdOf(boots) };
      latestOffsetMs = now.wallMs - now.uptimeMs;
    },
  };
}

function bootIdOf(number: number): string {
  return `00000000-0000-4000-8000-${`${number}`.padStart(12, '0')}`;
}

/** Fresh ids of the right form, rising, the same for the same order of calls. */
export function simulateIds(): Ids {
  let count = 0;
  return {
    fresh() {
      count += 1;
      return `01900000-0000-7000-8000-${count.toString(16).padStart(12, '0')}`;
    },
  };
}
