// Inserts an admission: the run, its steps, its first events, both ledgers and its keys, in this order, inside whatever
// transaction is open. Knows no plan but the one given; asks nothing. An identity that is taken is a constraint error.
import type { DatabaseSync } from 'node:sqlite';
import { type AdmissionBundle, stepCreatedPayload } from '../../core/admission.ts';
import { assert } from '../../core/errors.ts';
import type { EventPayloads } from '../../core/events.ts';
import { limits } from '../../core/limits.ts';
import type { Plan } from '../../core/plan.ts';
import type { Run, StepRun } from '../../core/records.ts';
import type { LedgerWrite } from '../../protocol/protocol.ts';
import { createEventWrite } from './append.ts';
import { recordKeyOf, toBytes } from './codec.ts';
import {
  type AdmissionStepRow,
  encodeKey,
  encodePlan,
  encodePlanStep,
  encodeReceipt,
  encodeReceiptStep,
  type KeyRow,
  type PlanRow,
  type ReceiptRow,
} from './rows-admission.ts';
import { encodeIdentity, encodeRunProgress, encodeStep, type IdentityRow } from './rows-record.ts';
import type { RunMemory } from './run-memory.ts';
import { statement } from './statement.ts';

// Above every key that is in use, also by what is left of a run whose identity was lost: it must not bar new ones.
const insertIdentitySql = `INSERT INTO RunIdentities (
    runKey, runId, projectId, planId, workflowId, publicationDigest, packageName, generation, triggerType, triggerId,
    scheduledForMs, requestedBy, idempotencyKey, retryOfRunId, deadlineStartMs, deadlineStartUptimeMs, deadlineBootId,
    deadlineLengthMs
  ) VALUES (
    1 + max(
      coalesce((SELECT max(runKey) FROM RunIdentities), 0),
      coalesce((SELECT max(recordKey) FROM RunRecords), 0) >> 8
    ),
    :runId, :projectId, :planId, :workflowId, :publicationDigest, :packageName, :generation, :triggerType, :triggerId,
    :scheduledForMs, :requestedBy, :idempotencyKey, :retryOfRunId, :deadlineStartMs, :deadlineStartUptimeMs,
    :deadlineBootId, :deadlineLengthMs
  ) RETURNING runKey`;
const insertRunSql = `INSERT INTO RunRecords (
    recordKey, lastEventKey, status, version, createdAtMs, startedAtMs, updatedAtMs, cancelRequestedAtMs, cancelReason,
    planDigest, historyDigest, digest
  ) VALUES (
    :recordKey, :lastEventKey, 'running', :version, :createdAtMs, :startedAtMs, :updatedAtMs, :cancelRequestedAtMs,
    :cancelReason, :planDigest, :historyDigest, :digest
  )`;
const insertStepSql = `INSERT INTO RunRecords (
    recordKey, status, version, updatedAtMs, readyAtMs, startedAtMs, finishedAtMs, digest, attemptCount, dueStartMs,
    dueStartUptimeMs, dueBootId, dueLengthMs, resultCode, errorSummary, inputRef, outputRef
  ) VALUES (
    :recordKey, :status, :version, :updatedAtMs, :readyAtMs, :startedAtMs, :finishedAtMs, :digest, :attemptCount,
    :dueStartMs, :dueStartUptimeMs, :dueBootId, :dueLengthMs, :resultCode, :errorSummary, :inputRef, :outputRef
  )`;
const insertAdmissionSql = `INSERT INTO QingLong3PluginPackageWorkflowAdmissions (
    runKey, planId, planDigest, projectId, packageName, installationId, lockDigest, generation, generationDigest,
    materializedRevisionDigest, publicationDigest, workflowId, workflowDefinitionDigest, stepCount, plannedAtMs,
    admittedAtMs, finalRunVersion, finalRunEventSequence, historyDigest, receiptDigest, plan
  ) VALUES (
    :runKey, :planId, :planDigest, :projectId, :packageName, :installationId, :lockDigest, :generation,
    :generationDigest, :materializedRevisionDigest, :publicationDigest, :workflowId, :workflowDefinitionDigest,
    :stepCount, :plannedAtMs, :admittedAtMs, :finalRunVersion, :finalRunEventSequence, :historyDigest, :receiptDigest,
    :plan
  )`;
const insertAdmissionStepSql = `INSERT INTO QingLong3PluginPackageWorkflowAdmissionSteps (
    recordKey, stepKey, taskSourceDigest, needs, stepRunDigest
  ) VALUES (:recordKey, :stepKey, :taskSourceDigest, :needs, :stepRunDigest)`;
const insertKeySql = `INSERT INTO AdmissionKeys (
    planId, projectId, idempotencyKey, planDigest, packageName, workflowId, runId, receiptDigest, expiresAtMs
  ) VALUES (
    :planId, :projectId, :idempotencyKey, :planDigest, :packageName, :workflowId, :runId, :receiptDigest, :expiresAtMs
  )`;

type NewRun = ReturnType<typeof encodeRunProgress> & ReturnType<typeof constantColumns> & { recordKey: number };
type Created = EventPayloads['step.created'];
type NewStep = ReturnType<typeof encodeStep> & { recordKey: number };
type NewAdmissionStep = Omit<AdmissionStepRow, 'number'> & { recordKey: number };
type AdmissionWrite = Extract<LedgerWrite, { readonly write: 'admission' }>;

/** Inserts an admission. Throws SQLite's constraint error for a taken identity; a false bundle breaks an invariant. */
export function createAdmissionWrite(db: DatabaseSync, memory: RunMemory | null): (admission: AdmissionWrite) => void {
  const writeRecords = createRecordInserts(db, memory);
  const insertAdmission = statement<PlanRow & ReceiptRow & { runKey: number }>(db, insertAdmissionSql);
  const insertAdmissionStep = statement<NewAdmissionStep>(db, insertAdmissionStepSql);
  const insertKey = statement<KeyRow>(db, insertKeySql);

  return ({ plan, bundle, key }) => {
    checkBundle(plan, bundle);
    const { receipt } = bundle;
    const runKey = writeRecords(plan, bundle);
    insertAdmission.run({ ...encodePlan(plan), ...encodeReceipt(receipt), runKey });
    plan.steps.forEach((step, index) => {
      const { number, ...planned } = encodePlanStep(plan, step);
      const columns = { ...planned, ...encodeReceiptStep(receipt.steps[index]!) };
      insertAdmissionStep.run({ ...columns, recordKey: recordKeyOf(runKey, number) });
    });
    insertKey.run(encodeKey(key));
  };
}

/** The run and its first event, then each step with the event that creates it; returns the run's key. */
function createRecordInserts(
  db: DatabaseSync,
  memory: RunMemory | null,
): (plan: Plan, bundle: AdmissionBundle) => number {
  const insertIdentity = statement<IdentityRow, { runKey: number }>(db, insertIdentitySql);
  const insertRun = statement<NewRun>(db, insertRunSql);
  const insertStep = statement<NewStep>(db, insertStepSql);
  const eventWrite = createEventWrite(db, memory);
  return (plan, { rows, events }) => {
    const { run } = rows;
    const [admitted, ...created] = events;
    assert(admitted?.type === 'workflow.admitted', 'an admission begins with workflow.admitted');
    const { runKey } = insertIdentity.get(encodeIdentity(run.id, admitted.payload))!;
    const firstKey = eventWrite.nextKey();
    const lastKey = firstKey + created.length;
    insertRun.run({ ...encodeRunProgress(run, lastKey), ...constantColumns(run), recordKey: recordKeyOf(runKey, 0) });
    const place = { stepNumber: null, attemptEpoch: null };
    const first = eventWrite.insert({ runKey, eventKey: firstKey, previousKey: null }, admitted, place);
    const others = plan.steps.map((step, index) => {
      const number = index + 1;
      insertStep.run({ ...encodeStep(rows.steps.get(step.stepRunId)!), recordKey: recordKeyOf(runKey, number) });
      const keys = { runKey, eventKey: firstKey + number, previousKey: firstKey + index };
      return eventWrite.insert(keys, created[index]!, { stepNumber: number, attemptEpoch: null });
    });
    memory?.admitted({
      ...{
        runKey,
        plan,
        run,
        lastEventKey: lastKey,
        steps: new Map(rows.steps),
        live: new Map(),
        lastAttemptNumber: 0,
      },
      attempts: new Map(plan.steps.map(({ stepRunId }) => [stepRunId, { lastKey: null, list: [] }])),
      events: [first, ...others].slice(-limits.knownEventsMax),
    });
    return runKey;
  };
}

function constantColumns({ createdAtMs, startedAtMs, planDigest }: Run) {
  return { createdAtMs, startedAtMs, planDigest: toBytes(planDigest) };
}

function isSamePayload(payload: Created, expected: Created): boolean {
  const keys = Object.keys(expected) as (keyof Created)[];
  return keys.length === Object.keys(payload).length && keys.every((key) => payload[key] === expected[key]);
}

/** What is not stored must be what it is rebuilt from. */
function checkBundle(plan: Plan, { rows, events }: AdmissionBundle): void {
  const { run, steps } = rows;
  assert(run.status === 'running' && run.version === run.eventSequence, 'an admitted run is running');
  assert(steps.size === plan.steps.length && events.length === steps.size + 1, 'an admission creates every step');
  plan.steps.forEach((step, index) => {
    const event = events[index + 1]!;
    const isPlanned =
      event.type === 'step.created' &&
      event.stepRunId === step.stepRunId &&
      event.actorType === 'runtime' &&
      isSamePayload(event.payload, stepCreatedPayload(step));
    assert(isPlanned, `step ${step.stepKey} is created as its plan has it`);
    const record: StepRun = steps.get(step.stepRunId)!;
    assert(record.kind === 'task' && record.createdAtMs === run.createdAtMs, 'steps are created with their run');
  });
}
