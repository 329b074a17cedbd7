// Plans out of the admission ledger. A plan is immutable, so what was verified once is kept by its digest; replay of an
// admission does not ask here, it verifies everything anew.
import type { DatabaseSync } from 'node:sqlite';
import { isEdgeError } from '../../core/errors.ts';
import { normalizePlan, type Plan } from '../../core/plan.ts';
import { damaged } from '../damaged.ts';
import { createCache } from './cache.ts';
import { checkMirror, parseCanonical, stepKeysOf } from './codec.ts';
import {
  type AdmissionStepRow,
  admissionStepsTable,
  admissionsTable,
  encodePlan,
  encodePlanStep,
  type PlanRow,
} from './rows-admission.ts';
import { statement } from './statement.ts';

// Not the receipt: it may be as long as the plan, and nothing but replay needs it.
const selectPlanSql = `SELECT planId, planDigest, projectId, packageName, installationId, lockDigest, generation,
    generationDigest, materializedRevisionDigest, publicationDigest, workflowId, workflowDefinitionDigest, stepCount,
    plannedAtMs, plan
  FROM QingLong3PluginPackageWorkflowAdmissions WHERE runKey = :runKey`;
const selectStepsSql = `SELECT number, stepKey, taskSourceDigest, needs, stepRunDigest
  FROM QingLong3PluginPackageWorkflowAdmissionSteps WHERE recordKey BETWEEN :first AND :last ORDER BY recordKey`;

/** The run whose plan is meant; `planDigest` is the one that the run's own record gives. */
export type PlanPlace = { readonly runKey: number; readonly runId: string; readonly planDigest: string };

export type PlanSource = {
  /** The plan of a run, verified against every ledger column but those of the receipt. Throws `damaged`. */
  find(place: PlanPlace): Plan;
};

/** The plans of one connection; those used last are kept, see cache.ts. */
export function createPlanSource(db: DatabaseSync): PlanSource {
  const selectPlan = statement<{ runKey: number }, PlanRow>(db, selectPlanSql);
  const selectSteps = statement<{ first: number; last: number }, AdmissionStepRow>(db, selectStepsSql);
  const cache = createCache<Plan>();
  const load = ({ runKey, runId }: PlanPlace): PlanRow & { readonly verified: Plan } => {
    const row = selectPlan.get({ runKey });
    if (row === null) {
      throw damaged(admissionsTable, 'has no row of this run', { runId });
    }
    return { ...row, verified: verifyPlan(row, selectSteps.all(stepKeysOf(runKey)), runId) };
  };
  return {
    find(place) {
      const { runId, planDigest } = place;
      let plan = cache.get(planDigest);
      if (plan === null) {
        const loaded = load(place);
        plan = loaded.verified;
        cache.put(plan.planDigest, plan, loaded.plan.length);
      }
      if (plan.runId !== runId || plan.planDigest !== planDigest) {
        throw damaged('RunRecords.planDigest', 'names the plan of another run', { runId });
      }
      return plan;
    },
  };
}

/** The plan of a ledger row; `damaged` names the first column, of this row or of the steps', that differs from it. */
export function verifyPlan(row: PlanRow, steps: readonly AdmissionStepRow[], runId: string): Plan {
  const where = `${admissionsTable}.plan`;
  const plan = normalizeStored(parseCanonical(row.plan, where, runId), where, runId);
  checkMirror(row, encodePlan(plan), { table: admissionsTable, runId });
  if (steps.length !== plan.steps.length) {
    throw damaged(admissionStepsTable, `has ${steps.length} rows for ${plan.steps.length} steps`, { runId });
  }
  steps.forEach((stored, index) => {
    checkMirror(stored, encodePlanStep(plan, plan.steps[index]!), { table: admissionStepsTable, runId });
  });
  return plan;
}

function normalizeStored(value: unknown, where: string, runId: string): Plan {
  try {
    return normalizePlan(value);
  } catch (cause) {
    throw isEdgeError(cause) ? damaged(where, `is no plan: ${cause.message}`, { runId, cause }) : cause;
  }
}
