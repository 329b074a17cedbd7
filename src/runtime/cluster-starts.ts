// Starting what is ready where several processes share a database: run by run, of those that this one holds and that
// were touched. Owns when to look at which run; what may start is decided by the protocols. A workflow's own limit
// counts what runs in the whole database, in the transaction that adds to it.
import { stopOnDefect } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { CancelAlarm } from '../core/ports.ts';
import type { RunRows, StepRun } from '../core/records.ts';
import { isTerminalAttempt, isTerminalRun } from '../core/states.ts';
import { type AdmitAttemptInput, type AdmitAttemptOutcome, admitAttempt, startAttempt } from '../protocol/attempt.ts';
import { type Decision, type Operation, operation } from '../protocol/protocol.ts';
import { read } from '../protocol/reads.ts';
import type { Store, Turn } from '../store/store.ts';
import { isDamage, setAsideDamaged } from './damaged-runs.ts';
import { describeError } from './log.ts';
import { refuseWithoutRoom } from './run-directory.ts';
import type { StartsOptions, StartsPort } from './starts.ts';

export type ClusterStartsOptions = StartsOptions & {
  readonly shared: Pick<Store, 'read' | 'submit'>;
  /** Makes the files of the package that a run is of be there. Rejects where they cannot be had. */
  readonly bringPackage: (runId: string) => Promise<void>;
};

/** Between two looks of a run whose workflow has as many commands as it may. */
const slotLookMs = 500;

type Workflow = { readonly packageName: string; readonly workflowId: string };
type Place = { readonly runId: string; readonly stepRunId: string };

export class ClusterStarts implements StartsPort {
  readonly #options: ClusterStartsOptions;
  #isOpen = false;
  #running: readonly string[] = [];
  /** Runs to look at, in the order in which they were touched. */
  readonly #touched = new Set<string>();
  /** Touched again when a slot becomes free. */
  readonly #waiting = new Set<string>();
  /** Steps that are being started. */
  readonly #starting = new Set<string>();
  /** Of each run that was looked at: whether its workflow has a limit. */
  readonly #limited = new Map<string, boolean>();
  readonly #alarms = new Map<string, CancelAlarm>();
  readonly #barred = new Set<string>();
  #isLooking = false;
  #holdMs = 0;
  #heldUntilMs = Number.NEGATIVE_INFINITY;
  #heldWhy: string | null = null;

  constructor(options: ClusterStartsOptions) {
    this.#options = options;
  }

  open(): void {
    this.#isOpen = true;
    this.#lookSoon();
  }

  close(): void {
    this.#isOpen = false;
    for (const cancel of this.#alarms.values()) {
      cancel();
    }
    this.#alarms.clear();
  }

  /** Runs that only wait for a time to come: they need no slot until then. */
  get dormant(): number {
    return this.#alarms.size;
  }

  /** Its steps are to be looked at. */
  touch(runId: string): void {
    this.#touched.add(runId);
    this.#lookSoon();
  }

  bar(stepRunId: string): () => void {
    this.#barred.add(stepRunId);
    return () => {
      this.#barred.delete(stepRunId);
      this.#resume();
    };
  }

  holdBack(why: string): void {
    const nowMs = this.#options.clock.observe().uptimeMs;
    if (nowMs < this.#heldUntilMs) {
      return;
    }
    if (this.#holdMs === 0) {
      this.#options.log(`nothing is started for now, and tried again: ${why}`);
    }
    this.#holdMs = Math.min(limits.unstartedBackoffMsMax, Math.max(limits.unstartedBackoffMsMin, 2 * this.#holdMs));
    this.#heldUntilMs = nowMs + this.#holdMs;
    this.#heldWhy = why;
    this.#options.alarm.set(this.#heldUntilMs, () => this.#resume());
  }

  heldBack(): string | null {
    return this.#heldWhy;
  }

  noteRun(): void {
    if (this.#holdMs > 0) {
      this.#holdMs = 0;
      this.#heldWhy = null;
      this.#heldUntilMs = Number.NEGATIVE_INFINITY;
      this.#options.log('commands are started again');
      this.#resume();
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
    for (const runId of this.#waiting) {
      this.#touched.add(runId);
    }
    this.#waiting.clear();
    this.#lookSoon();
  }

  get #free(): number {
    return this.#options.concurrencyMax - this.#running.length - this.#starting.size;
  }

  #lookSoon(): void {
    if (!this.#isLooking && this.#isOpen && this.#touched.size > 0) {
      this.#isLooking = true;
      this.#look().then(() => {
        this.#isLooking = false;
      }, stopOnDefect);
    }
  }

  async #look(): Promise<void> {
    for (const runId of this.#touched) {
      const isHeld = this.#options.clock.observe().uptimeMs < this.#heldUntilMs;
      this.#touched.delete(runId);
      if (!this.#isOpen || isHeld || this.#free <= 0) {
        this.#waiting.add(runId);
        continue;
      }
      try {
        await this.#lookAt(runId);
      } catch (error) {
        this.#failed(runId, error);
      }
    }
  }

  async #lookAt(runId: string): Promise<void> {
    const { shared } = this.#options;
    this.#alarms.get(runId)?.();
    this.#alarms.delete(runId);
    const rows = await shared.read(read('run', { runId }));
    if (rows === null || isTerminalRun(rows.run.status) || rows.run.cancelRequestedAtMs !== null) {
      this.#limited.delete(runId);
      return;
    }
    const ready = [...rows.steps.values()].filter((step) => isStartable(rows, step) && !this.#starting.has(step.id));
    if (ready.length > 0) {
      await this.#options.bringPackage(runId);
    }
    for (const { id: stepRunId } of ready) {
      if (this.#free <= 0 || this.#barred.has(stepRunId)) {
        this.#waiting.add(runId);
      } else {
        await this.#start({ runId, stepRunId }, rows.run);
      }
    }
  }

  async #start(place: Place, workflow: Workflow): Promise<void> {
    const { shared, handlerNames } = this.#options;
    this.#starting.add(place.stepRunId);
    const isLimited = await this.#isLimited(place).catch((error: unknown) => {
      this.#starting.delete(place.stepRunId);
      throw error;
    });
    const claim = isLimited
      ? claimCounted({ ...place, handlerNames }, workflow)
      : operation(admitAttempt, { ...place, handlerNames, busyOfWorkflow: 0 });
    const trouble: { place: unknown } = { place: null };
    shared
      .submit(this.#withBarrier(claim, place, trouble))
      .then(
        (outcome) => this.#claimed(place.runId, outcome),
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
        this.#lookSoon();
      })
      .catch(stopOnDefect);
  }

  async #isLimited({ runId, stepRunId }: Place): Promise<boolean> {
    const known = this.#limited.get(runId);
    if (known !== undefined) {
      return known;
    }
    const context = await this.#options.shared.read(read('step', { runId, stepRunId }));
    const isLimited = context !== null && context.workflow.concurrency !== null;
    this.#limited.set(runId, isLimited);
    return isLimited;
  }

  /** Claim, place and barrier in one transaction: where there is no place for an attempt, there is no attempt. */
  #withBarrier(
    claim: Operation<AdmitAttemptOutcome>,
    place: Place,
    trouble: { place: unknown },
  ): Operation<AdmitAttemptOutcome> {
    const { executor, runDirectory } = this.#options;
    return {
      ...claim,
      decide: (rows, circumstances): Decision<AdmitAttemptOutcome> => {
        const decision = claim.decide(rows, circumstances);
        const { outcome, follow = [] } = decision;
        if (outcome.kind !== 'claimed' && outcome.kind !== 'existing') {
          return decision;
        }
        try {
          if (outcome.executorType === 'process') {
            refuseWithoutRoom(runDirectory);
            executor.prepare(outcome.attemptId);
          }
        } catch (error) {
          trouble.place = error;
          throw error;
        }
        const barrier = operation(startAttempt, { ...place, attemptId: outcome.attemptId });
        return { ...decision, follow: [...follow, barrier] };
      },
    };
  }

  #claimed(runId: string, outcome: AdmitAttemptOutcome): void {
    if (outcome.kind === 'not-due') {
      this.#lookLater(runId, outcome.waitMs);
    } else if (outcome.kind === 'refused' && outcome.reason === 'workflow-busy') {
      // What frees a slot here is noticed; of what does so elsewhere nobody tells.
      this.#waiting.add(runId);
      this.#lookLater(runId, slotLookMs);
    }
  }

  #failed(runId: string, error: unknown): void {
    stopOnDefect(error);
    if (isDamage(error)) {
      void setAsideDamaged({ store: this.#options.shared, log: this.#options.log }, runId, error);
      return;
    }
    this.#lookLater(runId, limits.redeliveryMs);
  }

  #lookLater(runId: string, delayMs: number): void {
    const { alarm, clock } = this.#options;
    if (!this.#isOpen) {
      this.#touched.add(runId);
      return;
    }
    this.#alarms.get(runId)?.();
    const atMs = clock.observe().uptimeMs + Math.min(delayMs, limits.alarmMsMax);
    const cancel = alarm.set(atMs, () => {
      this.#alarms.delete(runId);
      this.touch(runId);
    });
    this.#alarms.set(runId, cancel);
  }
}

/** The claim of a step whose workflow has a limit. Not of its run alone, so that two of them never miss each other. */
function claimCounted(
  claim: Omit<AdmitAttemptInput, 'busyOfWorkflow'>,
  { packageName, workflowId }: Workflow,
): Operation<AdmitAttemptOutcome> {
  const counted = (busyOfWorkflow: number) => operation(admitAttempt, { ...claim, busyOfWorkflow });
  const uncounted = counted(0);
  return {
    ...uncounted,
    load: () => ({ ...uncounted.load(), busy: read('busyOfWorkflow', { packageName, workflowId }) }),
    decide: (rows, circumstances) => counted(rows['busy'] as number).decide(rows, circumstances),
  };
}

function isStartable({ attempts }: RunRows, step: StepRun): boolean {
  const isTried = [...attempts.values()].some(
    ({ stepRunId, status }) => stepRunId === step.id && !isTerminalAttempt(status),
  );
  return step.status === 'ready' && !isTried;
}
