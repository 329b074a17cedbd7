// Carries out one operation of a protocol on one connection: reads what it names, lets it decide, appends and writes,
// all in one savepoint of the turn's transaction. Owns no transaction and no queue.
import type { DatabaseSync } from 'node:sqlite';
import { assert } from '../../core/errors.ts';
import type { Clock } from '../../core/ports.ts';
import type { RunRows } from '../../core/records.ts';
import type { Append, LedgerWrite, Operation } from '../../protocol/protocol.ts';
import type { ReadName, ReadRequest, Reads } from '../../protocol/reads.ts';
import { RunMemory } from './run-memory.ts';
import { isCollision, statement, toEdgeError } from './statement.ts';

export type ReadOne = <N extends ReadName>(request: ReadRequest<N>) => Reads[N]['rows'];

/** How the rows of this schema are read and written; each is made once for a connection. */
export type DriverParts = {
  readonly createReads: (db: DatabaseSync, memory: RunMemory | null) => ReadOne;
  readonly createAppend: (db: DatabaseSync, memory: RunMemory | null) => (append: Append, wallMs: number) => RunRows;
  readonly createLedger: (db: DatabaseSync, memory: RunMemory | null) => (write: LedgerWrite) => void;
};

export type CarriedOut = {
  readonly outcome: unknown;
  /** The run that events were added to. */
  readonly runId: string | null;
  readonly follow: readonly Operation[];
  readonly isWriting: boolean;
};

export type Driver = {
  /** A transaction began on the connection. */
  readonly began: () => void;
  /** It was committed. */
  readonly committed: () => void;
  /** Inside a transaction. Throws `damaged` for rows that are not as they were written. */
  readonly read: ReadOne;
  /**
   * Inside a transaction. What it throws was rolled back to where it began; if SQLite gave up the whole transaction, as
   * on a full disk, `isTransaction` says so. An identity that is taken is the operation's own outcome, where it has
   * one.
   */
  readonly carryOut: (operation: Operation, freshIds: readonly string[]) => CarriedOut;
  /** Inside a transaction. What `work` throws passes on, with everything undone since it began. */
  readonly together: <T>(work: () => T) => T;
};

type DriverOptions = {
  readonly db: DatabaseSync;
  readonly parts: DriverParts;
  readonly clock: Clock;
  readonly trustedFromMs: number;
};

export function createDriver({ db, parts, clock, trustedFromMs }: DriverOptions): Driver {
  const memory = new RunMemory(db);
  const reads = parts.createReads(db, memory);
  const append = parts.createAppend(db, memory);
  const ledger = parts.createLedger(db, memory);
  const savepoint = createSavepoint(db, memory);

  const read: ReadOne = (request) => {
    assert(db.isTransaction, 'a read of a turn is inside its transaction');
    try {
      memory.enter();
      return reads(request);
    } catch (error) {
      throw toEdgeError(error, `read ${request.name}`, db.location());
    }
  };
  const decideAndWrite = (operation: Operation, freshIds: readonly string[]): CarriedOut => {
    const requests = Object.entries(operation.load());
    const rows = Object.fromEntries(requests.map(([name, request]) => [name, reads(request)]));
    const now = clock.observe();
    const decision = operation.decide(rows, { now, freshIds, trustedFromMs });
    if (decision.append !== undefined) {
      append(decision.append, now.wallMs);
    }
    for (const write of decision.ledger ?? []) {
      ledger(write);
    }
    const isWriting = decision.append !== undefined || (decision.ledger ?? []).length > 0;
    const runId = decision.append?.rows.run.id ?? null;
    return { outcome: decision.outcome, runId, follow: decision.follow ?? [], isWriting };
  };
  const carryOut = (operation: Operation, freshIds: readonly string[]): CarriedOut => {
    assert(db.isTransaction, 'an operation is carried out inside a transaction');
    savepoint.begin();
    try {
      memory.enter();
      const carriedOut = decideAndWrite(operation, freshIds);
      savepoint.keep();
      return carriedOut;
    } catch (error) {
      savepoint.undo();
      if (isCollision(error) && operation.collided !== null && db.isTransaction) {
        return { outcome: operation.collided(), runId: null, follow: [], isWriting: false };
      }
      throw toEdgeError(error, `carry out ${operation.name}`, db.location());
    }
  };
  // Savepoints of one name nest: each command means the latest.
  const together = <T>(work: () => T): T => {
    savepoint.begin();
    try {
      const answer = work();
      savepoint.keep();
      return answer;
    } catch (error) {
      savepoint.undo();
      throw error;
    }
  };
  return { began: () => memory.began(), committed: () => memory.committed(), read, carryOut, together };
}

function createSavepoint(db: DatabaseSync, memory: RunMemory) {
  const savepoint = statement<Record<string, never>>(db, 'SAVEPOINT operation');
  const release = statement<Record<string, never>>(db, 'RELEASE operation');
  const rollbackTo = statement<Record<string, never>>(db, 'ROLLBACK TO operation');
  return {
    begin: () => savepoint.run({}),
    keep: () => release.run({}),
    /** Never throws: the first error is what is told. Where even this fails, the whole transaction goes. */
    undo() {
      memory.forgetAll();
      try {
        // On a full disk SQLite has rolled back everything already; a blind ROLLBACK TO would hide the reason.
        if (db.isTransaction) {
          rollbackTo.run({});
          release.run({});
        }
      } catch {
        rollbackQuietly(db);
      }
    },
  };
}

/** Ends the transaction, if there still is one, without hiding what went wrong before. */
export function rollbackQuietly(db: DatabaseSync): void {
  try {
    if (db.isTransaction) {
      db.exec('ROLLBACK');
    }
  } catch {
    // The connection is of no use any more; the next BEGIN says so.
  }
}
