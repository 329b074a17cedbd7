// One worker: a runtime of its own under leases, from its registration until its lease is over or it is ended. Owns the
// order of these two; a process has one worker after the other.
//
//   register ─▶ claim ─▶ take over ─▶ carry on … ─▶ over: what it runs is left to who took it on, or ended ─▶ detached
//                 ▲                       │
//                 └── word or heartbeat ──┘
import { EdgeError, stopOnDefect } from '../core/errors.ts';
import type { Alarm, Clock } from '../core/ports.ts';
import type { Lease, Leases, SharedStore } from '../store/leases.ts';
import type { TurnHooks } from '../store/store.ts';
import { Claims } from './claims.ts';
import { bringPackage } from './cluster-packages.ts';
import { ClusterStarts } from './cluster-starts.ts';
import { isDamage } from './damaged-runs.ts';
import { type Engine, type EngineOptions, openEngine } from './engine.ts';
import { Heartbeat } from './heartbeat.ts';
import { LeasedStore } from './leased-store.ts';
import { describeError, type Log } from './log.ts';
import type { PackageWork } from './packages.ts';
import type { OnStop } from './settings.ts';
import type { StartsOptions } from './starts.ts';

export type WorkerOptions = {
  readonly workerId: string;
  /** Where its commands run: equal for processes that can look after each other's. */
  readonly place: string;
  readonly engine: Omit<EngineOptions, 'openStore' | 'drives' | 'sharing'>;
  readonly shared: SharedStore;
  readonly leases: Leases;
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly hook: (hooks: Pick<TurnHooks, 'committed' | 'doubted' | 'owed'> | null) => void;
  /** Runs whose commands an earlier worker of this process left running. */
  readonly left: readonly string[];
  /** Its lease is over. `left` are the runs that it has commands of, which run on. */
  readonly onOver: (left: readonly string[]) => void;
  readonly log: Log;
};

export class Worker {
  readonly #options: WorkerOptions;
  readonly #store: LeasedStore;
  #starts: ClusterStarts | null = null;
  #work: PackageWork | null = null;
  #engine: Engine | null = null;
  readonly #heartbeat: Heartbeat;
  /** Once its lease is over: resolves when nothing of it is at work any more. */
  #ended: Promise<void> = Promise.resolve();
  #state: 'opening' | 'open' | 'over' | 'closed' = 'opening';
  readonly #claims: Claims;
  #chores: Promise<void> | null = null;
  /** Runs whose leases are on their way out. */
  readonly #leaving = new Set<string>();
  readonly #brought = new Set<string>();
  readonly #bringing = new Map<string, Promise<string | null>>();
  readonly #takingOver = new Set<string>();
  readonly #left: Set<string>;

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#left = new Set(options.left);
    const { shared, clock, hook, leases } = options;
    const quietly = (work: Promise<unknown>) => void work.catch(stopOnDefect);
    this.#store = new LeasedStore({
      ...{ shared, clock, hook },
      onTouched: (runId) => this.#starts?.touch(runId),
      carryOn: (submitted, runId) => this.#starts?.carryOn(submitted, runId) ?? null,
      onEnded: (lease) => {
        this.#claims.noteEnd();
        this.#forget(lease.runId);
        this.#leave(lease, leases.drop);
        this.#claims.soon();
      },
      onNews: (what) => quietly(leases.notify(what)),
      onLost: (lease) => quietly(this.#lost(lease)),
    });
    this.#claims = new Claims({
      ...options,
      concurrency: options.engine.settings.concurrency,
      room: (ahead) => this.#room(ahead),
      mayClaim: () => this.#mayClaim(),
      claim: (limit) => this.#claim(limit),
    });
    this.#heartbeat = new Heartbeat({
      ...options,
      onBelieved: (untilMs) => this.#store.believe(untilMs),
      onOver: (why) => this.#over(why),
      onBeat: () => this.#chore(),
    });
  }

  /** Throws what registering or opening the engine throws. */
  async open(): Promise<void> {
    const { workerId, place, leases, clock, engine } = this.#options;
    const sentMs = clock.observe().uptimeMs;
    await leases.register(workerId, `${place} process ${process.pid}`);
    await this.#heartbeat.begin(sentMs);
    this.#engine = await openEngine({
      ...engine,
      drives: true,
      openStore: async () => this.#store.asStore(),
      sharing: {
        createStarts: (options, work) => this.#createStarts(options, work),
        whole: { ...this.#options.shared, attach: () => {}, wake: () => {} },
        timed: (machine) => this.#heartbeat.timed(machine),
        startByUptimeMs: () => this.#store.believedUntilMs,
      },
    });
    if (this.#state !== 'opening') {
      await this.#engine.close('detach');
      throw new EdgeError('unavailable', 'its lease was over before it was open', { hint: 'it is tried again' });
    }
    this.#state = 'open';
    // What a process before this one left: where its run is lost to another machine, it is ended here.
    for (const runId of this.#engine.runtime.leftovers.storedRuns()) {
      this.#left.add(runId);
    }
    this.#claims.soon();
  }

  #createStarts(options: StartsOptions, work: PackageWork): ClusterStarts {
    this.#work = work;
    this.#starts = new ClusterStarts({
      ...options,
      shared: this.#store,
      hasPackage: (runId) => this.#brought.has(runId),
      bringPackage: (runId) => this.#bringPackage(runId),
      isHeld: (runId) => this.#store.held.has(runId),
      giveUp: (runId) => this.#giveUp(runId),
      leaveToOthers: (runId) => this.#giveUp(runId, (lease) => this.#releaseAndWake(lease)),
      onGone: (runId) => this.#let(runId),
      onHeldBack: () => {
        for (const runId of [...this.#store.held.keys()]) {
          this.#giveUp(runId, (lease) => this.#releaseAndWake(lease));
        }
      },
      onResumed: () => this.#claims.soon(),
    });
    return this.#starts;
  }

  async #bringPackage(runId: string): Promise<string | null> {
    const { shared, leases } = this.#options;
    if (this.#work === null || this.#brought.has(runId)) {
      return null;
    }
    const trouble = await bringPackage({ ...this.#work, store: shared, leases, underWay: this.#bringing }, runId);
    if (trouble === null && this.#store.held.has(runId)) {
      this.#brought.add(runId);
    }
    return trouble;
  }

  #forget(runId: string): void {
    this.#brought.delete(runId);
    this.#engine?.runtime.deadlines.forget(runId);
    this.#starts?.forget(runId);
  }

  /** Leaves a run to whoever claims it next. */
  #let(runId: string, how = this.#options.leases.release): void {
    const lease = this.#store.release(runId);
    this.#forget(runId);
    if (lease !== null) {
      this.#leave(lease, how);
    }
    this.#claims.soon();
  }

  /** Where that fails, the next look at what is held does it again. */
  #leave(lease: Lease, how: (lease: Lease) => Promise<void>): void {
    this.#leaving.add(lease.runId);
    how(lease)
      .catch(stopOnDefect)
      .finally(() => this.#leaving.delete(lease.runId));
  }

  /** The same, but for one of which something runs, starts or ends here: no other machine could look after that. */
  #giveUp(runId: string, how?: (lease: Lease) => Promise<void>): void {
    const attempts = this.#engine?.runtime.attempts;
    const isBusy = attempts?.ids().some((attemptId) => attempts.find(attemptId)?.runId === runId) ?? true;
    if (!isBusy && !this.#takingOver.has(runId) && this.#starts?.isStarting(runId) === false) {
      this.#let(runId, how);
    }
  }

  async #releaseAndWake(lease: Lease): Promise<void> {
    const { leases } = this.#options;
    await leases.release(lease);
    await leases.notify('work');
  }

  /** Beside the heartbeat: that this one lives is said in time whatever they take. */
  #chore(): void {
    const { log } = this.#options;
    this.#chores ??= this.#doChores()
      .catch((error: unknown) => {
        stopOnDefect(error);
        log(`what is due from time to time is done the next time: ${describeError(error)}`);
      })
      .finally(() => {
        this.#chores = null;
      });
  }

  async #doChores(): Promise<void> {
    if (this.#state === 'open') {
      await this.#heartbeat.setTime();
      await this.#haltAsked();
      await this.#compareHeld();
      await this.#settleLeft();
      this.#claims.look();
    }
  }

  /**
   * What others ended is let go, and a claim or a release of which the answer was lost is made up for: what is held
   * here and what the database says are the same again.
   */
  async #compareHeld(): Promise<void> {
    const { workerId, leases } = this.#options;
    const isSettled = (runId: string) => !this.#leaving.has(runId) && !this.#takingOver.has(runId);
    if (this.#claims.isUnderWay) {
      return;
    }
    for (const { isOver, ...lease } of await leases.held(workerId)) {
      if (isOver && isSettled(lease.runId)) {
        this.#store.take(lease);
        this.#store.release(lease.runId);
        this.#forget(lease.runId);
        this.#leave(lease, leases.drop);
      } else if (!this.#store.held.has(lease.runId) && isSettled(lease.runId) && !this.#claims.isUnderWay) {
        this.#store.take(lease);
        await this.#takeOver(lease);
      }
    }
  }

  /** A session that waited for a lock has seen the lease as it was before: then it is only tried again. */
  async #lost({ runId, token }: Lease): Promise<void> {
    const { workerId, leases } = this.#options;
    const isAlive = await leases.renew(workerId).catch(() => false);
    const held = isAlive ? await leases.held(workerId) : [];
    if (!held.some((lease) => lease.runId === runId && lease.token === token) && this.#store.held.has(runId)) {
      this.#over('the database says so');
    }
  }

  /** What another process notified. */
  heard(what: string): void {
    if (what === 'work') {
      this.#claims.soon();
    } else if (this.#store.held.has(what)) {
      this.#haltAsked().catch(stopOnDefect);
      this.#starts?.touch(what);
    }
  }

  /** Carries out intents that others recorded; when that is told, no command of such a run starts any more. */
  async #haltAsked(): Promise<void> {
    const { workerId, leases } = this.#options;
    for (const runId of await leases.toHalt(workerId)) {
      const lease = this.#store.held.get(runId);
      if (lease === undefined || this.#state !== 'open') {
        continue;
      }
      try {
        await this.#engine?.runtime.takeOver.recover(runId);
        await leases.noteHalted(lease);
      } catch (error) {
        stopOnDefect(error);
        this.#options.log(`run ${runId}: what is cancelled is not stopped yet: ${describeError(error)}`);
      }
    }
  }

  #mayClaim(): boolean {
    const isBelieved = this.#options.clock.observe().uptimeMs < this.#store.believedUntilMs;
    return this.#state === 'open' && isBelieved && this.#starts?.isHeldBack !== true;
  }

  /** Runs that there are slots for, beside those that wait for one already. */
  #room(ahead: number): number {
    if (this.#starts === null) {
      return 0;
    }
    const { spare, dormant } = this.#starts;
    const heldMax = 2 * this.#options.engine.settings.concurrency;
    return Math.min(spare + ahead - this.#takingOver.size, heldMax - (this.#store.held.size - dormant));
  }

  async #claim(limit: number): Promise<void> {
    const { workerId, leases } = this.#options;
    const claimed = await leases.claim(workerId, limit, this.#starts?.full);
    await Promise.all(
      claimed.map(async (lease) => {
        if (this.#state === 'open') {
          this.#store.take(lease);
          await this.#takeOver(lease);
        }
      }),
    );
  }

  async #takeOver({ runId }: Lease): Promise<void> {
    this.#takingOver.add(runId);
    let trouble: string | null = null;
    try {
      // Before it is moved on: what that makes ready is started with it.
      trouble = await this.#bringPackage(runId);
    } catch (error) {
      stopOnDefect(error);
      this.#starts?.touch(runId);
    }
    try {
      await this.#engine?.runtime.takeOver.recover(runId);
    } catch (error) {
      stopOnDefect(error);
      // What ended it may have let it go as well.
      if (!isDamage(error) && this.#store.held.has(runId)) {
        this.#options.log(`run ${runId}: not taken over yet: ${describeError(error)}`);
        this.#engine?.runtime.takeOver.doubt();
        this.#starts?.touch(runId);
      }
    } finally {
      this.#takingOver.delete(runId);
    }
    if (trouble !== null) {
      this.#starts?.holdBack(trouble);
      this.#starts?.touch(runId);
    }
  }

  /**
   * From here on nothing is written under its leases. Its commands run on: whoever claims the run next from the same
   * run directory adopts them, this process included; where somebody else has given them up, they are ended.
   */
  #over(why: string): void {
    if (this.#state === 'over' || this.#state === 'closed') {
      return;
    }
    const wasOpen = this.#state === 'open';
    this.#state = 'over';
    this.#options.log(`the lease of this worker is over: ${why}`);
    this.#heartbeat.stop();
    this.#store.revoke();
    if (!wasOpen) {
      // Whoever opens it is told.
      return;
    }
    this.#starts?.close();
    const attempts = this.#engine?.runtime.attempts;
    attempts?.stopHandlers();
    const runIds = (attempts?.ids() ?? []).flatMap((attemptId) => attempts?.find(attemptId)?.runId ?? []);
    const left = [...new Set([...this.#left, ...runIds])];
    const closed = this.#engine?.close('detach') ?? this.#store.close();
    this.#ended = closed
      .catch((error: unknown) => {
        stopOnDefect(error);
        this.#options.log(`a worker did not end well: ${describeError(error)}`);
      })
      .finally(() => this.#options.onOver(left));
  }

  /** Commands that were left running and given up elsewhere are ended as leftovers, until their run is here or over. */
  async #settleLeft(): Promise<void> {
    const { leases } = this.#options;
    for (const runId of this.#left) {
      const isHere = this.#store.held.has(runId);
      if (isHere || (await leases.find(runId)) === null) {
        this.#left.delete(runId);
      }
      if (!isHere) {
        await this.#engine?.runtime.leftovers.sweep();
      }
    }
  }

  /** As a runtime is closed; others claim what it held at once. */
  async close(onStop: OnStop): Promise<void> {
    const { workerId, leases } = this.#options;
    if (this.#state === 'over' || this.#state === 'closed') {
      await this.#ended;
      return;
    }
    try {
      await this.#engine?.close(onStop);
    } finally {
      this.#state = 'closed';
      this.#heartbeat.stop();
      await leases.resign(workerId).catch(stopOnDefect);
    }
  }
}
