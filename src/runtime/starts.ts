// Starting what is ready: fills free slots at the end of a turn, oldest run first, within the profile's and each
// workflow's limit. Owns when to hold back and when to look again. Spawns nothing: a start is an effect of the commit.
//
// Everything that it remembers between two passes (what is due when, why it holds back) only spares work; what may
// start is decided by the protocols in every pass.
import { assert, isEdgeError, stopOnDefect } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Alarm, CancelAlarm, Clock } from '../core/ports.ts';
import type { RunRows } from '../core/records.ts';
import type { Executor } from '../executor/executor.ts';
import { admitAttempt, startAttempt } from '../protocol/attempt.ts';
import { operation } from '../protocol/protocol.ts';
import { type ReadyStep, type RunCursor, read, type StepPage } from '../protocol/reads.ts';
import { setAsideRun } from '../protocol/set-aside.ts';
import type { Store, Turn } from '../store/store.ts';
import { HoldBack } from './hold-back.ts';
import { describeError, type Log } from './log.ts';
import { refuseWithoutRoom } from './run-directory.ts';

export type StartsOptions = {
  readonly store: Pick<Store, 'wake'>;
  readonly executor: Pick<Executor, 'prepare'>;
  readonly handlerNames: readonly string[];
  readonly runDirectory: string;
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly concurrencyMax: number;
  /** Whether the time of a run is over. */
  readonly isRunOver: (runId: string) => boolean;
  readonly log: Log;
};

/** What the runtime asks of whoever starts things. */
export type StartsPort = Pick<
  Starts,
  'open' | 'close' | 'bar' | 'holdBack' | 'heldBack' | 'noteRun' | 'takeUp' | 'fill'
>;

/** Starts what is ready in one pass at the end of each turn. */
export function createStarts(options: StartsOptions): StartsPort {
  return new Starts(options);
}

/** One name for a workflow in all its generations: what its limit counts. */
export function workflowKeyOf(place: { readonly packageName: string; readonly workflowId: string }): string {
  return `${place.packageName}/${place.workflowId}`;
}

type Pass = {
  readonly turn: Turn;
  readonly nowMs: number;
  /** Commands that run, by workflow. */
  readonly busy: Map<string, number>;
  /** Workflows that have as many as they may: their other steps are not looked at. */
  readonly full: Set<string>;
  /** Uptimes at which steps are due that were ready and not due. */
  readonly dueAtMs: Map<string, number>;
  free: number;
};

type StartOutcome = 'started' | 'none' | 'workflow-busy' | { readonly waitMs: number };

export class Starts {
  readonly #options: StartsOptions;
  #isOpen = false;
  #dueAtMs: ReadonlyMap<string, number> = new Map();
  #cancelWake: CancelAlarm | null = null;
  readonly #held: HoldBack;
  readonly #barred = new Set<string>();

  constructor(options: StartsOptions) {
    this.#options = options;
    this.#held = new HoldBack(options);
  }

  open(): void {
    this.#isOpen = true;
    this.#options.store.wake();
  }

  close(): void {
    this.#isOpen = false;
    this.#cancelWake?.();
    this.#cancelWake = null;
  }

  /** Keeps a step from starting while a command of an attempt of it that has ended still lives. */
  bar(stepRunId: string): () => void {
    this.#barred.add(stepRunId);
    return () => {
      this.#barred.delete(stepRunId);
      this.#options.store.wake();
    };
  }

  /** Nothing is claimed or started for a while. */
  holdBack(why: string): void {
    if (this.#held.begin(why) && this.#isOpen) {
      this.#wakeAt(this.#held.untilMs);
    }
  }

  heldBack(): string | null {
    return this.#held.why;
  }

  /** A command has run: whatever kept others from being started is over. */
  noteRun(): void {
    if (this.#held.end()) {
      this.#options.store.wake();
    }
  }

  /** Whether a run that is taken over is moved on with its next start, instead of now. */
  takeUp(_rows: RunRows): boolean {
    return false;
  }

  /** Last in a turn: admits and starts what there are slots for. `running`: the workflow of each command that runs. */
  fill(turn: Turn, running: readonly string[]): void {
    const { clock, concurrencyMax } = this.#options;
    const nowMs = clock.observe().uptimeMs;
    if (!this.#isOpen) {
      return;
    }
    if (nowMs < this.#held.untilMs) {
      // Closed and opened again meanwhile, it would be woken by nobody.
      this.#wakeAt(this.#held.untilMs);
      return;
    }
    const busy = new Map<string, number>();
    for (const key of running) {
      busy.set(key, 1 + (busy.get(key) ?? 0));
    }
    const free = concurrencyMax - running.length;
    const pass: Pass = { turn, nowMs, busy, full: new Set(), dueAtMs: new Map(), free };
    const isWhole = this.#walk(pass);
    if (nowMs < this.#held.untilMs) {
      return;
    }
    this.#held.looked();
    this.#dueAtMs = isWhole ? pass.dueAtMs : new Map([...this.#dueAtMs, ...pass.dueAtMs]);
    // Without a free slot nothing is waited for: the end of an attempt makes the next turn.
    this.#wakeAt(pass.free > 0 ? Math.min(...pass.dueAtMs.values()) : Number.POSITIVE_INFINITY);
  }

  /** Answers whether every ready step was looked at. */
  #walk(pass: Pass): boolean {
    let after: RunCursor | null = null;
    while (pass.free > 0) {
      const request = { limit: limits.pageMax, after, except: [...pass.full] };
      const page: StepPage = pass.turn.read(read('readySteps', request));
      for (const step of page.steps) {
        this.#consider(pass, step);
        if (pass.free <= 0 || pass.nowMs < this.#held.untilMs) {
          return false;
        }
      }
      if (page.next === null) {
        return true;
      }
      after = page.next;
    }
    return false;
  }

  #consider(pass: Pass, step: ReadyStep): void {
    const key = workflowKeyOf(step);
    const dueAtMs = this.#dueAtMs.get(step.stepRunId);
    if (dueAtMs !== undefined && dueAtMs > pass.nowMs) {
      pass.dueAtMs.set(step.stepRunId, dueAtMs);
      return;
    }
    if (pass.full.has(key) || this.#barred.has(step.stepRunId) || this.#options.isRunOver(step.runId)) {
      return;
    }
    const outcome = this.#start(pass, step, pass.busy.get(key) ?? 0);
    if (outcome === 'started') {
      pass.free -= 1;
      pass.busy.set(key, 1 + (pass.busy.get(key) ?? 0));
    } else if (outcome === 'workflow-busy') {
      pass.full.add(key);
    } else if (outcome !== 'none') {
      pass.dueAtMs.set(step.stepRunId, pass.nowMs + outcome.waitMs);
    }
  }

  #start({ turn }: Pass, { runId, stepRunId }: ReadyStep, busyOfWorkflow: number): StartOutcome {
    const { executor, handlerNames, runDirectory, log } = this.#options;
    const claim = operation(admitAttempt, { runId, stepRunId, handlerNames, busyOfWorkflow });
    let placeError: unknown = null;
    try {
      // Claim, place and barrier as one: where there is no place for an attempt, there is no attempt.
      return turn.together((): StartOutcome => {
        const admitted = turn.operate(claim);
        if (admitted.kind === 'not-due') {
          return { waitMs: admitted.waitMs };
        }
        if (admitted.kind === 'exhausted' || admitted.kind === 'refused') {
          return admitted.kind === 'refused' && admitted.reason === 'workflow-busy' ? 'workflow-busy' : 'none';
        }
        const { attemptId } = admitted;
        try {
          if (admitted.executorType === 'process') {
            refuseWithoutRoom(runDirectory);
            executor.prepare(attemptId);
          }
        } catch (error) {
          placeError = error;
          throw error;
        }
        const started = turn.operate(operation(startAttempt, { runId, stepRunId, attemptId }));
        assert(started.kind === 'started', 'what was claimed in a turn crosses its start barrier in the same one');
        return 'started';
      });
    } catch (error) {
      stopOnDefect(error);
      if (placeError !== null) {
        this.holdBack(describeError(error));
        return 'none';
      }
      if (isEdgeError(error) && error.code === 'damaged') {
        log(`run ${runId}: set aside: ${describeError(error)}`);
        turn.operate(operation(setAsideRun, { runId, code: error.code, summary: error.message }));
        return 'none';
      }
      // The storage: the turn is done again without this, because `undone` holds back.
      throw error;
    }
  }

  #wakeAt(uptimeMs: number): void {
    const { alarm, clock, store } = this.#options;
    this.#cancelWake?.();
    const latestMs = clock.observe().uptimeMs + limits.alarmMsMax;
    this.#cancelWake = Number.isFinite(uptimeMs)
      ? alarm.set(Math.min(uptimeMs, latestMs), () => {
          this.#cancelWake = null;
          store.wake();
        })
      : null;
  }
}
