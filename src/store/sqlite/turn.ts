// One turn: one transaction in which several operations take part, each in its own savepoint. Knows nothing of queues,
// waiting or answers; authority.ts decides what becomes of each result.
//
//   begin ──busy──▶ (nothing happened)
//     │
//     ▼
//   members in order, each followed by what it makes possible; `closing` last
//     │                     └─ one fails: only it is rolled back
//     │                     └─ SQLite gave up the transaction: `gone`, the turn did not happen
//     ▼
//   COMMIT ──busy──▶ still open, COMMIT again   ──full──▶ did not happen   ──any other error──▶ unknown
import type { DatabaseSync } from 'node:sqlite';
import { type EdgeError, isEdgeError } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import type { Ids } from '../../core/ports.ts';
import type { Operation } from '../../protocol/protocol.ts';
import type { ReadRequest } from '../../protocol/reads.ts';
import type { Settled, Turn } from '../store.ts';
import { type Driver, rollbackQuietly } from './driver.ts';
import { sqliteCode, sqliteCodes, toEdgeError } from './statement.ts';

export type Answer = { readonly value: unknown } | { readonly error: unknown };

/** Something that waits in the inbox. `settle` is called once, when its answer is certain. */
export type Member = (
  | { readonly kind: 'operation'; readonly operation: Operation; readonly freshIds: readonly string[] }
  | { readonly kind: 'read'; readonly request: ReadRequest }
) & { readonly settle: (answer: Answer) => void };

export type Failure = { readonly operation: Operation; readonly error: unknown };

export type ExecutedTurn = {
  readonly kind: 'executed';
  readonly answers: readonly { readonly member: Member; readonly answer: Answer }[];
  readonly settled: readonly Settled[];
  /** Operations that followed another and failed; nobody waits for them. */
  readonly failures: readonly Failure[];
  /** What follows but has no place in this turn any more. */
  readonly rest: readonly Operation[];
  /** Whether `closing` wrote anything. */
  readonly isClosingPart: boolean;
};

/** The transaction is gone or of no use. `culprit` is whose doing it was; null where it was nobody's in particular. */
export type GoneTurn = {
  readonly kind: 'gone';
  readonly members: readonly Member[];
  readonly culprit: Member | 'closing' | null;
  readonly error: unknown;
};

export type TurnWork = {
  readonly db: DatabaseSync;
  readonly driver: Driver;
  readonly ids: Ids;
  /** The next member, or null when the turn is full. */
  readonly next: () => Member | null;
  /** Null in a turn that only reads: there is nothing that it could have made possible. */
  readonly closing: ((turn: Turn) => void) | null;
};

/** Begins; returns the `busy` error where another process holds the database. Other errors are thrown. */
export function beginTurn(
  { db, driver }: Pick<TurnWork, 'db' | 'driver'>,
  { isReadOnly }: { readonly isReadOnly: boolean },
): EdgeError | null {
  try {
    // A turn that only reads must not wait for another process that is about to write.
    db.exec(isReadOnly ? 'BEGIN' : 'BEGIN IMMEDIATE');
    driver.began();
    return null;
  } catch (error) {
    const failure = toEdgeError(error, 'begin a turn', db.location());
    if (isEdgeError(failure) && failure.code === 'busy') {
      return failure;
    }
    throw failure;
  }
}

/** Carries out the members and `closing` in the transaction that `beginTurn` began; leaves the COMMIT to the caller. */
export function executeTurn(work: TurnWork): ExecutedTurn | GoneTurn {
  const { db, driver, next, closing } = work;
  const members: Member[] = [];
  const answers: { member: Member; answer: Answer }[] = [];
  const chains = new Chains(work);
  const gone = (culprit: Member | 'closing', error: unknown): GoneTurn => {
    rollbackQuietly(db);
    return { kind: 'gone', members, culprit, error };
  };
  for (let member = next(); member !== null; member = next()) {
    members.push(member);
    try {
      const value =
        member.kind === 'read' ? driver.read(member.request) : chains.carryOut(member.operation, member.freshIds);
      answers.push({ member, answer: { value } });
    } catch (error) {
      if (!db.isTransaction) {
        return gone(member, error);
      }
      answers.push({ member, answer: { error } });
    }
  }
  const writesBefore = chains.writes;
  try {
    closing?.(chains.turn());
  } catch (error) {
    return gone('closing', error);
  }
  // `closing` may have caught the error that ended the transaction.
  if (!db.isTransaction) {
    return gone('closing', chains.lastError);
  }
  const { settled, failures, rest } = chains;
  return { kind: 'executed', answers, settled, failures, rest, isClosingPart: chains.writes > writesBefore };
}

/** Operations of one turn, each with all that follows it. */
class Chains {
  readonly settled: Settled[] = [];
  readonly failures: Failure[] = [];
  readonly rest: Operation[] = [];
  lastError: unknown = null;
  /** How many operations have written. */
  writes = 0;
  readonly #work: TurnWork;

  constructor(work: TurnWork) {
    this.#work = work;
  }

  /** Depth first, so that what follows an operation sees exactly its writes. Throws what the first one threw. */
  carryOut(operation: Operation, freshIds: readonly string[]): unknown {
    const first = this.#one(operation, freshIds);
    const waiting = [...first.follow];
    for (let count = 0; waiting.length > 0; count += 1) {
      if (count === limits.followMax) {
        this.rest.push(...waiting);
        break;
      }
      waiting.unshift(...this.#follower(waiting.shift() as Operation));
    }
    return first.outcome;
  }

  #follower(operation: Operation): readonly Operation[] {
    try {
      return this.#one(operation, drawIds(operation, this.#work.ids)).follow;
    } catch (error) {
      if (!this.#work.db.isTransaction) {
        throw error;
      }
      this.failures.push({ operation, error });
      return [];
    }
  }

  #one(operation: Operation, freshIds: readonly string[]) {
    try {
      const carriedOut = this.#work.driver.carryOut(operation, freshIds);
      this.writes += carriedOut.isWriting ? 1 : 0;
      this.settled.push({ operation, outcome: carriedOut.outcome, runId: carriedOut.runId });
      return carriedOut;
    } catch (error) {
      this.lastError = this.#work.db.isTransaction ? this.lastError : (this.lastError ?? error);
      throw error;
    }
  }

  #together<T>(work: () => T): T {
    const lists = [this.settled, this.failures, this.rest];
    const lengths = lists.map(({ length }) => length);
    const writesBefore = this.writes;
    try {
      return this.#work.driver.together(work);
    } catch (error) {
      for (const [index, list] of lists.entries()) {
        list.length = lengths[index]!;
      }
      this.writes = writesBefore;
      throw error;
    }
  }

  turn(): Turn {
    const { driver, ids } = this.#work;
    return {
      operate: <O>(operation: Operation<O>) => this.carryOut(operation, drawIds(operation, ids)) as O,
      together: (work) => this.#together(work),
      read: driver.read,
      isWriting: () => this.writes > 0,
    };
  }
}

const none: readonly string[] = [];

/** Ids for a decision, drawn once: an operation that is carried out again gets the same. */
export function drawIds(operation: Operation, ids: Ids): readonly string[] {
  if (operation.freshIds === 0) {
    return none;
  }
  return Array.from({ length: operation.freshIds }, () => ids.fresh());
}

export type CommitResult =
  | { readonly kind: 'committed' }
  | { readonly kind: 'busy'; readonly error: EdgeError }
  | { readonly kind: 'failed'; readonly error: unknown }
  | { readonly kind: 'unknown'; readonly error: unknown };

const certainFailures: ReadonlySet<number> = new Set([
  sqliteCodes.full,
  sqliteCodes.constraint,
  sqliteCodes.corrupt,
  sqliteCodes.notADatabase,
]);

/** COMMIT, once. `busy` leaves the transaction open; after `failed` it certainly did not happen; never throws. */
export function commitTurn(db: DatabaseSync): CommitResult {
  try {
    db.exec('COMMIT');
    return { kind: 'committed' };
  } catch (raw) {
    const error = toEdgeError(raw, 'commit a turn', db.location());
    if (db.isTransaction && isEdgeError(error) && error.code === 'busy') {
      return { kind: 'busy', error };
    }
    rollbackQuietly(db);
    // Out of space, a constraint checked at the end, or a page that cannot be one: refused before the commit point, for
    // behind it pages are only written. Anything else may have struck on either side of it.
    const code = sqliteCode(raw);
    return { kind: code !== null && certainFailures.has(code) ? 'failed' : 'unknown', error };
  }
}
