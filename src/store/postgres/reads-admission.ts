// Reads of admissions: the evidence that an exact replay verifies, and the keys that outlive a pruned run. Nothing here
// comes from what is kept in memory; both ledgers, the first events and the run's present state have to agree.
import { type AdmissionEvidence, buildAdmission, readReceipt } from '../../core/admission.ts';
import type { EventOf } from '../../core/events.ts';
import type { Plan, PlanStep } from '../../core/plan.ts';
import type { Run } from '../../core/records.ts';
import type { AdmissionKey, Reads } from '../../protocol/reads.ts';
import { damaged } from '../damaged.ts';
import { asStored, isSame, readEvents, readPlan } from './evidence.ts';
import type { ReadPart } from './query.ts';
import { decodePresent } from './reads-run.ts';

type PartOf<N extends keyof Reads> = (args: Reads[N]['args']) => ReadPart<Reads[N]['rows']>;

// A pruned run leaves its key alone; with the run still there, the ledger's row was taken away.
const ofPlanSql = `SELECT json_build_object(
    'evidence',
    (
      SELECT ql3.admission_evidence(l.run_id) FROM ql3.plugin_package_workflow_admissions AS l
      WHERE l.plan_id = :planId
    ),
    'runId',
    (
      SELECT r.run_id FROM ql3.admission_keys AS k JOIN ql3.runs AS r ON r.run_id = k.record ->> 'runId'
      WHERE k.plan_id = :planId
    )
  )`;
const ofRunSql = `SELECT json_build_object(
    'evidence', ql3.admission_evidence(:runId),
    'runId', (SELECT r.run_id FROM ql3.runs AS r WHERE r.run_id = :runId)
  )`;
const ofStartSql = `SELECT json_build_object(
    'evidence',
    (
      SELECT ql3.admission_evidence(l.run_id) FROM ql3.plugin_package_workflow_admissions AS l
      WHERE l.plan_id = k.plan_id
    ),
    'runId', (SELECT r.run_id FROM ql3.runs AS r WHERE r.run_id = k.record ->> 'runId')
  )
  FROM ql3.admission_keys AS k WHERE k.project_id = :projectId AND k.idempotency_key = :idempotencyKey`;
const keyOfPlanSql = 'SELECT k.record FROM ql3.admission_keys AS k WHERE k.plan_id = :planId';
const keyOfStartSql = `SELECT k.record FROM ql3.admission_keys AS k
  WHERE k.project_id = :projectId AND k.idempotency_key = :idempotencyKey`;

const admissionsTable = 'plugin_package_workflow_admissions';
const stepsTable = 'plugin_package_workflow_admission_steps';

export const admissionPart: PartOf<'admission'> = ({ planId }) => ({
  sql: ofPlanSql,
  values: { planId },
  decode: decodeAdmission,
});

export const admissionOfRunPart: PartOf<'admissionOfRun'> = ({ runId }) => ({
  sql: ofRunSql,
  values: { runId },
  decode: decodeAdmission,
});

export const admissionOfStartPart: PartOf<'admissionOfStart'> = ({ projectId, idempotencyKey }) => ({
  sql: ofStartSql,
  values: { projectId, idempotencyKey },
  decode: decodeAdmission,
});

export const keyOfPlanPart: PartOf<'keyOfPlan'> = ({ planId }) => ({
  sql: keyOfPlanSql,
  values: { planId },
  decode: (json) => json as AdmissionKey | null,
});

export const keyOfStartPart: PartOf<'keyOfStart'> = ({ projectId, idempotencyKey }) => ({
  sql: keyOfStartSql,
  values: { projectId, idempotencyKey },
  decode: (json) => json as AdmissionKey | null,
});

/** A step's row in the ledger of admitted steps: what the plan and the receipt say of it. */
export function ledgerStep(plan: Plan, step: PlanStep, receiptStep: AdmissionEvidence['receipt']['steps'][number]) {
  const { taskSourceDigest, needs } = step;
  return { runId: plan.runId, taskSourceDigest, needs, ...receiptStep };
}

type EvidenceJson = {
  readonly plan: { readonly runId: string };
  readonly receipt: unknown;
  readonly ledger: readonly unknown[] | null;
  readonly events: unknown;
  readonly present: unknown;
  readonly key: AdmissionKey | null;
};

function decodeAdmission(json: unknown): AdmissionEvidence | null {
  const { evidence, runId } = (json ?? { evidence: null, runId: null }) as {
    evidence: EvidenceJson | null;
    runId: string | null;
  };
  if (evidence !== null) {
    return verifyEvidence(evidence);
  }
  if (runId !== null) {
    throw damaged(admissionsTable, 'has no row of this run', { runId });
  }
  return null;
}

function verifyEvidence(json: EvidenceJson): AdmissionEvidence {
  const { runId } = json.plan;
  const plan = readPlan(json.plan, runId);
  const receipt = asStored(`${admissionsTable}.receipt`, () => readReceipt(json.receipt), runId);
  // Capped at the admission's own events: whatever the run became since is none of its evidence.
  const last = plan.steps.length + 1;
  const events = readEvents(json.events, { runId, first: 1, last });
  const first = events[0];
  if (first?.type !== 'workflow.admitted') {
    throw damaged('run_events 1', 'is not workflow.admitted', { runId });
  }
  const { requestedBy, idempotencyKey, triggerId, scheduledForMs, retryOfRunId, deadline } = first.payload;
  const request = { requestedBy, idempotencyKey, triggerId, scheduledForMs, retryOfRunId, deadline };
  const rebuilt = asStored('run_events 1', () => buildAdmission(plan, request, first.createdAtMs), runId);
  if (!isSame(receipt, rebuilt.receipt)) {
    throw damaged(`${admissionsTable}.receipt`, 'differs from the evidence beside it', { runId });
  }
  const ledger = plan.steps.map((step, index) => ledgerStep(plan, step, receipt.steps[index]!));
  if (!isSame(json.ledger, ledger)) {
    throw damaged(stepsTable, 'differs from the evidence beside it', { runId });
  }
  if (json.present === null) {
    throw damaged('runs', 'is not a later state of the admitted run', { runId });
  }
  checkRun(decodePresent(json.present, { runId, isWhole: false }).run, first, { plan, last });
  checkKey(json.key, plan, { receiptDigest: receipt.receiptDigest, idempotencyKey });
  return { plan, receipt, events };
}

/** The present run is a later state of the one that was admitted. */
function checkRun(run: Run, first: EventOf<'workflow.admitted'>, admitted: { plan: Plan; last: number }): void {
  const { plan, last } = admitted;
  const identity = Object.entries(first.payload).every(([name, value]) => isSame(run[name as keyof Run], value));
  if (!identity || run.version < last || run.createdAtMs !== first.createdAtMs || run.planDigest !== plan.planDigest) {
    throw damaged('runs', 'is not a later state of the admitted run', { runId: run.id });
  }
}

/** When a key expires is known by nothing else; and the key may have expired before its run. */
function checkKey(
  key: AdmissionKey | null,
  plan: Plan,
  admitted: Pick<AdmissionKey, 'receiptDigest' | 'idempotencyKey'>,
): void {
  const { planId, planDigest, workflowId, runId, target } = plan;
  const { projectId, packageName } = target;
  const expected = { projectId, planId, planDigest, packageName, workflowId, runId, ...admitted };
  if (key !== null && !isSame(key, { ...expected, expiresAtMs: key.expiresAtMs })) {
    throw damaged('admission_keys', 'differs from the evidence beside it', { runId });
  }
}
