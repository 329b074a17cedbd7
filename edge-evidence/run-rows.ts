// The rows of runs as the product holds them, read apart from src/store: a history is decoded, folded by the second
// fold, and every column of the present compared with what it folds to; so are plan, receipt and ledgers.
import type { DatabaseSync } from 'node:sqlite';
import type { RunEvent } from '../src/core/events.ts';
import { FoldError, type FoldedHistory, foldHistory } from './fold.ts';
import { derivedIds, labelledDigest, payloadFieldsOf } from './fold-form.ts';

type Row = Readonly<Record<string, unknown>>;
type Rows = readonly Row[];

type PlanStep = {
  readonly stepKey: string;
  readonly stepRunId: string;
  readonly needs: readonly string[];
  readonly taskRef: string;
  readonly taskSourceDigest: string;
  readonly required: boolean;
  readonly initialStatus: string;
};
type Plan = Row & { readonly planId: string; readonly runId: string; readonly steps: readonly PlanStep[] };

/** What does not fit in the rows of any run, one line each, with the run's id. */
export function findRunTrouble(db: DatabaseSync): readonly string[] {
  const runs = db.prepare('SELECT runKey, runId FROM RunIdentities').all() as { runKey: number; runId: string }[];
  if (runs.length === 0) {
    return findStrayRows(db);
  }
  const prepared = prepareReads(db);
  return [
    ...findStrayRows(db),
    ...runs.flatMap(({ runKey, runId }) => {
      try {
        return findTroubleOfRun(prepared, runKey).map((what) => `run ${runId}: ${what}`);
      } catch (error) {
        const isExpected = error instanceof FoldError || error instanceof TypeError || error instanceof SyntaxError;
        if (!isExpected) {
          throw error;
        }
        return [`run ${runId}: ${error.message}`];
      }
    }),
  ];
}

function prepareReads(db: DatabaseSync) {
  const all = (sql: string) => {
    const statement = db.prepare(sql);
    return (runKey: number) => statement.all(runKey) as Rows;
  };
  const events = db.prepare(
    'SELECT * FROM RunHistory WHERE runId = (SELECT runId FROM RunIdentities WHERE runKey = ?)',
  );
  return {
    identity: all('SELECT * FROM RunIdentities WHERE runKey = ?'),
    records: all('SELECT * FROM RunRecords WHERE recordKey >> 8 = ? ORDER BY recordKey'),
    attempts: all('SELECT * FROM RunAttempts WHERE runKey = ? ORDER BY attemptKey'),
    admission: all('SELECT * FROM QingLong3PluginPackageWorkflowAdmissions WHERE runKey = ?'),
    steps: all(
      'SELECT * FROM QingLong3PluginPackageWorkflowAdmissionSteps WHERE recordKey >> 8 = ? ORDER BY recordKey',
    ),
    key: all('SELECT k.* FROM AdmissionKeys AS k JOIN RunIdentities AS i ON i.planId = k.planId WHERE i.runKey = ?'),
    events: (runKey: number) => events.all(runKey) as Rows,
  };
}

type Reads = ReturnType<typeof prepareReads>;

/** Rows that no run leads to: what a half-done admission would leave. */
function findStrayRows(db: DatabaseSync): readonly string[] {
  const known = '(SELECT runKey FROM RunIdentities)';
  const strays = {
    RunRecords: `recordKey >> 8 NOT IN ${known}`,
    RunEvents: `runKey NOT IN ${known}`,
    RunAttempts: `runKey NOT IN ${known}`,
    QingLong3PluginPackageWorkflowAdmissions: `runKey NOT IN ${known}`,
    QingLong3PluginPackageWorkflowAdmissionSteps: `recordKey >> 8 NOT IN ${known}`,
  };
  const parts = Object.entries(strays).map(
    ([table, condition]) => `SELECT '${table}' AS name, count(*) AS rows FROM ${table} WHERE ${condition}`,
  );
  const counts = db.prepare(parts.join(' UNION ALL ')).all() as { readonly name: string; readonly rows: number }[];
  return counts.filter(({ rows }) => rows > 0).map(({ name, rows }) => `${rows} rows of ${name} belong to no run`);
}

function findTroubleOfRun(reads: Reads, runKey: number): readonly string[] {
  const [admission] = reads.admission(runKey);
  if (admission === undefined) {
    return ['it has no admission'];
  }
  const plan = JSON.parse(`${admission['plan']}`) as Plan;
  const events = reads.events(runKey).map((row) => decodeEvent(row, plan));
  const folded = foldHistory(events);
  return [
    ...comparePresent(reads, runKey, folded),
    ...compareAdmission(reads, runKey, {
      admission,
      plan,
      admitted: foldHistory(events.slice(0, plan.steps.length + 1)),
    }),
  ];
}

function decodeEvent(row: Row, plan: Plan): RunEvent {
  const { runId } = plan;
  const [type, sequence] = [`${row['type']}`, Number(row['sequence'])];
  const step = row['stepNumber'] === null ? null : plan.steps[Number(row['stepNumber']) - 1];
  if (step === undefined) {
    throw new FoldError(`event ${sequence} names step ${row['stepNumber']} of ${plan.steps.length}`);
  }
  const epoch = row['attemptEpoch'] === null ? null : Number(row['attemptEpoch']);
  return {
    id: derivedIds.event(runId, sequence, type),
    runId,
    sequence,
    type,
    actorType: row['actorType'],
    actorId: row['actorId'],
    stepRunId: step?.stepRunId ?? null,
    attemptId: epoch === null || step === null ? null : derivedIds.attempt(runId, step.stepRunId, epoch),
    payload: type === 'step.created' && step !== null ? createdPayload(step) : decodePayload(type, row['payload']),
    createdAtMs: row['createdAtMs'],
  } as RunEvent;
}

function createdPayload({ stepKey, taskRef, taskSourceDigest, required, initialStatus }: PlanStep): Row {
  return { stepKey, kind: 'task', taskRef, taskSourceDigest, required, status: initialStatus };
}

/** What is null is not written, nor the boot of a deadline that the attempt's own start names. */
function decodePayload(type: string, text: unknown): Row {
  const said = text === null ? {} : (JSON.parse(`${text}`) as Record<string, unknown>);
  const { deadline, bootId } = said;
  if (type === 'attempt.started' && typeof deadline === 'object' && deadline !== null && !('bootId' in deadline)) {
    said['deadline'] = { ...deadline, bootId };
  }
  const fields = payloadFieldsOf(type);
  return { ...said, ...Object.fromEntries(fields.map((field) => [field, said[field] ?? null])) };
}

/** Spans as the columns that hold them; all else under its own name. */
function columnsOf(record: object): Row {
  return Object.fromEntries(
    Object.entries(record).flatMap(([name, value]): [string, unknown][] => {
      if (name !== 'deadline' && name !== 'due') {
        return [[name, typeof value === 'boolean' ? Number(value) : value]];
      }
      const span = (value ?? {}) as Row;
      const parts = ['startMs', 'startUptimeMs', 'bootId', 'lengthMs'];
      return parts.map((part) => [`${name}${part[0]?.toUpperCase()}${part.slice(1)}`, span[part] ?? null]);
    }),
  );
}

/** The columns of a row that say something else than its record. Keys of rows are the store's own affair. */
function differences(what: string, row: Row | undefined, record: object): readonly string[] {
  if (row === undefined) {
    return [`${what} has no row`];
  }
  const expected = columnsOf(record);
  return Object.entries(row)
    .filter(([name, value]) => name in expected && !isSame(value, expected[name]))
    .map(([name]) => `${what} has another ${name} than its history`);
}

function isSame(stored: unknown, expected: unknown): boolean {
  return stored instanceof Uint8Array ? Buffer.from(stored).toString('hex') === expected : stored === expected;
}

function comparePresent(reads: Reads, runKey: number, { run, steps, attempts }: FoldedHistory): readonly string[] {
  const [record, ...stepRows] = reads.records(runKey);
  const attemptRows = reads.attempts(runKey);
  const epochOf = new Map(steps.map(({ id }, index) => [id, index + 1]));
  return [
    ...differences('the run', { ...reads.identity(runKey)[0] }, { ...run, runId: run.id }),
    ...differences('the run', record, run),
    ...(stepRows.length === steps.length ? [] : [`${stepRows.length} rows of ${steps.length} steps`]),
    ...steps.flatMap((step, index) =>
      differences(`step ${step.stepKey}`, stepRows[index], { ...step, createdAtMs: null }),
    ),
    ...(attemptRows.length === attempts.length ? [] : [`${attemptRows.length} rows of ${attempts.length} attempts`]),
    ...attempts.flatMap((attempt) => {
      const row = attemptRows.find(({ number }) => number === attempt.number);
      const { bootId, deadline } = attempt;
      // Only another boot than the attempt's own is written out.
      const said =
        deadline === null ? attempt : { ...attempt, deadline: { ...deadline, bootId: otherThan(bootId, deadline) } };
      return differences(`attempt ${attempt.number}`, row, { ...said, stepNumber: epochOf.get(attempt.stepRunId) });
    }),
  ];
}

function otherThan(bootId: string | null, deadline: { readonly bootId: string }): string | null {
  return deadline.bootId === bootId ? null : deadline.bootId;
}

type Admitted = { readonly admission: Row; readonly plan: Plan; readonly admitted: FoldedHistory };

function compareAdmission(reads: Reads, runKey: number, { admission, plan, admitted }: Admitted): readonly string[] {
  const { planDigest, target, ...rest } = plan as Plan & { readonly target: Row };
  const { run } = admitted;
  const steps = plan.steps.map((step, index) => ({
    stepKey: step.stepKey,
    stepRunId: step.stepRunId,
    stepRunDigest: admitted.steps[index]?.digest ?? null,
    mutationId: derivedIds.mutation(plan.planId, { id: step.stepRunId, version: 1, status: step.initialStatus }),
    eventId: derivedIds.event(run.id, index + 2, 'step.created'),
  }));
  const receipt = {
    schema: 'qinglong/workflow-admission-receipt@v1',
    planId: plan.planId,
    planDigest,
    runId: run.id,
    publicationDigest: target['publicationDigest'],
    workflowId: plan['workflowId'],
    steps,
    finalRunVersion: run.version,
    finalRunEventSequence: run.eventSequence,
    historyDigest: run.historyDigest,
    admittedAtMs: run.createdAtMs,
  };
  const receiptDigest = labelledDigest('receipt', receipt);
  const stepRows = reads.steps(runKey);
  const { plan: _text, ...ledger } = admission;
  const sealed = labelledDigest('plan', { ...rest, target }) === planDigest;
  return [
    ...(sealed ? [] : ['its plan differs from the digest in it']),
    ...differences('its admission', ledger, { ...target, ...rest, ...receipt, receiptDigest, stepCount: steps.length }),
    ...(stepRows.length === steps.length ? [] : [`${stepRows.length} admission rows of ${steps.length} steps`]),
    ...steps.flatMap((step, index) =>
      differences(`its admission of step ${step.stepKey}`, stepRows[index], {
        ...step,
        ...plannedColumns(plan, index),
      }),
    ),
    ...reads.key(runKey).flatMap((key) => differences('its admission key', key, { ...receipt, receiptDigest })),
  ];
}

/** Steps are numbered from 1, in the order of the plan; the ledger names by number what a step needs. */
function plannedColumns({ steps }: Plan, index: number): Row {
  const { needs = [], taskSourceDigest } = steps[index] ?? {};
  const numbers = needs.map((need) => 1 + steps.findIndex(({ stepKey }) => stepKey === need));
  return { number: index + 1, taskSourceDigest, needs: JSON.stringify(numbers) };
}
