// The run inspection document: what people and programs are shown of a run. Names and fields are fixed.
import type { AdmissionEvidence } from '../core/admission.ts';
import type { RunEvent } from '../core/events.ts';
import { deriveMutationId } from '../core/ids.ts';
import type { Plan } from '../core/plan.ts';
import type { Run, RunAttempt, RunRows, StepRun } from '../core/records.ts';
import type { RunSummary } from '../protocol/reads.ts';

export type AttemptInspection = Pick<
  RunAttempt,
  | 'id'
  | 'number'
  | 'status'
  | 'exitCode'
  | 'signal'
  | 'startedAtMs'
  | 'finishedAtMs'
  | 'outputBytes'
  | 'outputTruncated'
  | 'durationMs'
  | 'errorCode'
  | 'errorSummary'
  | 'executorType'
> & {
  /** Counted from 1 within its step, as a command sees it; `number` is counted over the run. */
  readonly attempt: number;
};

export type StepInspection = Pick<
  StepRun,
  'stepKey' | 'status' | 'version' | 'attemptCount' | 'resultCode' | 'errorSummary' | 'startedAtMs' | 'finishedAtMs'
> & {
  readonly stepRunId: string;
  readonly taskId: string;
  readonly needs: readonly string[];
  /** Wall time before which the step is not tried again, as far as the clock can be believed. */
  readonly dueAtMs: number | null;
  readonly attempts: readonly AttemptInspection[];
};

const runFields = [
  'id',
  'status',
  'version',
  'eventSequence',
  'packageName',
  'generation',
  'workflowId',
  'triggerType',
  'requestedBy',
  'idempotencyKey',
  'createdAtMs',
  'startedAtMs',
  'finishedAtMs',
  'cancelRequestedAtMs',
  'cancelReason',
  'retryOfRunId',
  'errorCode',
  'errorSummary',
] as const satisfies readonly (keyof Run)[];

const attemptFields = [
  'id',
  'number',
  'status',
  'exitCode',
  'signal',
  'startedAtMs',
  'finishedAtMs',
  'outputBytes',
  'outputTruncated',
  'durationMs',
  'errorCode',
  'errorSummary',
  'executorType',
] as const satisfies readonly (keyof RunAttempt)[];

export type RunInspection = {
  readonly schema: 'qinglong/run-inspection@v1';
  readonly run: Pick<Run, (typeof runFields)[number]>;
  /** Runs that retry this one, oldest first, as far as they were read. */
  readonly retriedByRunIds: readonly string[];
  readonly steps: readonly StepInspection[];
  readonly admission: {
    readonly planId: string;
    readonly planDigest: string;
    readonly receiptDigest: string;
    readonly publicationDigest: string;
  };
};

function pick<T extends object, const K extends keyof T>(record: T, fields: readonly K[]): Pick<T, K> {
  return Object.fromEntries(fields.map((field) => [field, record[field]])) as Pick<T, K>;
}

/** A run's own fields, as inspections and lists show them. */
export function inspectRunRecord(run: Run): RunInspection['run'] {
  return pick(run, runFields);
}

/** A run as a list shows it; one whose record cannot be believed has only its id and what was found. */
export type RunListEntry = (RunInspection['run'] | { readonly id: string; readonly status: null }) & {
  readonly setAside: { readonly code: string; readonly summary: string; readonly atMs: number } | null;
};

export function inspectRunSummary({ run, runId, setAside }: RunSummary): RunListEntry {
  const found = setAside === null ? null : { code: setAside.code, summary: setAside.summary, atMs: setAside.atMs };
  return run === null ? { id: runId, status: null, setAside: found } : { ...inspectRunRecord(run), setAside: found };
}

/** `rows` must hold all steps and attempts of the run. */
export function inspectRun(
  rows: RunRows,
  admission: AdmissionEvidence,
  retriedByRunIds: readonly string[] = [],
): RunInspection {
  const { plan, receipt } = admission;
  return {
    schema: 'qinglong/run-inspection@v1',
    run: inspectRunRecord(rows.run),
    retriedByRunIds,
    steps: plan.steps.map((planStep) => inspectStep(rows, planStep)),
    admission: {
      planId: plan.planId,
      planDigest: plan.planDigest,
      receiptDigest: receipt.receiptDigest,
      publicationDigest: plan.target.publicationDigest,
    },
  };
}

function inspectStep(rows: RunRows, planStep: Plan['steps'][number]): StepInspection {
  const step = rows.steps.get(planStep.stepRunId)!;
  const attempts = [...rows.attempts.values()]
    .filter(({ stepRunId }) => stepRunId === step.id)
    .sort((left, right) => left.number - right.number);
  return {
    stepRunId: step.id,
    stepKey: step.stepKey,
    taskId: planStep.taskId,
    status: step.status,
    version: step.version,
    attemptCount: step.attemptCount,
    needs: planStep.needs,
    resultCode: step.resultCode,
    errorSummary: step.errorSummary,
    dueAtMs: step.due === null ? null : step.due.startMs + step.due.lengthMs,
    startedAtMs: step.startedAtMs,
    finishedAtMs: step.finishedAtMs,
    attempts: attempts.map((attempt, index) => ({ attempt: index + 1, ...pick(attempt, attemptFields) })),
  };
}

export type EventInspection = Pick<
  RunEvent,
  'sequence' | 'id' | 'type' | 'actorType' | 'actorId' | 'stepRunId' | 'attemptId' | 'payload' | 'createdAtMs'
> & { readonly mutationId: string | null };

/** Adds the mutation ids of a run's events; events must be given in sequence from the first. */
export function createEventInspector(planId: string): (event: RunEvent) => EventInspection {
  const versions = new Map<string, number>();
  return (event) => {
    const status = mutationStatusOf(event);
    let mutationId: string | null = null;
    if (status !== null && event.stepRunId !== null) {
      const version = (versions.get(event.stepRunId) ?? 0) + 1;
      versions.set(event.stepRunId, version);
      mutationId = deriveMutationId({ planId, stepRunId: event.stepRunId, version, status });
    }
    const { sequence, id, type, actorType, actorId, stepRunId, attemptId, payload, createdAtMs } = event;
    return { sequence, id, type, actorType, actorId, stepRunId, attemptId, mutationId, payload, createdAtMs };
  };
}

/** The status that an event gives its step; null for events that change no step. */
export function mutationStatusOf(event: RunEvent): string | null {
  switch (event.type) {
    case 'step.created':
      return event.payload.status;
    case 'step.readied':
      return 'ready';
    case 'step.skipped':
    case 'step.failed':
    case 'step.cancelled':
    case 'step.timed_out':
      return event.type.slice('step.'.length);
    case 'attempt.started':
      return 'running';
    case 'attempt.succeeded':
    case 'attempt.failed':
    case 'attempt.cancelled':
    case 'attempt.timed_out':
    case 'attempt.lost':
      return event.payload.stepStatus;
    default:
      return null;
  }
}
