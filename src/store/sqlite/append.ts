// The one way to write a run: its events, and exactly the records that they change, under a compare-and-set on the
// run's version. Owns no transaction; whoever calls has one open. Turns are serialized: a miss is a broken invariant.
import type { DatabaseSync } from 'node:sqlite';
import { assert } from '../../core/errors.ts';
import { type RunEvent, stampEvents } from '../../core/events.ts';
import { foldEvents } from '../../core/evolve.ts';
import type { Run, RunAttempt, RunRows, StepRun } from '../../core/records.ts';
import type { Append } from '../../protocol/protocol.ts';
import { recordKeyOf, stepKeysOf, toBytes } from './codec.ts';
import { type EventPlace, type EventRow, encodeEvent } from './rows-event.ts';
import { encodeAttemptProgress, encodeRunEnd, encodeRunProgress, encodeStep } from './rows-record.ts';
import type { KnownEvent, KnownRun, RunMemory } from './run-memory.ts';
import { statement } from './statement.ts';

const selectRunSql = `SELECT i.runKey, r.lastEventKey
  FROM RunIdentities AS i
  CROSS JOIN RunRecords AS r ON r.recordKey = i.runKey << 8
  WHERE i.runId = +:runId`;
// Within the run: at most 128 rows, on adjacent pages.
const selectStepNumberSql = `SELECT number FROM QingLong3PluginPackageWorkflowAdmissionSteps
  WHERE recordKey BETWEEN :first AND :last AND stepKey = :stepKey`;

const lastEventSql = 'SELECT coalesce(max(eventKey), 0) AS lastKey FROM RunEvents';
const insertEventSql = `INSERT INTO RunEvents (
    eventKey, previousKey, runKey, sequence, type, actorType, actorId, stepNumber, attemptEpoch, createdAtMs, payload
  ) VALUES (
    :eventKey, :previousKey, :runKey, :sequence, :type, :actorType, :actorId, :stepNumber, :attemptEpoch, :createdAtMs,
    :payload
  )`;

// Without the status: naming it would write the indexes of runs that only go on.
const updateRunSql = `UPDATE RunRecords SET lastEventKey = :lastEventKey, version = :version,
    updatedAtMs = :updatedAtMs, cancelRequestedAtMs = :cancelRequestedAtMs, cancelReason = :cancelReason,
    historyDigest = :historyDigest, digest = :digest
  WHERE recordKey = :recordKey AND version = :expectedVersion`;
// The columns of a cancel intent have a CHECK that takes as long as the rest.
const updateUncancelledRunSql = `UPDATE RunRecords SET lastEventKey = :lastEventKey, version = :version,
    updatedAtMs = :updatedAtMs, historyDigest = :historyDigest, digest = :digest
  WHERE recordKey = :recordKey AND version = :expectedVersion AND cancelRequestedAtMs IS NULL`;
const endRunSql = `UPDATE RunRecords SET lastEventKey = :lastEventKey, version = :version,
    updatedAtMs = :updatedAtMs, cancelRequestedAtMs = :cancelRequestedAtMs, cancelReason = :cancelReason,
    historyDigest = :historyDigest, digest = :digest, status = :status, finishedAtMs = :finishedAtMs,
    errorCode = :errorCode, errorSummary = :errorSummary
  WHERE recordKey = :recordKey AND version = :expectedVersion`;
const updateStepSql = `UPDATE RunRecords SET status = :status, version = :version, updatedAtMs = :updatedAtMs,
    readyAtMs = :readyAtMs, startedAtMs = :startedAtMs, finishedAtMs = :finishedAtMs, digest = :digest,
    attemptCount = :attemptCount, dueStartMs = :dueStartMs, dueStartUptimeMs = :dueStartUptimeMs,
    dueBootId = :dueBootId, dueLengthMs = :dueLengthMs, resultCode = :resultCode, errorSummary = :errorSummary,
    inputRef = :inputRef, outputRef = :outputRef
  WHERE recordKey = :recordKey AND digest = :expectedDigest`;

const selectLastAttemptSql = 'SELECT lastAttemptKey FROM RunRecords WHERE recordKey = :recordKey';
const insertAttemptSql = `INSERT INTO RunAttempts (
    previousKey, runKey, number, stepNumber, stepRunVersion, executorType, executionDigest, claimedAtMs, status,
    startedAtMs, finishedAtMs, bootId, deadlineStartMs, deadlineStartUptimeMs, deadlineBootId, deadlineLengthMs,
    stopReason, exitCode, signal, outputBytes, outputTruncated, durationMs, errorCode, errorSummary, digest
  ) VALUES (
    :previousKey, :runKey, :number, :stepNumber, :stepRunVersion, :executorType, :executionDigest, :claimedAtMs,
    :status, :startedAtMs, :finishedAtMs, :bootId, :deadlineStartMs, :deadlineStartUptimeMs, :deadlineBootId,
    :deadlineLengthMs, :stopReason, :exitCode, :signal, :outputBytes, :outputTruncated, :durationMs,
    :errorCode, :errorSummary, :digest
  ) RETURNING attemptKey`;
const leadToAttemptSql = `UPDATE RunRecords SET lastAttemptKey = :attemptKey WHERE recordKey = :recordKey`;
const updateAttemptSql = `UPDATE RunAttempts SET status = :status, startedAtMs = :startedAtMs,
    finishedAtMs = :finishedAtMs, bootId = :bootId, deadlineStartMs = :deadlineStartMs,
    deadlineStartUptimeMs = :deadlineStartUptimeMs, deadlineBootId = :deadlineBootId,
    deadlineLengthMs = :deadlineLengthMs, stopReason = :stopReason, exitCode = :exitCode, signal = :signal,
    outputBytes = :outputBytes, outputTruncated = :outputTruncated, durationMs = :durationMs,
    errorCode = :errorCode, errorSummary = :errorSummary, digest = :digest
  WHERE attemptKey = :attemptKey AND digest = :expectedDigest`;

type StepNumberOf = (stepRunId: string) => number;

/**
 * Stamps an append's events, folds them into its rows, writes both, and returns the rows as they are now. Throws
 * `InvariantError` where the run, or a record that changes, is not the one that the decision was made on.
 */
export function createAppend(
  db: DatabaseSync,
  memory: RunMemory | null = null,
): (append: Append, wallMs: number) => RunRows {
  const selectRun = statement<{ runId: string }, { runKey: number; lastEventKey: number }>(db, selectRunSql);
  const createNumbers = createStepNumbers(db);
  const eventWrite = createEventWrite(db, memory);
  const writeRun = createRunWrite(db);
  const writeStep = createStepWrite(db);
  const writeAttempt = createAttemptWrite(db);

  return ({ rows, events: drafts }, wallMs) => {
    const events = stampEvents(rows.run, drafts, wallMs);
    const after = foldEvents(rows, events);
    const known = knownAs(rows.run, memory);
    const found = known ?? selectRun.get({ runId: rows.run.id });
    assert(after !== null && found !== null, `run ${rows.run.id} exists`);
    const { runKey } = found;
    const numberOf = known === null ? createNumbers(runKey, after) : (id: string) => numberIn(known, id);
    const firstKey = eventWrite.nextKey();
    const lastEventKey = firstKey + events.length - 1;
    writeRun({ runKey, lastEventKey }, rows.run, after.run);
    const inserted = events.map((event, index) => {
      const previousKey = index === 0 ? found.lastEventKey : firstKey + index - 1;
      const keys = { runKey, eventKey: firstKey + index, previousKey };
      return eventWrite.insert(keys, event, placeOf(event, after, numberOf));
    });
    for (const [id, step] of after.steps) {
      const before = rows.steps.get(id);
      assert(before !== undefined, 'steps are created by an admission alone');
      if (before !== step) {
        writeStep(recordKeyOf(runKey, numberOf(id)), before, step);
      }
    }
    const attemptKeys = new Map<string, number>();
    for (const [id, attempt] of after.attempts) {
      const before = rows.attempts.get(id) ?? null;
      if (before !== attempt) {
        const place = { runKey, stepNumber: numberOf(attempt.stepRunId) };
        const lastKey = known?.attempts.get(attempt.stepRunId)?.lastKey;
        const newKey = writeAttempt(place, { before, after: attempt, lastKey });
        newKey === null || attemptKeys.set(id, newKey);
      }
    }
    memory?.appended(known, { before: rows, after, lastEventKey, events: inserted, attemptKeys });
    return after;
  };
}

/** The run as it is known, if that is what the decision was made on. */
function knownAs(run: Run, memory: RunMemory | null): KnownRun | null {
  const known = memory?.find(run.id) ?? null;
  return known?.run.digest === run.digest ? known : null;
}

function numberIn({ plan, run }: KnownRun, stepRunId: string): number {
  const number = 1 + plan.steps.findIndex((step) => step.stepRunId === stepRunId);
  assert(number > 0, `step run ${stepRunId} is in the plan of run ${run.id}`);
  return number;
}

function placeOf({ stepRunId, attemptId, sequence }: RunEvent, rows: RunRows, numberOf: StepNumberOf): EventPlace {
  const attempt = attemptId === null ? null : rows.attempts.get(attemptId);
  assert(attempt !== undefined, `event ${sequence} names an attempt of its run`);
  return {
    stepNumber: stepRunId === null ? null : numberOf(stepRunId),
    attemptEpoch: attempt?.stepRunVersion ?? null,
  };
}

/** Finds the numbers of the steps that one append touches, each once. */
function createStepNumbers(db: DatabaseSync): (runKey: number, rows: RunRows) => StepNumberOf {
  const select = statement<{ first: number; last: number; stepKey: string }, { number: number }>(
    db,
    selectStepNumberSql,
  );
  return (runKey, rows) => {
    const known = new Map<string, number>();
    return (stepRunId) => {
      const stepKey = rows.steps.get(stepRunId)?.stepKey;
      const found = known.get(stepRunId) ?? (stepKey && select.get({ ...stepKeysOf(runKey), stepKey })?.number);
      assert(typeof found === 'number', `step run ${stepRunId} is in the admission of its run`);
      known.set(stepRunId, found);
      return found;
    };
  };
}

export type EventKeys = { readonly runKey: number; readonly eventKey: number; readonly previousKey: number | null };

/** Inserts events. Keys are given out by the caller, counting on from `nextKey`: nobody else writes meanwhile. */
export function createEventWrite(db: DatabaseSync, memory: RunMemory | null) {
  const lastEvent = statement<Record<string, never>, { lastKey: number }>(db, lastEventSql);
  const insertEvent = statement<EventRow & EventKeys>(db, insertEventSql);
  return {
    nextKey: (): number => memory?.nextEventKey ?? 1 + (lastEvent.get({})?.lastKey ?? 0),
    insert(keys: EventKeys, event: RunEvent, place: EventPlace): KnownEvent {
      const row = encodeEvent(event, place);
      insertEvent.run({ ...row, ...keys });
      if (memory !== null) {
        memory.nextEventKey = keys.eventKey + 1;
      }
      return { row, id: event.id, attemptId: event.attemptId };
    },
  };
}

type RunKeys = { readonly runKey: number; readonly lastEventKey: number };
type Fence = { recordKey: number; expectedVersion: number };

function createRunWrite(db: DatabaseSync): (keys: RunKeys, before: Run, after: Run) => void {
  const update = statement<ReturnType<typeof encodeRunProgress> & Fence>(db, updateRunSql);
  type Uncancelled = Omit<ReturnType<typeof encodeRunProgress>, 'cancelRequestedAtMs' | 'cancelReason'> & Fence;
  const updateUncancelled = statement<Uncancelled>(db, updateUncancelledRunSql);
  const end = statement<ReturnType<typeof encodeRunEnd> & Fence>(db, endRunSql);
  return ({ runKey, lastEventKey }, before, after) => {
    const fence = { recordKey: recordKeyOf(runKey, 0), expectedVersion: before.version };
    const { cancelRequestedAtMs, cancelReason, ...progress } = encodeRunProgress(after, lastEventKey);
    const changes =
      before.status !== after.status
        ? end.run({ ...encodeRunEnd(after, lastEventKey), ...fence })
        : cancelRequestedAtMs === null && before.cancelRequestedAtMs === null
          ? updateUncancelled.run({ ...progress, ...fence })
          : update.run({ ...progress, cancelRequestedAtMs, cancelReason, ...fence });
    assert(changes === 1, `run ${after.id} is still at version ${before.version}`);
  };
}

function createStepWrite(db: DatabaseSync): (recordKey: number, before: StepRun, after: StepRun) => void {
  type Values = ReturnType<typeof encodeStep> & { recordKey: number; expectedDigest: Uint8Array };
  const update = statement<Values>(db, updateStepSql);
  return (recordKey, before, after) => {
    const changes = update.run({ ...encodeStep(after), recordKey, expectedDigest: toBytes(before.digest) });
    assert(changes === 1, `step ${after.stepKey} of run ${after.runId} is still at version ${before.version}`);
  };
}

type AttemptPlace = { readonly runKey: number; readonly stepNumber: number };
type AttemptProgress = ReturnType<typeof encodeAttemptProgress>;
type NewAttempt = AttemptProgress &
  AttemptPlace & {
    previousKey: number | null;
    number: number;
    stepRunVersion: number;
    executorType: string;
    executionDigest: Uint8Array;
    claimedAtMs: number;
  };

type AttemptChange = {
  readonly before: RunAttempt | null;
  readonly after: RunAttempt;
  /** The key of the step's latest attempt; undefined where it is not known. */
  readonly lastKey: number | null | undefined;
};

/**
 * Only the latest attempt of a step is ever written: a new one takes that place, and only it changes afterwards. The
 * key of a new one is returned.
 */
function createAttemptWrite(db: DatabaseSync): (place: AttemptPlace, change: AttemptChange) => number | null {
  const last = statement<{ recordKey: number }, { lastAttemptKey: number | null }>(db, selectLastAttemptSql);
  const insert = statement<NewAttempt, { attemptKey: number }>(db, insertAttemptSql);
  const lead = statement<{ recordKey: number; attemptKey: number }>(db, leadToAttemptSql);
  const update = statement<AttemptProgress & { attemptKey: number; expectedDigest: Uint8Array }>(db, updateAttemptSql);
  return (place, { before, after, lastKey }) => {
    const recordKey = recordKeyOf(place.runKey, place.stepNumber);
    const lastAttemptKey = lastKey === undefined ? (last.get({ recordKey })?.lastAttemptKey ?? null) : lastKey;
    const columns = encodeAttemptProgress(after);
    if (before === null) {
      const { number, stepRunVersion, executorType, claimedAtMs } = after;
      const executionDigest = toBytes(after.executionDigest);
      const constant = { number, stepRunVersion, executorType, claimedAtMs, executionDigest };
      const { attemptKey } = insert.get({ ...columns, ...constant, ...place, previousKey: lastAttemptKey })!;
      lead.run({ recordKey, attemptKey });
      return attemptKey;
    }
    assert(lastAttemptKey !== null, `attempt ${after.number} of run ${after.runId} is the latest of its step`);
    const expectedDigest = toBytes(before.digest);
    const changes = update.run({ ...columns, attemptKey: lastAttemptKey, expectedDigest });
    assert(changes === 1, `attempt ${after.number} of run ${after.runId} is still ${before.status}`);
    return null;
  };
}
