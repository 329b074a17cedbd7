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

export class LaterLooks {
  readonly #options: LaterLooksOptions;
  readonly #alarms = new Map<string, { readonly cancel: CancelAlarm; readonly isDormant: boolean }>();

  constructor(options: LaterLooksOptions) {
    this.#options = options;
  }

  get dormant(): number {
    return [...this.#alarms.values()].filter(({ isDormant }) => isDormant).length;
  }

  /** In the place of what was set for that run before. */
  set(runId: string, { delayMs, isDormant }: Later): void {
    const { alarm, clock, onDue } = this.#options;
    this.cancel(runId);
    const atMs = clock.observe().uptimeMs + Math.min(delayMs, limits.alarmMsMax);
    const cancel = alarm.set(atMs, () => {
      this.#alarms.delete(runId);
      onDue(runId);
    });
    this.#alarms.set(runId, { cancel, isDormant });
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
