// Attempts: admission in a ready epoch, the start barrier, observation, stop intents and completion. Each is an
// operation of its own, fenced on the attempt and the epoch, so a sibling step's commit never disturbs it.
import { type AttemptFacts, decideCompletion } from '../core/completion.ts';
import { remainingMs, startSpan } from '../core/deadline.ts';
import { draft } from '../core/events.ts';
import { executionDigestOf } from '../core/execution.ts';
import { deriveAttemptId } from '../core/ids.ts';
import { fillEnvironment, type TaskEnvironment } from '../core/package-setting.ts';
import type { RunAttempt, Span, StepRun } from '../core/records.ts';
import { isExhausted } from '../core/retry.ts';
import type { MaterializedTask } from '../core/revision.ts';
import {
  type AttemptStatus,
  type ExecutorType,
  isTerminalAttempt,
  isTerminalRun,
  type StepStatus,
} from '../core/states.ts';
import { advance } from './advance.ts';
import { converge } from './cancel.ts';
import { type Decision, operation, protocol } from './protocol.ts';
import { read, type StepContext, type StepPlace } from './reads.ts';

export type AttemptPlace = StepPlace & { readonly attemptId: string };

export type AdmitAttemptOutcome =
  | {
      readonly kind: 'claimed' | 'existing';
      readonly attemptId: string;
      readonly number: number;
      readonly executorType: ExecutorType;
    }
  /** The step failed: it has had every attempt that a step may have. */
  | { readonly kind: 'exhausted' }
  | { readonly kind: 'not-due'; readonly waitMs: number }
  | { readonly kind: 'refused'; readonly reason: 'not-found' | 'workflow-busy' | RefusalReason };

/** `busyOfWorkflow` commands of its workflow run now, in all runs and generations: its limit counts them. */
export type AdmitAttemptInput = StepPlace & {
  readonly handlerNames: readonly string[];
  readonly busyOfWorkflow: number;
};

/** Admits one attempt in the step's present epoch. Giving it again in the same epoch answers `existing`. */
export const admitAttempt = protocol({
  name: 'admit-attempt',
  load: ({ runId, stepRunId }: AdmitAttemptInput) => ({
    context: read('step', { runId, stepRunId }),
  }),
  decide: ({ context }, { handlerNames, busyOfWorkflow }, { now, trustedFromMs }): Decision<AdmitAttemptOutcome> => {
    if (context === null) {
      return { outcome: { kind: 'refused', reason: 'not-found' } };
    }
    const { rows, step } = context;
    const existing = attemptOfEpoch(context);
    if (existing !== null) {
      const { id: attemptId, number, executorType } = existing;
      return { outcome: { kind: 'existing', attemptId, number, executorType } };
    }
    const reason = refusalOf(context);
    if (reason !== null) {
      return { outcome: { kind: 'refused', reason } };
    }
    const waitMs = step.due === null ? 0 : remainingMs(step.due, now, trustedFromMs);
    if (waitMs > 0) {
      return { outcome: { kind: 'not-due', waitMs } };
    }
    if (isExhausted(context.attempts)) {
      const payload = {
        resultCode: 'attempts_exhausted',
        errorSummary: `gave up after ${context.attempts.length} attempts`,
      };
      const events = [draft('step.failed', payload, { stepRunId: step.id })];
      const follow = [operation(advance, { runId: rows.run.id })];
      return { outcome: { kind: 'exhausted' }, append: { rows, events }, follow };
    }
    // Last: a step that is not due, or failed for good, must not wait for a slot to say so.
    const busyMax = context.workflow.concurrency;
    if (busyMax !== null && busyOfWorkflow >= busyMax) {
      return { outcome: { kind: 'refused', reason: 'workflow-busy' } };
    }
    const attemptId = deriveAttemptId({ runId: rows.run.id, stepRunId: step.id, epoch: step.version });
    const number = context.lastAttemptNumber + 1;
    const handlerName = `${context.plan.target.packageName}/${context.planStep.taskId}`;
    const executorType: ExecutorType = handlerNames.includes(handlerName) ? 'handler' : 'process';
    const executionDigest = executionDigestIn(context);
    const payload = { number, stepRunVersion: step.version, executorType, executionDigest };
    const events = [draft('attempt.claimed', payload, { stepRunId: step.id, attemptId })];
    return { outcome: { kind: 'claimed', attemptId, number, executorType }, append: { rows, events } };
  },
});

/** Everything that an executor needs to begin an attempt. */
export type Launch = AttemptPlace & {
  /** Counted over the whole run; `tryNumber` within the step, as people count, from 1. */
  readonly number: number;
  readonly tryNumber: number;
  readonly executorType: ExecutorType;
  readonly stepKey: string;
  readonly taskId: string;
  readonly packageName: string;
  readonly workflowId: string;
  readonly task: MaterializedTask;
  /** Holds this device's values: never to be told to anyone but the command. */
  readonly environment: TaskEnvironment;
  readonly lockDigest: string;
  readonly deadline: Span;
};

export type StartAttemptOutcome =
  | { readonly kind: 'started'; readonly launch: Launch }
  | { readonly kind: 'refused'; readonly reason: string };

/** The start barrier: durable before anything is spawned. One change of attempt and step together. */
export const startAttempt = protocol({
  name: 'start-attempt',
  load: ({ runId, stepRunId }: AttemptPlace) => ({ context: read('step', { runId, stepRunId }) }),
  decide: ({ context }, { attemptId }, { now }): Decision<StartAttemptOutcome> => {
    const attempt = context === null ? null : attemptOfEpoch(context);
    if (context === null || attempt?.id !== attemptId || attempt.status !== 'claimed') {
      return { outcome: { kind: 'refused', reason: 'moved' } };
    }
    // A setting may have been changed since the claim: nothing runs but what the claim's digest says.
    const reason = refusalOf(context) ?? (attempt.executionDigest === executionDigestIn(context) ? null : 'moved');
    if (reason !== null) {
      return { outcome: { kind: 'refused', reason } };
    }
    const { rows, step, attempts, task, settings, plan, planStep } = context;
    const deadline = startSpan(now, task.timeoutMs);
    const launch = {
      runId: rows.run.id,
      stepRunId: step.id,
      attemptId,
      number: attempt.number,
      tryNumber: attempts.findIndex(({ id }) => id === attemptId) + 1,
      executorType: attempt.executorType,
      stepKey: step.stepKey,
      taskId: planStep.taskId,
      packageName: plan.target.packageName,
      workflowId: plan.workflowId,
      task,
      environment: fillEnvironment(task.env, settings),
      lockDigest: plan.target.lockDigest,
      deadline,
    };
    const events = [draft('attempt.started', { deadline, bootId: now.bootId }, { stepRunId: step.id, attemptId })];
    return { outcome: { kind: 'started', launch }, append: { rows, events } };
  },
});

export type ObserveOutcome = { readonly kind: 'observed' | 'unchanged'; readonly attemptId: string };

/** Notes that an attempt was seen alive. An observation: it fences nothing and is never worth a commit of its own. */
export const observeAttempt = protocol({
  name: 'observe-attempt',
  load: ({ runId, stepRunId }: AttemptPlace) => ({ context: read('step', { runId, stepRunId }) }),
  decide: ({ context }, { stepRunId, attemptId }): Decision<ObserveOutcome> => {
    const attempt = findAttempt(context, attemptId);
    if (context === null || attempt?.status !== 'starting') {
      return { outcome: { kind: 'unchanged', attemptId } };
    }
    const events = [draft('attempt.observed', {}, { stepRunId, attemptId })];
    return { outcome: { kind: 'observed', attemptId }, append: { rows: context.rows, events } };
  },
});

export type RequestStopOutcome =
  | { readonly kind: 'requested'; readonly attemptId: string; readonly graceMs: number }
  /** `isStopping`: an earlier intent is at work on it. */
  | { readonly kind: 'unchanged'; readonly attemptId: string; readonly isStopping: boolean };

/** Makes a task timeout or a shutdown durable before the command is stopped. The first intent wins, a cancel's too. */
export const requestStop = protocol({
  name: 'request-stop',
  load: ({ runId, stepRunId }: AttemptPlace & { readonly reason: 'timeout' | 'shutdown' }) => ({
    context: read('step', { runId, stepRunId }),
  }),
  decide: ({ context }, { stepRunId, attemptId, reason }): Decision<RequestStopOutcome> => {
    const attempt = findAttempt(context, attemptId);
    const mayRun = attempt?.status === 'starting' || attempt?.status === 'running';
    const hasIntent = attempt?.stopReason != null || context?.rows.run.cancelRequestedAtMs != null;
    if (context === null || !mayRun || hasIntent) {
      return { outcome: { kind: 'unchanged', attemptId, isStopping: mayRun && hasIntent } };
    }
    const head = { stepRunId, attemptId };
    const event =
      reason === 'timeout'
        ? draft('workflow.task_timeout_requested', {}, head)
        : draft('workflow.attempt_stop_requested', { reason }, head);
    const outcome = { kind: 'requested' as const, attemptId, graceMs: context.task.graceMs };
    return { outcome, append: { rows: context.rows, events: [event] } };
  },
});

export type CompleteInput = AttemptPlace & { readonly facts: AttemptFacts };

export type CompleteOutcome = AttemptPlace &
  (
    | { readonly kind: 'completed'; readonly attemptStatus: AttemptStatus; readonly stepStatus: StepStatus }
    /** The attempt had ended before: the same receipt came twice, or late. */
    | { readonly kind: 'settled'; readonly attemptStatus: AttemptStatus | null }
  );

/** Ends an attempt and its step together, and moves its run on in the same turn. */
export const complete = protocol({
  name: 'complete',
  load: ({ runId, stepRunId }: CompleteInput) => ({ context: read('step', { runId, stepRunId }) }),
  decide: ({ context }, { runId, stepRunId, attemptId, facts }, { now }): Decision<CompleteOutcome> => {
    const place = { runId, stepRunId, attemptId };
    const attempt = findAttempt(context, attemptId);
    if (context === null || attempt === null || isTerminalAttempt(attempt.status)) {
      return { outcome: { ...place, kind: 'settled', attemptStatus: attempt?.status ?? null } };
    }
    const { rows, step, attempts, task } = context;
    const { run } = rows;
    const events = decideCompletion({ run, step, attempts, attempt, facts, policy: task.retry, now });
    const follow = [run.cancelRequestedAtMs === null ? operation(advance, { runId }) : operation(converge, { runId })];
    const [ended, next] = events;
    const attemptStatus = ended!.type.slice('attempt.'.length) as AttemptStatus;
    const stepStatus =
      next?.type === 'step.readied' ? 'ready' : next?.type === 'step.failed' ? 'failed' : stepStatusOf(ended!);
    return { outcome: { ...place, kind: 'completed', attemptStatus, stepStatus }, append: { rows, events }, follow };
  },
});

function stepStatusOf(event: { readonly payload: object }): StepStatus {
  return (event.payload as { readonly stepStatus: StepStatus }).stepStatus;
}

function attemptOfEpoch({ step, attempts }: StepContext): RunAttempt | null {
  return attempts.find((attempt) => attempt.stepRunVersion === step.version) ?? null;
}

function findAttempt(context: StepContext | null, attemptId: string): RunAttempt | null {
  return context?.attempts.find(({ id }) => id === attemptId) ?? null;
}

function executionDigestIn({ task, settings, plan }: StepContext): string {
  return executionDigestOf({ task, settings, lockDigest: plan.target.lockDigest });
}

type RefusalReason = 'ended' | 'cancelled' | 'quarantined' | 'publisher-revoked' | 'not-ready';

function refusalOf(context: StepContext): RefusalReason | null {
  const { rows, step } = context;
  if (isTerminalRun(rows.run.status)) {
    return 'ended';
  }
  if (rows.run.cancelRequestedAtMs !== null) {
    return 'cancelled';
  }
  if (context.isQuarantined || context.isPublisherRevoked) {
    return context.isQuarantined ? 'quarantined' : 'publisher-revoked';
  }
  return isReady(step) ? null : 'not-ready';
}

function isReady(step: StepRun): boolean {
  return step.status === 'ready';
}
