// Saying in time that a worker lives. Owns the beats, until when its lease is believed, and what the clock of the
// database is ahead of this machine's uptime; decides nothing about runs.
import { stopOnDefect } from '../core/errors.ts';
import type { Alarm, CancelAlarm, Clock } from '../core/ports.ts';
import type { Leases } from '../store/leases.ts';
import { describeError, type Log } from './log.ts';

export type HeartbeatOptions = {
  readonly workerId: string;
  readonly leases: Pick<Leases, 'leaseMs' | 'renew' | 'time'>;
  readonly clock: Clock;
  readonly alarm: Alarm;
  /** Until when, by uptime, nobody else can have its runs. */
  readonly onBelieved: (untilUptimeMs: number) => void;
  /** Once: it is over for good. */
  readonly onOver: (why: string) => void;
  /** It lives on: the moment for what is due from time to time. */
  readonly onBeat: () => void;
  readonly log: Log;
};

/** Words a lease: a heartbeat may be missed three times. */
const beatsPerLease = 4;

/** What is taken off a lease at most, for clocks that do not go alike and a launcher between its look and its start. */
const marginMsMax = 2_000;

export class Heartbeat {
  readonly #options: HeartbeatOptions;
  #believedUntilMs = Number.NEGATIVE_INFINITY;
  #aheadMs = 0;
  #cancelBeat: CancelAlarm | null = null;
  #cancelExpiry: CancelAlarm | null = null;
  #isStopped = false;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  /** Behind the registration, which was sent at that uptime. */
  async begin(sentMs: number): Promise<void> {
    this.#believe(sentMs);
    this.#beatLater();
    await this.setTime();
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancelBeat?.();
    this.#cancelExpiry?.();
  }

  async setTime(): Promise<void> {
    const { leases, clock } = this.#options;
    const sentMs = clock.observe().uptimeMs;
    const databaseMs = await leases.time();
    this.#aheadMs = databaseMs - (sentMs + clock.observe().uptimeMs) / 2;
  }

  /** A machine's clock with the database's wall time: that of the machine may be any. */
  timed(machine: Clock): Clock {
    return {
      observe: () => {
        const now = machine.observe();
        return { ...now, wallMs: Math.round(now.uptimeMs + this.#aheadMs), isShared: true };
      },
    };
  }

  #believe(sentMs: number): void {
    const { leases, clock, alarm, onBelieved, onOver } = this.#options;
    const untilMs = sentMs + leases.leaseMs - Math.min(marginMsMax, leases.leaseMs / beatsPerLease);
    this.#believedUntilMs = untilMs;
    onBelieved(untilMs);
    this.#cancelExpiry?.();
    this.#cancelExpiry = alarm.set(untilMs, () => {
      if (clock.observe().uptimeMs >= this.#believedUntilMs) {
        onOver('it could not be renewed in time');
      }
    });
  }

  #beatLater(): void {
    const { leases, clock, alarm } = this.#options;
    this.#cancelBeat = alarm.set(clock.observe().uptimeMs + leases.leaseMs / beatsPerLease, () => {
      this.#beat().catch(stopOnDefect);
    });
  }

  async #beat(): Promise<void> {
    const { workerId, leases, clock, onOver, onBeat, log } = this.#options;
    const sentMs = clock.observe().uptimeMs;
    try {
      const isAlive = await leases.renew(workerId);
      if (this.#isStopped) {
        return;
      }
      if (!isAlive || clock.observe().uptimeMs >= this.#believedUntilMs) {
        onOver(isAlive ? 'it was renewed too late' : 'others may have claimed its runs');
        return;
      }
      this.#believe(sentMs);
      onBeat();
    } catch (error) {
      stopOnDefect(error);
      log(`a heartbeat failed: ${describeError(error)}`);
    } finally {
      if (!this.#isStopped) {
        this.#beatLater();
      }
    }
  }
}
