// The facts of a run. An event is append-only; its payload carries everything that the fold needs, and nothing else.
// An event changes the Run always, and at most one StepRun and one RunAttempt: one that changes a StepRun is a
// mutation.
import { assert } from './errors.ts';
import { deriveEventId } from './ids.ts';
import type { Run, Span } from './records.ts';
import type { AttemptStatus, CancelReason, ExecutorType, RunStatus, StepKind, StepStatus } from './states.ts';

export type AttemptEndStatus = Extract<AttemptStatus, 'succeeded' | 'failed' | 'cancelled' | 'timed_out' | 'lost'>;
export type RunEndStatus = Exclude<RunStatus, 'running'>;

/** How an attempt and its step end together. `stepStatus` is `ready` for an automatic retry or a start taken back. */
export type AttemptEndPayload = {
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly outputBytes: number | null;
  readonly outputTruncated: boolean | null;
  /** When the command ended, which may be long before this event: a runtime was dead. Null: with the event. */
  readonly finishedAtMs: number | null;
  /** By the monotonic clock, whatever the wall clock did meanwhile. */
  readonly durationMs: number | null;
  readonly errorCode: string | null;
  readonly errorSummary: string | null;
  readonly stepStatus: Extract<StepStatus, 'succeeded' | 'failed' | 'cancelled' | 'timed_out' | 'lost' | 'ready'>;
  readonly stepResultCode: string | null;
  readonly stepDue: Span | null;
};

export type StepEndPayload = { readonly resultCode: string; readonly errorSummary: string | null };
export type RunEndPayload = { readonly errorCode: string | null; readonly errorSummary: string | null };
export type NewsPayload = { readonly summary: string };

export type EventPayloads = {
  'workflow.admitted': {
    readonly planId: string;
    readonly planDigest: string;
    readonly projectId: string;
    readonly workflowId: string;
    readonly publicationDigest: string;
    readonly packageName: string;
    readonly generation: number;
    readonly triggerId: string | null;
    readonly scheduledForMs: number | null;
    readonly requestedBy: string;
    readonly idempotencyKey: string | null;
    readonly retryOfRunId: string | null;
    readonly deadline: Span | null;
  };
  'step.created': {
    readonly stepKey: string;
    readonly kind: StepKind;
    readonly taskRef: string;
    readonly taskSourceDigest: string;
    readonly required: boolean;
    readonly status: Extract<StepStatus, 'ready' | 'pending'>;
  };
  'step.readied': { readonly due: Span | null };
  'step.skipped': StepEndPayload;
  'step.failed': StepEndPayload;
  'step.cancelled': StepEndPayload;
  'step.timed_out': StepEndPayload;
  'attempt.claimed': {
    readonly number: number;
    readonly stepRunVersion: number;
    readonly executorType: ExecutorType;
    readonly executionDigest: string;
  };
  'attempt.started': { readonly deadline: Span | null; readonly bootId: string };
  'attempt.observed': Record<never, never>;
  'attempt.succeeded': AttemptEndPayload;
  'attempt.failed': AttemptEndPayload;
  'attempt.cancelled': AttemptEndPayload;
  'attempt.timed_out': AttemptEndPayload;
  'attempt.lost': AttemptEndPayload;
  'workflow.task_timeout_requested': Record<never, never>;
  'workflow.attempt_stop_requested': { readonly reason: 'shutdown' };
  'workflow.cancel_requested': { readonly reason: CancelReason };
  'workflow.succeeded': RunEndPayload;
  'workflow.failed': RunEndPayload;
  'workflow.cancelled': RunEndPayload;
  'workflow.timed_out': RunEndPayload;
  'workflow.leftover_found': NewsPayload;
  'workflow.stop_forced': NewsPayload;
  'workflow.late_receipt_found': NewsPayload;
};

export type EventType = keyof EventPayloads;

const attemptEndKeys = [
  'exitCode',
  'signal',
  'outputBytes',
  'outputTruncated',
  'finishedAtMs',
  'durationMs',
  'errorCode',
  'errorSummary',
  'stepStatus',
  'stepResultCode',
  'stepDue',
] as const;
const stepEndKeys = ['resultCode', 'errorSummary'] as const;
const runEndKeys = ['errorCode', 'errorSummary'] as const;

/** The exact keys of each payload. A store may leave nulls out and fill them in again from here. */
export const payloadKeys: { readonly [T in EventType]: readonly (keyof EventPayloads[T])[] } = {
  'workflow.admitted': [
    'planId',
    'planDigest',
    'projectId',
    'workflowId',
    'publicationDigest',
    'packageName',
    'generation',
    'triggerId',
    'scheduledForMs',
    'requestedBy',
    'idempotencyKey',
    'retryOfRunId',
    'deadline',
  ],
  'step.created': ['stepKey', 'kind', 'taskRef', 'taskSourceDigest', 'required', 'status'],
  'step.readied': ['due'],
  'step.skipped': stepEndKeys,
  'step.failed': stepEndKeys,
  'step.cancelled': stepEndKeys,
  'step.timed_out': stepEndKeys,
  'attempt.claimed': ['number', 'stepRunVersion', 'executorType', 'executionDigest'],
  'attempt.started': ['deadline', 'bootId'],
  'attempt.observed': [],
  'attempt.succeeded': attemptEndKeys,
  'attempt.failed': attemptEndKeys,
  'attempt.cancelled': attemptEndKeys,
  'attempt.timed_out': attemptEndKeys,
  'attempt.lost': attemptEndKeys,
  'workflow.task_timeout_requested': [],
  'workflow.attempt_stop_requested': ['reason'],
  'workflow.cancel_requested': ['reason'],
  'workflow.succeeded': runEndKeys,
  'workflow.failed': runEndKeys,
  'workflow.cancelled': runEndKeys,
  'workflow.timed_out': runEndKeys,
  'workflow.leftover_found': ['summary'],
  'workflow.stop_forced': ['summary'],
  'workflow.late_receipt_found': ['summary'],
};

export const eventTypes = Object.keys(payloadKeys) as readonly EventType[];

/** News after a run's end: the version and the chain rise, nothing else. */
export const newsTypes: readonly EventType[] = [
  'workflow.leftover_found',
  'workflow.stop_forced',
  'workflow.late_receipt_found',
];

export const actorTypes = ['runtime', 'operator', 'executor'] as const;
export type ActorType = (typeof actorTypes)[number];

type EventHead = {
  readonly actorType: ActorType;
  readonly actorId: string | null;
  readonly stepRunId: string | null;
  readonly attemptId: string | null;
};

/** What a decision says happened. The one `append` numbers it, stamps it and derives its id. */
export type EventDraft = {
  [T in EventType]: EventHead & { readonly type: T; readonly payload: EventPayloads[T] };
}[EventType];

export type RunEvent = EventDraft & {
  readonly id: string;
  readonly runId: string;
  readonly sequence: number;
  readonly createdAtMs: number;
};

export type EventOf<T extends EventType> = Extract<RunEvent, { readonly type: T }>;

const runtimeHead: EventHead = { actorType: 'runtime', actorId: null, stepRunId: null, attemptId: null };

/** A draft by the runtime itself, with what differs from that given in `head`. */
export function draft<T extends EventType>(
  type: T,
  payload: EventPayloads[T],
  head: Partial<EventHead> = {},
): EventDraft {
  return { ...runtimeHead, ...head, type, payload } as EventDraft;
}

/**
 * Numbers drafts on from a run's version and stamps them with one time, which is never earlier than the run's last:
 * a wall clock that steps back cannot make a history run backwards.
 */
export function stampEvents(
  run: Pick<Run, 'id' | 'version' | 'updatedAtMs'> | { id: string; version: 0; updatedAtMs: 0 },
  drafts: readonly EventDraft[],
  wallMs: number,
): readonly RunEvent[] {
  assert(drafts.length > 0, 'an append has events');
  const createdAtMs = Math.max(wallMs, run.updatedAtMs);
  return drafts.map((entry, index) => {
    const sequence = run.version + index + 1;
    const id = deriveEventId({ runId: run.id, sequence, type: entry.type });
    return { ...entry, id, runId: run.id, sequence, createdAtMs };
  });
}
