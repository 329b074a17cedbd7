// Reads of one run: its present records, its history, one step about to be attempted. Every record is rebuilt and its
// digest compared; what does not fit is `damaged`, with the run named.
import type { DatabaseSync } from 'node:sqlite';
import { assert } from '../../core/errors.ts';
import type { Plan } from '../../core/plan.ts';
import type { Run, RunAttempt, RunRows, StepRun } from '../../core/records.ts';
import type { Reads } from '../../protocol/reads.ts';
import { damaged } from './codec.ts';
import type { PlanSource } from './reads-plan.ts';
import { decodeEvent, type EventRow, eventTypeCodes } from './rows-event.ts';
import { type AttemptRow, decodeAttempt, decodeRun, decodeStep, type RunRow, type StepRow } from './rows-record.ts';
import { statement } from './statement.ts';

const selectRunSql = `SELECT i.runKey, i.runId, i.projectId, i.planId, i.workflowId, i.publicationDigest, i.packageName,
    i.generation, i.triggerType, i.triggerId, i.scheduledForMs, i.requestedBy, i.idempotencyKey, i.retryOfRunId,
    i.deadlineStartMs, i.deadlineStartUptimeMs, i.deadlineBootId, i.deadlineLengthMs, r.status, r.version,
    r.createdAtMs, r.startedAtMs, r.updatedAtMs, r.finishedAtMs, r.planDigest, r.historyDigest, r.digest,
    r.cancelRequestedAtMs, r.cancelReason, r.errorCode, r.errorSummary
  FROM RunIdentities AS i
  LEFT JOIN RunRecords AS r ON r.runKey = i.runKey AND r.kind = 0 AND r.number = 0
  WHERE i.runId = :runId`;

const selectStepsSql = `SELECT number, status, version, updatedAtMs, readyAtMs, startedAtMs, finishedAtMs, digest,
    attemptCount, spanStartMs, spanStartUptimeMs, spanBootId, spanLengthMs, resultCode, errorSummary, inputRef,
    outputRef
  FROM RunRecords WHERE runKey = :runKey AND kind = 1 AND number BETWEEN :first AND :last ORDER BY number`;

// Attempts are scanned within their run: at most a few hundred rows on adjacent pages, and an index on what is alive
// would be written with every attempt.
const selectLiveAttemptsSql = `SELECT number, status, startedAtMs, finishedAtMs, digest, spanStartMs, spanStartUptimeMs,
    spanBootId, spanLengthMs, errorCode, errorSummary, stepNumber, stepRunVersion, executorType, executionDigest,
    claimedAtMs, bootId, stopReason, exitCode, signal, outputBytes, outputTruncated
  FROM RunRecords WHERE runKey = :runKey AND kind = 2 AND status IN ('claimed', 'starting', 'running')
  ORDER BY number`;
const selectAttemptsSql = `SELECT number, status, startedAtMs, finishedAtMs, digest, spanStartMs, spanStartUptimeMs,
    spanBootId, spanLengthMs, errorCode, errorSummary, stepNumber, stepRunVersion, executorType, executionDigest,
    claimedAtMs, bootId, stopReason, exitCode, signal, outputBytes, outputTruncated
  FROM RunRecords WHERE runKey = :runKey AND kind = 2 AND (:stepNumber = 0 OR stepNumber = :stepNumber)
  ORDER BY number`;
const lastAttemptSql = `SELECT coalesce(max(number), 0) AS number FROM RunRecords
  WHERE runKey = :runKey AND kind = 2`;

const selectEventsSql = `SELECT sequence, type, actorType, actorId, stepNumber, attemptEpoch, payload, createdAtMs
  FROM RunEvents WHERE runKey = :runKey AND sequence > :after ORDER BY sequence LIMIT :limit`;
const countEventsSql = `SELECT count(*) AS number FROM RunEvents
  WHERE runKey = (SELECT runKey FROM RunIdentities WHERE runId = :runId)
    AND type IN (SELECT value FROM json_each(:types))`;
const isRunKnownSql = 'SELECT 1 AS isKnown FROM RunIdentities WHERE runId = :runId';

const everyStep = { first: 1, last: Number.MAX_SAFE_INTEGER };

/** A run with what the store knows it by. */
export type FoundRun = { readonly runKey: number; readonly run: Run; readonly plan: Plan };

/** One step of a run, with the slice of the run that an attempt's protocols work on. */
export type FoundStep = FoundRun & {
  readonly number: number;
  readonly rows: RunRows;
  readonly step: StepRun;
  readonly attempts: readonly RunAttempt[];
  readonly lastAttemptNumber: number;
};

export type RunReads = Pick<Reads, 'plan' | 'run' | 'wholeRun' | 'events' | 'eventCount' | 'isRunKnown'>;
type RunReader = { readonly [N in keyof RunReads]: (args: RunReads[N]['args']) => RunReads[N]['rows'] } & {
  readonly findStep: (place: Reads['step']['args']) => FoundStep | null;
};

export function createRunReads(db: DatabaseSync, plans: PlanSource): RunReader {
  const find = createRunFinder(db, plans);
  const readRows = createRowReads(db);
  const selectEvents = statement<{ runKey: number; after: number; limit: number }, EventRow>(db, selectEventsSql);
  const countEvents = statement<{ runId: string; types: string }, { number: number }>(db, countEventsSql);
  const isRunKnown = statement<{ runId: string }, { isKnown: number }>(db, isRunKnownSql);
  const readRun = (runId: string, isWhole: boolean): RunRows | null => {
    const found = find(runId);
    return found === null ? null : readRows.all(found, isWhole);
  };
  return {
    plan: ({ runId }) => find(runId)?.plan ?? null,
    run: ({ runId }) => readRun(runId, false),
    wholeRun: ({ runId }) => readRun(runId, true),
    findStep(place) {
      const found = find(place.runId);
      return found === null ? null : readRows.step(found, place.stepRunId);
    },
    events({ runId, after, limit }) {
      assert(after >= 0 && limit > 0, 'a page of events begins after a sequence and is not empty');
      const found = find(runId);
      if (found === null) {
        return [];
      }
      const rows = selectEvents.all({ runKey: found.runKey, after, limit });
      checkSequence(rows, { run: found.run, after, limit });
      return rows.map((row) => decodeEvent(row, found.plan));
    },
    eventCount: ({ runId, types }) => {
      const codes = types.map((type) => (eventTypeCodes as readonly string[]).indexOf(type));
      return countEvents.get({ runId, types: JSON.stringify(codes) })?.number ?? 0;
    },
    isRunKnown: ({ runId }) => isRunKnown.get({ runId }) !== null,
  };
}

/** Finds a run by its id; null where there is none. */
export function createRunFinder(db: DatabaseSync, plans: PlanSource): (runId: string) => FoundRun | null {
  const selectRun = statement<{ runId: string }, RunRow>(db, selectRunSql);
  return (runId) => {
    const row = selectRun.get({ runId });
    if (row === null) {
      return null;
    }
    const run = decodeRun(row);
    const { runKey } = row;
    return { runKey, run, plan: plans.find({ runKey, runId, planDigest: run.planDigest }) };
  };
}

/** Reads the rows of a run that was found. */
export function createRowReads(db: DatabaseSync) {
  const selectSteps = statement<{ runKey: number; first: number; last: number }, StepRow>(db, selectStepsSql);
  const selectLive = statement<{ runKey: number }, AttemptRow>(db, selectLiveAttemptsSql);
  const selectAttempts = statement<{ runKey: number; stepNumber: number }, AttemptRow>(db, selectAttemptsSql);
  const lastAttempt = statement<{ runKey: number }, { number: number }>(db, lastAttemptSql);
  return {
    /** The run, all its steps, and its attempts: all of them, or those that have not ended. */
    all({ runKey, run, plan }: FoundRun, isWhole: boolean): RunRows {
      const steps = selectSteps.all({ runKey, ...everyStep }).map((row) => decodeStep(row, run, plan));
      if (steps.length !== plan.steps.length) {
        throw damaged('RunRecords', `has ${steps.length} steps of ${plan.steps.length}`, { runId: run.id });
      }
      const rows = isWhole ? selectAttempts.all({ runKey, stepNumber: 0 }) : selectLive.all({ runKey });
      if (isWhole && rows.some((row, index) => row.number !== index + 1)) {
        throw damaged('RunRecords', 'lacks an attempt', { runId: run.id });
      }
      const attempts = rows.map((row) => decodeAttempt(row, run, plan));
      return { run, steps: mapById(steps), attempts: mapById(attempts) };
    },
    /** One step with its attempts; null where the plan has no such step. */
    step(found: FoundRun, stepRunId: string): FoundStep | null {
      const { runKey, run, plan } = found;
      const number = 1 + plan.steps.findIndex((planned) => planned.stepRunId === stepRunId);
      if (number === 0) {
        return null;
      }
      const row = selectSteps.get({ runKey, first: number, last: number });
      if (row === null) {
        throw damaged('RunRecords', `lacks step ${plan.steps[number - 1]!.stepKey}`, { runId: run.id });
      }
      const step = decodeStep(row, run, plan);
      const attemptRows = selectAttempts.all({ runKey, stepNumber: number });
      const attempts = attemptRows.map((attemptRow) => decodeAttempt(attemptRow, run, plan));
      const rows = { run, steps: mapById([step]), attempts: mapById(attempts) };
      return { ...found, number, rows, step, attempts, lastAttemptNumber: lastAttempt.get({ runKey })?.number ?? 0 };
    },
  };
}

/** A history has no gaps, and ends exactly at the run's version. */
function checkSequence(
  rows: readonly EventRow[],
  page: { readonly run: Run; readonly after: number; readonly limit: number },
): void {
  const { run, after, limit } = page;
  const missing = rows.findIndex((row, index) => row.sequence !== after + index + 1);
  if (missing >= 0) {
    throw damaged('RunEvents', `lacks event ${after + missing + 1}`, { runId: run.id });
  }
  const last = after + rows.length;
  const isComplete = rows.length === limit ? last <= run.version : last === Math.max(after, run.version);
  if (!isComplete) {
    throw damaged('RunEvents', `ends at ${last}, the run at ${run.version}`, { runId: run.id });
  }
}

function mapById<T extends { readonly id: string }>(records: readonly T[]): ReadonlyMap<string, T> {
  return new Map(records.map((record) => [record.id, record]));
}
