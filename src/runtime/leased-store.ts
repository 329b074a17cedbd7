// The store as one worker sees it that shares a database with others: what it carries on, it carries on under a lease,
// and of all running runs it sees its own. Owns which leases are held and until when they are believed; claims nothing.
import { EdgeError, InvariantError } from '../core/errors.ts';
import type { Clock } from '../core/ports.ts';
import type { AdvanceOutcome } from '../protocol/advance.ts';
import type { ConvergeOutcome } from '../protocol/cancel.ts';
import { type Operation, requestsOf } from '../protocol/protocol.ts';
import { findRun, type ReadName, type ReadRequest, type Reads } from '../protocol/reads.ts';
import { isLeaseOver, type Lease, type SharedStore } from '../store/leases.ts';
import type { Settled, Store, Turn, TurnHooks } from '../store/store.ts';
import { type Carried, findStartable } from './carried.ts';

export type LeasedStoreOptions = {
  readonly shared: SharedStore;
  readonly clock: Clock;
  /** Sets who is told of what commits; null for nobody. One at a time: a worker ends before the next begins. */
  readonly hook: (hooks: Pick<TurnHooks, 'committed' | 'doubted' | 'owed'> | null) => void;
  /** A run has, or may have, steps to start that were not started in the same transaction. */
  readonly onTouched: (runId: string) => void;
  /** May add to an end what it makes ready; null for what it leaves as it is. */
  readonly carryOn: <O>(operation: Operation<O>, runId: string) => Carried<O> | null;
  /** A run that was held has ended, or was set aside; its lease is not held any more. */
  readonly onEnded: (lease: Lease) => void;
  /** A run came to be, or a cancel intent, for which others may have to be woken. */
  readonly onNews: (what: string) => void;
  /** The database says that a lease is over that was believed. */
  readonly onLost: (lease: Lease) => void;
};

// What an operator asks for needs no lease: whoever holds the run sees it.
const freeNames: ReadonlySet<string> = new Set(['retry', 'cancel', 'clear-set-aside', 'record-news']);
const creatingNames: ReadonlySet<string> = new Set(['start', 'retry', 'admit']);

export class LeasedStore {
  readonly #options: LeasedStoreOptions;
  readonly #held = new Map<string, Lease>();
  readonly #pending = new Set<Promise<unknown>>();
  #believedUntilMs = Number.NEGATIVE_INFINITY;
  #hooks: TurnHooks | null = null;
  #isWoken = false;
  #isClosed = false;

  constructor(options: LeasedStoreOptions) {
    this.#options = options;
  }

  /** As a store like any other. */
  asStore(): Store {
    return {
      info: this.#options.shared.info,
      attach: (hooks) => this.attach(hooks),
      wake: () => this.wake(),
      submit: (operation) => this.submit(operation),
      read: (request) => this.read(request),
      close: () => this.close(),
    };
  }

  get held(): ReadonlyMap<string, Lease> {
    return this.#held;
  }

  get believedUntilMs(): number {
    return this.#believedUntilMs;
  }

  /** By uptime. Never longer than the database does. */
  believe(untilUptimeMs: number): void {
    this.#believedUntilMs = untilUptimeMs;
  }

  take(lease: Lease): void {
    this.#held.set(lease.runId, lease);
  }

  /** Nothing is written under that lease from now on; null where it is not held. */
  release(runId: string): Lease | null {
    const lease = this.#held.get(runId) ?? null;
    this.#held.delete(runId);
    return lease;
  }

  /** Nothing is written under any lease from now on. */
  revoke(): void {
    this.#believedUntilMs = Number.NEGATIVE_INFINITY;
    this.#held.clear();
  }

  attach(hooks: TurnHooks): void {
    this.#hooks = hooks;
    this.#options.hook({
      committed: (settled) => this.#committed(hooks, settled),
      doubted: () => hooks.doubted?.(),
      owed: (operation, error) => hooks.owed?.(operation, error),
    });
  }

  #committed(hooks: TurnHooks, settled: readonly Settled[]): void {
    hooks.committed(settled);
    for (const { operation, outcome } of settled) {
      this.#tell(operation, outcome);
    }
    for (const runId of findStartable(settled)) {
      if (this.#held.has(runId)) {
        this.#options.onTouched(runId);
      }
    }
    this.wake();
  }

  #tell({ name }: Operation, outcome: unknown): void {
    const { kind, runId } = outcome as AdvanceOutcome | ConvergeOutcome;
    const isEnd = name === 'advance' && (kind === 'terminal' || kind === 'settled');
    if (isEnd || (name === 'converge' && kind === 'ended') || name === 'set-aside') {
      const lease = this.#held.get(runId);
      if (lease !== undefined) {
        this.#held.delete(runId);
        this.#options.onEnded(lease);
      }
    } else if (creatingNames.has(name) && `${kind}` === 'created') {
      this.#options.onNews('work');
    } else if (name === 'converge' && kind === 'blocked' && !this.#held.has(runId)) {
      this.#options.onNews(runId);
    }
  }

  /** Soon, and once for whoever asked meanwhile. */
  wake(): void {
    if (this.#isWoken || this.#isClosed) {
      return;
    }
    this.#isWoken = true;
    queueMicrotask(() => {
      this.#isWoken = false;
      if (!this.#isClosed) {
        this.#hooks?.closing(noTurn);
      }
    });
  }

  submit<O>(operation: Operation<O>): Promise<O> {
    const { shared, clock, onLost } = this.#options;
    if (this.#isClosed) {
      return Promise.reject(overError());
    }
    const runId = findRun(requestsOf(operation));
    const lease = runId === null ? undefined : this.#held.get(runId);
    if (lease === undefined) {
      const isFree = runId === null || freeNames.has(operation.name);
      return isFree ? this.#track(shared.submit(operation)) : Promise.reject(overError());
    }
    if (clock.observe().uptimeMs >= this.#believedUntilMs) {
      return Promise.reject(overError());
    }
    const carried = this.#options.carryOn(operation, lease.runId);
    if (carried !== null) {
      // Whoever counts slots learns now that this one is free.
      this.#hooks?.closing(noTurn);
    }
    const submitted = shared.submitUnder(carried?.operation ?? operation, lease).catch((error: unknown) => {
      if (isLeaseOver(error) && this.#held.get(lease.runId)?.token === lease.token) {
        onLost(lease);
      }
      throw error;
    });
    return this.#track(submitted.finally(() => carried?.over()));
  }

  async #track<T>(work: Promise<T>): Promise<T> {
    this.#pending.add(work);
    try {
      return await work;
    } finally {
      this.#pending.delete(work);
    }
  }

  read<N extends ReadName>(request: ReadRequest<N>): Promise<Reads[N]['rows']> {
    if (request.name === 'runningRuns') {
      const page: Reads['runningRuns']['rows'] = { runIds: [...this.#held.keys()], next: null };
      return Promise.resolve(page as Reads[N]['rows']);
    }
    return this.#track(this.#options.shared.read(request));
  }

  /** What was submitted ends first; the shared store stays open. */
  async close(): Promise<void> {
    this.#isClosed = true;
    while (this.#pending.size > 0) {
      await Promise.allSettled(this.#pending);
    }
    this.#options.hook(null);
  }
}

/** There is no turn here whose end anything could still be added to. */
const noTurn: Turn = {
  operate: () => refuseTurn(),
  together: () => refuseTurn(),
  read: () => refuseTurn(),
  isWriting: () => false,
};

function refuseTurn(): never {
  throw new InvariantError('where several share a database, nothing is added to a turn');
}

function overError(): EdgeError {
  return new EdgeError('unavailable', 'this process does not hold the lease of that run', { hint: 'try again' });
}
