// The list of runs that operators look at: newest first, finished ones included. A damaged run is listed without its
// record, so that one never hides the others.
import type { DatabaseSync } from 'node:sqlite';
import { isEdgeError } from '../../core/errors.ts';
import type { Run } from '../../core/records.ts';
import type { RunStatus } from '../../core/states.ts';
import type { Reads, RunSummary } from '../../protocol/reads.ts';
import { decodeRun, type RunRow } from './rows-record.ts';
import { statement } from './statement.ts';

// Run keys rise with time. Most runs succeed, so that without a status, or with that one, the page fills at once.
const selectAnySql = `SELECT i.runKey, i.runId, i.projectId, i.planId, i.workflowId, i.publicationDigest, i.packageName,
    i.generation, i.triggerType, i.triggerId, i.scheduledForMs, i.requestedBy, i.idempotencyKey, i.retryOfRunId,
    i.deadlineStartMs, i.deadlineStartUptimeMs, i.deadlineBootId, i.deadlineLengthMs, r.status, r.version,
    r.createdAtMs, r.startedAtMs, r.updatedAtMs, r.finishedAtMs, r.planDigest, r.historyDigest, r.digest,
    r.cancelRequestedAtMs, r.cancelReason, r.errorCode, r.errorSummary,
    coalesce(r.attemptCount, r.readyAtMs, r.dueStartMs, r.dueStartUptimeMs, r.dueBootId, r.dueLengthMs, r.resultCode,
      r.inputRef, r.outputRef, r.lastAttemptKey) IS NOT NULL AS hasStray, a.code AS setAsideCode,
    a.summary AS setAsideSummary, a.atMs AS setAsideAtMs
  FROM RunIdentities AS i
  LEFT JOIN RunRecords AS r ON r.recordKey = i.runKey << 8
  LEFT JOIN SetAside AS a ON a.runId = i.runId
  WHERE i.runKey < +:before AND (:status IS NULL OR r.status = :status)
    AND (:packageName IS NULL OR i.packageName = :packageName)
  ORDER BY i.runKey DESC LIMIT +:limit`;

// Each of these walks a partial index, so that looking for the few does not scan the many.
const selectRunningSql = `SELECT i.runKey, i.runId, i.projectId, i.planId, i.workflowId, i.publicationDigest,
    i.packageName, i.generation, i.triggerType, i.triggerId, i.scheduledForMs, i.requestedBy, i.idempotencyKey,
    i.retryOfRunId, i.deadlineStartMs, i.deadlineStartUptimeMs, i.deadlineBootId, i.deadlineLengthMs, r.status,
    r.version, r.createdAtMs, r.startedAtMs, r.updatedAtMs, r.finishedAtMs, r.planDigest, r.historyDigest, r.digest,
    r.cancelRequestedAtMs, r.cancelReason, r.errorCode, r.errorSummary,
    coalesce(r.attemptCount, r.readyAtMs, r.dueStartMs, r.dueStartUptimeMs, r.dueBootId, r.dueLengthMs, r.resultCode,
      r.inputRef, r.outputRef, r.lastAttemptKey) IS NOT NULL AS hasStray, a.code AS setAsideCode,
    a.summary AS setAsideSummary, a.atMs AS setAsideAtMs
  FROM RunRecords AS r INDEXED BY UnendedRuns
  CROSS JOIN RunIdentities AS i ON i.runKey = r.recordKey >> 8
  LEFT JOIN SetAside AS a ON a.runId = i.runId
  WHERE r.number = 0 AND r.status NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out')
    AND r.status = 'running' AND r.recordKey < :before << 8 AND :status = 'running'
    AND (:packageName IS NULL OR i.packageName = :packageName)
  ORDER BY r.recordKey DESC LIMIT +:limit`;
const selectFailedSql = `SELECT i.runKey, i.runId, i.projectId, i.planId, i.workflowId, i.publicationDigest,
    i.packageName, i.generation, i.triggerType, i.triggerId, i.scheduledForMs, i.requestedBy, i.idempotencyKey,
    i.retryOfRunId, i.deadlineStartMs, i.deadlineStartUptimeMs, i.deadlineBootId, i.deadlineLengthMs, r.status,
    r.version, r.createdAtMs, r.startedAtMs, r.updatedAtMs, r.finishedAtMs, r.planDigest, r.historyDigest, r.digest,
    r.cancelRequestedAtMs, r.cancelReason, r.errorCode, r.errorSummary,
    coalesce(r.attemptCount, r.readyAtMs, r.dueStartMs, r.dueStartUptimeMs, r.dueBootId, r.dueLengthMs, r.resultCode,
      r.inputRef, r.outputRef, r.lastAttemptKey) IS NOT NULL AS hasStray, a.code AS setAsideCode,
    a.summary AS setAsideSummary, a.atMs AS setAsideAtMs
  FROM RunRecords AS r INDEXED BY FailedRuns
  CROSS JOIN RunIdentities AS i ON i.runKey = r.recordKey >> 8
  LEFT JOIN SetAside AS a ON a.runId = i.runId
  WHERE r.number = 0 AND r.status IN ('failed', 'cancelled', 'timed_out') AND r.status = +:status
    AND r.recordKey < :before << 8
    AND (:packageName IS NULL OR i.packageName = :packageName)
  ORDER BY r.recordKey DESC LIMIT +:limit`;
const selectRunKeySql = 'SELECT runKey FROM RunIdentities WHERE runId = :runId';

// No run key is as high as this one, and its record's key is still a safe integer.
const lastRunKey = 2 ** 44;

type ListValues = { before: number; status: RunStatus | null; packageName: string | null; limit: number };
type ListRow = RunRow & {
  readonly setAsideCode: string | null;
  readonly setAsideSummary: string | null;
  readonly setAsideAtMs: number | null;
};

/** Reads a page of the list. `beforeRunId` of a run that was pruned meanwhile has nothing older behind it. */
export function createListReads(db: DatabaseSync): (args: Reads['runs']['args']) => readonly RunSummary[] {
  const selectAny = statement<ListValues, ListRow>(db, selectAnySql);
  const selectRunning = statement<ListValues, ListRow>(db, selectRunningSql);
  const selectFailed = statement<ListValues, ListRow>(db, selectFailedSql);
  const selectRunKey = statement<{ runId: string }, { runKey: number }>(db, selectRunKeySql);
  return ({ limit, beforeRunId, status, packageName }) => {
    const before = beforeRunId === null ? lastRunKey : (selectRunKey.get({ runId: beforeRunId })?.runKey ?? 0);
    const isAny = status === null || status === 'succeeded';
    const select = isAny ? selectAny : status === 'running' ? selectRunning : selectFailed;
    return select.all({ before, status, packageName, limit }).map(summarize);
  };
}

function summarize(row: ListRow): RunSummary {
  const { runId, setAsideCode, setAsideSummary, setAsideAtMs } = row;
  const isSetAside = setAsideCode !== null && setAsideSummary !== null && setAsideAtMs !== null;
  const setAside = isSetAside ? { runId, code: setAsideCode, summary: setAsideSummary, atMs: setAsideAtMs } : null;
  return { run: decodeIfSound(row), runId, setAside };
}

function decodeIfSound(row: RunRow): Run | null {
  try {
    return decodeRun(row);
  } catch (error) {
    if (isEdgeError(error) && error.code === 'damaged') {
      return null;
    }
    throw error;
  }
}
