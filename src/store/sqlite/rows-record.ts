// Rows of RunIdentities and RunRecords as Run, StepRun and RunAttempt, and back. Every record is rebuilt whole and its
// digest recomputed, so that an altered column of a row never passes for a record.
import type { EventPayloads } from '../../core/events.ts';
import { deriveAttemptId, deriveMutationId } from '../../core/ids.ts';
import type { Plan, PlanStep } from '../../core/plan.ts';
import { isIntact } from '../../core/record-seal.ts';
import { type Run, type RunAttempt, runTriggerType, type Span, type StepRun } from '../../core/records.ts';
import type {
  AttemptStatus,
  CancelReason,
  ExecutorType,
  RunStatus,
  StepStatus,
  StopReason,
} from '../../core/states.ts';
import { damaged } from '../damaged.ts';
import { decodeSpan, encodeSpan, toBytes, toHex } from './codec.ts';

export type IdentityRow = {
  readonly runId: string;
  readonly projectId: string;
  readonly planId: string;
  readonly workflowId: string;
  readonly publicationDigest: Uint8Array;
  readonly packageName: string;
  readonly generation: number;
  readonly triggerType: string;
  readonly triggerId: string | null;
  readonly scheduledForMs: number | null;
  readonly requestedBy: string;
  readonly idempotencyKey: string | null;
  readonly retryOfRunId: string | null;
  readonly deadlineStartMs: number | null;
  readonly deadlineStartUptimeMs: number | null;
  readonly deadlineBootId: string | null;
  readonly deadlineLengthMs: number | null;
};

/** What RunIdentities holds of a run: the contents of its first event. */
export function encodeIdentity(runId: string, admitted: EventPayloads['workflow.admitted']): IdentityRow {
  const [deadlineStartMs, deadlineStartUptimeMs, deadlineBootId, deadlineLengthMs] = encodeSpan(admitted.deadline);
  return {
    runId,
    projectId: admitted.projectId,
    planId: admitted.planId,
    workflowId: admitted.workflowId,
    publicationDigest: toBytes(admitted.publicationDigest),
    packageName: admitted.packageName,
    generation: admitted.generation,
    triggerType: runTriggerType,
    triggerId: admitted.triggerId,
    scheduledForMs: admitted.scheduledForMs,
    requestedBy: admitted.requestedBy,
    idempotencyKey: admitted.idempotencyKey,
    retryOfRunId: admitted.retryOfRunId,
    deadlineStartMs,
    deadlineStartUptimeMs,
    deadlineBootId,
    deadlineLengthMs,
  };
}

/** The columns of a run's record that may change without its status. `lastEventKey` is that of its newest event. */
export function encodeRunProgress(run: Run, lastEventKey: number) {
  return {
    lastEventKey,
    version: run.version,
    updatedAtMs: run.updatedAtMs,
    cancelRequestedAtMs: run.cancelRequestedAtMs,
    cancelReason: run.cancelReason,
    historyDigest: toBytes(run.historyDigest),
    digest: toBytes(run.digest),
  };
}

/** The columns of a run's record that change when the run ends. */
export function encodeRunEnd(run: Run, lastEventKey: number) {
  const { status, finishedAtMs, errorCode, errorSummary } = run;
  return { ...encodeRunProgress(run, lastEventKey), status, finishedAtMs, errorCode, errorSummary };
}

type RunColumns = {
  /** Whether a column is set that only steps have. */
  readonly hasStray: number;
  readonly lastEventKey: number;
  readonly status: RunStatus;
  readonly version: number;
  readonly createdAtMs: number;
  readonly startedAtMs: number;
  readonly updatedAtMs: number;
  readonly finishedAtMs: number | null;
  readonly planDigest: Uint8Array;
  readonly historyDigest: Uint8Array;
  readonly digest: Uint8Array;
  readonly cancelRequestedAtMs: number | null;
  readonly cancelReason: CancelReason | null;
  readonly errorCode: string | null;
  readonly errorSummary: string | null;
};

/** RunIdentities with the run's record beside it; where that is missing, `status` is null and so is the rest of it. */
export type RunRow = { readonly runKey: number } & IdentityRow & (RunColumns | { readonly status: null });

/** Throws `damaged` where the record is missing, or is not the one that was stored. */
export function decodeRun(row: RunRow): Run {
  if (row.status === null) {
    throw damaged('RunRecords', 'has no record of the run itself', { runId: row.runId });
  }
  const run: Run = {
    id: row.runId,
    projectId: row.projectId,
    planId: row.planId,
    planDigest: toHex(row.planDigest),
    workflowId: row.workflowId,
    publicationDigest: toHex(row.publicationDigest),
    packageName: row.packageName,
    generation: row.generation,
    triggerType: row.triggerType as Run['triggerType'],
    triggerId: row.triggerId,
    scheduledForMs: row.scheduledForMs,
    requestedBy: row.requestedBy,
    idempotencyKey: row.idempotencyKey,
    status: row.status,
    version: row.version,
    eventSequence: row.version,
    createdAtMs: row.createdAtMs,
    startedAtMs: row.startedAtMs,
    updatedAtMs: row.updatedAtMs,
    finishedAtMs: row.finishedAtMs,
    deadline: decodeSpan([row.deadlineStartMs, row.deadlineStartUptimeMs, row.deadlineBootId, row.deadlineLengthMs]),
    cancelRequestedAtMs: row.cancelRequestedAtMs,
    cancelReason: row.cancelReason,
    retryOfRunId: row.retryOfRunId,
    errorCode: row.errorCode,
    errorSummary: row.errorSummary,
    historyDigest: toHex(row.historyDigest),
    digest: toHex(row.digest),
  };
  if (!isIntact(run) || row.hasStray !== 0) {
    throw damaged('RunIdentities or RunRecords', 'differ from the digest of the run', { runId: run.id });
  }
  return run;
}

export type StepRow = {
  /** Whether a column is set that only runs have. */
  readonly hasStray: number;
  readonly number: number;
  readonly status: StepStatus;
  readonly version: number;
  readonly updatedAtMs: number;
  readonly readyAtMs: number | null;
  readonly startedAtMs: number | null;
  readonly finishedAtMs: number | null;
  readonly digest: Uint8Array;
  readonly attemptCount: number;
  readonly dueStartMs: number | null;
  readonly dueStartUptimeMs: number | null;
  readonly dueBootId: string | null;
  readonly dueLengthMs: number | null;
  readonly resultCode: string | null;
  readonly errorSummary: string | null;
  readonly inputRef: string | null;
  readonly outputRef: string | null;
};

/** The columns of a step's record; what its plan says of it is not among them. */
export function encodeStep(step: StepRun) {
  const [dueStartMs, dueStartUptimeMs, dueBootId, dueLengthMs] = encodeSpan(step.due);
  return {
    status: step.status,
    version: step.version,
    updatedAtMs: step.updatedAtMs,
    readyAtMs: step.readyAtMs,
    startedAtMs: step.startedAtMs,
    finishedAtMs: step.finishedAtMs,
    digest: toBytes(step.digest),
    attemptCount: step.attemptCount,
    dueStartMs,
    dueStartUptimeMs,
    dueBootId,
    dueLengthMs,
    resultCode: step.resultCode,
    errorSummary: step.errorSummary,
    inputRef: step.inputRef,
    outputRef: step.outputRef,
  };
}

/** A step run out of its row and what the plan says of it. Steps are created with their run, at its time. */
export function decodeStep(row: StepRow, run: Run, plan: Plan): StepRun {
  const planned = plannedStep(row.number, run, plan);
  const { status, version } = row;
  const step: StepRun = {
    schema: 'qinglong/step-run@v1',
    id: planned.stepRunId,
    runId: run.id,
    stepKey: planned.stepKey,
    kind: 'task',
    taskRef: planned.taskRef,
    taskSourceDigest: planned.taskSourceDigest,
    required: planned.required,
    status,
    version,
    attemptCount: row.attemptCount,
    readyAtMs: row.readyAtMs,
    due: decodeSpan([row.dueStartMs, row.dueStartUptimeMs, row.dueBootId, row.dueLengthMs]),
    startedAtMs: row.startedAtMs,
    finishedAtMs: row.finishedAtMs,
    resultCode: row.resultCode,
    errorSummary: row.errorSummary,
    inputRef: row.inputRef,
    outputRef: row.outputRef,
    createdAtMs: run.createdAtMs,
    updatedAtMs: row.updatedAtMs,
    lastMutationId: deriveMutationId({ planId: plan.planId, stepRunId: planned.stepRunId, version, status }),
    digest: toHex(row.digest),
  };
  if (!isIntact(step) || row.hasStray !== 0) {
    throw damaged('RunRecords', `of step ${step.stepKey} differs from its digest`, { runId: run.id });
  }
  return step;
}

export type AttemptRow = {
  /** The step that led here; where it led nowhere, everything else is null. */
  readonly ownerNumber: number;
  readonly attemptKey: number | null;
  /** The attempt before it of its step. */
  readonly previousKey: number | null;
  readonly runKey: number;
  readonly number: number;
  readonly stepNumber: number;
  readonly stepRunVersion: number;
  readonly status: AttemptStatus;
  readonly executorType: ExecutorType;
  readonly executionDigest: Uint8Array;
  readonly claimedAtMs: number;
  readonly startedAtMs: number | null;
  readonly finishedAtMs: number | null;
  readonly bootId: string | null;
  readonly deadlineStartMs: number | null;
  readonly deadlineStartUptimeMs: number | null;
  readonly deadlineBootId: string | null;
  readonly deadlineLengthMs: number | null;
  readonly stopReason: StopReason | null;
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly outputBytes: number | null;
  readonly outputTruncated: number | null;
  readonly durationMs: number | null;
  readonly errorCode: string | null;
  readonly errorSummary: string | null;
  readonly digest: Uint8Array;
};

/** The columns of an attempt that may change; the others are set when it is admitted. */
export function encodeAttemptProgress(attempt: RunAttempt) {
  const { bootId, outputTruncated } = attempt;
  const [deadlineStartMs, deadlineStartUptimeMs, deadlineBootId, deadlineLengthMs] = encodeSpan(attempt.deadline);
  return {
    status: attempt.status,
    startedAtMs: attempt.startedAtMs,
    finishedAtMs: attempt.finishedAtMs,
    bootId,
    deadlineStartMs,
    deadlineStartUptimeMs,
    deadlineBootId: deadlineBootId === bootId ? null : deadlineBootId,
    deadlineLengthMs,
    stopReason: attempt.stopReason,
    exitCode: attempt.exitCode,
    signal: attempt.signal,
    outputBytes: attempt.outputBytes,
    outputTruncated: outputTruncated === null ? null : Number(outputTruncated),
    durationMs: attempt.durationMs,
    errorCode: attempt.errorCode,
    errorSummary: attempt.errorSummary,
    digest: toBytes(attempt.digest),
  };
}

/** An attempt out of its row and what the plan says of its step. Throws `damaged` where its digest differs. */
export function decodeAttempt(row: AttemptRow, run: Run, plan: Plan): RunAttempt {
  const planned = plannedStep(row.stepNumber, run, plan);
  const { bootId, stepRunVersion, outputTruncated } = row;
  const attempt: RunAttempt = {
    id: deriveAttemptId({ runId: run.id, stepRunId: planned.stepRunId, epoch: stepRunVersion }),
    runId: run.id,
    stepRunId: planned.stepRunId,
    number: row.number,
    stepRunVersion,
    status: row.status,
    executorType: row.executorType,
    taskRef: planned.taskRef,
    executionDigest: toHex(row.executionDigest),
    deadline: decodeDeadline(row),
    bootId,
    stopReason: row.stopReason,
    startedAtMs: row.startedAtMs,
    finishedAtMs: row.finishedAtMs,
    exitCode: row.exitCode,
    signal: row.signal,
    outputBytes: row.outputBytes,
    outputTruncated: outputTruncated === null ? null : outputTruncated === 1,
    durationMs: row.durationMs,
    errorCode: row.errorCode,
    errorSummary: row.errorSummary,
    claimedAtMs: row.claimedAtMs,
    digest: toHex(row.digest),
  };
  // One record has one form: a boot id that only repeats the attempt's own, or a third truth, was not written by us.
  const isCanonical =
    (row.deadlineBootId === null || row.deadlineBootId !== bootId) && (outputTruncated ?? 0) >> 1 === 0;
  if (!isIntact(attempt) || !isCanonical) {
    throw damaged('RunAttempts', `of attempt ${row.number} differs from its digest`, { runId: run.id });
  }
  return attempt;
}

function decodeDeadline(row: AttemptRow): Span | null {
  const { bootId, deadlineStartMs, deadlineStartUptimeMs, deadlineBootId, deadlineLengthMs } = row;
  const isSet = deadlineStartMs !== null || deadlineStartUptimeMs !== null || deadlineLengthMs !== null;
  return decodeSpan([
    deadlineStartMs,
    deadlineStartUptimeMs,
    deadlineBootId ?? (isSet ? bootId : null),
    deadlineLengthMs,
  ]);
}

function plannedStep(number: number, run: Run, plan: Plan): PlanStep {
  const planned = plan.steps[number - 1];
  if (planned === undefined) {
    throw damaged('RunRecords or RunAttempts', `names step ${number} of ${plan.steps.length}`, { runId: run.id });
  }
  return planned;
}
