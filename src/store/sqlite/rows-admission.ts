// Rows of the two admission ledgers and of AdmissionKeys: what is inserted, and so what is compared when they are read.
import type { Receipt } from '../../core/admission.ts';
import { canonicalJson } from '../../core/canonical-json.ts';
import type { Plan, PlanStep } from '../../core/plan.ts';
import type { AdmissionKey } from '../../protocol/reads.ts';
import { toBytes, toHex } from './codec.ts';

export const admissionsTable = 'QingLong3PluginPackageWorkflowAdmissions';
export const admissionStepsTable = 'QingLong3PluginPackageWorkflowAdmissionSteps';

/** The columns that say what was planned. */
export function encodePlan(plan: Plan) {
  const { target } = plan;
  return {
    planId: plan.planId,
    planDigest: toBytes(plan.planDigest),
    projectId: target.projectId,
    packageName: target.packageName,
    installationId: target.installationId,
    lockDigest: toBytes(target.lockDigest),
    generation: target.generation,
    generationDigest: toBytes(target.generationDigest),
    materializedRevisionDigest: toBytes(target.materializedRevisionDigest),
    publicationDigest: toBytes(target.publicationDigest),
    workflowId: plan.workflowId,
    workflowDefinitionDigest: toBytes(plan.workflowDefinitionDigest),
    stepCount: plan.steps.length,
    plannedAtMs: plan.plannedAtMs,
    plan: canonicalJson(plan),
  };
}

export type PlanRow = ReturnType<typeof encodePlan>;

/** The columns that say what it became; with those of the plan and of the steps they are the whole receipt. */
export function encodeReceipt(receipt: Receipt) {
  return {
    admittedAtMs: receipt.admittedAtMs,
    finalRunVersion: receipt.finalRunVersion,
    finalRunEventSequence: receipt.finalRunEventSequence,
    historyDigest: toBytes(receipt.historyDigest),
    receiptDigest: toBytes(receipt.receiptDigest),
  };
}

export type ReceiptRow = ReturnType<typeof encodeReceipt>;

/** What the ledger of steps says of the plan: a step's number is its place in the order of keys, counted from 1. */
export function encodePlanStep(plan: Plan, step: PlanStep) {
  const numbers = step.needs.map((need) => 1 + plan.steps.findIndex(({ stepKey }) => stepKey === need));
  return {
    number: 1 + plan.steps.indexOf(step),
    stepKey: step.stepKey,
    taskSourceDigest: toBytes(step.taskSourceDigest),
    needs: canonicalJson(numbers),
  };
}

/** What the ledger of steps says of the receipt. */
export function encodeReceiptStep(step: Receipt['steps'][number]) {
  return { stepRunDigest: toBytes(step.stepRunDigest) };
}

export type AdmissionStepRow = ReturnType<typeof encodePlanStep> & ReturnType<typeof encodeReceiptStep>;

/** The columns of a key that outlives its run. */
export function encodeKey(key: AdmissionKey) {
  return {
    planId: key.planId,
    projectId: key.projectId,
    idempotencyKey: key.idempotencyKey,
    planDigest: toBytes(key.planDigest),
    packageName: key.packageName,
    workflowId: key.workflowId,
    runId: key.runId,
    receiptDigest: toBytes(key.receiptDigest),
    expiresAtMs: key.expiresAtMs,
  };
}

export type KeyRow = ReturnType<typeof encodeKey>;

/** A key as it was written; nothing but the admission, while that is there, can tell whether it was altered. */
export function decodeKey(row: KeyRow): AdmissionKey {
  return { ...row, planDigest: toHex(row.planDigest), receiptDigest: toHex(row.receiptDigest) };
}
