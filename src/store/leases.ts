// What several runtimes on one database need beside the store: leases, and the bytes of packages. Types alone; an
// adapter carries them out.
import type { Operation } from '../protocol/protocol.ts';
import type { OperationStore, TurnHooks } from './store.ts';

/** What a runtime proves in each transaction by which it carries a run on. */
export type Lease = { readonly runId: string; readonly workerId: string; readonly token: number };

/** `isOver`: its run has ended, or was set aside, whoever did that. */
export type HeldLease = Lease & { readonly isOver: boolean };

export type LeaseState = {
  /** Whether a worker that lives holds the run now. */
  readonly isHeld: boolean;
  readonly workerId: string;
  /** What that worker said of itself; empty where it is gone. */
  readonly described: string;
  /** That worker has carried out the run's cancel intent. */
  readonly hasHalted: boolean;
};

export type WorkerState = {
  readonly workerId: string;
  /** What it says of itself. */
  readonly described: string;
  /** How many runs it holds. */
  readonly runs: number;
};

export type Leases = {
  /** How long a worker lives from one word of it to the next. */
  readonly leaseMs: number;
  /** `described`: its place, which is equal for those that can look after each other's commands, and its process. */
  register(workerId: string, described: string): Promise<void>;
  /** The database's clock. */
  time(): Promise<number>;
  /** Lives on; false where its time was over: then it is over for good. */
  renew(workerId: string): Promise<boolean>;
  /**
   * Claims at most `limit` running runs that nobody holds, oldest first; of another place's what was started there only
   * when that place has had its time; and whatever a worker that is over has started in this one's own. `full`:
   * `package/workflow` to leave out.
   */
  claim(workerId: string, limit: number, full?: readonly string[]): Promise<readonly Lease[]>;
  /** Of a run that has ended, or was set aside. */
  drop(lease: Lease): Promise<void>;
  /** Gives a run up that goes on: others may claim it at once. */
  release(lease: Lease): Promise<void>;
  /** All that a worker holds, as the database knows it. */
  held(workerId: string): Promise<readonly HeldLease[]>;
  /** Gives up everything: others claim it at once, and what runs on only workers of the same place. */
  resign(workerId: string): Promise<void>;
  /** Runs of a worker with a cancel intent that it has not carried out yet. */
  toHalt(workerId: string): Promise<readonly string[]>;
  noteHalted(lease: Lease): Promise<void>;
  /** Null where the run was never claimed, or has ended and was let go. */
  find(runId: string): Promise<LeaseState | null>;
  /** Those that live, the longest first. */
  workers(): Promise<readonly WorkerState[]>;
  /** Wakes whoever listens: `what` is a run id, or `work`. */
  notify(what: string): Promise<void>;
  /** Calls `onWord` for everything that is notified, for as long as there is a session; it is had again by itself. */
  listen(onWord: (what: string) => void): void;
  /** The bytes of a package; put before it is installed. */
  putContents(lockDigest: string, files: readonly StoredFile[]): Promise<void>;
  /** Null where they are not there. */
  getContents(lockDigest: string, path: string): Promise<Uint8Array | null>;
  close(): Promise<void>;
};

export type StoredFile = { readonly path: string; readonly bytes: Uint8Array };

/** The store of several processes: work on a run that somebody holds is done under that lease. */
export type SharedStore = OperationStore & {
  attach(hooks: Pick<TurnHooks, 'committed' | 'doubted' | 'owed'>): void;
  /** As `submit`; rejects with `unavailable`, and nothing is written, where the lease is over. */
  submitUnder<O>(operation: Operation<O>, lease: Lease): Promise<O>;
};

/** Whether it was refused because its lease is over. */
export function isLeaseOver(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : null;
  return cause instanceof Error && 'code' in cause && cause.code === 'QL003';
}
