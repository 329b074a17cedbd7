// A session that only listens. Owns having it again after it was lost; what was notified meanwhile is not heard, so
// whoever listens also looks from time to time.
import type { Alarm, CancelAlarm, Clock } from '../../core/ports.ts';
import { Connection } from './connection.ts';

export type ListenerOptions = {
  readonly url: string;
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly onWord: (what: string) => void;
};

/** Where `notify` speaks. */
export const channel = 'ql3_runtimes';
const listenSql = 'LISTEN ql3_runtimes';

const againMs = 500;

export class Listener {
  readonly #options: ListenerOptions;
  #connection: Connection | null = null;
  #cancelAgain: CancelAlarm | null = null;
  #isClosed = false;

  constructor(options: ListenerOptions) {
    this.#options = options;
    void this.#open();
  }

  async #open(): Promise<void> {
    const { url, onWord } = this.#options;
    const hear = (what: string) => {
      if (!this.#isClosed) {
        onWord(what);
      }
    };
    try {
      const connection = await Connection.open(url);
      this.#connection = connection;
      connection.hear(hear, () => this.#again(connection));
      const [answer] = await connection.exchange([{ text: listenSql, values: [], name: null }]);
      if (this.#isClosed || answer === undefined || 'error' in answer) {
        this.#again(connection);
        await connection.end();
      }
    } catch {
      // Who needs the database says why it cannot be had; here it is only tried again.
      this.#again(null);
    }
  }

  #again(lost: Connection | null): void {
    const { alarm, clock } = this.#options;
    if (this.#isClosed || lost !== this.#connection) {
      return;
    }
    this.#connection = null;
    this.#cancelAgain ??= alarm.set(clock.observe().uptimeMs + againMs, () => {
      this.#cancelAgain = null;
      void this.#open();
    });
  }

  /** Nothing is heard from now on. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelAgain?.();
    await this.#connection?.end();
  }
}
