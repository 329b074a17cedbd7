// Runs that are looked at again at a time of their own. Owns one alarm a run; decides nothing.
import { limits } from '../core/limits.ts';
import type { Alarm, CancelAlarm, Clock } from '../core/ports.ts';

export type LaterLooksOptions = {
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly onDue: (runId: string) => void;
};

/** `isDormant`: it waits for a time, and needs no slot until then. */
type Later = { readonly delayMs: number; readonly isDormant: boolean };

type Pending = { readonly atMs: number; readonly cancel: CancelAlarm; readonly isDormant: boolean };

export class LaterLooks {
  readonly #options: LaterLooksOptions;
  readonly #alarms = new Map<string, Pending>();

  constructor(options: LaterLooksOptions) {
    this.#options = options;
  }

  get dormant(): number {
    return [...this.#alarms.values()].filter(({ isDormant }) => isDormant).length;
  }

  /** The earliest of all that was set for a run counts: that look sets the others again. */
  set(runId: string, { delayMs, isDormant }: Later): void {
    const { alarm, clock, onDue } = this.#options;
    const atMs = clock.observe().uptimeMs + Math.min(delayMs, limits.alarmMsMax);
    const before = this.#alarms.get(runId);
    if (before !== undefined && before.atMs <= atMs) {
      this.#alarms.set(runId, { ...before, isDormant: before.isDormant && isDormant });
      return;
    }
    before?.cancel();
    const cancel = alarm.set(atMs, () => {
      this.#alarms.delete(runId);
      onDue(runId);
    });
    this.#alarms.set(runId, { atMs, cancel, isDormant: isDormant && (before?.isDormant ?? true) });
  }

  cancel(runId: string): void {
    this.#alarms.get(runId)?.cancel();
    this.#alarms.delete(runId);
  }

  close(): void {
    for (const runId of [...this.#alarms.keys()]) {
      this.cancel(runId);
    }
  }
}
