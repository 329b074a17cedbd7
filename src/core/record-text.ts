// The canonical texts of the records and events that every step makes anew, each written by its own members in
// canonical order: a quarter of what `canonicalJson` takes, which has to sort. The texts are the same, to the byte; a
// record with other members than those named here, or with a value outside the subset, goes the long way.
import { canonicalJson, canonicalJsonOrNull, orderedJson } from './canonical-json.ts';
import type { RunEvent } from './events.ts';
import type { Run, RunAttempt, Span, StepRun } from './records.ts';

const eventMembersCount = 10;

/** The canonical text of a run without its digest, which may be there or not. */
export function runText(run: Omit<Run, 'digest'>): string {
  const deadline = orderSpan(run.deadline);
  const ordered = {
    cancelReason: run.cancelReason,
    cancelRequestedAtMs: run.cancelRequestedAtMs,
    createdAtMs: run.createdAtMs,
    deadline,
    errorCode: run.errorCode,
    errorSummary: run.errorSummary,
    eventSequence: run.eventSequence,
    finishedAtMs: run.finishedAtMs,
    generation: run.generation,
    historyDigest: run.historyDigest,
    id: run.id,
    idempotencyKey: run.idempotencyKey,
    packageName: run.packageName,
    planDigest: run.planDigest,
    planId: run.planId,
    projectId: run.projectId,
    publicationDigest: run.publicationDigest,
    requestedBy: run.requestedBy,
    retryOfRunId: run.retryOfRunId,
    scheduledForMs: run.scheduledForMs,
    startedAtMs: run.startedAtMs,
    status: run.status,
    triggerId: run.triggerId,
    triggerType: run.triggerType,
    updatedAtMs: run.updatedAtMs,
    version: run.version,
    workflowId: run.workflowId,
  };
  return contentsText(ordered, deadline, run);
}

/** As `runText`. */
export function stepRunText(step: Omit<StepRun, 'digest'>): string {
  const due = orderSpan(step.due);
  const ordered = {
    attemptCount: step.attemptCount,
    createdAtMs: step.createdAtMs,
    due,
    errorSummary: step.errorSummary,
    finishedAtMs: step.finishedAtMs,
    id: step.id,
    inputRef: step.inputRef,
    kind: step.kind,
    lastMutationId: step.lastMutationId,
    outputRef: step.outputRef,
    readyAtMs: step.readyAtMs,
    required: step.required,
    resultCode: step.resultCode,
    runId: step.runId,
    schema: step.schema,
    startedAtMs: step.startedAtMs,
    status: step.status,
    stepKey: step.stepKey,
    taskRef: step.taskRef,
    taskSourceDigest: step.taskSourceDigest,
    updatedAtMs: step.updatedAtMs,
    version: step.version,
  };
  return contentsText(ordered, due, step);
}

/** As `runText`. */
export function attemptText(attempt: Omit<RunAttempt, 'digest'>): string {
  const deadline = orderSpan(attempt.deadline);
  const ordered = {
    bootId: attempt.bootId,
    claimedAtMs: attempt.claimedAtMs,
    deadline,
    durationMs: attempt.durationMs,
    errorCode: attempt.errorCode,
    errorSummary: attempt.errorSummary,
    executionDigest: attempt.executionDigest,
    executorType: attempt.executorType,
    exitCode: attempt.exitCode,
    finishedAtMs: attempt.finishedAtMs,
    id: attempt.id,
    number: attempt.number,
    outputBytes: attempt.outputBytes,
    outputTruncated: attempt.outputTruncated,
    runId: attempt.runId,
    signal: attempt.signal,
    startedAtMs: attempt.startedAtMs,
    status: attempt.status,
    stepRunId: attempt.stepRunId,
    stepRunVersion: attempt.stepRunVersion,
    stopReason: attempt.stopReason,
    taskRef: attempt.taskRef,
  };
  return contentsText(ordered, deadline, attempt);
}

/** The canonical text of what a history's digest covers: the digest before it, and one more event. */
export function historyText(previous: string | null, event: RunEvent): string {
  const { actorId, actorType, attemptId, createdAtMs, id, runId, sequence, stepRunId, type } = event;
  const head = orderedJson({ actorId, actorType, attemptId, createdAtMs, id });
  const tail = orderedJson({ runId, sequence, stepRunId, type });
  const inner = payloadText(event);
  const before = canonicalJsonOrNull(previous);
  if (
    head === null ||
    tail === null ||
    inner === null ||
    before === null ||
    countMembers(event) !== eventMembersCount
  ) {
    return canonicalJson({ previous, event });
  }
  return `{"event":${head.slice(0, -1)},"payload":${inner},${tail.slice(1)},"previous":${before}}`;
}

/** The canonical text of a payload, of those that steps have by the dozen by their members. Null as `orderedJson`. */
function payloadText(event: RunEvent): string | null {
  return orderedPayloadText(event) ?? canonicalJsonOrNull(event.payload);
}

function orderedPayloadText({ type, payload }: RunEvent): string | null {
  if (typeof payload !== 'object' || payload === null) {
    return null;
  }
  switch (type) {
    case 'step.created': {
      const { kind, required, status, stepKey, taskRef, taskSourceDigest } = payload;
      return partText({ kind, required, status, stepKey, taskRef, taskSourceDigest }, null, payload);
    }
    case 'step.readied': {
      const due = orderSpan(payload.due);
      return partText({ due }, due, payload);
    }
    case 'attempt.claimed': {
      const { executionDigest, executorType, number, stepRunVersion } = payload;
      return partText({ executionDigest, executorType, number, stepRunVersion }, null, payload);
    }
    case 'attempt.started': {
      const deadline = orderSpan(payload.deadline);
      return partText({ bootId: payload.bootId, deadline }, deadline, payload);
    }
    case 'attempt.succeeded':
    case 'attempt.failed': {
      const { durationMs, errorCode, errorSummary, exitCode, finishedAtMs, outputBytes, outputTruncated } = payload;
      const { signal, stepResultCode, stepStatus } = payload;
      const stepDue = orderSpan(payload.stepDue);
      const first = { durationMs, errorCode, errorSummary, exitCode, finishedAtMs, outputBytes, outputTruncated };
      return partText({ ...first, signal, stepDue, stepResultCode, stepStatus }, stepDue, payload);
    }
    default:
      return null;
  }
}

function partText(ordered: object, span: Span | null | undefined, whole: object): string | null {
  return span !== undefined && countMembers(whole) === countMembers(ordered) ? orderedJson(ordered, span) : null;
}

function contentsText(ordered: object, span: Span | null | undefined, record: object): string {
  const isWhole = countMembers(record) - Number(Object.hasOwn(record, 'digest')) === countMembers(ordered);
  const text = isWhole && span !== undefined ? orderedJson(ordered, span) : null;
  return text ?? canonicalJson(withoutDigest(record));
}

function countMembers(record: object): number {
  return Object.keys(record).length;
}

function withoutDigest(record: object): object {
  const { digest: _sealed, ...contents } = record as { digest?: unknown };
  return contents;
}

/** Undefined for what is none. */
function orderSpan(span: Span | null): Span | null | undefined {
  if (span === null || typeof span !== 'object') {
    return span === null ? null : undefined;
  }
  const { bootId, lengthMs, startMs, startUptimeMs } = span;
  const ordered = { bootId, lengthMs, startMs, startUptimeMs };
  return countMembers(span) === countMembers(ordered) ? ordered : undefined;
}
