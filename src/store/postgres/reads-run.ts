// Reads of one run: its present records, its history, one step about to be attempted.
import { assert } from '../../core/errors.ts';
import { listAskedSettings, type PackageSetting } from '../../core/package-setting.ts';
import type { Plan } from '../../core/plan.ts';
import type { Run, RunAttempt, RunRows, StepRun } from '../../core/records.ts';
import type { MaterializedRevision } from '../../core/revision.ts';
import type { Reads, StepContext } from '../../protocol/reads.ts';
import { damaged } from '../damaged.ts';
import { readAttempt, readEvents, readPlan, readRevision, readRun, readStep } from './evidence.ts';
import type { Known } from './known.ts';
import type { ReadPart } from './query.ts';
import { type CondemnationJson, decodeCondemnation } from './reads-package.ts';

type PartOf<N extends keyof Reads> = (args: Reads[N]['args']) => ReadPart<Reads[N]['rows']>;

const runSql = `SELECT ql3.run_rows(r.record, false)
  FROM (SELECT record FROM ql3.runs WHERE run_id = :runId FOR UPDATE) AS r`;
const wholeRunSql = `SELECT ql3.run_rows(r.record, true)
  FROM (SELECT record FROM ql3.runs WHERE run_id = :runId FOR UPDATE) AS r`;

const planSql = `SELECT json_build_object(
    'planDigest', encode(r.plan_digest, 'hex'),
    'plan',
    (
      SELECT l.plan FROM ql3.plugin_package_workflow_admissions AS l
      WHERE l.run_id = r.run_id AND l.plan_digest <> decode(:known, 'hex')
    )
  )
  FROM ql3.runs AS r WHERE r.run_id = :runId`;
const eventsSql = `SELECT json_build_object(
    'version', r.version,
    'events',
    (
      SELECT json_agg(e.record ORDER BY e.sequence) FROM ql3.run_events AS e
      WHERE e.run_id = r.run_id AND e.sequence > :after AND e.sequence <= :last
    )
  )
  FROM ql3.runs AS r WHERE r.run_id = :runId`;
const eventCountSql = `SELECT to_jsonb(count(*)) FROM ql3.run_events AS e
  WHERE e.run_id = :runId AND e.type IN (SELECT jsonb_array_elements_text(:types))`;
const isRunKnownSql = 'SELECT to_jsonb(EXISTS (SELECT FROM ql3.runs WHERE run_id = :runId))';
const runIdsSql = `SELECT json_agg(i.run_id ORDER BY i.run_id) FROM (
    SELECT run_id FROM ql3.runs WHERE run_id >= :prefix AND run_id < :prefix || '~' ORDER BY run_id LIMIT :limit
  ) AS i`;
const retriesSql = `SELECT json_agg(i.run_id ORDER BY i.run_number) FROM (
    SELECT run_id, run_number FROM ql3.runs WHERE retry_of_run_id = :runId ORDER BY run_number LIMIT :limit
  ) AS i`;

const stepSql = `SELECT json_build_object(
    'run', r.record,
    'step', (SELECT s.record FROM ql3.step_runs AS s WHERE s.run_id = r.run_id AND s.step_run_id = :stepRunId),
    'attempts',
    (
      SELECT json_agg(a.record ORDER BY a.number) FROM ql3.run_attempts AS a
      WHERE a.run_id = r.run_id AND a.step_run_id = :stepRunId
    ),
    'lastAttemptNumber',
    (SELECT coalesce(max(a.number), 0) FROM ql3.run_attempts AS a WHERE a.run_id = r.run_id),
    'plan', CASE WHEN l.plan_digest <> decode(:knownPlan, 'hex') THEN l.plan END,
    'revision',
    (
      SELECT m.record FROM ql3.materialized_revisions AS m
      WHERE m.revision_digest = decode(l.plan #>> '{target,materializedRevisionDigest}', 'hex')
        AND m.revision_digest <> decode(:knownRevision, 'hex')
    ),
    'settings',
    (
      SELECT json_agg(p.record) FROM ql3.package_settings AS p
      WHERE p.project_id = r.project_id AND p.package_name = r.package_name
    ),
    'condemnation',
    ql3.condemnation(
      l.plan #>> '{target,projectId}', l.plan #>> '{target,packageName}', l.plan #>> '{target,installationId}',
      l.plan #>> '{target,lockDigest}'
    )
  )
  FROM (SELECT * FROM ql3.runs WHERE run_id = :runId FOR UPDATE) AS r
  LEFT JOIN ql3.plugin_package_workflow_admissions AS l ON l.run_id = r.run_id`;

export const runPart: PartOf<'run'> = ({ runId }) => ({
  sql: runSql,
  values: { runId },
  decode: (json) => (json === null ? null : decodePresent(json, { runId, isWhole: false })),
});

export const wholeRunPart: PartOf<'wholeRun'> = ({ runId }) => ({
  sql: wholeRunSql,
  values: { runId },
  decode: (json) => (json === null ? null : decodePresent(json, { runId, isWhole: true })),
});

export function createPlanPart(known: Known): PartOf<'plan'> {
  return ({ runId }) => {
    const kept = known.plans.get(runId);
    return {
      sql: planSql,
      values: { runId, known: kept?.planDigest ?? '' },
      decode(json) {
        if (json === null) {
          return null;
        }
        const { planDigest, plan } = json as { planDigest: string; plan: unknown };
        return settlePlan({ known, kept, stored: plan, runId, planDigest });
      },
    };
  };
}

export const eventsPart: PartOf<'events'> = ({ runId, after, limit }) => {
  assert(after >= 0 && limit >= 1, 'a page of events begins after a sequence and is not empty');
  return {
    sql: eventsSql,
    values: { runId, after, last: after + limit },
    decode(json) {
      if (json === null) {
        return [];
      }
      const { version, events } = json as { version: number; events: unknown };
      return readEvents(events, { runId, first: after + 1, last: Math.min(after + limit, version) });
    },
  };
};

export const eventCountPart: PartOf<'eventCount'> = ({ runId, types }) => ({
  sql: eventCountSql,
  values: { runId, types: JSON.stringify(types) },
  decode: (json) => json as number,
});

export const isRunKnownPart: PartOf<'isRunKnown'> = ({ runId }) => ({
  sql: isRunKnownSql,
  values: { runId },
  decode: (json) => json === true,
});

export const runIdsPart: PartOf<'runIds'> = (args) => ({
  sql: runIdsSql,
  values: { ...args },
  decode: (json) => (json ?? []) as string[],
});

export const retriesPart: PartOf<'retriesOfRun'> = (args) => ({
  sql: retriesSql,
  values: { ...args },
  decode: (json) => (json ?? []) as string[],
});

export type StepJson = {
  readonly run: unknown;
  readonly step: unknown;
  readonly attempts: readonly unknown[] | null;
  readonly lastAttemptNumber: number;
  readonly plan: unknown;
  readonly revision: unknown;
  readonly settings: readonly PackageSetting[] | null;
  readonly condemnation: CondemnationJson;
};

export function createStepPart(known: Known): PartOf<'step'> {
  return ({ runId, stepRunId }) => {
    const kept = known.plans.get(runId);
    const revision = kept === null ? null : known.revisions.get(kept.target.materializedRevisionDigest);
    return {
      sql: stepSql,
      values: { runId, stepRunId, knownPlan: kept?.planDigest ?? '', knownRevision: revision?.digest ?? '' },
      decode: (json) => {
        const found = json as StepJson | null;
        return found === null ? null : decodeStep(found, { known, kept, revision, runId, stepRunId });
      },
    };
  };
}

export type StepKnown = {
  readonly known: Known;
  readonly kept: Plan | null;
  readonly revision: MaterializedRevision | null;
  readonly runId: string;
  readonly stepRunId: string;
};

/** Throws `damaged`; null where the run has no such step. */
export function decodeStep(json: StepJson, place: StepKnown): StepContext | null {
  const { known, kept, runId, stepRunId } = place;
  const run = readRun(json.run, runId);
  const plan = settlePlan({ known, kept, stored: json.plan, runId, planDigest: run.planDigest });
  const planStep = plan.steps.find((planned) => planned.stepRunId === stepRunId);
  if (planStep === undefined) {
    return null;
  }
  if (json.step === null) {
    throw damaged('step_runs', `lacks step ${planStep.stepKey}`, { runId });
  }
  const step = readStep(json.step, runId);
  const attempts = (json.attempts ?? []).map((attempt) => readAttempt(attempt, runId));
  checkAttempts([step], attempts, true);
  const { materializedRevisionDigest } = plan.target;
  const revision = known.keepRevision(place.revision ?? readRevision(json.revision, materializedRevisionDigest));
  const task = revision.tasks.find(({ id }) => id === planStep.taskId);
  const workflow = revision.workflows.find(({ id }) => id === plan.workflowId);
  if (task === undefined || task.sourceDigest !== planStep.taskSourceDigest) {
    throw damaged('materialized_revisions', `has no task ${planStep.taskId} as planned`, { runId });
  }
  if (workflow === undefined || workflow.definitionDigest !== plan.workflowDefinitionDigest) {
    throw damaged('materialized_revisions', `has no workflow ${plan.workflowId} as planned`, { runId });
  }
  const settings = listAskedSettings([task]).flatMap(
    (name) => json.settings?.find((setting) => setting.name === name) ?? [],
  );
  return {
    rows: { run, steps: mapById([step]), attempts: mapById(attempts) },
    step,
    attempts,
    lastAttemptNumber: json.lastAttemptNumber,
    planStep,
    plan,
    task,
    workflow,
    settings,
    ...decodeCondemnation(json.condemnation),
  };
}

/** The plan that was kept, or else the one that came; it has to be that of the run. */
export function settlePlan(options: {
  readonly known: Known;
  readonly kept: Plan | null;
  readonly stored: unknown;
  readonly runId: string;
  readonly planDigest: string;
}): Plan {
  const { known, kept, stored, runId, planDigest } = options;
  const plan = stored === null && kept !== null ? kept : readPlan(stored, runId);
  if (plan.planDigest !== planDigest) {
    throw damaged('runs', 'names another plan than its admission', { runId });
  }
  return known.keepPlan(plan);
}

type PresentJson = {
  readonly run: Run;
  readonly stepCount: number;
  readonly steps: readonly StepRun[] | null;
  readonly attempts: readonly RunAttempt[] | null;
};

/** A run's records: all of its attempts, or those that have not ended. */
export function decodePresent(json: unknown, place: { readonly runId: string; readonly isWhole: boolean }): RunRows {
  const { runId, isWhole } = place;
  const present = json as PresentJson;
  const run = readRun(present.run, runId);
  const steps = (present.steps ?? []).map((step) => readStep(step, runId));
  if (steps.length !== present.stepCount) {
    throw damaged('step_runs', `has ${steps.length} steps of ${present.stepCount}`, { runId });
  }
  const attempts = (present.attempts ?? []).map((attempt) => readAttempt(attempt, runId));
  checkAttempts(steps, attempts, isWhole);
  return { run, steps: mapById(steps), attempts: mapById(attempts) };
}

/** A missing attempt has no digest; but each start was counted, and a step runs as long as its attempt does. */
function checkAttempts(steps: readonly StepRun[], attempts: readonly RunAttempt[], isWhole: boolean): void {
  const lacking = steps.find((step) => {
    const expected = isWhole ? step.attemptCount : Number(step.status === 'running');
    return attempts.filter(({ stepRunId }) => stepRunId === step.id).length < expected;
  });
  if (lacking !== undefined) {
    throw damaged('run_attempts', `lacks an attempt of step ${lacking.stepKey}`, { runId: lacking.runId });
  }
}

function mapById<T extends { readonly id: string }>(records: readonly T[]): ReadonlyMap<string, T> {
  return new Map(records.map((record) => [record.id, record]));
}
