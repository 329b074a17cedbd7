// The operation authority: the one bounded inbox through which all work on the connection passes. Owns the connection,
// the order of work and every answer. Synchronous inside a turn; between turns it waits on events, never on a loop.
//
//            accept                    begin                     COMMIT
//   idle ───────────▶ scheduled ─────────────────▶ (one turn) ──────────▶ effects, answers ──▶ idle | scheduled
//                        ▲   busy: waits-to-begin ┘    │   └ busy: waits-to-commit, the transaction stays open
//                        └── gone: the others, each alone
//
// I1  No answer before its turn's COMMIT has returned: what is told is durable.
// I2  A turn that did not happen is done again, or every member is told; a turn that may have happened is never redone.
// I3  While a transaction is open between two events, nothing else touches the connection: reads wait in the inbox too.
import type { DatabaseSync } from 'node:sqlite';
import { assert, EdgeError, isEdgeError } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import type { Alarm, Clock, Ids } from '../../core/ports.ts';
import type { Operation } from '../../protocol/protocol.ts';
import type { ReadRequest } from '../../protocol/reads.ts';
import type { Turn, TurnHooks } from '../store.ts';
import { type Driver, rollbackQuietly } from './driver.ts';
import { toEdgeError } from './statement.ts';
import {
  type Answer,
  beginTurn,
  commitTurn,
  drawIds,
  type ExecutedTurn,
  executeTurn,
  type GoneTurn,
  type Member,
} from './turn.ts';

export type Connection = { readonly db: DatabaseSync; readonly driver: Driver };

/** What nobody waits for, and yet must be known. */
export type StoreReport = {
  /** An operation that followed another failed alone; or, with null, a turn failed or has an unknown outcome. */
  failed(operation: Operation | null, error: unknown): void;
  /** After an unknown outcome the database could not be had back. Nothing works any more: stop with exit 4. */
  closedForGood(error: EdgeError): void;
};

export type AuthorityOptions = {
  readonly connection: Connection;
  /** Opens anew after an unknown outcome; what it returns has settled on one outcome. Closes the old one first. */
  readonly reconnect: (old: Connection) => Connection;
  /** Whether a reader keeps the WAL from being cut back beyond its bound. Tries to cut it back. */
  readonly isLogFull: (db: DatabaseSync) => boolean;
  /**
   * Why this process must not write any more: its hold on the directory is lost. Null as long as it has it. Then the
   * connection is not even closed: SQLite would remove journals by name, and they may be another's by now.
   */
  readonly findLoss: () => EdgeError | null;
  /** Writes back what a WAL holds and closes. */
  readonly disconnect: (connection: Connection) => void;
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly ids: Ids;
  readonly report: StoreReport;
};

export class Authority {
  readonly #options: AuthorityOptions;
  #connection: Connection;
  #hooks: TurnHooks | null = null;
  #state: 'open' | 'closing' | 'closed' | 'failed' = 'open';
  #phase: 'idle' | 'scheduled' | 'working' = 'idle';
  readonly #inbox: Member[] = [];
  /** Members of a turn that did not happen; each is done again in a turn of its own. */
  readonly #alone: Member[] = [];
  #isWoken = false;
  /** Whether the turn under way is that of one member that is done again. */
  #isAlone = false;
  /** How many callers wait for an answer. */
  #pending = 0;
  #busySinceMs: number | null = null;
  readonly #closed = Promise.withResolvers<void>();

  constructor(options: AuthorityOptions) {
    this.#options = options;
    this.#connection = options.connection;
  }

  attach(hooks: TurnHooks): void {
    assert(this.#hooks === null, 'hooks are attached once');
    this.#hooks = hooks;
  }

  /** Resolves with the outcome; rejects as store.ts says. */
  submit(operation: Operation): Promise<unknown> {
    const freshIds = drawIds(operation, this.#options.ids);
    return this.#accept((settle) => ({ kind: 'operation', operation, freshIds, settle }));
  }

  /** Sees everything submitted before it, and answers only once that is durable. */
  read(request: ReadRequest): Promise<unknown> {
    return this.#accept((settle) => ({ kind: 'read', request, settle }));
  }

  wake(): void {
    if (this.#state === 'open') {
      this.#isWoken = true;
      this.#schedule();
    }
  }

  /** Accepted work drains first. Resolves when the connection is closed. */
  close(): Promise<void> {
    if (this.#state === 'open') {
      this.#state = 'closing';
      if (this.#phase === 'idle') {
        this.#finish();
      }
    }
    return this.#closed.promise;
  }

  #accept(member: (settle: (answer: Answer) => void) => Member): Promise<unknown> {
    assert(this.#hooks !== null, 'hooks are attached before the first submit');
    if (this.#state !== 'open') {
      return Promise.reject(closedError());
    }
    if (this.#pending >= limits.operationsPendingMax) {
      return Promise.reject(
        new EdgeError('busy', `${limits.operationsPendingMax} operations are waiting already`, {
          hint: 'try again in a moment',
        }),
      );
    }
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#pending += 1;
    const settle = (answer: Answer) => {
      this.#pending -= 1;
      'error' in answer ? reject(answer.error) : resolve(answer.value);
    };
    this.#inbox.push(member(settle));
    this.#schedule();
    return promise;
  }

  #schedule(): void {
    if (this.#phase === 'idle') {
      this.#phase = 'scheduled';
      // Between two turns of the event loop: what comes in meanwhile shares the next commit.
      setImmediate(() => this.#runTurn());
    }
  }

  #runTurn(): void {
    this.#phase = 'working';
    const { db, driver } = this.#connection;
    const isReadOnly = this.#isOnlyReading();
    const busy = this.#begin(isReadOnly);
    if (busy === 'failed') {
      return;
    }
    if (busy !== null) {
      this.#wait({ again: () => this.#runTurn(), giveUp: () => this.#refuse(this.#takePage(), busy) });
      return;
    }
    const wasWoken = this.#isWoken;
    this.#isWoken = false;
    this.#isAlone = this.#alone.length > 0;
    const closing = isReadOnly ? null : (inside: Turn) => this.#hooks?.closing(inside);
    const turn = executeTurn({ db, driver, ids: this.#options.ids, next: this.#source(), closing });
    if (turn.kind === 'gone') {
      this.#redo(turn);
      // What a culprit kept from happening still has to; a `closing` that failed would only fail again.
      this.#isWoken ||= wasWoken && turn.culprit !== null && turn.culprit !== 'closing';
      this.#rest();
      return;
    }
    const busyRead = isReadOnly ? findBusy(turn) : null;
    if (busyRead === null) {
      this.#commit(turn);
      return;
    }
    // Another process is committing just now. Nothing was written, so all of it is simply read again.
    rollbackQuietly(db);
    this.#inbox.unshift(...turn.answers.map(({ member }) => member));
    this.#wait({ again: () => this.#runTurn(), giveUp: () => this.#refuse(this.#takePage(), busyRead) });
  }

  #isOnlyReading(): boolean {
    return (
      !this.#isWoken &&
      this.#alone.length === 0 &&
      this.#inbox.slice(0, limits.turnOperationsMax).every(({ kind }) => kind === 'read')
    );
  }

  /** Null when begun; the `busy` error; or `failed` after every member was told something worse. */
  #begin(isReadOnly: boolean): EdgeError | 'failed' | null {
    const { db, driver } = this.#connection;
    const loss = isReadOnly ? null : this.#options.findLoss();
    if (loss !== null) {
      this.#state = 'failed';
      this.#fail(loss);
      return 'failed';
    }
    try {
      if (!isReadOnly && this.#options.isLogFull(db)) {
        return new EdgeError('busy', 'the write-ahead log is at its bound: a reader keeps a transaction open', {
          hint: 'end the process that reads this database for so long',
        });
      }
      return beginTurn({ db, driver }, { isReadOnly });
    } catch (error) {
      this.#isWoken = false;
      this.#refuse(this.#takePage(), toEdgeError(error, 'begin a turn'));
      return 'failed';
    }
  }

  /** The members of one turn, one by one: a page or 20 ms of them, or one of those that are done again alone. */
  #source(): () => Member | null {
    const alone = this.#alone.shift();
    if (alone !== undefined) {
      let waiting: Member | null = alone;
      return () => {
        const member = waiting;
        waiting = null;
        return member;
      };
    }
    const { clock } = this.#options;
    const endsAtMs = clock.observe().uptimeMs + limits.turnWorkMsMax;
    let count = 0;
    return () => {
      if (count >= limits.turnOperationsMax || (count > 0 && clock.observe().uptimeMs >= endsAtMs)) {
        return null;
      }
      count += 1;
      return this.#inbox.shift() ?? null;
    };
  }

  #takePage(): Member[] {
    return this.#alone.length > 0 ? this.#alone.splice(0, 1) : this.#inbox.splice(0, limits.turnOperationsMax);
  }

  #commit(turn: ExecutedTurn): void {
    const result = commitTurn(this.#connection.db);
    const members = turn.answers.map(({ member }) => member);
    if (result.kind === 'committed') {
      this.#connection.driver.committed();
      this.#conclude(turn);
    } else if (result.kind === 'busy') {
      const giveUp = () => {
        rollbackQuietly(this.#connection.db);
        if (turn.isClosingPart) {
          this.#hooks?.undone?.(result.error);
        }
        this.#refuse(members, result.error);
      };
      this.#wait({ again: () => this.#commit(turn), giveUp });
    } else if (result.kind === 'failed') {
      this.#redo({ kind: 'gone', members, culprit: turn.isClosingPart ? 'closing' : null, error: result.error });
      this.#rest();
    } else {
      this.#recover(turn, result.error);
    }
  }

  #conclude(turn: ExecutedTurn): void {
    if (turn.settled.length > 0) {
      this.#hooks?.committed(turn.settled);
    }
    for (const { operation, error } of turn.failures) {
      this.#owe(operation, error);
    }
    for (const { member, answer } of turn.answers) {
      member.settle(answer);
    }
    this.#inbox.unshift(...turn.rest.map((operation) => this.#follower(operation)));
    this.#rest();
  }

  #follower(operation: Operation): Member {
    const settle = (answer: Answer) => void ('error' in answer && this.#owe(operation, answer.error));
    return { kind: 'operation', operation, freshIds: drawIds(operation, this.#options.ids), settle };
  }

  #owe(operation: Operation, error: unknown): void {
    this.#options.report.failed(operation, error);
    this.#hooks?.owed?.(operation, error);
  }

  /** The turn certainly did not happen: its culprit is told, the others are done again, each alone. */
  #redo({ members, culprit, error }: GoneTurn): void {
    const isByClosing = culprit === 'closing';
    if (isByClosing) {
      this.#hooks?.undone?.(error);
    }
    // Even a member that was the only one has another turn then, but never a third.
    const isBlamed = members.length === 1 && (!isByClosing || this.#isAlone);
    const told = isByClosing || culprit === null ? (isBlamed ? members[0] : undefined) : culprit;
    const others = members.filter((member) => member !== told);
    this.#alone.unshift(...others);
    if (told !== undefined) {
      told.settle({ error: toEdgeError(error, 'carry out a turn') });
    } else if (others.length === 0) {
      this.#options.report.failed(null, toEdgeError(error, 'carry out a turn'));
    }
  }

  /** None of these happened, and they are not tried again. */
  #refuse(members: readonly Member[], error: unknown): void {
    for (const member of members) {
      member.settle({ error });
    }
    if (members.length === 0) {
      this.#options.report.failed(null, error);
    }
    this.#rest();
  }

  /** COMMIT failed on one side of its commit point or the other. */
  #recover(turn: ExecutedTurn, cause: unknown): void {
    const unknown = new EdgeError('unknown-outcome', 'the storage failed in a commit: it may have happened or not', {
      cause,
      hint: 'look at what it was to change, then try again if it is not there',
    });
    let failure: EdgeError | null = null;
    try {
      this.#connection = this.#options.reconnect(this.#connection);
    } catch (error) {
      failure = new EdgeError('unavailable', 'the database could not be opened again after a failed commit', {
        cause: toEdgeError(error, 'open the database again'),
        hint: 'check the storage (kernel log, `doctor`), then start again',
      });
      this.#state = 'failed';
    }
    if (failure === null) {
      this.#hooks?.doubted?.();
    }
    for (const { member } of turn.answers) {
      member.settle({ error: unknown });
    }
    this.#options.report.failed(null, unknown);
    if (failure === null) {
      this.#rest();
    } else {
      this.#fail(failure);
    }
  }

  #fail(failure: EdgeError): void {
    for (const member of [...this.#alone.splice(0), ...this.#inbox.splice(0)]) {
      member.settle({ error: failure });
    }
    this.#closed.resolve();
    this.#options.report.closedForGood(failure);
  }

  /** From the alarm, until 5 s have gone in all: a wait inside SQLite would block the loop. */
  #wait({ again, giveUp }: { readonly again: () => void; readonly giveUp: () => void }): void {
    const { clock, alarm } = this.#options;
    const nowMs = clock.observe().uptimeMs;
    this.#busySinceMs ??= nowMs;
    if (nowMs - this.#busySinceMs >= limits.turnRetryMsMax) {
      giveUp();
    } else {
      alarm.set(nowMs + limits.turnRetryPauseMs, again);
    }
  }

  #rest(): void {
    this.#phase = 'idle';
    this.#busySinceMs = null;
    const isWoken = this.#isWoken && this.#state === 'open';
    if (this.#inbox.length > 0 || this.#alone.length > 0 || isWoken) {
      this.#schedule();
    } else if (this.#state === 'closing') {
      this.#finish();
    }
  }

  #finish(): void {
    this.#state = 'closed';
    try {
      this.#options.disconnect(this.#connection);
      this.#closed.resolve();
    } catch (error) {
      this.#closed.reject(toEdgeError(error, 'close the database'));
    }
  }
}

function closedError(): EdgeError {
  return new EdgeError('unavailable', 'this process is stopping and takes no more work', { hint: 'try again later' });
}

function findBusy({ answers }: ExecutedTurn): EdgeError | null {
  for (const { answer } of answers) {
    if ('error' in answer && isEdgeError(answer.error) && answer.error.code === 'busy') {
      return answer.error;
    }
  }
  return null;
}
