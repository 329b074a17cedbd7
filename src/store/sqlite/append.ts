// The one way to write a run: its events, and exactly the records that they change, under a compare-and-set on the
// run's version. Owns no transaction; whoever calls has one open. Turns are serialized, so a miss is a broken invariant.
import type { DatabaseSync } from 'node:sqlite';
import { assert } from '../../core/errors.ts';
import { type RunEvent, stampEvents } from '../../core/events.ts';
import { foldEvents } from '../../core/evolve.ts';
import type { Run, RunAttempt, RunRows, StepRun } from '../../core/records.ts';
import type { Append } from '../../protocol/protocol.ts';
import { toBytes } from './codec.ts';
import { type EventRow, encodeEvent } from './rows-event.ts';
import { encodeAttemptProgress, encodeRunEnd, encodeRunProgress, encodeStep } from './rows-record.ts';
import { statement } from './statement.ts';

const selectRunKeySql = 'SELECT runKey FROM RunIdentities WHERE runId = :runId';
// Within the run: at most 128 rows, on adjacent pages.
const selectStepNumberSql = `SELECT number FROM QingLong3PluginPackageWorkflowAdmissionSteps
  WHERE runKey = :runKey AND stepKey = :stepKey`;

const insertEventSql = `INSERT INTO RunEvents (
    runKey, sequence, type, actorType, actorId, stepNumber, attemptEpoch, payload, createdAtMs
  ) VALUES (
    :runKey, :sequence, :type, :actorType, :actorId, :stepNumber, :attemptEpoch, :payload, :createdAtMs
  )`;

// Without the status: naming it would write the indexes of runs that only go on.
const updateRunSql = `UPDATE RunRecords SET version = :version, updatedAtMs = :updatedAtMs,
    cancelRequestedAtMs = :cancelRequestedAtMs, cancelReason = :cancelReason, historyDigest = :historyDigest,
    digest = :digest
  WHERE runKey = :runKey AND kind = 0 AND number = 0 AND version = :expectedVersion`;
const endRunSql = `UPDATE RunRecords SET version = :version, updatedAtMs = :updatedAtMs,
    cancelRequestedAtMs = :cancelRequestedAtMs, cancelReason = :cancelReason, historyDigest = :historyDigest,
    digest = :digest, status = :status, finishedAtMs = :finishedAtMs, errorCode = :errorCode,
    errorSummary = :errorSummary
  WHERE runKey = :runKey AND kind = 0 AND number = 0 AND version = :expectedVersion`;
const updateStepSql = `UPDATE RunRecords SET status = :status, version = :version, updatedAtMs = :updatedAtMs,
    readyAtMs = :readyAtMs, startedAtMs = :startedAtMs, finishedAtMs = :finishedAtMs, digest = :digest,
    attemptCount = :attemptCount, spanStartMs = :spanStartMs, spanStartUptimeMs = :spanStartUptimeMs,
    spanBootId = :spanBootId, spanLengthMs = :spanLengthMs, resultCode = :resultCode, errorSummary = :errorSummary,
    inputRef = :inputRef, outputRef = :outputRef
  WHERE runKey = :runKey AND kind = 1 AND number = :number AND digest = :expectedDigest`;
const updateAttemptSql = `UPDATE RunRecords SET status = :status, startedAtMs = :startedAtMs,
    finishedAtMs = :finishedAtMs, digest = :digest, spanStartMs = :spanStartMs,
    spanStartUptimeMs = :spanStartUptimeMs, spanBootId = :spanBootId, spanLengthMs = :spanLengthMs,
    errorCode = :errorCode, errorSummary = :errorSummary, bootId = :bootId, stopReason = :stopReason,
    exitCode = :exitCode, signal = :signal, outputBytes = :outputBytes, outputTruncated = :outputTruncated
  WHERE runKey = :runKey AND kind = 2 AND number = :number AND digest = :expectedDigest`;
const insertAttemptSql = `INSERT INTO RunRecords (
    runKey, kind, number, status, startedAtMs, finishedAtMs, digest, spanStartMs, spanStartUptimeMs, spanBootId,
    spanLengthMs, errorCode, errorSummary, stepNumber, stepRunVersion, executorType, executionDigest, claimedAtMs,
    bootId, stopReason, exitCode, signal, outputBytes, outputTruncated
  ) VALUES (
    :runKey, 2, :number, :status, :startedAtMs, :finishedAtMs, :digest, :spanStartMs, :spanStartUptimeMs, :spanBootId,
    :spanLengthMs, :errorCode, :errorSummary, :stepNumber, :stepRunVersion, :executorType, :executionDigest,
    :claimedAtMs, :bootId, :stopReason, :exitCode, :signal, :outputBytes, :outputTruncated
  )`;

type Keyed = { runKey: number };
type Numbered = Keyed & { number: number };
type StepNumberOf = (stepRunId: string) => number;

/**
 * Stamps an append's events, folds them into its rows, writes both, and returns the rows as they are now. Throws
 * `InvariantError` where the run, or a record that changes, is not the one that the decision was made on.
 */
export function createAppend(db: DatabaseSync): (append: Append, wallMs: number) => RunRows {
  const selectRunKey = statement<{ runId: string }, { runKey: number }>(db, selectRunKeySql);
  const selectStepNumber = statement<Keyed & { stepKey: string }, { number: number }>(db, selectStepNumberSql);
  const writeEvent = createEventWrite(db);
  const writeRun = createRunWrite(db);
  const writeStep = createStepWrite(db);
  const writeAttempt = createAttemptWrite(db);

  return ({ rows, events: drafts }, wallMs) => {
    const events = stampEvents(rows.run, drafts, wallMs);
    const after = foldEvents(rows, events);
    const found = selectRunKey.get({ runId: rows.run.id });
    assert(after !== null && found !== null, `run ${rows.run.id} exists`);
    const { runKey } = found;
    const numbers = new Map<string, number>();
    const numberOf: StepNumberOf = (stepRunId) => {
      const known = numbers.get(stepRunId);
      if (known !== undefined) {
        return known;
      }
      const step = after.steps.get(stepRunId);
      const row = step === undefined ? null : selectStepNumber.get({ runKey, stepKey: step.stepKey });
      assert(row !== null, `step run ${stepRunId} is in the admission of its run`);
      numbers.set(stepRunId, row.number);
      return row.number;
    };
    writeRun(runKey, rows.run, after.run);
    for (const event of events) {
      writeEvent(runKey, event, { stepNumberOf: numberOf, attempts: after.attempts });
    }
    for (const [id, step] of after.steps) {
      const before = rows.steps.get(id);
      assert(before !== undefined, 'steps are created by an admission alone');
      if (before !== step) {
        writeStep({ runKey, number: numberOf(id) }, before, step);
      }
    }
    for (const [id, attempt] of after.attempts) {
      const before = rows.attempts.get(id) ?? null;
      if (before !== attempt) {
        writeAttempt({ runKey, stepNumber: numberOf(attempt.stepRunId) }, before, attempt);
      }
    }
    return after;
  };
}

/** What an event's row needs beyond the event: the numbers behind the ids that it names. */
export type EventContext = {
  readonly stepNumberOf: StepNumberOf;
  readonly attempts: ReadonlyMap<string, RunAttempt>;
};

export function createEventWrite(db: DatabaseSync): (runKey: number, event: RunEvent, context: EventContext) => void {
  const insertEvent = statement<EventRow & Keyed>(db, insertEventSql);
  return (runKey, event, { stepNumberOf, attempts }) => {
    const { stepRunId, attemptId } = event;
    const attempt = attemptId === null ? null : attempts.get(attemptId);
    assert(attempt !== undefined, `event ${event.sequence} names an attempt of its run`);
    const stepNumber = stepRunId === null ? null : stepNumberOf(stepRunId);
    insertEvent.run({ runKey, ...encodeEvent(event, { stepNumber, attemptEpoch: attempt?.stepRunVersion ?? null }) });
  };
}

function createRunWrite(db: DatabaseSync): (runKey: number, before: Run, after: Run) => void {
  const update = statement<ReturnType<typeof encodeRunProgress> & Keyed & { expectedVersion: number }>(
    db,
    updateRunSql,
  );
  const end = statement<ReturnType<typeof encodeRunEnd> & Keyed & { expectedVersion: number }>(db, endRunSql);
  return (runKey, before, after) => {
    const fence = { runKey, expectedVersion: before.version };
    const changes =
      before.status === after.status
        ? update.run({ ...encodeRunProgress(after), ...fence })
        : end.run({ ...encodeRunEnd(after), ...fence });
    assert(changes === 1, `run ${after.id} is still at version ${before.version}`);
  };
}

function createStepWrite(db: DatabaseSync): (key: Numbered, before: StepRun, after: StepRun) => void {
  const update = statement<ReturnType<typeof encodeStep> & Numbered & { expectedDigest: Uint8Array }>(
    db,
    updateStepSql,
  );
  return (key, before, after) => {
    const changes = update.run({ ...encodeStep(after), ...key, expectedDigest: toBytes(before.digest) });
    assert(changes === 1, `step ${after.stepKey} of run ${after.runId} is still at version ${before.version}`);
  };
}

type AttemptColumns = ReturnType<typeof encodeAttemptProgress> & Numbered;
type NewAttempt = AttemptColumns & {
  stepNumber: number;
  stepRunVersion: number;
  executorType: string;
  executionDigest: Uint8Array;
  claimedAtMs: number;
};

function createAttemptWrite(
  db: DatabaseSync,
): (key: Keyed & { stepNumber: number }, before: RunAttempt | null, after: RunAttempt) => void {
  const insert = statement<NewAttempt>(db, insertAttemptSql);
  const update = statement<AttemptColumns & { expectedDigest: Uint8Array }>(db, updateAttemptSql);
  return ({ runKey, stepNumber }, before, after) => {
    const columns = { ...encodeAttemptProgress(after), runKey, number: after.number };
    if (before === null) {
      const { stepRunVersion, executorType, claimedAtMs } = after;
      const executionDigest = toBytes(after.executionDigest);
      insert.run({ ...columns, stepNumber, stepRunVersion, executorType, executionDigest, claimedAtMs });
      return;
    }
    const changes = update.run({ ...columns, expectedDigest: toBytes(before.digest) });
    assert(changes === 1, `attempt ${after.number} of run ${after.runId} is still ${before.status}`);
  };
}
