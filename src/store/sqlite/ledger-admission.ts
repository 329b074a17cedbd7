// Inserts an admission: the run, its steps, its first events, both ledgers and its keys, in this order, inside whatever
// transaction is open. Knows no plan but the one given; asks nothing. An identity that is taken is a constraint error.
import type { DatabaseSync } from 'node:sqlite';
import { type AdmissionBundle, stepCreatedPayload } from '../../core/admission.ts';
import { canonicalJson } from '../../core/canonical-json.ts';
import { assert } from '../../core/errors.ts';
import type { Plan } from '../../core/plan.ts';
import type { Run, StepRun } from '../../core/records.ts';
import type { LedgerWrite } from '../../protocol/protocol.ts';
import { createEventWrite } from './append.ts';
import { toBytes } from './codec.ts';
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
import { statement } from './statement.ts';

const insertIdentitySql = `INSERT INTO RunIdentities (
    runId, projectId, planId, workflowId, publicationDigest, packageName, generation, triggerType, triggerId,
    scheduledForMs, requestedBy, idempotencyKey, retryOfRunId, deadlineStartMs, deadlineStartUptimeMs, deadlineBootId,
    deadlineLengthMs
  ) VALUES (
    :runId, :projectId, :planId, :workflowId, :publicationDigest, :packageName, :generation, :triggerType, :triggerId,
    :scheduledForMs, :requestedBy, :idempotencyKey, :retryOfRunId, :deadlineStartMs, :deadlineStartUptimeMs,
    :deadlineBootId, :deadlineLengthMs
  ) RETURNING runKey`;
const insertRunSql = `INSERT INTO RunRecords (
    runKey, kind, number, status, version, createdAtMs, startedAtMs, updatedAtMs, cancelRequestedAtMs, cancelReason,
    planDigest, historyDigest, digest
  ) VALUES (
    :runKey, 0, 0, 'running', :version, :createdAtMs, :startedAtMs, :updatedAtMs, :cancelRequestedAtMs, :cancelReason,
    :planDigest, :historyDigest, :digest
  )`;
const insertStepSql = `INSERT INTO RunRecords (
    runKey, kind, number, status, version, updatedAtMs, readyAtMs, startedAtMs, finishedAtMs, digest, attemptCount,
    spanStartMs, spanStartUptimeMs, spanBootId, spanLengthMs, resultCode, errorSummary, inputRef, outputRef
  ) VALUES (
    :runKey, 1, :number, :status, :version, :updatedAtMs, :readyAtMs, :startedAtMs, :finishedAtMs, :digest,
    :attemptCount, :spanStartMs, :spanStartUptimeMs, :spanBootId, :spanLengthMs, :resultCode, :errorSummary, :inputRef,
    :outputRef
  )`;
const insertAdmissionSql = `INSERT INTO QingLong3PluginPackageWorkflowAdmissions (
    runKey, planId, planDigest, projectId, packageName, installationId, lockDigest, generation, generationDigest,
    materializedRevisionDigest, publicationDigest, workflowId, workflowDefinitionDigest, stepCount, plannedAtMs,
    admittedAtMs, finalRunVersion, finalRunEventSequence, historyDigest, receiptDigest, plan, receipt
  ) VALUES (
    :runKey, :planId, :planDigest, :projectId, :packageName, :installationId, :lockDigest, :generation,
    :generationDigest, :materializedRevisionDigest, :publicationDigest, :workflowId, :workflowDefinitionDigest,
    :stepCount, :plannedAtMs, :admittedAtMs, :finalRunVersion, :finalRunEventSequence, :historyDigest, :receiptDigest,
    :plan, :receipt
  )`;
const insertAdmissionStepSql = `INSERT INTO QingLong3PluginPackageWorkflowAdmissionSteps (
    runKey, number, stepKey, taskSourceDigest, needs, stepRunDigest
  ) VALUES (:runKey, :number, :stepKey, :taskSourceDigest, :needs, :stepRunDigest)`;
const insertKeySql = `INSERT INTO AdmissionKeys (
    planId, projectId, idempotencyKey, planDigest, packageName, workflowId, runId, receiptDigest, expiresAtMs
  ) VALUES (
    :planId, :projectId, :idempotencyKey, :planDigest, :packageName, :workflowId, :runId, :receiptDigest, :expiresAtMs
  )`;

type Keyed = { runKey: number };
type NewRun = ReturnType<typeof encodeRunProgress> &
  Keyed & { createdAtMs: number; startedAtMs: number; planDigest: Uint8Array };
type AdmissionWrite = Extract<LedgerWrite, { readonly write: 'admission' }>;

export function createAdmissionWrite(db: DatabaseSync): (admission: AdmissionWrite) => void {
  const insertIdentity = statement<IdentityRow, Keyed>(db, insertIdentitySql);
  const insertRun = statement<NewRun>(db, insertRunSql);
  const insertStep = statement<ReturnType<typeof encodeStep> & Keyed & { number: number }>(db, insertStepSql);
  const insertAdmission = statement<PlanRow & ReceiptRow & Keyed>(db, insertAdmissionSql);
  const insertAdmissionStep = statement<AdmissionStepRow & Keyed>(db, insertAdmissionStepSql);
  const insertKey = statement<KeyRow>(db, insertKeySql);
  const writeEvent = createEventWrite(db);

  return ({ plan, bundle, key }) => {
    checkBundle(plan, bundle);
    const { rows, events, receipt } = bundle;
    const { run } = rows;
    const [admitted, ...created] = events;
    assert(admitted?.type === 'workflow.admitted', 'an admission begins with workflow.admitted');
    const { runKey } = insertIdentity.get(encodeIdentity(run.id, admitted.payload))!;
    insertRun.run({ ...encodeRunProgress(run), runKey, ...constantColumns(run) });
    const context = {
      stepNumberOf: (id: string) => 1 + plan.steps.findIndex(({ stepRunId }) => stepRunId === id),
      attempts: rows.attempts,
    };
    writeEvent(runKey, admitted, context);
    plan.steps.forEach((step, index) => {
      insertStep.run({ ...encodeStep(rows.steps.get(step.stepRunId)!), runKey, number: index + 1 });
      writeEvent(runKey, created[index]!, context);
    });
    insertAdmission.run({ ...encodePlan(plan), ...encodeReceipt(receipt), runKey });
    plan.steps.forEach((step, index) => {
      const columns = { ...encodePlanStep(plan, step), ...encodeReceiptStep(receipt.steps[index]!) };
      insertAdmissionStep.run({ ...columns, runKey });
    });
    insertKey.run(encodeKey(key));
  };
}

function constantColumns({ createdAtMs, startedAtMs, planDigest }: Run) {
  return { createdAtMs, startedAtMs, planDigest: toBytes(planDigest) };
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
      canonicalJson(event.payload) === canonicalJson(stepCreatedPayload(step));
    assert(isPlanned, `step ${step.stepKey} is created as its plan has it`);
    const record: StepRun = steps.get(step.stepRunId)!;
    assert(record.kind === 'task' && record.createdAtMs === run.createdAtMs, 'steps are created with their run');
  });
}
