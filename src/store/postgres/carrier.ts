// Carries operations out on the sessions of a pool: tries, pauses, and what is told. Owns the rule of what is tried
// again: what certainly did not happen because others were in the way, each time from its start and on a session out of
// the pool; never what may have happened.
import { EdgeError } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import type { Alarm, Clock } from '../../core/ports.ts';
import { bounds } from './bounds.ts';
import { toEdgeError } from './failure.ts';
import type { Pool } from './pool.ts';
import { type TransactionParts, type Tried, tryOperation, type Work } from './transaction.ts';

export type CarrierOptions = TransactionParts & {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly alarm: Alarm;
};

export type Committed = Extract<Tried, { readonly kind: 'committed' }>;

/** Rejects with `unknown-outcome` where a COMMIT may have happened, `busy` after 5 s of conflicts, or what it threw. */
export async function carryOut(work: Work, options: CarrierOptions): Promise<Committed> {
  const { pool, clock } = options;
  const beganMs = clock.observe().uptimeMs;
  let pauseMs: number = bounds.retryPauseMsMin;
  let isCareful = false;
  let hasCollided = false;
  let isFencing = false;
  for (let tries = 1; ; tries += 1) {
    const connection = await pool.acquire();
    let tried: Tried;
    try {
      tried = await tryOperation(connection, work, { ...options, isCareful, isFencing });
    } finally {
      pool.release(connection);
    }
    switch (tried.kind) {
      case 'committed':
        return tried;
      case 'failed':
        throw tried.error;
      case 'unknown':
        throw unknownOutcome(tried.error);
      case 'collided':
        // Taken by one that was committed meanwhile: then it is read now, and answered as what it is.
        if (hasCollided) {
          return { kind: 'committed', outcome: tried.outcome, settled: [], failures: [], rest: [] };
        }
        hasCollided = true;
        break;
      case 'unclear':
        isCareful = true;
        break;
      case 'fencing':
        isFencing = true;
        break;
      case 'conflict': {
        const nowMs = clock.observe().uptimeMs;
        if (nowMs - beganMs >= limits.turnRetryMsMax) {
          throw toEdgeError(tried.error, `carry out ${work.operation.name}`);
        }
        if (tries >= bounds.triesMax) {
          await pause(options.alarm, nowMs + pauseMs);
          pauseMs = Math.min(2 * pauseMs, bounds.retryPauseMsMax);
        }
      }
    }
  }
}

function pause(alarm: Alarm, untilUptimeMs: number): Promise<void> {
  return new Promise((resolve) => {
    alarm.set(untilUptimeMs, resolve);
  });
}

export function unknownOutcome(cause: unknown): EdgeError {
  return new EdgeError('unknown-outcome', 'the connection was lost in a commit: it may have happened or not', {
    cause,
    hint: 'look at what it was to change, then try again if it is not there',
  });
}
