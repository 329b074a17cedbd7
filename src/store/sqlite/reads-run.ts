// Reads of one run: its present records, its history, one step about to be attempted. Every record is rebuilt and its
// digest compared; what does not fit is `damaged`, with the run named.
// What the connection knows already is not read again (run-memory.ts); a whole run always is.
import type { DatabaseSync } from 'node:sqlite';
import { assert } from '../../core/errors.ts';
import type { Plan } from '../../core/plan.ts';
import type { Run, RunAttempt, RunRows, StepRun } from '../../core/records.ts';
import { isTerminalRun } from '../../core/states.ts';
import type { Reads } from '../../protocol/reads.ts';
import { damaged } from '../damaged.ts';
import { recordKeyOf, stepKeysOf, toHex } from './codec.ts';
import { createEventReads } from './reads-event.ts';
import type { PlanSource } from './reads-plan.ts';
import { decodeOwnEvent, eventTypeCodes } from './rows-event.ts';
import { type AttemptRow, decodeAttempt, decodeRun, decodeStep, type RunRow, type StepRow } from './rows-record.ts';
import type { KnownAttempts, KnownRun, RunMemory } from './run-memory.ts';
import { statement } from './statement.ts';

// In a join, SQLite compiles a statement anew for every value that is bound to a bare parameter (25 of 30 µs here); a
// plus sign before it says that no value matters to the plan.
const selectRunSql = `SELECT i.runKey, i.runId, i.projectId, i.planId, i.workflowId, i.publicationDigest, i.packageName,
    i.generation, i.triggerType, i.triggerId, i.scheduledForMs, i.requestedBy, i.idempotencyKey, i.retryOfRunId,
    i.deadlineStartMs, i.deadlineStartUptimeMs, i.deadlineBootId, i.deadlineLengthMs, r.lastEventKey, r.status,
    r.version, r.createdAtMs, r.startedAtMs, r.updatedAtMs, r.finishedAtMs, r.planDigest, r.historyDigest, r.digest,
    r.cancelRequestedAtMs, r.cancelReason, r.errorCode, r.errorSummary,
    coalesce(r.attemptCount, r.readyAtMs, r.dueStartMs, r.dueStartUptimeMs, r.dueBootId, r.dueLengthMs, r.resultCode,
      r.inputRef, r.outputRef, r.lastAttemptKey) IS NOT NULL AS hasStray
  FROM RunIdentities AS i
  LEFT JOIN RunRecords AS r ON r.recordKey = i.runKey << 8
  WHERE i.runId = +:runId`;
const selectPlanDigestSql = `SELECT i.runKey, r.planDigest
  FROM RunIdentities AS i
  LEFT JOIN RunRecords AS r ON r.recordKey = i.runKey << 8
  WHERE i.runId = +:runId`;
const isRunKnownSql = 'SELECT runKey FROM RunIdentities WHERE runId = :runId';

const selectStepsSql = `SELECT number, status, version, updatedAtMs, readyAtMs, startedAtMs, finishedAtMs, digest,
    attemptCount, dueStartMs, dueStartUptimeMs, dueBootId, dueLengthMs, resultCode, errorSummary, inputRef, outputRef,
    coalesce(createdAtMs, planDigest, historyDigest, lastEventKey, cancelRequestedAtMs, cancelReason, errorCode)
      IS NOT NULL AS hasStray
  FROM RunRecords WHERE recordKey BETWEEN :first AND :last ORDER BY recordKey`;

// An attempt that has not ended is the latest of its step. A step that leads nowhere gives a row without an attempt.
const selectLiveAttemptsSql = `SELECT s.number AS ownerNumber, a.attemptKey, a.previousKey, a.runKey, a.number,
    a.stepNumber, a.stepRunVersion, a.status, a.executorType, a.executionDigest, a.claimedAtMs, a.startedAtMs,
    a.finishedAtMs, a.bootId, a.deadlineStartMs, a.deadlineStartUptimeMs, a.deadlineBootId, a.deadlineLengthMs,
    a.stopReason, a.exitCode, a.signal, a.outputBytes, a.outputTruncated, a.durationMs, a.errorCode, a.errorSummary,
    a.digest
  FROM RunRecords AS s
  LEFT JOIN RunAttempts AS a ON a.attemptKey = s.lastAttemptKey
  WHERE s.recordKey BETWEEN +:first AND +:last AND s.lastAttemptKey IS NOT NULL
    AND (a.attemptKey IS NULL OR a.status IN ('claimed', 'starting', 'running'))
  ORDER BY a.number`;
// UNION, so that links that were made a circle end.
const selectAttemptsSql = `WITH RECURSIVE
  chain (ownerNumber, attemptKey) AS (
    SELECT number, lastAttemptKey FROM RunRecords
    WHERE recordKey BETWEEN +:first AND +:last AND lastAttemptKey IS NOT NULL
    UNION
    SELECT c.ownerNumber, a.previousKey FROM chain AS c CROSS JOIN RunAttempts AS a ON a.attemptKey = c.attemptKey
    WHERE a.previousKey IS NOT NULL
  )
  SELECT c.ownerNumber, a.attemptKey, a.previousKey, a.runKey, a.number, a.stepNumber, a.stepRunVersion, a.status,
    a.executorType, a.executionDigest, a.claimedAtMs, a.startedAtMs, a.finishedAtMs, a.bootId, a.deadlineStartMs,
    a.deadlineStartUptimeMs, a.deadlineBootId, a.deadlineLengthMs, a.stopReason, a.exitCode, a.signal, a.outputBytes,
    a.outputTruncated, a.durationMs, a.errorCode, a.errorSummary, a.digest
  FROM chain AS c
  LEFT JOIN RunAttempts AS a ON a.attemptKey = c.attemptKey
  ORDER BY a.number`;
const lastAttemptSql = `SELECT coalesce(max(a.number), 0) AS number
  FROM RunRecords AS s
  CROSS JOIN RunAttempts AS a ON a.attemptKey = s.lastAttemptKey
  WHERE s.recordKey BETWEEN +:first AND +:last`;

/** A run with what the store knows it by. */
export type FoundRun = {
  readonly runKey: number;
  readonly run: Run;
  readonly plan: Plan;
  readonly lastEventKey: number;
};

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

/** The reads of one run on one connection. They answer null for a run that does not exist, and throw `damaged`. */
export function createRunReads(db: DatabaseSync, plans: PlanSource, memory: RunMemory | null): RunReader {
  const find = createRunFinder(db, plans);
  const readRows = createRowReads(db);
  const events = createEventReads(db);
  const isRunKnown = statement<{ runId: string }, { runKey: number }>(db, isRunKnownSql);
  const known = (runId: string) => memory?.find(runId) ?? null;
  const findPlan = createPlanFinder(db, plans);
  return {
    plan: ({ runId }) => known(runId)?.plan ?? findPlan({ runId }),
    run({ runId }) {
      const { run, steps = null, live } = known(runId) ?? {};
      if (run !== undefined && live !== undefined && steps !== null) {
        return { run, steps: new Map(steps), attempts: new Map(live) };
      }
      const found = find(runId);
      return found === null ? null : readPresent(found, readRows, memory);
    },
    wholeRun({ runId }) {
      const found = find(runId);
      return found === null ? null : readRows.all(found, true);
    },
    findStep: createStepFinder({ find, readRows, memory }),
    events({ runId, after, limit }) {
      assert(after >= 0 && limit >= 1, 'a page of events begins after a sequence and is not empty');
      const kept = findKnownEvents(known(runId), { first: after + 1, last: after + limit });
      if (kept !== null) {
        return kept;
      }
      const found = find(runId);
      if (found === null) {
        return [];
      }
      const { runKey, plan, run } = found;
      return events.page({ runKey, plan, version: run.version }, { first: after + 1, last: after + limit });
    },
    eventCount({ runId, types }) {
      const found = isRunKnown.get({ runId });
      const codes = types.map((type) => (eventTypeCodes as readonly string[]).indexOf(type));
      return found === null ? 0 : events.count(found.runKey, codes);
    },
    isRunKnown: ({ runId }) => isRunKnown.get({ runId }) !== null,
  };
}

type RowReads = ReturnType<typeof createRowReads>;

/** The run as it is now; remembered while it goes on. */
function readPresent(found: FoundRun, readRows: RowReads, memory: RunMemory | null): RunRows {
  const rows = readRows.all(found, false);
  if (!isTerminalRun(rows.run.status)) {
    const [steps, live] = [new Map(rows.steps), new Map(rows.attempts)];
    memory?.learn({ ...found, steps, live, attempts: new Map(), lastAttemptNumber: null, events: [] });
  }
  return rows;
}

function createStepFinder(parts: {
  readonly find: (runId: string) => FoundRun | null;
  readonly readRows: RowReads;
  readonly memory: RunMemory | null;
}): (place: Reads['step']['args']) => FoundStep | null {
  const { find, readRows, memory } = parts;
  return ({ runId, stepRunId }) => {
    const known = memory?.find(runId) ?? null;
    const found = known ?? find(runId);
    const number = 1 + (found?.plan.steps.findIndex((planned) => planned.stepRunId === stepRunId) ?? -1);
    if (found === null || number === 0) {
      return null;
    }
    const step = known?.steps?.get(stepRunId) ?? readRows.step(found, number);
    const attempts = known?.attempts.get(stepRunId) ?? readRows.attemptsOf(found, number, step);
    const lastAttemptNumber = known?.lastAttemptNumber ?? readRows.lastAttemptNumber(found);
    if (known !== null && known.steps !== null) {
      known.attempts.set(stepRunId, attempts);
      known.lastAttemptNumber = lastAttemptNumber;
    }
    const rows = { run: found.run, steps: mapById([step]), attempts: mapById(attempts.list) };
    const { runKey, run, plan, lastEventKey } = found;
    return { runKey, run, plan, lastEventKey, number, rows, step, attempts: attempts.list, lastAttemptNumber };
  };
}

/** A page of the newest events; null where they are not known as far back. */
function findKnownEvents(known: KnownRun | null, { first, last }: { first: number; last: number }) {
  const oldest = known === null ? 0 : known.run.version - known.events.length + 1;
  if (known === null || first < oldest) {
    return null;
  }
  return known.events
    .slice(first - oldest, last - oldest + 1)
    .map((event) => decodeOwnEvent(event.row, known.plan, event));
}

/** The plan alone, which its own digest vouches for. */
function createPlanFinder(db: DatabaseSync, plans: PlanSource): (run: { readonly runId: string }) => Plan | null {
  type PlanRow = { readonly runKey: number; readonly planDigest: Uint8Array | null };
  const select = statement<{ runId: string }, PlanRow>(db, selectPlanDigestSql);
  return ({ runId }) => {
    const row = select.get({ runId });
    if (row === null) {
      return null;
    }
    if (row.planDigest === null) {
      throw damaged('RunRecords', 'has no record of the run itself', { runId });
    }
    return plans.find({ runKey: row.runKey, runId, planDigest: toHex(row.planDigest) });
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
    const { runKey, lastEventKey } = row as typeof row & { readonly lastEventKey: number };
    return { runKey, lastEventKey, run, plan: plans.find({ runKey, runId, planDigest: run.planDigest }) };
  };
}

type KeyRange = { first: number; last: number };

/** Reads the rows of a run that was found. */
export function createRowReads(db: DatabaseSync) {
  const selectSteps = statement<KeyRange, StepRow>(db, selectStepsSql);
  const selectLive = statement<KeyRange, AttemptRow>(db, selectLiveAttemptsSql);
  const selectAttempts = statement<KeyRange, AttemptRow>(db, selectAttemptsSql);
  const lastAttempt = statement<KeyRange, { number: number }>(db, lastAttemptSql);
  return {
    /** The run, all its steps, and its attempts: all of them, or those that have not ended. */
    all({ runKey, run, plan }: FoundRun, isWhole: boolean): RunRows {
      const keys = stepKeysOf(runKey);
      const steps = selectSteps.all(keys).map((row) => decodeStep(row, run, plan));
      if (steps.length !== plan.steps.length) {
        throw damaged('RunRecords', `has ${steps.length} steps of ${plan.steps.length}`, { runId: run.id });
      }
      const rows = isWhole ? selectAttempts.all(keys) : selectLive.all(keys);
      checkLinks(rows, { runKey, runId: run.id, isWhole });
      const attempts = rows.map((row) => decodeAttempt(row, run, plan));
      checkAttempts(steps, attempts, isWhole);
      return { run, steps: mapById(steps), attempts: mapById(attempts) };
    },
    /** The step of this number. */
    step({ runKey, run, plan }: FoundRun, number: number): StepRun {
      const key = recordKeyOf(runKey, number);
      const row = selectSteps.get({ first: key, last: key });
      if (row === null) {
        throw damaged('RunRecords', `lacks step ${plan.steps[number - 1]!.stepKey}`, { runId: run.id });
      }
      return decodeStep(row, run, plan);
    },
    /** All attempts of a step. */
    attemptsOf({ runKey, run, plan }: FoundRun, number: number, step: StepRun): KnownAttempts {
      const key = recordKeyOf(runKey, number);
      const rows = selectAttempts.all({ first: key, last: key });
      checkLinks(rows, { runKey, runId: run.id, isWhole: true });
      const list = rows.map((row) => decodeAttempt(row, run, plan));
      checkAttempts([step], list, true);
      return { lastKey: rows.at(-1)?.attemptKey ?? null, list };
    },
    lastAttemptNumber: ({ runKey }: FoundRun): number => lastAttempt.get(stepKeysOf(runKey))?.number ?? 0,
  };
}

/**
 * A step leads to its own attempts, from the latest back to the first, and nowhere else. `rows` are in the order of
 * their numbers; of a run that is not read whole, they are the latest ones.
 */
function checkLinks(
  rows: readonly AttemptRow[],
  run: { readonly runKey: number; readonly runId: string; readonly isWhole: boolean },
): void {
  const latest = new Map<number, number>();
  for (const { attemptKey, previousKey, runKey, stepNumber, ownerNumber } of rows) {
    const isNext = !run.isWhole || previousKey === (latest.get(stepNumber) ?? null);
    if (attemptKey === null || runKey !== run.runKey || stepNumber !== ownerNumber || !isNext) {
      throw damaged('RunAttempts', `has not the attempts of step ${ownerNumber}`, { runId: run.runId });
    }
    latest.set(stepNumber, attemptKey);
  }
}

/** What leads to an attempt has no digest; but each start was counted, and a step runs as long as its attempt does. */
function checkAttempts(steps: readonly StepRun[], attempts: readonly RunAttempt[], isWhole: boolean): void {
  const counts = new Map<string, number>();
  for (const { stepRunId } of attempts) {
    counts.set(stepRunId, 1 + (counts.get(stepRunId) ?? 0));
  }
  const lacking = steps.find((step) => {
    const expected = isWhole ? step.attemptCount : Number(step.status === 'running');
    return (counts.get(step.id) ?? 0) < expected;
  });
  if (lacking !== undefined) {
    throw damaged('RunAttempts', `lacks an attempt of step ${lacking.stepKey}`, { runId: lacking.runId });
  }
}

function mapById<T extends { readonly id: string }>(records: readonly T[]): ReadonlyMap<string, T> {
  return new Map(records.map((record) => [record.id, record]));
}
