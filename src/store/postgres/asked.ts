// One session that is asked one statement after the other, none of them part of a transaction. Owns ending it: what was
// asked before is answered first, and what is asked later is refused.
import { EdgeError } from '../../core/errors.ts';
import { toEdgeError } from './failure.ts';
import { Pool } from './pool.ts';
import { statement, type Values } from './query.ts';

export type AnsweredRows = readonly Readonly<Record<string, unknown>>[];

export class Asked {
  readonly #pool: Pool;
  readonly #doing: string;
  readonly #pending = new Set<Promise<unknown>>();
  #isClosing = false;

  /**
   * Opens no session before it is asked for something; one that does not answer in that time is given up. `doing`
   * completes the sentence "cannot …".
   */
  constructor({ url, doing, answerMsMax }: { readonly url: string; readonly doing: string; answerMsMax?: number }) {
    this.#pool = new Pool(url, 1, answerMsMax);
    this.#doing = doing;
  }

  /** Throws what the database refuses, as it is told to people. */
  async ask(sql: string, values: Values): Promise<AnsweredRows> {
    const connection = await this.#pool.acquire();
    try {
      const [answer] = await connection.exchange([statement(sql, values)]);
      if (answer === undefined || 'error' in answer) {
        throw toEdgeError(answer?.error, this.#doing);
      }
      return answer.rows;
    } finally {
      this.#pool.release(connection);
    }
  }

  /** Work that asks, as a function that `close` waits for. */
  waitedFor<A extends readonly unknown[], T>(work: (...given: A) => Promise<T>): (...given: A) => Promise<T> {
    return async (...given) => {
      if (this.#isClosing) {
        throw new EdgeError('unavailable', 'the leases of this process are closed', { hint: 'open them anew' });
      }
      const asked = work(...given);
      this.#pending.add(asked);
      try {
        return await asked;
      } finally {
        this.#pending.delete(asked);
      }
    };
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await Promise.allSettled(this.#pending);
    await this.#pool.close();
  }
}
