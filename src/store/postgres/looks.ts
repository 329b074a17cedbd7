// Reads outside of any transaction. Those that are asked for in the same moment go to the server together, on one
// session: each is a statement of its own, and they cost one round trip.
import type { ReadName, ReadRequest, Reads } from '../../protocol/reads.ts';
import { bounds } from './bounds.ts';
import type { CarrierOptions } from './carrier.ts';
import type { Answer } from './connection.ts';
import { toEdgeError } from './failure.ts';
import { combineReads, type ReadPart } from './query.ts';

type Look = { readonly part: ReadPart<unknown> } & Omit<PromiseWithResolvers<Answer>, 'promise'>;

/** Rejects with what the read throws: `damaged`, `unavailable`, `busy`. */
export function createLooks({
  pool,
  partOf,
}: Pick<CarrierOptions, 'pool' | 'partOf'>): <N extends ReadName>(
  request: ReadRequest<N>,
) => Promise<Reads[N]['rows']> {
  let waiting: Look[] = [];
  const send = async (looks: readonly Look[]) => {
    try {
      const connection = await pool.acquire();
      try {
        const statements = looks.map(({ part }) => combineReads([part], { isLocking: false }));
        const answers = await connection.exchange(statements);
        for (const [index, { resolve }] of looks.entries()) {
          resolve(answers[index]!);
        }
      } finally {
        pool.release(connection);
      }
    } catch (error) {
      for (const { reject } of looks) {
        reject(error);
      }
    }
  };
  const sendAll = () => {
    const looks = waiting;
    waiting = [];
    for (let first = 0; first < looks.length; first += bounds.looksMax) {
      void send(looks.slice(first, first + bounds.looksMax));
    }
  };
  return async <N extends ReadName>(request: ReadRequest<N>) => {
    const part = partOf(request);
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    waiting.push({ part, resolve, reject });
    if (waiting.length === 1) {
      queueMicrotask(sendAll);
    }
    const answer = await promise;
    if ('error' in answer) {
      throw toEdgeError(answer.error, `read ${request.name}`);
    }
    return part.decode(answer.rows[0]?.['r0'] ?? null);
  };
}
