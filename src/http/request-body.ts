// Reads the body of a request, within its own bound and one for all bodies together. Owns no rule about what is in it.
import type { IncomingMessage } from 'node:http';
import { limits } from '../core/limits.ts';

/** Bytes that all requests may hold together. */
export type ByteBudget = { take(bytes: number): boolean; give(bytes: number): void };

export function createByteBudget(bytesMax: number): ByteBudget {
  let taken = 0;
  return {
    take(bytes) {
      const fits = taken + bytes <= bytesMax;
      taken += fits ? bytes : 0;
      return fits;
    },
    give(bytes) {
      taken -= bytes;
    },
  };
}

export type BodyReading =
  | { readonly kind: 'read'; readonly bytes: Buffer }
  | { readonly kind: 'too-long' }
  /** It was read, but others held too much to keep it. */
  | { readonly kind: 'busy' }
  /** The client went away. */
  | { readonly kind: 'gone' };

/**
 * Reads to the end also what is too long, up to a second bound: closing on a client that still writes would take away
 * the answer that tells it why.
 */
export function readBody(
  request: IncomingMessage,
  { bytesMax, budget }: { readonly bytesMax: number; readonly budget: ByteBudget },
): Promise<BodyReading> {
  return new Promise((resolve) => {
    let chunks: Buffer[] = [];
    let seen = 0;
    let held = 0;
    let refusal: 'too-long' | 'busy' | null = null;
    const drop = (kind: 'too-long' | 'busy') => {
      refusal ??= kind;
      chunks = [];
      budget.give(held);
      held = 0;
    };
    const finish = (reading: BodyReading) => {
      budget.give(held);
      held = 0;
      request.removeAllListeners('data');
      resolve(reading);
    };
    request.on('data', (chunk: Buffer) => {
      seen += chunk.length;
      if (seen > bytesMax) {
        drop('too-long');
      } else if (refusal === null && !budget.take(chunk.length)) {
        drop('busy');
      } else if (refusal === null) {
        held += chunk.length;
        chunks.push(chunk);
      }
      if (seen > bytesMax + limits.httpDiscardBytesMax) {
        request.pause();
        finish({ kind: 'too-long' });
      }
    });
    request.once('end', () =>
      finish(refusal === null ? { kind: 'read', bytes: Buffer.concat(chunks) } : { kind: refusal }),
    );
    request.once('error', () => finish({ kind: 'gone' }));
    request.once('close', () => finish({ kind: 'gone' }));
  });
}
