// What the runtime sees of a store, whichever database is behind it.
import type { Operation } from '../protocol/protocol.ts';
import type { ReadName, ReadRequest, Reads } from '../protocol/reads.ts';

/**
 * An operation that took part in a turn which is now durable, in order, `follow` and closing ones included. `runId` is
 * the run whose history it made longer; null where it made none longer.
 */
export type Settled = { readonly operation: Operation; readonly outcome: unknown; readonly runId: string | null };

/** The inside of one turn: one transaction, each operation in its own savepoint. */
export type Turn = {
  /** Carries out an operation and what follows it. Throws what it threw; only that operation is rolled back. */
  operate<O>(operation: Operation<O>): O;
  /** Carries out `work` as one: where it throws, all that it operated is undone, and the error passes on. */
  together<T>(work: () => T): T;
  read<N extends ReadName>(request: ReadRequest<N>): Reads[N]['rows'];
  /** Whether this turn has written anything so far, so that its COMMIT costs a sync anyway. */
  isWriting(): boolean;
};

export type TurnHooks = {
  /** Last in every turn, before COMMIT: admits and starts what the turn made possible. Runs again for a redone turn. */
  closing(turn: Turn): void;
  /** After COMMIT and before any answer: effects (spawn, signal). Must not throw. */
  committed(settled: readonly Settled[]): void;
  /**
   * A turn in which `closing` had a part did not happen. Its members are done again, each with a `closing` of its own:
   * it may hold back meanwhile. Must not throw.
   */
  undone?(error: unknown): void;
  /**
   * An operation that followed another failed alone, while that other is durable: nobody else knows that it is owed.
   * Behind `committed` of its turn. Must not throw.
   */
  owed?(operation: Operation, error: unknown): void;
  /**
   * After a turn of which nobody can say whether it happened, when the database has been opened again. What `committed`
   * was never told may be durable: whoever keeps state in memory has to look. Before the members are told. Must not
   * throw.
   */
  doubted?(): void;
};

export type StoreInfo = {
  readonly profile: 'edge' | 'standalone' | 'cluster';
  readonly durability: string;
  readonly engine: string;
  readonly capability: { readonly name: string; readonly version: number };
};

/** What any database gives, one of several processes included; protocols and who looks need no more. */
export type OperationStore = {
  readonly info: StoreInfo;
  /**
   * Puts an operation into the inbox; resolves with its outcome after its COMMIT and effects. Operations of one run are
   * carried out in the order in which they are submitted.
   * Rejects with `busy` (256 pending), `unavailable` (closing), `full`, `unknown-outcome`, or what the operation threw.
   */
  submit<O>(operation: Operation<O>): Promise<O>;
  /** Sees what was submitted before it of the same run. */
  read<N extends ReadName>(request: ReadRequest<N>): Promise<Reads[N]['rows']>;
  /** Drains accepted operations, then closes the database. */
  close(): Promise<void>;
};

/** The store of one process, which does all its work in turns; closing it drops the holder lock too. */
export type Store = OperationStore & {
  /** Sets the hooks; once, before the first submit. */
  attach(hooks: TurnHooks): void;
  /** Makes a turn happen soon although nothing was submitted, so that `closing` runs. */
  wake(): void;
};
