// Starting what is ready where several processes share a database: run by run, of those that this one holds and that
// were touched. Owns when to look at which run; what may start is decided by the protocols. A workflow's own limit
// counts what runs in the whole database, in the transaction that adds to it.
import { stopOnDefect } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Run, RunRows } from '../core/records.ts';
import { isTerminalRun } from '../core/states.ts';
import { advance } from '../protocol/advance.ts';
import { type AdmitAttemptOutcome, admitAttempt, complete } from '../protocol/attempt.ts';
import { type Decision, type Operation, operation } from '../protocol/protocol.ts';
import { read } from '../protocol/reads.ts';
import type { Store, Turn } from '../store/store.ts';
import { type Carried, withFollowers } from './carried.ts';
import { claimCounted, isStartable, withBarrier } from './cluster-claims.ts';
import { isDamage, setAsideDamaged } from './damaged-runs.ts';
import { HoldBack } from './hold-back.ts';
import { LaterLooks } from './later-looks.ts';
import { describeError } from './log.ts';
import { type StartsOptions, type StartsPort, workflowKeyOf } from './starts.ts';
import { WorkflowLimits } from './workflow-limits.ts';

export type ClusterStartsOptions = StartsOptions & {
  readonly shared: Pick<Store, 'read' | 'submit'>;
  /** Makes the files of a run's package be there; answers why not here. Rejects where nobody can have them. */
  readonly bringPackage: (runId: string) => Promise<string | null>;
  readonly hasPackage: (runId: string) => boolean;
  readonly isHeld: (runId: string) => boolean;
  /** Leaves a run to others, unless a command of it runs here. */
  readonly giveUp: (runId: string) => void;
  /** A run has ended, or is not there. */
  readonly onGone: (runId: string) => void;
  /** Nothing is started here for a while; and that is over. */
  readonly onHeldBack: () => void;
  readonly onResumed: () => void;
};

/** Between two looks of a run whose workflow has as many commands as it may. */
const slotLookMs = 500;

type Place = { readonly runId: string; readonly stepRunId: string };

export class ClusterStarts implements StartsPort {
  readonly #options: ClusterStartsOptions;
  #isOpen = false;
  #running: readonly string[] = [];
  /** Runs to look at, in the order in which they were touched. */
  readonly #touched = new Set<string>();
  /** Touched again when a slot becomes free. */
  readonly #waiting = new Set<string>();
  /** Steps that are being started, each with its run. */
  readonly #starting = new Map<string, string>();
  readonly #limits: WorkflowLimits;
  /** Workflows that have as many commands as they may, each with the one run that is looked at until one fits. */
  readonly #full = new Map<string, string>();
  readonly #later: LaterLooks;
  /** Runs of which it was told that they cannot be carried on. */
  readonly #troubled = new Set<string>();
  readonly #barred = new Set<string>();
  /** Runs that only lack a slot, as far as is known: one advance moves them on and starts what is ready. */
  readonly #slotless = new Set<string>();
  /** Advances that were submitted for such runs. */
  readonly #looks = new WeakSet<Operation>();
  /** Slots that are kept for ends and such advances on their way to the database, each with the run. */
  readonly #slots = new Map<object, string>();
  #isLooking = false;
  readonly #held: HoldBack;

  constructor(options: ClusterStartsOptions) {
    this.#options = options;
    this.#held = new HoldBack(options);
    this.#limits = new WorkflowLimits(options.shared);
    this.#later = new LaterLooks({ ...options, onDue: (runId) => this.touch(runId) });
  }

  open(): void {
    this.#isOpen = true;
    this.#lookSoon();
  }

  close(): void {
    this.#isOpen = false;
    this.#later.close();
  }

  /** Runs that only wait for a time to come: they need no slot until then. */
  get dormant(): number {
    return this.#later.dormant;
  }

  /** `package/workflow` of those that have as many commands as they may. */
  get full(): readonly string[] {
    return [...this.#full.keys()];
  }

  get isHeldBack(): boolean {
    return this.#options.clock.observe().uptimeMs < this.#held.untilMs;
  }

  /** Also where that is only about to be decided. */
  isStarting(runId: string): boolean {
    return [...this.#starting.values(), ...this.#slots.values()].includes(runId);
  }

  /** It is not held any more. */
  forget(runId: string): void {
    this.#touched.delete(runId);
    this.#waiting.delete(runId);
    this.#slotless.delete(runId);
    this.#troubled.delete(runId);
    this.#later.cancel(runId);
    for (const [key, probe] of this.#full) {
      if (probe === runId) {
        this.#full.delete(key);
      }
    }
  }

  /** Its steps are to be looked at. */
  touch(runId: string): void {
    this.#touched.add(runId);
    this.#lookSoon();
  }

  /** Nothing of it runs and something could: when there is a slot, one transaction moves it on and starts that. */
  takeUp(rows: RunRows): boolean {
    const { run, steps, attempts } = rows;
    const isIdle = attempts.size === 0 && [...steps.values()].some((step) => isStartable(rows, step));
    if (!this.#isOpen || !isIdle || !this.#limits.isUnlimited(run) || !this.#options.hasPackage(run.id)) {
      return false;
    }
    this.#slotless.add(run.id);
    this.touch(run.id);
    return true;
  }

  bar(stepRunId: string): () => void {
    this.#barred.add(stepRunId);
    return () => {
      this.#barred.delete(stepRunId);
      this.#resume();
    };
  }

  holdBack(why: string): void {
    if (this.#held.begin(why)) {
      this.#options.alarm.set(this.#held.untilMs, () => {
        this.#resume();
        this.#options.onResumed();
      });
      this.#options.onHeldBack();
    }
  }

  heldBack(): string | null {
    return this.#held.why;
  }

  noteRun(): void {
    if (this.#held.end()) {
      this.#resume();
      this.#options.onResumed();
    }
  }

  fill(_turn: Turn, running: readonly string[]): void {
    const isFreer = running.length < this.#running.length;
    this.#running = running;
    if (isFreer) {
      this.#resume();
    } else {
      this.#lookSoon();
    }
  }

  #resume(): void {
    for (const runId of [...this.#waiting, ...this.#full.values()]) {
      this.#touched.add(runId);
    }
    this.#waiting.clear();
    this.#lookSoon();
  }

  get #free(): number {
    return this.#options.concurrencyMax - this.#running.length - this.#starting.size - this.#slots.size;
  }

  /**
   * What an end or an advance makes ready is claimed and started in the same transaction: the end of a step and the
   * start of the next cost one. A slot is kept for that until it is over: the one that an end leaves, or that was free.
   */
  carryOn<O>(submitted: Operation<O>, runId: string): Carried<O> | null {
    const isLook = this.#looks.has(submitted);
    const hasSlot = isLook || submitted.name === complete.name;
    if (!this.#isOpen || !(hasSlot || submitted.name === advance.name)) {
      return null;
    }
    const slot = {};
    const started = new Set<string>();
    const letGo = () => {
      for (const stepRunId of started) {
        this.#starting.delete(stepRunId);
      }
      started.clear();
    };
    const begin = () => {
      letGo();
      if (hasSlot) {
        this.#slots.set(slot, runId);
      }
    };
    begin();
    const carried = withFollowers(submitted, {
      begin,
      next: (run, readyStepRunIds) =>
        readyStepRunIds.flatMap((stepRunId) => {
          if (!this.#mayStart(run, stepRunId)) {
            return [];
          }
          // The first one takes the slot that is kept.
          if (!this.#slots.delete(slot) && this.#free <= 0) {
            if (!isLook) {
              this.#slotless.add(runId);
            }
            return [];
          }
          started.add(stepRunId);
          return [this.#claimWithEnd({ runId, stepRunId })];
        }),
    });
    return {
      operation: carried,
      over: () => {
        letGo();
        this.#slots.delete(slot);
        this.#resume();
      },
    };
  }

  /** Where there is no place for an attempt, nothing is claimed: an end must not wait for that. */
  #claimWithEnd(place: Place): Operation<AdmitAttemptOutcome> {
    const trouble: { place: unknown } = { place: null };
    this.#starting.set(place.stepRunId, place.runId);
    const { handlerNames } = this.#options;
    const uncounted = operation(admitAttempt, { ...place, handlerNames, busyOfWorkflow: 0 });
    const claim = withBarrier(uncounted, place, { ...this.#options, trouble });
    return {
      ...claim,
      decide: (rows, circumstances): Decision<AdmitAttemptOutcome> => {
        try {
          return claim.decide(rows, circumstances);
        } catch (error) {
          if (trouble.place === null || trouble.place !== error) {
            throw error;
          }
          this.holdBack(describeError(error));
          return { outcome: { kind: 'refused', reason: 'not-ready' } };
        }
      },
    };
  }

  /** Whether a step may start behind an end. Where the workflow has a limit, that is counted in a transaction apart. */
  #mayStart(run: Run, stepRunId: string): boolean {
    const isTaken = this.#starting.has(stepRunId) || this.#barred.has(stepRunId);
    const isUnlimited = this.#limits.isUnlimited(run);
    const { hasPackage, isRunOver } = this.#options;
    const isMeant = hasPackage(run.id) && !isRunOver(run.id);
    return this.#isOpen && !this.isHeldBack && !isTaken && isUnlimited && isMeant;
  }

  #lookSoon(): void {
    if (!this.#isLooking && this.#isOpen && this.#touched.size > 0) {
      this.#look().catch(stopOnDefect);
    }
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    try {
      await this.#lookAtAll();
    } finally {
      this.#isLooking = false;
    }
  }

  async #lookAtAll(): Promise<void> {
    while (this.#touched.size > 0) {
      const free = this.#isOpen && !this.isHeldBack ? Math.max(0, this.#free) : 0;
      // As many at once as there are slots: one after the other, the way to the server would be all that counts.
      const [runIds, others] = [[...this.#touched].slice(0, free), [...this.#touched].slice(free)];
      this.#touched.clear();
      await Promise.all(
        runIds.map((runId) => this.#lookAt(runId).catch((error: unknown) => this.#failed(runId, error))),
      );
      // Those that were looked at may have needed no slot.
      const rest = this.#free > 0 && this.#isOpen && !this.isHeldBack ? this.#touched : this.#waiting;
      for (const runId of others) {
        rest.add(runId);
      }
    }
  }

  async #lookAt(runId: string): Promise<void> {
    const { shared, isHeld, isRunOver, bringPackage, onGone } = this.#options;
    this.#later.cancel(runId);
    if (!isHeld(runId)) {
      return;
    }
    if (this.#slotless.delete(runId) && !isRunOver(runId)) {
      this.#moveOn(runId);
      return;
    }
    const rows = await shared.read(read('run', { runId }));
    if (rows === null || isTerminalRun(rows.run.status)) {
      onGone(runId);
      return;
    }
    const ready = [...rows.steps.values()].filter((step) => isStartable(rows, step) && !this.#starting.has(step.id));
    const isOver = rows.run.cancelRequestedAtMs !== null || isRunOver(runId);
    if (ready.length === 0 || isOver || this.#isBehindAnother(rows.run)) {
      return;
    }
    const trouble = await bringPackage(runId);
    if (trouble !== null) {
      this.#waiting.add(runId);
      this.holdBack(trouble);
      return;
    }
    for (const { id: stepRunId } of ready) {
      if (this.#free <= 0 || this.#barred.has(stepRunId)) {
        this.#waiting.add(runId);
      } else {
        await this.#start({ runId, stepRunId }, rows.run);
      }
    }
  }

  /** What it leaves touches the run again, which is then looked at as any other. */
  #moveOn(runId: string): void {
    const { shared, onGone } = this.#options;
    const look = operation(advance, { runId });
    this.#looks.add(look);
    shared
      .submit(look)
      .then(
        ({ kind }) => kind === 'not-found' && onGone(runId),
        (error: unknown) => this.#failed(runId, error),
      )
      .catch(stopOnDefect);
  }

  /** Of a workflow that is full, one run is looked at; the others are left to whoever has a slot for them later. */
  #isBehindAnother(run: Run): boolean {
    const probe = this.#full.get(workflowKeyOf(run)) ?? run.id;
    if (probe === run.id) {
      return false;
    }
    this.#wait(run.id);
    return true;
  }

  #wait(runId: string): void {
    this.#lookLater(runId, slotLookMs, { isDormant: false });
    this.#options.giveUp(runId);
  }

  async #start(place: Place, run: Run): Promise<void> {
    const { shared, handlerNames } = this.#options;
    this.#starting.set(place.stepRunId, place.runId);
    const isLimited = await this.#limits.isLimited(run, place).catch((error: unknown) => {
      this.#starting.delete(place.stepRunId);
      throw error;
    });
    const claim = isLimited
      ? claimCounted({ ...place, handlerNames }, run)
      : operation(admitAttempt, { ...place, handlerNames, busyOfWorkflow: 0 });
    const trouble: { place: unknown } = { place: null };
    shared
      .submit(withBarrier(claim, place, { ...this.#options, trouble }))
      .then(
        (outcome) => this.#claimed(run, outcome),
        (error: unknown) => {
          if (trouble.place !== null && trouble.place === error) {
            this.holdBack(describeError(error));
            this.#waiting.add(place.runId);
          } else {
            this.#failed(place.runId, error);
          }
        },
      )
      .finally(() => {
        this.#starting.delete(place.stepRunId);
        // Where nothing came of it, its slot is free for who waits.
        this.#resume();
      })
      .catch(stopOnDefect);
  }

  #claimed(run: Run, outcome: AdmitAttemptOutcome): void {
    const key = workflowKeyOf(run);
    this.#troubled.delete(run.id);
    if (outcome.kind === 'claimed') {
      this.#full.delete(key);
    } else if (outcome.kind === 'not-due') {
      this.#lookLater(run.id, outcome.waitMs, { isDormant: true });
    } else if (outcome.kind === 'refused' && outcome.reason === 'workflow-busy') {
      // What frees a slot here is noticed; of what does so elsewhere nobody tells.
      if (!this.#isBehindAnother(run)) {
        this.#full.set(key, run.id);
        this.#lookLater(run.id, slotLookMs, { isDormant: false });
      }
    }
  }

  #failed(runId: string, error: unknown): void {
    const { shared, log, isHeld } = this.#options;
    stopOnDefect(error);
    // Of a package's bytes in the database nothing is said by that of the run.
    if (isDamage(error) && error.runId !== null) {
      // Where that cannot be written, the next look does it.
      void setAsideDamaged({ store: shared, log }, runId, error);
      this.#lookLater(runId, limits.redeliveryMs, { isDormant: false });
    } else if (isHeld(runId)) {
      if (!this.#troubled.has(runId)) {
        this.#troubled.add(runId);
        log(`run ${runId} is not carried on for now, and tried again: ${describeError(error)}`);
      }
      this.#lookLater(runId, limits.redeliveryMs, { isDormant: false });
    }
  }

  #lookLater(runId: string, delayMs: number, { isDormant }: { readonly isDormant: boolean }): void {
    if (this.#isOpen) {
      this.#later.set(runId, { delayMs, isDormant });
    } else {
      this.#touched.add(runId);
    }
  }
}
