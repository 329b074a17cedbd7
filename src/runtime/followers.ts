// Followers: the events of a run as they are committed, for any number of readers. A follower waits without a read, a
// timer or a system call, is woken by changes of its own run alone, and can be let go at any moment.
import { EdgeError } from '../core/errors.ts';
import { type EventType, newsTypes, type RunEvent } from '../core/events.ts';
import { limits } from '../core/limits.ts';
import { isTerminalRun } from '../core/states.ts';
import { type ReadName, type ReadRequest, type Reads, read } from '../protocol/reads.ts';
import type { Settled, Store } from '../store/store.ts';
import { checkArguments } from './arguments.ts';
import { interruptible, type Leaving } from './interruptible.ts';

export type FollowRequest = { readonly runId: string; readonly after: number };

/** One follower's view of its run. */
type Watch = {
  /** Events may have been committed since the last page was asked for. */
  isBehind: boolean;
  isAside: boolean;
  wake: () => void;
};

const endTypes: ReadonlySet<EventType> = new Set([
  'workflow.succeeded',
  'workflow.failed',
  'workflow.cancelled',
  'workflow.timed_out',
  ...newsTypes,
]);

export class Followers {
  readonly #store: Pick<Store, 'read'>;
  readonly #watches = new Map<string, Set<Watch>>();
  /** Those that wait for one of the places in the inbox that followers may take. */
  readonly #queue: (() => void)[] = [];
  #readsCount = 0;
  #isEnded = false;

  constructor(store: Pick<Store, 'read'>) {
    this.#store = store;
  }

  /**
   * Events after a sequence number, and those to come until the run has ended or was set aside. Iterating throws
   * `invalid`, `not-found`, `damaged`, and `unavailable` where the runtime ends before the run does.
   */
  follow(request: FollowRequest): AsyncIterableIterator<RunEvent, void> {
    return interruptible((leaving) => this.#follow(request, leaving));
  }

  async *#follow({ runId, after }: FollowRequest, leaving: Leaving): AsyncGenerator<RunEvent, void> {
    checkArguments({ runId, after });
    // From before the first read on, so that no commit in between is missed.
    const watch = this.#watch(runId);
    let last = after;
    let hasEnded: boolean | null = null;
    try {
      while (watch.isBehind) {
        this.#refuseAfterEnd();
        watch.isBehind = false;
        const page = await this.#read(read('events', { runId, after: last, limit: limits.pageMax }));
        for (const event of page) {
          yield event;
          last = event.sequence;
        }
        if (page.length === limits.pageMax) {
          watch.isBehind = true;
          continue;
        }
        hasEnded ??= await this.#hasEnded(runId, watch);
        hasEnded ||= page.some(({ type }) => endTypes.has(type));
        while (!watch.isBehind && !hasEnded && !watch.isAside && !leaving.isLeft) {
          await leaving.orUntilLeft(this.#nextWake(watch));
        }
      }
    } finally {
      this.#forget(runId, watch);
    }
  }

  async #hasEnded(runId: string, watch: Watch): Promise<boolean> {
    const rows = await this.#read(read('run', { runId }));
    if (rows === null) {
      throw new EdgeError('not-found', `run ${runId} is unknown`, { hint: 'see `runs list`' });
    }
    watch.isAside ||= (await this.#read(read('setAside', { runId }))) !== null;
    return isTerminalRun(rows.run.status);
  }

  #nextWake(watch: Watch): Promise<void> {
    return new Promise((resolve) => {
      watch.wake = resolve;
    });
  }

  #watch(runId: string): Watch {
    const watch: Watch = { isBehind: true, isAside: false, wake: () => {} };
    this.#watches.set(runId, (this.#watches.get(runId) ?? new Set()).add(watch));
    return watch;
  }

  #forget(runId: string, watch: Watch): void {
    const others = this.#watches.get(runId);
    if (others?.delete(watch) && others.size === 0) {
      this.#watches.delete(runId);
    }
  }

  /** Wakes those of the runs that a turn has changed. */
  wake(settled: readonly Settled[]): void {
    if (this.#watches.size === 0) {
      return;
    }
    for (const { operation, outcome, runId } of settled) {
      const isAside = operation.name === 'set-aside';
      const changed = isAside ? (outcome as { readonly runId: string }).runId : runId;
      for (const watch of (changed === null ? undefined : this.#watches.get(changed)) ?? []) {
        watch.isAside ||= isAside;
        watch.isBehind = true;
        watch.wake();
      }
    }
  }

  /** Wakes all: what was committed may not have been told. */
  wakeAll(): void {
    for (const watch of [...this.#watches.values()].flatMap((others) => [...others])) {
      watch.isBehind = true;
      watch.wake();
    }
  }

  /** The runtime has ended: nothing comes any more, and that is no end of any run. */
  end(): void {
    this.#isEnded = true;
    this.wakeAll();
  }

  #refuseAfterEnd(): void {
    if (this.#isEnded) {
      throw new EdgeError('unavailable', 'this runtime has ended', { hint: 'follow again once it is back' });
    }
  }

  /** However many follow, they never fill the inbox: requests and ends of commands have most of it. */
  async #read<N extends ReadName>(request: ReadRequest<N>): Promise<Reads[N]['rows']> {
    if (this.#readsCount >= limits.followerReadsMax) {
      await new Promise<void>((resolve) => this.#queue.push(resolve));
    } else {
      this.#readsCount += 1;
    }
    try {
      return await this.#store.read(request);
    } finally {
      const next = this.#queue.shift();
      if (next === undefined) {
        this.#readsCount -= 1;
      } else {
        next();
      }
    }
  }
}
