// Reads of admissions: the evidence that an exact replay verifies, and the keys that outlive a pruned run. Nothing here
// comes from a cache: every column of both ledgers is compared with the plan, the receipt and the first events, and the
// run's present state must be a later one of the same run. Nothing is repaired.
import type { DatabaseSync } from 'node:sqlite';
import { type AdmissionEvidence, buildAdmission, type Receipt } from '../../core/admission.ts';
import type { EventOf, RunEvent } from '../../core/events.ts';
import type { Plan } from '../../core/plan.ts';
import type { Reads } from '../../protocol/reads.ts';
import { damaged } from '../damaged.ts';
import { type Columns, checkMirror, stepKeysOf, toBytes } from './codec.ts';
import { createEventReads } from './reads-event.ts';
import { type PlanSource, verifyPlan } from './reads-plan.ts';
import { createRowReads, createRunFinder } from './reads-run.ts';
import {
  type AdmissionStepRow,
  admissionStepsTable,
  admissionsTable,
  decodeKey,
  encodeReceipt,
  encodeReceiptStep,
  type KeyRow,
  type PlanRow,
  type ReceiptRow,
} from './rows-admission.ts';
import { encodeIdentity, type IdentityRow } from './rows-record.ts';
import { statement } from './statement.ts';

const selectByPlanSql = `SELECT runKey, planId, planDigest, projectId, packageName, installationId, lockDigest,
    generation, generationDigest, materializedRevisionDigest, publicationDigest, workflowId, workflowDefinitionDigest,
    stepCount, plannedAtMs, plan, admittedAtMs, finalRunVersion, finalRunEventSequence, historyDigest, receiptDigest
  FROM QingLong3PluginPackageWorkflowAdmissions WHERE planId = :planId`;
const selectByRunSql = `SELECT runKey, planId, planDigest, projectId, packageName, installationId, lockDigest,
    generation, generationDigest, materializedRevisionDigest, publicationDigest, workflowId, workflowDefinitionDigest,
    stepCount, plannedAtMs, plan, admittedAtMs, finalRunVersion, finalRunEventSequence, historyDigest, receiptDigest
  FROM QingLong3PluginPackageWorkflowAdmissions
  WHERE runKey = (SELECT runKey FROM RunIdentities WHERE runId = :runId)`;
const selectStepsSql = `SELECT number, stepKey, taskSourceDigest, needs, stepRunDigest
  FROM QingLong3PluginPackageWorkflowAdmissionSteps WHERE recordKey BETWEEN :first AND :last ORDER BY recordKey`;
const selectIdentitySql = `SELECT runId, projectId, planId, workflowId, publicationDigest, packageName, generation,
    triggerType, triggerId, scheduledForMs, requestedBy, idempotencyKey, retryOfRunId, deadlineStartMs,
    deadlineStartUptimeMs, deadlineBootId, deadlineLengthMs
  FROM RunIdentities WHERE runKey = :runKey`;
const isRunKnownSql = 'SELECT 1 AS isKnown FROM RunIdentities WHERE runId = :runId';
const selectKeyOfPlanSql = `SELECT planId, projectId, idempotencyKey, planDigest, packageName, workflowId, runId,
    receiptDigest, expiresAtMs
  FROM AdmissionKeys WHERE planId = :planId`;
const selectKeyOfStartSql = `SELECT planId, projectId, idempotencyKey, planDigest, packageName, workflowId, runId,
    receiptDigest, expiresAtMs
  FROM AdmissionKeys WHERE projectId = :projectId AND idempotencyKey = :idempotencyKey`;

type LedgerRow = PlanRow & ReceiptRow & { readonly runKey: number };
type Admitted = EventOf<'workflow.admitted'>;
type StartKey = Reads['keyOfStart']['args'];

export type AdmissionReads = Pick<
  Reads,
  'admission' | 'admissionOfRun' | 'admissionOfStart' | 'keyOfPlan' | 'keyOfStart'
>;
type AdmissionReader = {
  readonly [N in keyof AdmissionReads]: (args: AdmissionReads[N]['args']) => AdmissionReads[N]['rows'];
};

/** The reads of admissions on one connection. They throw `damaged`, naming table and column of what differs. */
export function createAdmissionReads(db: DatabaseSync, plans: PlanSource): AdmissionReader {
  const selectByPlan = statement<{ planId: string }, LedgerRow>(db, selectByPlanSql);
  const selectByRun = statement<{ runId: string }, LedgerRow>(db, selectByRunSql);
  const isRunKnown = statement<{ runId: string }, { isKnown: number }>(db, isRunKnownSql);
  const selectKeyOfPlan = statement<{ planId: string }, KeyRow>(db, selectKeyOfPlanSql);
  const selectKeyOfStart = statement<StartKey, KeyRow>(db, selectKeyOfStartSql);
  const verify = createVerifier(db, plans);
  const ofPlan = (planId: string): AdmissionEvidence | null => {
    const row = selectByPlan.get({ planId });
    const key = selectKeyOfPlan.get({ planId });
    if (row !== null) {
      return verify(row, key);
    }
    // A pruned run leaves its key alone; with the run still there, the ledger's row was taken away.
    if (key !== null && isRunKnown.get({ runId: key.runId }) !== null) {
      throw damaged(admissionsTable, `has no row of plan ${planId}`, { runId: key.runId });
    }
    return null;
  };
  return {
    admission: ({ planId }) => ofPlan(planId),
    admissionOfRun({ runId }) {
      const row = selectByRun.get({ runId });
      if (row !== null) {
        return verify(row, selectKeyOfPlan.get({ planId: row.planId }));
      }
      if (isRunKnown.get({ runId }) !== null) {
        throw damaged(admissionsTable, 'has no row of this run', { runId });
      }
      return null;
    },
    admissionOfStart(start) {
      const key = selectKeyOfStart.get(start);
      return key === null ? null : ofPlan(key.planId);
    },
    keyOfPlan({ planId }) {
      const row = selectKeyOfPlan.get({ planId });
      return row === null ? null : decodeKey(row);
    },
    keyOfStart(start) {
      const row = selectKeyOfStart.get(start);
      return row === null ? null : decodeKey(row);
    },
  };
}

function createVerifier(
  db: DatabaseSync,
  plans: PlanSource,
): (row: LedgerRow, key: KeyRow | null) => AdmissionEvidence {
  const selectSteps = statement<{ first: number; last: number }, AdmissionStepRow>(db, selectStepsSql);
  const selectIdentity = statement<{ runKey: number }, IdentityRow>(db, selectIdentitySql);
  const readEvents = createEventReads(db);
  const findRun = createRunFinder(db, plans);
  const readRows = createRowReads(db);
  return (row, key) => {
    const { runKey } = row;
    const identity = selectIdentity.get({ runKey });
    if (identity === null) {
      throw damaged('RunIdentities', `has no row of plan ${row.planId}`);
    }
    const { runId } = identity;
    const steps = selectSteps.all(stepKeysOf(runKey));
    const plan = verifyPlan(row, steps, runId);
    // Capped at the admission's own events: whatever the run became since is none of its evidence.
    const last = plan.steps.length + 1;
    const events = readEvents.page({ runKey, plan, version: last }, { first: 1, last });
    const admitted = verifyIdentity(identity, events[0], plan);
    const receipt = verifyReceipt(row, steps, { plan, admitted });
    const found = findRun(runId);
    if (found === null || found.run.version < last || found.run.createdAtMs !== receipt.admittedAtMs) {
      throw damaged('RunRecords', 'is not a later state of the admitted run', { runId });
    }
    readRows.all(found, false);
    if (key !== null) {
      const expected = { ...keyColumns(plan, receipt), idempotencyKey: identity.idempotencyKey };
      checkMirror(key, expected, { table: 'AdmissionKeys', runId });
    }
    return { plan, receipt, events };
  };
}

/** The receipt of a plan and its first event; `damaged` names the first column of a ledger that differs from it. */
function verifyReceipt(
  row: ReceiptRow,
  steps: readonly AdmissionStepRow[],
  { plan, admitted }: { readonly plan: Plan; readonly admitted: Admitted },
): Receipt {
  const { runId } = plan;
  const { requestedBy, idempotencyKey, triggerId, scheduledForMs, retryOfRunId, deadline } = admitted.payload;
  const request = { requestedBy, idempotencyKey, triggerId, scheduledForMs, retryOfRunId, deadline };
  const { receipt } = buildAdmission(plan, request, admitted.createdAtMs);
  checkMirror(row, encodeReceipt(receipt), { table: admissionsTable, runId });
  steps.forEach((step, index) => {
    checkMirror(step, encodeReceiptStep(receipt.steps[index]!), { table: admissionStepsTable, runId });
  });
  return receipt;
}

/** The identity of a run is what its first event says, and names the run of the plan. */
function verifyIdentity(identity: IdentityRow, first: RunEvent | undefined, plan: Plan): Admitted {
  const { runId } = plan;
  if (first?.type !== 'workflow.admitted' || typeof first.payload.publicationDigest !== 'string') {
    throw damaged('RunEvents 1', 'is not workflow.admitted', { runId });
  }
  checkMirror(identity, encodeIdentity(runId, first.payload), { table: 'RunIdentities', runId });
  return first;
}

/** What a key says of an admission; when it expires is known by nothing else. */
function keyColumns(plan: Plan, receipt: Receipt): Columns {
  return {
    planId: plan.planId,
    projectId: plan.target.projectId,
    planDigest: toBytes(plan.planDigest),
    packageName: plan.target.packageName,
    workflowId: plan.workflowId,
    runId: plan.runId,
    receiptDigest: toBytes(receipt.receiptDigest),
  };
}
