// The real ports: the only place where the product reads the clock, draws randomness, sets a timer or reads the
// environment. Each has a simulated twin in test/sim.
import { readFileSync } from 'node:fs';
import { assert, EdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Alarm, CancelAlarm, Clock, Ids, Salts } from '../core/ports.ts';

/**
 * Wall clock, kernel uptime and boot id of this machine; `pretendedBootId` takes the place of the last one in tests.
 * Throws `unavailable` where /proc does not give a boot id.
 */
export function realClock(pretendedBootId: string | null = null): Clock {
  const bootId = pretendedBootId ?? readBootId();
  // CLOCK_MONOTONIC, which `process.hrtime` reads, counts from boot on Linux: two processes can compare it.
  const uptimeMs = () => Number(process.hrtime.bigint() / 1_000_000n);
  return { observe: () => ({ wallMs: Date.now(), uptimeMs: uptimeMs(), bootId }) };
}

function readBootId(): string {
  const path = '/proc/sys/kernel/random/boot_id';
  try {
    return readFileSync(path, 'latin1').trim();
  } catch (cause) {
    throw new EdgeError('unavailable', `cannot read ${path}`, { cause, hint: 'mount /proc and start again' });
  }
}

/** One `setTimeout` for the nearest of all entries. An empty alarm holds no timer and never wakes the process. */
export function realAlarm(clock: Clock): Alarm {
  const entries = new Set<{ readonly uptimeMs: number; readonly ring: () => void }>();
  let timer: NodeJS.Timeout | null = null;
  let timerUptimeMs = Number.POSITIVE_INFINITY;

  const rearm = () => {
    const nearest = Math.min(...[...entries].map((entry) => entry.uptimeMs));
    if (nearest === timerUptimeMs) {
      return;
    }
    if (timer !== null) {
      clearTimeout(timer);
      timer = null;
      // A cleared timer still wakes the process once, at its time; the next one that fires takes that wake-up along.
      if (entries.size === 0) {
        setTimeout(() => {}, 1).unref();
      }
    }
    timerUptimeMs = nearest;
    if (entries.size > 0) {
      const delayMs = Math.max(0, nearest - clock.observe().uptimeMs);
      timer = setTimeout(fire, Math.min(delayMs, limits.alarmMsMax));
    }
  };
  const fire = () => {
    timer = null;
    timerUptimeMs = Number.POSITIVE_INFINITY;
    const nowMs = clock.observe().uptimeMs;
    const due = [...entries].filter((entry) => entry.uptimeMs <= nowMs);
    for (const entry of due) {
      entries.delete(entry);
    }
    for (const entry of due) {
      entry.ring();
    }
    rearm();
  };
  return {
    set(uptimeMs, ring): CancelAlarm {
      assert(Number.isFinite(uptimeMs), 'an alarm has a finite time');
      const entry = { uptimeMs, ring };
      entries.add(entry);
      rearm();
      return () => {
        entries.delete(entry);
        rearm();
      };
    },
  };
}

/** Loaded with the first id or salt: see core/hash.ts. */
function crypto() {
  return process.getBuiltinModule('node:crypto');
}

/** UUIDv7 (RFC 9562): 48 bits of milliseconds, then random bits. Rising within one process. */
export function realIds(clock: Clock): Ids {
  const bytes = new Uint8Array(16);
  let lastMs = 0;
  let counter = 0;
  return {
    fresh() {
      crypto().randomFillSync(bytes);
      const nowMs = clock.observe().wallMs;
      // The 12 bits after the version count within a millisecond, so that ids of one process keep their order.
      counter = nowMs > lastMs ? 0 : counter + 1;
      lastMs = Math.max(nowMs, lastMs);
      if (counter > 0xfff) {
        counter = 0;
        lastMs += 1;
      }
      const time = lastMs.toString(16).padStart(12, '0');
      const sequence = counter.toString(16).padStart(3, '0');
      const tail = Buffer.from(bytes.subarray(8)).toString('hex');
      const variant = ((bytes[8]! & 0x3f) | 0x80).toString(16);
      return `${time.slice(0, 8)}-${time.slice(8)}-7${sequence}-${variant}${tail.slice(2, 4)}-${tail.slice(4)}`;
    },
  };
}

/** From the kernel's generator. */
export function realSalts(): Salts {
  return { fresh: () => crypto().randomBytes(limits.settingSaltBytes).toString('hex') };
}

/** The process environment, read in one place. */
export function environmentVariable(name: string): string | null {
  return process.env[name] ?? null;
}
