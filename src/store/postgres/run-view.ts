// One run as a transaction holds it under its lock: read once, answers what operations that follow each other ask, and
// takes in what they write. Owns no decision and nothing that outlives the transaction. What it gives is decoded and
// verified by the same code as what is read by itself, and only where it is asked for.
import type { RunAttempt, RunRows, StepRun } from '../../core/records.ts';
import { isTerminalAttempt, isTerminalStep } from '../../core/states.ts';
import type { ReadRequest } from '../../protocol/reads.ts';
import type { Statement } from './connection.ts';
import type { Known } from './known.ts';
import { type ReadPart, statement } from './query.ts';
import { decodePresent, decodeStep, type StepJson, settlePlan } from './reads-run.ts';

type ViewJson = Omit<StepJson, 'step' | 'attempts'> & {
  readonly run: { readonly planDigest: string };
  readonly stepCount: number;
  readonly steps: readonly StepRun[] | null;
  /** Those that have not ended; of steps that have not ended, and of the step that was named, all. */
  readonly attempts: readonly RunAttempt[] | null;
};

export type RunView = {
  /** Whether it holds all that these reads are about. */
  holds(requests: readonly ReadRequest[]): boolean;
  /** Exactly what the read would give now. Throws `damaged`. */
  answer(request: ReadRequest): unknown;
  /** `after` is what an append that was decided on answers of this view makes of them. */
  take(after: RunRows): void;
};

const viewSql = `SELECT json_build_object(
    'run', r.record,
    'stepCount',
    (SELECT count(*) FROM ql3.plugin_package_workflow_admission_steps AS l WHERE l.run_id = r.run_id),
    'steps', (SELECT json_agg(s.record ORDER BY s.step_key) FROM ql3.step_runs AS s WHERE s.run_id = r.run_id),
    'attempts',
    (
      SELECT json_agg(a.record ORDER BY a.number) FROM ql3.run_attempts AS a
      WHERE a.run_id = r.run_id AND (
        a.status IN ('claimed', 'starting', 'running') OR a.step_run_id = :stepRunId
        OR EXISTS (
          SELECT FROM ql3.step_runs AS s WHERE s.run_id = r.run_id AND s.step_run_id = a.step_run_id
            AND s.status IN ('pending', 'ready', 'waiting_approval', 'running', 'lost')
        )
      )
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

// The same of several runs, in the order in which they are asked for.
const viewsSql = `SELECT (VIEW) AS view, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS "nowMs"
  FROM jsonb_to_recordset(:asked) AS asked (
    "runId" text, "stepRunId" text, "knownPlan" text, "knownRevision" text
  )`.replace('VIEW', viewSql.replaceAll(/(?<!:):(runId|stepRunId|knownPlan|knownRevision)/g, 'asked."$1"'));

const held: ReadonlySet<string> = new Set(['step', 'run', 'plan']);

/** The view that these reads, all of one run, can be answered from; null where it would lack some. */
export function createViewPart(
  known: Known,
): (runId: string, requests: readonly ReadRequest[]) => ReadPart<RunView | null> | null {
  return (runId, requests) => {
    if (!requests.every(({ name }) => held.has(name))) {
      return null;
    }
    const kept = known.plans.get(runId);
    const revision = kept === null ? null : known.revisions.get(kept.target.materializedRevisionDigest);
    const stepRunId = requests.flatMap((request) => stepOf(request) ?? [])[0] ?? '';
    return {
      sql: viewSql,
      values: { runId, stepRunId, knownPlan: kept?.planDigest ?? '', knownRevision: revision?.digest ?? '' },
      decode: (json) => (json === null ? null : viewOf(json as ViewJson, { known, kept, revision, runId, stepRunId })),
    };
  };
}

/** Views of several runs as one statement: a row each, `view` being what its part decodes. All are locked. */
export function combineViews(parts: readonly ReadPart<RunView | null>[]): Statement {
  return statement(viewsSql, { asked: JSON.stringify(parts.map(({ values }) => values)) });
}

function stepOf({ args }: ReadRequest): string | null {
  return 'stepRunId' in args ? args.stepRunId : null;
}

type Place = Parameters<typeof decodeStep>[1];

function viewOf(json: ViewJson, place: Place): RunView {
  const { runId } = place;
  const named = place.stepRunId;
  let run: unknown = json.run;
  let planDigest = json.run.planDigest;
  let { lastAttemptNumber } = json;
  const steps = new Map((json.steps ?? []).map((step) => [step.id, step]));
  const attempts = new Map((json.attempts ?? []).map((attempt) => [attempt.id, attempt]));
  const holdsStep = (stepRunId: string) => {
    const step = steps.get(stepRunId);
    return stepRunId === named || (step !== undefined && !isTerminalStep(step.status));
  };
  const presentRows = () => {
    const live = [...attempts.values()].filter(({ status }) => !isTerminalAttempt(status));
    return decodePresent({ ...json, run, steps: [...steps.values()], attempts: live }, { runId, isWhole: false });
  };
  const stepContext = (stepRunId: string) => {
    const own = [...attempts.values()].filter((attempt) => attempt.stepRunId === stepRunId);
    const step = steps.get(stepRunId) ?? null;
    return decodeStep({ ...json, run, step, attempts: own, lastAttemptNumber }, { ...place, stepRunId });
  };
  return {
    holds: (requests) =>
      requests.every((request) => {
        const stepRunId = stepOf(request);
        return (
          held.has(request.name) &&
          'runId' in request.args &&
          request.args.runId === runId &&
          (stepRunId === null || holdsStep(stepRunId))
        );
      }),
    answer(request) {
      switch (request.name) {
        case 'plan':
          return settlePlan({ ...place, stored: json.plan, planDigest });
        case 'run':
          return presentRows();
        default:
          return stepContext(stepOf(request) ?? '');
      }
    },
    take(after) {
      run = after.run;
      planDigest = after.run.planDigest;
      for (const step of after.steps.values()) {
        steps.set(step.id, step);
      }
      for (const attempt of after.attempts.values()) {
        attempts.set(attempt.id, attempt);
        lastAttemptNumber = Math.max(lastAttemptNumber, attempt.number);
      }
    },
  };
}
