// The reference model of one run: what may and what must become of it, written from the design pages alone, apart from
// src/core (types excepted). It follows the committed events one by one, and judges each by what it knows of the run so
// far and by what really became of the commands. Pure: everything else is told to it.
import type { EventOf, RunEvent } from '../../src/core/events.ts';
import type { Now } from '../../src/core/ports.ts';
import type { Span } from '../../src/core/records.ts';
import {
  expectEnd,
  expectRunEnd,
  type Outcome,
  type StepRule,
  spreadNeeds,
  unstartedDelayMs,
  type WorkflowRule,
} from './rules.ts';

export type ModelAttempt = {
  readonly id: string;
  readonly stepKey: string;
  readonly number: number;
  readonly executorType: string;
  status: string;
  startedUptimeMs: number;
  bootId: string;
  timeoutMs: number;
  stopReason: 'timeout' | 'shutdown' | null;
  /** Crossed the start barrier, and was not proven unstarted. */
  isUsed: boolean;
};

export type ModelStep = {
  readonly rule: StepRule;
  readonly id: string;
  status: string;
  due: Span | null;
  readonly attempts: ModelAttempt[];
  /** What has to follow a loss in the same append. */
  afterLoss: { readonly type: 'step.readied' | 'step.failed'; readonly delayMs: number | null } | null;
};

/** What the model is told of the world at a commit. */
export type Circumstance = {
  /** The wall time as late as this boot has ever claimed it: a deadline that was measured by it is not moved back. */
  readonly now: Now;
  readonly trustedFromMs: number;
  /** What may truthfully be said of an attempt now; empty while its command lives. */
  readonly outcomesOf: (attemptId: string) => readonly Outcome[];
  /** Whether it was stopped while it ran; both where nobody can say. */
  readonly stopsOf: (attemptId: string) => readonly boolean[];
  /** Whether nothing of this run's package may start any more. */
  readonly isForbidden: boolean;
};

export class RunModel {
  readonly runId: string;
  readonly rule: WorkflowRule;
  readonly packageName: string;
  readonly admittedAtMs: number;
  readonly deadline: Span | null;
  /** Its plan, and its idempotency key if it has one. */
  readonly names: readonly string[];
  readonly retryOfRunId: string | null;
  readonly steps = new Map<string, ModelStep>();
  readonly attempts = new Map<string, ModelAttempt>();
  sequence = 0;
  status = 'running';
  cancelReason: string | null = null;
  #complaints: string[] = [];

  constructor(rule: WorkflowRule, event: EventOf<'workflow.admitted'>) {
    this.rule = rule;
    this.runId = event.runId;
    this.packageName = event.payload.packageName;
    this.admittedAtMs = event.createdAtMs;
    this.deadline = event.payload.deadline;
    this.names = [event.payload.planId, event.payload.idempotencyKey].filter((name) => name !== null);
    this.retryOfRunId = event.payload.retryOfRunId;
  }

  /** Follows one event; answers what is wrong with it. */
  observe(event: RunEvent, around: Circumstance): readonly string[] {
    this.#complaints = [];
    this.#expect(event.sequence === this.sequence + 1, `event ${event.sequence} follows ${this.sequence}`);
    this.sequence = event.sequence;
    const isNews = /^workflow\.(leftover_found|stop_forced|late_receipt_found)$/.test(event.type);
    this.#expect((this.status === 'running') !== isNews, `${event.type} in a run that is ${this.status}`);
    const [noun] = event.type.split('.');
    if (noun === 'step') {
      this.#observeStep(event, around);
    } else if (noun === 'attempt' || event.attemptId !== null) {
      this.#observeAttempt(event, around);
    } else {
      this.#observeRun(event, around);
    }
    return this.#complaints.map(
      (complaint) => `run ${this.runId}, event ${event.sequence} ${event.type}: ${complaint}`,
    );
  }

  /** What must hold of every run after a whole commit: nothing that follows by itself was left to follow. */
  findUnfinished(): readonly string[] {
    const missing: string[] = [];
    const statuses = this.#statuses();
    if (this.steps.size !== this.rule.steps.size) {
      missing.push(`it has ${this.steps.size} of ${this.rule.steps.size} steps`);
    }
    if (this.status === 'running' && this.cancelReason === null) {
      const expected = spreadNeeds(this.rule, statuses);
      for (const [key, status] of expected) {
        if (statuses.get(key) !== status) {
          missing.push(`step ${key} is ${statuses.get(key)} and should have become ${status}`);
        }
      }
    }
    const living = [...this.steps.values()].filter((step) => !isFinal(step.status));
    if (this.status === 'running' && living.length === 0) {
      missing.push('all its steps have ended, and it has not');
    }
    if (this.status === 'running' && this.cancelReason !== null) {
      const free = living.filter((step) => this.liveAttempt(step) === null).map(({ rule }) => rule.key);
      missing.push(...free.map((key) => `step ${key} goes on after a cancel though nothing of it runs`));
    }
    return missing.map((what) => `run ${this.runId}: ${what}`);
  }

  liveAttempt(step: ModelStep): ModelAttempt | null {
    const last = step.attempts.at(-1) ?? null;
    return last !== null && ['claimed', 'starting', 'running'].includes(last.status) ? last : null;
  }

  stepOf(stepRunId: string | null): ModelStep | null {
    return [...this.steps.values()].find(({ id }) => id === stepRunId) ?? null;
  }

  #statuses(): ReadonlyMap<string, string> {
    return new Map([...this.steps.values()].map(({ rule, status }) => [rule.key, status]));
  }

  #expect(holds: boolean, rule: string): void {
    if (!holds) {
      this.#complaints.push(rule);
    }
  }

  #observeRun(event: RunEvent, around: Circumstance): void {
    switch (event.type) {
      case 'workflow.admitted': {
        const { deadline } = event.payload;
        this.#expect((deadline?.lengthMs ?? null) === this.rule.timeoutMs, `its timeout is ${this.rule.timeoutMs}`);
        this.#expect(event.sequence === 1, 'a run is admitted first');
        return;
      }
      case 'workflow.cancel_requested':
        this.#expect(this.cancelReason === null, `the intent ${this.cancelReason} stands`);
        this.cancelReason = event.payload.reason;
        if (this.cancelReason === 'timeout') {
          this.#expect(this.deadline !== null && isPast(this.deadline, around), 'its timeout is not over');
        }
        if (this.cancelReason === 'policy') {
          this.#expect(around.isForbidden, 'its package is not forbidden');
        }
        return;
      case 'workflow.succeeded':
      case 'workflow.failed':
      case 'workflow.cancelled':
      case 'workflow.timed_out': {
        const statuses = [...this.steps.values()].map(({ status }) => status);
        this.status = event.type.slice('workflow.'.length);
        this.#expect(statuses.every(isFinal), 'not all its steps have ended');
        const expected = expectRunEnd(statuses, this.cancelReason);
        this.#expect(this.status === expected, `it should have ended ${expected}`);
        return;
      }
      default:
    }
  }

  #observeStep(event: RunEvent, { now }: Circumstance): void {
    if (event.type === 'step.created') {
      this.#createStep(event);
      return;
    }
    const step = this.stepOf(event.stepRunId);
    if (step === null) {
      this.#expect(false, 'it names no step of the run');
      return;
    }
    const { rule, status } = step;
    const needs = rule.needs.map((need) => this.steps.get(need)?.status ?? 'missing');
    const blocked = spreadNeeds(this.rule, this.#statuses());
    const { afterLoss } = step;
    step.afterLoss = null;
    step.status = event.type.slice('step.'.length).replace('readied', 'ready');
    const isUnattended = this.liveAttempt(step) === null;
    this.#expect(isUnattended, 'an attempt of it has not ended');
    switch (event.type) {
      case 'step.readied':
        this.#expect(this.cancelReason === null, 'nothing becomes ready after a cancel');
        step.due = event.payload.due;
        if (status === 'lost') {
          this.#expect(afterLoss?.type === event.type, 'its retry rule does not allow another try');
          this.#expectDelay(event.payload.due, afterLoss?.delayMs ?? null, now);
        } else {
          this.#expect(status === 'pending' && needs.every((need) => need === 'succeeded'), `its needs are ${needs}`);
          this.#expect(event.payload.due === null, 'the first try of a step waits for nothing but its needs');
        }
        return;
      case 'step.failed':
        this.#expect(afterLoss?.type === event.type || step.attempts.length >= 64, `it was ${status}`);
        return;
      case 'step.skipped':
        this.#expect(status === 'pending' && this.cancelReason === null, `it was ${status}`);
        // Steps are told in the order of their keys, so a need may be skipped by a later event of the same pass.
        this.#expect(blocked.get(rule.key) === 'skipped', `its needs are ${needs}`);
        return;
      case 'step.cancelled':
      case 'step.timed_out': {
        const isTimedOut = this.cancelReason === 'timeout' && status === 'ready';
        this.#expect(this.cancelReason !== null, 'nobody has cancelled');
        this.#expect((event.type === 'step.timed_out') === isTimedOut, `it was ${status} under ${this.cancelReason}`);
        return;
      }
      default:
    }
  }

  #createStep(event: EventOf<'step.created'>): void {
    const { stepKey, status } = event.payload;
    const rule = this.rule.steps.get(stepKey);
    this.#expect(rule !== undefined, `the workflow has no step ${stepKey}`);
    if (rule !== undefined) {
      this.#expect(status === (rule.needs.length === 0 ? 'ready' : 'pending'), `it needs ${rule.needs}`);
      const id = event.stepRunId ?? '';
      this.steps.set(stepKey, { rule, id, status, due: null, attempts: [], afterLoss: null });
    }
  }

  #observeAttempt(event: RunEvent, around: Circumstance): void {
    const step = this.stepOf(event.stepRunId);
    if (event.type === 'attempt.claimed' && step !== null) {
      this.#claim(step, event, around);
      return;
    }
    const attempt = this.attempts.get(event.attemptId ?? '');
    if (step === null || attempt === undefined) {
      this.#expect(false, 'it names no attempt of the run');
      return;
    }
    const isLive = this.liveAttempt(step) === attempt;
    switch (event.type) {
      case 'attempt.started':
        this.#expect(isLive && attempt.status === 'claimed', `the attempt is ${attempt.status}`);
        this.#expect(this.cancelReason === null, 'nothing starts after a cancel');
        this.#expect(!around.isForbidden, 'nothing starts of a package that is forbidden');
        this.#expect(event.payload.deadline?.lengthMs === step.rule.timeoutMs, `its timeout is ${step.rule.timeoutMs}`);
        this.#expect(event.payload.bootId === around.now.bootId, 'it starts in this boot');
        Object.assign(attempt, { status: 'starting', isUsed: true, bootId: event.payload.bootId });
        attempt.startedUptimeMs = event.payload.deadline?.startUptimeMs ?? 0;
        step.status = 'running';
        return;
      case 'attempt.observed':
        this.#expect(isLive && attempt.status === 'starting', `the attempt is ${attempt.status}`);
        attempt.status = 'running';
        return;
      case 'workflow.task_timeout_requested':
      case 'workflow.attempt_stop_requested':
        this.#requestStop(attempt, event, around);
        return;
      default:
        if (event.type.startsWith('attempt.')) {
          this.#expect(isLive, `the attempt is ${attempt.status}`);
          this.#end(step, attempt, event as EventOf<'attempt.failed'>, around);
        }
    }
  }

  #claim(step: ModelStep, event: EventOf<'attempt.claimed'>, around: Circumstance): void {
    const { number, executorType } = event.payload;
    this.#expect(step.status === 'ready', `step ${step.rule.key} is ${step.status}`);
    this.#expect(this.liveAttempt(step) === null, 'an attempt of the step has not ended: one an epoch');
    this.#expect(this.cancelReason === null, 'nothing is claimed after a cancel');
    this.#expect(!around.isForbidden, 'nothing of a package that is forbidden is claimed');
    this.#expect(number === this.attempts.size + 1, `it is attempt ${this.attempts.size + 1} of the run`);
    this.#expect(step.due === null || isPast(step.due, around), 'the step is not due');
    this.#expect(step.attempts.length < 64, 'a step has at most 64 attempts');
    const id = event.attemptId ?? '';
    this.#expect(!this.attempts.has(id), 'an attempt is claimed once');
    const attempt: ModelAttempt = {
      id,
      stepKey: step.rule.key,
      number,
      executorType,
      status: 'claimed',
      startedUptimeMs: 0,
      bootId: '',
      timeoutMs: step.rule.timeoutMs,
      stopReason: null,
      isUsed: false,
    };
    step.attempts.push(attempt);
    this.attempts.set(id, attempt);
  }

  #requestStop(attempt: ModelAttempt, event: RunEvent, { now, trustedFromMs }: Circumstance): void {
    this.#expect(['starting', 'running'].includes(attempt.status), `the attempt is ${attempt.status}`);
    this.#expect(attempt.stopReason === null && this.cancelReason === null, 'the first intent wins');
    attempt.stopReason = event.type === 'workflow.task_timeout_requested' ? 'timeout' : 'shutdown';
    if (attempt.stopReason === 'timeout' && attempt.bootId === now.bootId && trustedFromMs >= 0) {
      const isOver = now.uptimeMs - attempt.startedUptimeMs >= attempt.timeoutMs;
      this.#expect(isOver, `it has run for ${now.uptimeMs - attempt.startedUptimeMs} of ${attempt.timeoutMs} ms`);
    }
  }

  #end(step: ModelStep, attempt: ModelAttempt, event: EventOf<'attempt.failed'>, around: Circumstance): void {
    const truths = attempt.status === 'claimed' ? (['unstarted'] as const) : around.outcomesOf(attempt.id);
    const status = event.type.slice('attempt.'.length);
    const used = step.attempts.filter(({ isUsed }) => isUsed).length;
    const { stopReason } = attempt;
    const facts = { stopReason, cancelReason: this.cancelReason, used, policy: step.rule.retry };
    const possible = truths.flatMap((outcome) =>
      around.stopsOf(attempt.id).map((isStopped) => ({ outcome, ...expectEnd({ outcome, isStopped, ...facts }) })),
    );
    const found = possible.find((end) => end.attempt === status && end.step === event.payload.stepStatus);
    const told = possible.map((end) => `${end.outcome}: ${end.attempt}/${end.step}`).join(', ') || 'its command lives';
    this.#expect(found !== undefined, `it ended ${status}/${event.payload.stepStatus}, true is ${told}`);
    attempt.status = status;
    step.status = event.payload.stepStatus;
    step.due = event.payload.stepDue;
    if (found?.outcome === 'unstarted') {
      const earlier = step.attempts.filter((one) => one !== attempt && !one.isUsed).length;
      attempt.isUsed = false;
      if (found.step === 'ready') {
        this.#expectDelay(step.due, unstartedDelayMs(earlier), around.now);
      }
    } else if (found?.step === 'ready') {
      this.#expectDelay(step.due, found.delayMs, around.now);
    } else if (found?.step === 'lost') {
      step.afterLoss = { type: found.isRetried ? 'step.readied' : 'step.failed', delayMs: found.delayMs };
    }
  }

  #expectDelay(due: Span | null, delayMs: number | null, now: Now): void {
    const isRight = due === null ? delayMs === null : due.lengthMs === delayMs && due.bootId === now.bootId;
    this.#expect(isRight, `it is due after ${due?.lengthMs ?? 0} ms, the rule says ${delayMs ?? 0}`);
  }
}

export function isFinal(status: string): boolean {
  return ['succeeded', 'failed', 'skipped', 'cancelled', 'timed_out'].includes(status);
}

/** By uptime within a boot; after one at least the present uptime has gone, and what the wall clock says if trusted. */
export function isPast(span: Span, { now, trustedFromMs }: Pick<Circumstance, 'now' | 'trustedFromMs'>): boolean {
  const byWallMs = now.wallMs >= trustedFromMs ? now.wallMs - span.startMs : 0;
  const goneMs = span.bootId === now.bootId ? now.uptimeMs - span.startUptimeMs : Math.max(now.uptimeMs, byWallMs);
  return goneMs >= span.lengthMs;
}
