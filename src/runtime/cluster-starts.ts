// Starting what is ready where several processes share a database: run by run, of those that this one holds and that
// were touched. Owns when to look at which run; what may start is decided by the protocols. A workflow's own limit
// counts what runs in the whole database, in the transaction that adds to it.
import { stopOnDefect } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Run, RunRows } from '../core/records.ts';
import { isTerminalRun } from '../core/states.ts';
import type { AdvanceOutcome } from '../protocol/advance.ts';
import { type AdmitAttemptOutcome, admitAttempt } from '../protocol/attempt.ts';
import { type Operation, operation } from '../protocol/protocol.ts';
import { read, type StepPlace } from '../protocol/reads.ts';
import type { Store, Turn } from '../store/store.ts';
import type { Carried } from './carried.ts';
import { CarriedStarts } from './carried-starts.ts';
import { claimCounted, isStartable, withBarrier } from './cluster-claims.ts';
import { isDamage, setAsideDamaged } from './damaged-runs.ts';
import { HoldBack } from './hold-back.ts';
import { LaterLooks } from './later-looks.ts';
import { describeError } from './log.ts';
import { Slots } from './slots.ts';
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
  /** The same, and wakes them. */
  readonly leaveToOthers: (runId: string) => void;
  /** A run has ended, or is not there. */
  readonly onGone: (runId: string) => void;
  /** Nothing is started here for a while; and that is over. */
  readonly onHeldBack: () => void;
  readonly onResumed: () => void;
};

/** Between two looks of a run whose workflow has as many commands as it may. */
const slotLookMs = 500;

/** A command that is that short is worth waiting for; another one may take hours. */
const slotWaitMsMax = 1_000;

export class ClusterStarts implements StartsPort {
  readonly #options: ClusterStartsOptions;
  #isOpen = false;
  /** Runs to look at, in the order in which they were touched. */
  #touched: Set<string> = new Set();
  /** Touched again when a slot becomes free. */
  readonly #waiting = new Set<string>();
  readonly #slots: Slots;
  readonly #carried: CarriedStarts;
  /** Since when a run finds no slot here. */
  readonly #slotless: LaterLooks;
  readonly #limits: WorkflowLimits;
  /** Workflows that have as many commands as they may, each with the one run that is looked at until one fits. */
  readonly #full = new Map<string, string>();
  readonly #later: LaterLooks;
  /** Runs of which it was told that they cannot be carried on. */
  readonly #troubled = new Set<string>();
  readonly #barred = new Set<string>();
  #isLooking = false;
  readonly #held: HoldBack;

  constructor(options: ClusterStartsOptions) {
    this.#options = options;
    this.#held = new HoldBack(options);
    this.#limits = new WorkflowLimits(options.shared);
    this.#slots = new Slots(options.concurrencyMax);
    this.#slotless = new LaterLooks({ ...options, onDue: (runId) => this.#hasWaited(runId) });
    this.#carried = new CarriedStarts({
      ...options,
      slots: this.#slots,
      mayStart: (run, stepRunId) => this.#mayStart(run, stepRunId),
      onNoPlace: (error) => this.holdBack(describeError(error)),
      onOver: () => this.#resume(),
    });
    this.#later = new LaterLooks({ ...options, onDue: (runId) => this.touch(runId) });
  }

  open(): void {
    this.#isOpen = true;
    this.#lookSoon();
  }

  close(): void {
    this.#isOpen = false;
    this.#later.close();
    this.#slotless.close();
  }

  /** Runs that only wait for a time to come: they need no slot until then. */
  get dormant(): number {
    return this.#later.dormant;
  }

  /** Free slots that no run waits for, be it to be looked at; negative where more wait. */
  get spare(): number {
    return this.#slots.free - new Set([...this.#touched, ...this.#waiting]).size;
  }

  /** `package/workflow` of those that have as many commands as they may. */
  get full(): readonly string[] {
    return [...this.#full.keys()];
  }

  get isHeldBack(): boolean {
    return this.#options.clock.observe().uptimeMs < this.#held.untilMs;
  }

  isStarting(runId: string): boolean {
    return this.#slots.isStartingRun(runId);
  }

  /** It is not held any more. */
  forget(runId: string): void {
    this.#touched.delete(runId);
    this.#waiting.delete(runId);
    this.#slotless.cancel(runId);
    this.#carried.forget(runId);
    this.#troubled.delete(runId);
    this.#later.cancel(runId);
    for (const [key] of [...this.#full].filter(([, probe]) => probe === runId)) {
      this.#full.delete(key);
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
    this.#carried.noteSlotless(run.id);
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
    if (this.#slots.setRunning(running)) {
      // One of these may fit now; last, for it may as well not.
      for (const runId of this.#full.values()) {
        this.#touched.add(runId);
      }
      this.#resume();
    } else {
      this.#lookSoon();
    }
  }

  /** Who has waited comes first. */
  #resume(): void {
    this.#touched = new Set([...this.#waiting, ...this.#touched]);
    this.#waiting.clear();
    this.#lookSoon();
  }

  /** See `CarriedStarts.carry`. */
  carryOn<O>(submitted: Operation<O>, runId: string): Carried<O> | null {
    return this.#isOpen ? this.#carried.carry(submitted, runId) : null;
  }

  /** Whether a step may start behind an end. Where the workflow has a limit, that is counted in a transaction apart. */
  #mayStart(run: Run, stepRunId: string): boolean {
    const { hasPackage, isRunOver } = this.#options;
    const isTaken = this.#slots.isStartingStep(stepRunId) || this.#barred.has(stepRunId);
    const isMeant = this.#limits.isUnlimited(run) && hasPackage(run.id) && !isRunOver(run.id);
    return this.#isOpen && !this.isHeldBack && !isTaken && isMeant;
  }

  #lookSoon(): void {
    if (this.#isLooking || !this.#isOpen || this.#touched.size === 0) {
      return;
    }
    this.#isLooking = true;
    this.#lookAtAll()
      .finally(() => {
        this.#isLooking = false;
      })
      .catch(stopOnDefect);
  }

  async #lookAtAll(): Promise<void> {
    while (this.#touched.size > 0) {
      // As many at once as there are slots: one after the other, the way to the server would be all that counts.
      const runIds = [...this.#touched].slice(0, this.#hasSlot ? this.#slots.free : 0);
      for (const runId of runIds) {
        this.#touched.delete(runId);
      }
      await Promise.all(
        runIds.map((runId) => this.#lookAt(runId).catch((error: unknown) => this.#failed(runId, error))),
      );
      // Those that were looked at may have needed no slot.
      if (!this.#hasSlot) {
        for (const runId of this.#touched) {
          this.#waitForSlot(runId);
        }
        this.#touched.clear();
      }
    }
  }

  get #hasSlot(): boolean {
    return this.#isOpen && !this.isHeldBack && this.#slots.free > 0;
  }

  /** Not for ever: whoever else has a slot may have it. */
  #waitForSlot(runId: string): void {
    this.#waiting.add(runId);
    if (this.#isOpen && !this.isHeldBack) {
      this.#slotless.set(runId, { delayMs: slotWaitMsMax, isDormant: false });
    }
  }

  #hasWaited(runId: string): void {
    if (this.#waiting.has(runId)) {
      // Unless it is taken away with that, it waits on.
      this.#waitForSlot(runId);
      this.#options.leaveToOthers(runId);
    }
  }

  async #lookAt(runId: string): Promise<void> {
    const { shared, isHeld, isRunOver, bringPackage, onGone } = this.#options;
    this.#later.cancel(runId);
    this.#slotless.cancel(runId);
    if (!isHeld(runId)) {
      return;
    }
    const look = isRunOver(runId) ? null : this.#carried.takeLook(runId);
    if (look !== null) {
      this.#moveOn(runId, look);
      return;
    }
    const rows = await shared.read(read('run', { runId }));
    if (rows === null || isTerminalRun(rows.run.status)) {
      onGone(runId);
      return;
    }
    const ready = [...rows.steps.values()].filter(
      (step) => isStartable(rows, step) && !this.#slots.isStartingStep(step.id),
    );
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
      if (this.#barred.has(stepRunId)) {
        this.#waiting.add(runId);
      } else if (this.#slots.free <= 0) {
        this.#waitForSlot(runId);
      } else {
        await this.#start({ runId, stepRunId }, rows.run);
      }
    }
  }

  #moveOn(runId: string, look: Operation<AdvanceOutcome>): void {
    const { shared, onGone } = this.#options;
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
    this.#lookLater(run.id, slotLookMs, { isDormant: false });
    this.#options.giveUp(run.id);
    return true;
  }

  async #start(place: StepPlace, run: Run): Promise<void> {
    const { shared, handlerNames } = this.#options;
    this.#slots.begin(place.stepRunId, place.runId);
    const isLimited = await this.#limits.isLimited(run, place).catch((error: unknown) => {
      this.#slots.end(place.stepRunId);
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
        this.#slots.end(place.stepRunId);
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
