// One try of one operation, with all that follows it, as one transaction on one session (how isolated: scope.ts). Owns
// what is sent together, and what a failure says of the outcome; never tries anything again.
//
//   [BEGIN, LOCK, reads] ─▶ decide ─▶ … ─▶ [writes, COMMIT]                              alone, or of one run
//   [BEGIN, LOCK, reads] ─▶ decide ─▶ [writes, SAVEPOINT, reads] ─▶ … ─▶ [writes, COMMIT]    other followers
//
// Each pair of brackets is one round trip. A run that was read is held (run-view.ts): what follows on it is decided
// without asking again, and all of it is one change. What was sent together cannot be told apart where it fails: such
// a try ends `unclear`, and the next one is `careful`, with a round trip for each of them.
import { assert } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import type { Now } from '../../core/ports.ts';
import { type Decision, type Operation, requestsOf } from '../../protocol/protocol.ts';
import type { ReadRequest } from '../../protocol/reads.ts';
import type { Settled } from '../store.ts';
import type { Answer, Connection, Statement } from './connection.ts';
import { isAftermath, isCollision, isConflict, isServerError, isSessionLost, toEdgeError } from './failure.ts';
import { combineReads } from './query.ts';
import type { PartOfRequest, ViewOfRun } from './reads.ts';
import type { RunView } from './run-view.ts';
import { findOnlyRun, isUnderLocks } from './scope.ts';
import { type Change, foldAppend, joinChanges, writeChanges, writeLedger } from './writes.ts';

export type Work = {
  readonly operation: Operation;
  readonly freshIds: readonly string[];
  /** Raises where its lease is over; before anything is read. Null: needs none. */
  readonly lease: Statement | null;
};

export type TransactionParts = {
  readonly partOf: PartOfRequest;
  readonly viewOf: ViewOfRun;
  /** The time of a decision, given what the database's clock says. */
  readonly observe: (databaseMs: number) => Now;
  readonly trustedFromMs: number;
  readonly drawIds: (operation: Operation) => readonly string[];
};

export type Tried =
  | {
      readonly kind: 'committed';
      readonly outcome: unknown;
      readonly settled: readonly Settled[];
      readonly failures: readonly { readonly operation: Operation; readonly error: unknown }[];
      /** What follows but has no place in this transaction any more. */
      readonly rest: readonly Operation[];
    }
  /** Others were in the way; it certainly did not happen. */
  | { readonly kind: 'conflict'; readonly error: unknown }
  /** It did not happen: it forbids something, and what it reads for that has to be read behind a closed fence. */
  | { readonly kind: 'fencing' }
  /** It certainly did not happen: an identity is taken, which the next try may find by reading. */
  | { readonly kind: 'collided'; readonly outcome: unknown; readonly error: unknown }
  /** It certainly did not happen; a careful try will tell whose doing that was. */
  | { readonly kind: 'unclear' }
  /** It certainly did not happen, and would not the next time. */
  | { readonly kind: 'failed'; readonly error: unknown }
  /** COMMIT was sent, and nobody can say. */
  | { readonly kind: 'unknown'; readonly error: unknown };

const plain = (text: string): Statement => ({ text, values: [], name: null });
// The lock comes before the first read, which takes the snapshot: what the lock has waited for is seen. What is asked
// in here goes by keys, and planning it anew each time cost more than doing it. All of it is one statement: the server
// answers it once.
const generic = 'SET LOCAL plan_cache_mode = force_generic_plan';
const lockFence = 'LOCK TABLE ql3.fence IN ACCESS SHARE MODE';
const closeFence = 'LOCK TABLE ql3.fence IN ACCESS EXCLUSIVE MODE';
export const beginUnderLocks = plain(['BEGIN ISOLATION LEVEL REPEATABLE READ', generic, lockFence].join('; '));
const begin = plain(['BEGIN ISOLATION LEVEL SERIALIZABLE', generic, lockFence].join('; '));
const beginClosed = plain(['BEGIN ISOLATION LEVEL SERIALIZABLE', generic, closeFence].join('; '));
const savepoint = plain('SAVEPOINT operation');
const rollbackToSavepoint = plain('ROLLBACK TO SAVEPOINT operation');
export const commit = plain('COMMIT');
export const rollback = plain('ROLLBACK');

export type TryOptions = TransactionParts & {
  readonly isCareful: boolean;
  /** Whether it forbids something, as an earlier try has found: then the fence is closed before anything is read. */
  readonly isFencing: boolean;
};

const forbidding: ReadonlySet<string> = new Set(['quarantine', 'revocation']);

/** Ends the whole try. */
class Gone {
  readonly tried: Tried;

  constructor(tried: Tried) {
    this.tried = tried;
  }
}

type RowsByName = Readonly<Record<string, unknown>>;
type Decided = Pick<Decision<unknown>, 'outcome' | 'follow'> & { readonly runId: string | null };

/** Tries it once. The session is outside of a transaction afterwards, or broken. Never throws but for a defect. */
export async function tryOperation(connection: Connection, work: Work, options: TryOptions): Promise<Tried> {
  const transaction = new Transaction(connection, options);
  try {
    return await transaction.carryOut(work);
  } catch (error) {
    await transaction.abandon();
    if (error instanceof Gone) {
      return error.tried;
    }
    return { kind: 'failed', error };
  }
}

class Transaction {
  readonly #connection: Connection;
  readonly #options: TryOptions;
  #isOpen = false;
  /** Writes that are decided and not sent yet; the change comes last. */
  #unsent: Statement[] = [];
  #change: Change | null = null;
  /** The run that this transaction is of, as it is by now. */
  #view: RunView | null = null;
  #databaseMs = 0;
  readonly #settled: Settled[] = [];
  readonly #failures: { operation: Operation; error: unknown }[] = [];

  constructor(connection: Connection, options: TryOptions) {
    this.#connection = connection;
    this.#options = options;
  }

  /** Depth first, so that what follows an operation sees exactly its writes. */
  async carryOut({ operation, freshIds, lease }: Work): Promise<Tried> {
    const runId = findOnlyRun(operation);
    const begun = isUnderLocks(operation) ? beginUnderLocks : this.#options.isFencing ? beginClosed : begin;
    const opening = [begun, ...(lease === null ? [] : [lease])];
    const first = await this.#decide({ operation, freshIds }, opening);
    const waiting = [...(first.follow ?? [])];
    this.#settle(operation, first);
    await this.#sendIfCareful(operation);
    // What is about more than this run needs a transaction of its own.
    const rest: Operation[] = [];
    let count = 0;
    for (; waiting.length > 0 && count < limits.followMax; count += 1) {
      const next = waiting.shift() as Operation;
      if (runId === null || findOnlyRun(next) === runId) {
        waiting.unshift(...(await this.#follow(next)));
      } else {
        rest.push(next);
      }
    }
    return this.#commit({ operation, outcome: first.outcome, rest: [...rest, ...waiting], isShared: count > 0 });
  }

  async #follow(operation: Operation): Promise<readonly Operation[]> {
    const settledBefore = this.#settled.length;
    const unsentBefore = { statements: [...this.#unsent], change: this.#change };
    const isHeld = this.#view?.holds(requestsOf(operation)) ?? false;
    try {
      const work = { operation, freshIds: this.#options.drawIds(operation) };
      const decided = isHeld ? this.#decideHeld(work) : await this.#decide(work, [savepoint]);
      this.#settle(operation, decided);
      await this.#sendIfCareful(null);
      return decided.follow ?? [];
    } catch (error) {
      if (error instanceof Gone) {
        throw error;
      }
      // Only this one is undone. Its writes were not sent, or were sent alone.
      this.#settled.length = settledBefore;
      this.#failures.push({ operation, error });
      this.#unsent = isHeld ? unsentBefore.statements : [];
      this.#change = isHeld ? unsentBefore.change : null;
      if (!isHeld) {
        const [answer] = await this.#connection.exchange([rollbackToSavepoint]);
        this.#goOn(answer!, false);
      }
      return [];
    }
  }

  /** Decides on what is held, which is what a read would give. */
  #decideHeld(work: Omit<Work, 'lease'>): Decided {
    const requests = Object.entries(work.operation.load());
    return this.#conclude(work, (view) =>
      Object.fromEntries(requests.map(([name, request]) => [name, view?.answer(request as ReadRequest) ?? null])),
    );
  }

  /** Reads, with what was not sent yet and `before` them, and decides. */
  async #decide(work: Omit<Work, 'lease'>, before: readonly Statement[]): Promise<Decided> {
    const { operation } = work;
    const requests = Object.entries(operation.load());
    const unsent = this.#takeUnsent();
    const viewPart = this.#isOpen || this.#options.isCareful ? null : this.#viewPart(operation);
    const parts =
      viewPart === null ? requests.map(([, request]) => this.#options.partOf(request as ReadRequest)) : [viewPart];
    this.#isOpen = true;
    const answers = await this.#connection.exchange([...unsent, ...before, combineReads(parts, { isLocking: true })]);
    for (const answer of answers.slice(0, -1)) {
      this.#goOn(answer, unsent.length > 0);
    }
    const row = this.#takeRow(answers.at(-1)!, operation);
    this.#databaseMs = Number(row['nowMs']);
    if (viewPart !== null) {
      this.#view = viewPart.decode(row['r0'] ?? null);
      return this.#decideHeld(work);
    }
    return this.#conclude(work, () =>
      Object.fromEntries(requests.map(([name], index) => [name, parts[index]!.decode(row[`r${index}`] ?? null)])),
    );
  }

  #viewPart(operation: Operation): ReturnType<ViewOfRun> {
    const runId = findOnlyRun(operation);
    return runId === null ? null : this.#options.viewOf(runId, requestsOf(operation));
  }

  #conclude({ operation, freshIds }: Omit<Work, 'lease'>, rowsOf: (view: RunView | null) => RowsByName): Decided {
    const { observe, trustedFromMs } = this.#options;
    const rows = rowsOf(this.#view);
    const now = observe(this.#databaseMs);
    const { outcome, append, ledger = [], follow = [] } = operation.decide(rows, { now, freshIds, trustedFromMs });
    const folded = append === undefined ? null : foldAppend(append, now.wallMs);
    if (!this.#options.isFencing && ledger.some(({ write }) => forbidding.has(write))) {
      throw new Gone({ kind: 'fencing' });
    }
    if (folded !== null) {
      this.#change = this.#change === null ? folded.change : joinChanges(this.#change, folded.change);
      this.#view?.take(folded.after);
    }
    if (ledger.length > 0) {
      this.#unsent = [...this.#takeUnsent(), ...ledger.flatMap(writeLedger)];
    }
    return { outcome, follow, runId: append?.rows.run.id ?? null };
  }

  #takeUnsent(): Statement[] {
    const unsent = this.#change === null ? this.#unsent : [...this.#unsent, writeChanges([this.#change])];
    this.#unsent = [];
    this.#change = null;
    return unsent;
  }

  #takeRow(answer: Answer, operation: Operation): Readonly<Record<string, unknown>> {
    if ('error' in answer) {
      this.#endIfOver(answer.error);
      throw toEdgeError(answer.error, `read for ${operation.name}`);
    }
    const row = answer.rows[0];
    assert(row !== undefined, 'a read of a transaction answers one row');
    return row;
  }

  #settle(operation: Operation, { outcome, runId }: Decided): void {
    this.#settled.push({ operation, outcome, runId });
  }

  /** `first` is the operation whose doing a failure is; null for a follower, which fails alone. */
  async #sendIfCareful(first: Operation | null): Promise<void> {
    const unsent = this.#options.isCareful ? this.#takeUnsent() : [];
    if (unsent.length === 0) {
      return;
    }
    const answers = await this.#connection.exchange(unsent);
    const failed = answers.find((answer) => 'error' in answer);
    if (failed !== undefined) {
      this.#endIfOver(failed.error);
      if (first === null) {
        throw toEdgeError(failed.error, 'carry out what follows');
      }
      throw new Gone(failureOf(first, failed.error));
    }
  }

  async #commit(end: {
    readonly operation: Operation;
    readonly outcome: unknown;
    readonly rest: readonly Operation[];
    /** Whether a failing write may be of a follower. */
    readonly isShared: boolean;
  }): Promise<Tried> {
    const { operation, outcome, rest, isShared } = end;
    const writes = this.#takeUnsent();
    this.#connection.takeWarnings();
    const answers = await this.#connection.exchange([...writes, commit]);
    const failed = answers.slice(0, -1).find((answer) => 'error' in answer);
    this.#isOpen = false;
    if (failed !== undefined && isServerError(failed.error)) {
      // Answers come in order: COMMIT ended an aborted transaction, or was never looked at.
      this.#endIfOver(failed.error);
      return isShared && !this.#options.isCareful ? { kind: 'unclear' } : failureOf(operation, failed.error);
    }
    const last = answers.at(-1)!;
    const doubt = failed?.error ?? findDoubt(last, this.#connection.takeWarnings());
    if (doubt !== null) {
      return { kind: 'unknown', error: doubt };
    }
    if ('error' in last) {
      return isConflict(last.error) ? { kind: 'conflict', error: last.error } : failureOf(operation, last.error);
    }
    if (last.command !== 'COMMIT') {
      return { kind: 'failed', error: toEdgeError(new TypeError(`COMMIT became ${last.command}`), 'commit') };
    }
    return { kind: 'committed', outcome, settled: this.#settled, failures: this.#failures, rest };
  }

  /** Throws `Gone` where a statement failed beside which others were sent. */
  #goOn(answer: Answer, isShared: boolean): void {
    if ('error' in answer) {
      this.#endIfOver(answer.error);
      throw new Gone(isShared ? { kind: 'unclear' } : { kind: 'failed', error: toEdgeError(answer.error, 'begin') });
    }
  }

  /** Throws `Gone` for what ends the whole try, whoever met it: a conflict, or a session that is lost before COMMIT. */
  #endIfOver(error: unknown): void {
    if (isConflict(error)) {
      throw new Gone({ kind: 'conflict', error });
    }
    if (isSessionLost(error)) {
      throw new Gone({ kind: 'failed', error: toEdgeError(error, 'reach PostgreSQL') });
    }
    assert(!isAftermath(error), 'the first failure is told, not those that it led to');
  }

  /** Leaves the transaction that did not come to its end; what goes wrong with that hides nothing. */
  async abandon(): Promise<void> {
    if (this.#isOpen && !this.#connection.isBroken) {
      const [answer] = await this.#connection.exchange([rollback]);
      if (answer === undefined || 'error' in answer) {
        await this.#connection.end();
      }
    }
  }
}

function failureOf(operation: Operation, error: unknown): Tried {
  if (isCollision(error) && operation.collided !== null) {
    return { kind: 'collided', outcome: operation.collided(), error };
  }
  return { kind: 'failed', error: toEdgeError(error, `carry out ${operation.name}`) };
}

/**
 * Why nobody can say whether a COMMIT happened; null where it is certain. An ERROR was told before the commit point.
 * A warning is told behind it: committed here, perhaps not on the standby.
 */
export function findDoubt(answer: Answer, warnings: readonly string[]): unknown {
  if ('error' in answer) {
    return isSessionLost(answer.error) ? answer.error : null;
  }
  return warnings.length > 0 && answer.command === 'COMMIT' ? new TypeError(warnings.join('; ')) : null;
}
