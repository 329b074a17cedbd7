// The sessions of one store: a few, opened when they are needed and kept. Owns how many there are and who waits for
// one, first in first out.
import { assert, EdgeError } from '../../core/errors.ts';
import { bounds } from './bounds.ts';
import { Connection } from './connection.ts';

type Waiter = { readonly resolve: (connection: Connection) => void; readonly reject: (error: unknown) => void };

export class Pool {
  readonly #url: string;
  readonly #answerMsMax: number;
  readonly #connectionsMax: number;
  readonly #idle: Connection[] = [];
  readonly #waiting: Waiter[] = [];
  #count = 0;
  #isClosed = false;
  /** Of all sessions that have ended. */
  #pastRoundTrips = 0;
  readonly #open = new Set<Connection>();

  constructor(url: string, connectionsMax: number, answerMsMax: number = bounds.answerMsMax) {
    this.#answerMsMax = answerMsMax;
    this.#url = url;
    this.#connectionsMax = connectionsMax;
  }

  /** How often this store has sent something to the server and waited. */
  get roundTrips(): number {
    return [...this.#open].reduce((sum, { roundTrips }) => sum + roundTrips, this.#pastRoundTrips);
  }

  /** Waits for its turn. Throws `unavailable` where a new session is needed and cannot be had. */
  async acquire(): Promise<Connection> {
    assert(!this.#isClosed, 'a closed pool is not asked');
    for (let idle = this.#idle.shift(); idle !== undefined; idle = this.#idle.shift()) {
      if (!idle.isBroken) {
        return idle;
      }
      this.#forget(idle);
    }
    if (this.#count < this.#connectionsMax) {
      return this.#connect();
    }
    const { promise, resolve, reject } = Promise.withResolvers<Connection>();
    this.#waiting.push({ resolve, reject });
    return promise;
  }

  /** Gives a session back: outside of a transaction, or broken. */
  release(connection: Connection): void {
    if (connection.isBroken || this.#isClosed) {
      this.#forget(connection);
      void connection.end();
      this.#replace();
      return;
    }
    const waiter = this.#waiting.shift();
    if (waiter === undefined) {
      this.#idle.push(connection);
    } else {
      waiter.resolve(connection);
    }
  }

  /** Ends all sessions; those in use as soon as they are given back. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { reject } of this.#waiting.splice(0)) {
      reject(new EdgeError('unavailable', 'the store is closed', { hint: 'open it again' }));
    }
    const idle = this.#idle.splice(0);
    for (const connection of idle) {
      this.#forget(connection);
    }
    await Promise.all(idle.map((connection) => connection.end()));
  }

  /** Whoever waits for the session that is gone gets a new one. */
  #replace(): void {
    const waiter = this.#waiting.shift();
    if (waiter !== undefined) {
      this.#connect().then(waiter.resolve, waiter.reject);
    }
  }

  async #connect(): Promise<Connection> {
    this.#count += 1;
    try {
      const connection = await Connection.open(this.#url, this.#answerMsMax);
      this.#open.add(connection);
      return connection;
    } catch (error) {
      this.#count -= 1;
      // Nobody else may be left to give a session back.
      this.#replace();
      throw error;
    }
  }

  #forget(connection: Connection): void {
    this.#count -= 1;
    this.#open.delete(connection);
    this.#pastRoundTrips += connection.roundTrips;
  }
}
