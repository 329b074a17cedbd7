// Reads over many runs, in pages: what can move, what is ready, what is running, who was set aside, and the list that
// operators look at. Only ids and places leave here unverified; whoever acts on one reads it whole.
import { assert, isEdgeError } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import type { Run } from '../../core/records.ts';
import type { Reads, RunCursor, RunPage, RunSummary, SetAside } from '../../protocol/reads.ts';
import { cutSteps } from '../step-page.ts';
import { readRun } from './evidence.ts';
import type { ReadPart } from './query.ts';

type PartOf<N extends keyof Reads> = (args: Reads[N]['args']) => ReadPart<Reads[N]['rows']>;

const runningSql = `SELECT json_agg(
    json_build_object(
      'runId', q.run_id, 'admittedAtMs', q.created_at_ms, 'planDigest', encode(q.plan_digest, 'hex')
    ) ORDER BY q.created_at_ms, q.plan_digest
  )
  FROM (
    SELECT r.run_id, r.created_at_ms, r.plan_digest FROM ql3.open_runs AS r
    WHERE (r.created_at_ms, r.plan_digest) > (:admittedAtMs, decode(:planDigest, 'hex'))
    ORDER BY r.created_at_ms, r.plan_digest LIMIT :limit
  ) AS q`;
// A step moves if a need of it cannot succeed any more (a direct one is enough: a skip spreads in the same pass), or if
// all its needs succeeded; a run whose steps have all ended moves too.
const candidatesSql = `SELECT json_agg(
    json_build_object(
      'runId', q.run_id, 'admittedAtMs', q.created_at_ms, 'planDigest', encode(q.plan_digest, 'hex')
    ) ORDER BY q.created_at_ms, q.plan_digest
  )
  FROM (
    SELECT r.run_id, r.created_at_ms, r.plan_digest FROM ql3.open_runs AS r
    WHERE r.cancel_requested_at_ms IS NULL
      AND (r.created_at_ms, r.plan_digest) > (:admittedAtMs, decode(:planDigest, 'hex'))
      AND (
        NOT EXISTS (
          SELECT FROM ql3.step_runs AS s
          WHERE s.run_id = r.run_id AND s.status IN ('pending', 'ready', 'waiting_approval', 'running', 'lost')
        )
        OR EXISTS (
          SELECT FROM ql3.step_runs AS s
          JOIN ql3.plugin_package_workflow_admission_steps AS l ON l.run_id = s.run_id AND l.step_key = s.step_key
          WHERE s.run_id = r.run_id AND s.status = 'pending'
            AND (
              NOT EXISTS (
                SELECT FROM jsonb_array_elements_text(l.needs) AS n (step_key)
                LEFT JOIN ql3.step_runs AS d ON d.run_id = r.run_id AND d.step_key = n.step_key
                WHERE d.status IS DISTINCT FROM 'succeeded'
              )
              OR EXISTS (
                SELECT FROM jsonb_array_elements_text(l.needs) AS n (step_key)
                JOIN ql3.step_runs AS d ON d.run_id = r.run_id AND d.step_key = n.step_key
                WHERE d.status IN ('failed', 'skipped', 'cancelled', 'timed_out')
              )
            )
        )
      )
    ORDER BY r.created_at_ms, r.plan_digest LIMIT :limit
  ) AS q`;
const condemnedSql = `SELECT json_agg(
    json_build_object(
      'runId', q.run_id, 'admittedAtMs', q.created_at_ms, 'planDigest', encode(q.plan_digest, 'hex')
    ) ORDER BY q.created_at_ms, q.plan_digest
  )
  FROM ql3.condemned_runs(:admittedAtMs, decode(:planDigest, 'hex'), :limit) AS q`;
const readySql = `SELECT json_agg(
    json_build_object(
      'runId', q.run_id, 'packageName', q.package_name, 'workflowId', q.workflow_id, 'stepKey', q.step_key,
      'admittedAtMs', q.created_at_ms, 'planDigest', encode(q.plan_digest, 'hex')
    ) ORDER BY q.created_at_ms, q.plan_digest, q.step_key
  )
  FROM (
    SELECT r.run_id, r.package_name, r.workflow_id, r.created_at_ms, r.plan_digest, s.step_key
    FROM ql3.open_runs AS r
    JOIN ql3.step_runs AS s ON s.run_id = r.run_id AND s.status = 'ready'
    WHERE r.cancel_requested_at_ms IS NULL
      AND (r.created_at_ms, r.plan_digest) > (:admittedAtMs, decode(:planDigest, 'hex'))
      AND r.package_name || '/' || r.workflow_id NOT IN (SELECT jsonb_array_elements_text(:except))
      AND NOT EXISTS (
        SELECT FROM ql3.run_attempts AS t
        WHERE t.run_id = s.run_id AND t.step_run_id = s.step_run_id AND t.step_run_version = s.version
      )
    ORDER BY r.created_at_ms, r.plan_digest, s.step_key LIMIT :limit
  ) AS q`;
const activeSql = `SELECT json_agg(
    json_build_object('runId', q.run_id, 'stepRunId', q.step_run_id) ORDER BY q.claim_number
  )
  FROM (
    SELECT t.run_id, t.step_run_id, t.claim_number
    FROM ql3.run_attempts AS t
    JOIN ql3.open_runs AS r ON r.run_id = t.run_id
    WHERE t.status IN ('claimed', 'starting', 'running')
    ORDER BY t.claim_number LIMIT :limit
  ) AS q`;
const busySql = `SELECT to_jsonb(count(*))
  FROM ql3.run_attempts AS t
  JOIN ql3.open_runs AS r ON r.run_id = t.run_id
  WHERE t.status IN ('claimed', 'starting', 'running')
    AND r.package_name = :packageName AND r.workflow_id = :workflowId`;
const countsSql = `SELECT json_build_object(
    'runningCount', (SELECT count(*) FROM ql3.open_runs), 'setAsideCount', (SELECT count(*) FROM ql3.set_aside)
  )`;

// A status that is none and half a row are refused by the table itself. What is left is a run whose row was taken away;
// an attempt of it that has not ended leads there, and looking for others would read every run that ever was.
const straySql = `SELECT json_agg(q.run_id ORDER BY q.run_id)
  FROM (
    SELECT DISTINCT t.run_id FROM ql3.run_attempts AS t
    LEFT JOIN ql3.runs AS r ON r.run_id = t.run_id
    LEFT JOIN ql3.set_aside AS a ON a.run_id = t.run_id
    WHERE t.status IN ('claimed', 'starting', 'running') AND r.run_id IS NULL AND a.run_id IS NULL
      AND t.run_id > :after
    ORDER BY t.run_id LIMIT :limit
  ) AS q`;

const setAsideSql = 'SELECT a.record FROM ql3.set_aside AS a WHERE a.run_id = :runId';
const allSetAsideSql = `SELECT json_agg(q.record ORDER BY q.run_id) FROM (
    SELECT a.record, a.run_id FROM ql3.set_aside AS a WHERE a.run_id > :after ORDER BY a.run_id LIMIT :limit
  ) AS q`;

// Most runs succeed, so that without a status, or with that one, the page fills at once. The others walk a partial
// index, so that looking for the few does not read the many.
const listAnySql = `SELECT json_agg(
    json_build_object('runId', q.run_id, 'run', q.record, 'setAside', q.aside) ORDER BY q.run_number DESC
  )
  FROM (
    SELECT r.run_id, r.record, r.run_number, a.record AS aside
    FROM ql3.runs AS r
    LEFT JOIN ql3.set_aside AS a ON a.run_id = r.run_id
    WHERE (:status::text IS NULL OR r.status = :status)
      AND (:packageName::text IS NULL OR r.package_name = :packageName)
      AND (
        :beforeRunId::text IS NULL
        OR r.run_number < coalesce((SELECT b.run_number FROM ql3.runs AS b WHERE b.run_id = :beforeRunId), 0)
      )
    ORDER BY r.run_number DESC LIMIT :limit
  ) AS q`;
const listRunningSql = `SELECT json_agg(
    json_build_object('runId', q.run_id, 'run', q.record, 'setAside', q.aside) ORDER BY q.run_number DESC
  )
  FROM (
    SELECT r.run_id, r.record, r.run_number, a.record AS aside
    FROM ql3.runs AS r
    LEFT JOIN ql3.set_aside AS a ON a.run_id = r.run_id
    WHERE r.status = 'running' AND r.status = :status
      AND (:packageName::text IS NULL OR r.package_name = :packageName)
      AND (
        :beforeRunId::text IS NULL
        OR r.run_number < coalesce((SELECT b.run_number FROM ql3.runs AS b WHERE b.run_id = :beforeRunId), 0)
      )
    ORDER BY r.run_number DESC LIMIT :limit
  ) AS q`;
const listFailedSql = `SELECT json_agg(
    json_build_object('runId', q.run_id, 'run', q.record, 'setAside', q.aside) ORDER BY q.run_number DESC
  )
  FROM (
    SELECT r.run_id, r.record, r.run_number, a.record AS aside
    FROM ql3.runs AS r
    LEFT JOIN ql3.set_aside AS a ON a.run_id = r.run_id
    WHERE r.status IN ('failed', 'cancelled', 'timed_out') AND r.status = :status
      AND (:packageName::text IS NULL OR r.package_name = :packageName)
      AND (
        :beforeRunId::text IS NULL
        OR r.run_number < coalesce((SELECT b.run_number FROM ql3.runs AS b WHERE b.run_id = :beforeRunId), 0)
      )
    ORDER BY r.run_number DESC LIMIT :limit
  ) AS q`;

type PageArguments = { readonly limit: number; readonly after: RunCursor | null };
type PlaceJson = { readonly runId: string } & RunCursor;
type ReadyJson = PlaceJson & { readonly stepKey: string; readonly packageName: string; readonly workflowId: string };

function pageValues({ limit, after }: PageArguments) {
  assert(limit >= 1 && limit <= limits.pageMax, `a page has 1 to ${limits.pageMax} entries`);
  return { limit, admittedAtMs: after?.admittedAtMs ?? -1, planDigest: after?.planDigest ?? '' };
}

function pagePart(sql: string, page: PageArguments): ReadPart<RunPage> {
  return {
    sql,
    values: pageValues(page),
    decode(json) {
      const places = (json ?? []) as PlaceJson[];
      const next = places.length < page.limit ? null : cursorOf(places.at(-1)!);
      return { runIds: places.map(({ runId }) => runId), next };
    },
  };
}

function cursorOf({ admittedAtMs, planDigest }: PlaceJson): RunCursor {
  return { admittedAtMs, planDigest };
}

export const candidatesPart: PartOf<'candidates'> = (page) => pagePart(candidatesSql, page);
export const runningRunsPart: PartOf<'runningRuns'> = (page) => pagePart(runningSql, page);
export const condemnedRunsPart: PartOf<'condemnedRuns'> = (page) => pagePart(condemnedSql, page);

export const strayRunsPart: PartOf<'strayRuns'> = ({ limit, after = '' }) => ({
  sql: straySql,
  values: { limit, after },
  decode: (json) => ((json ?? []) as string[]).map((runId) => ({ runId, trouble: 'its row of runs is missing' })),
});

export const readyStepsPart: PartOf<'readySteps'> = ({ except = [], ...page }) => ({
  sql: readySql,
  values: { ...pageValues(page), limit: page.limit + limits.stepsMax, except: JSON.stringify(except) },
  decode: (json) => cutSteps((json ?? []) as ReadyJson[], page.limit, cursorOf),
});

export const activeStepsPart: PartOf<'activeSteps'> = ({ limit }) => ({
  sql: activeSql,
  values: { limit },
  decode: (json) => (json ?? []) as Reads['activeSteps']['rows'],
});

export const busyOfWorkflowPart: PartOf<'busyOfWorkflow'> = ({ packageName, workflowId }) => ({
  sql: busySql,
  values: { packageName, workflowId },
  decode: (json) => Number(json),
});

export const runCountsPart: PartOf<'runCounts'> = () => ({
  sql: countsSql,
  values: {},
  decode: (json) => json as Reads['runCounts']['rows'],
});

export const setAsidePart: PartOf<'setAside'> = ({ runId }) => ({
  sql: setAsideSql,
  values: { runId },
  decode: (json) => json as SetAside | null,
});

export const allSetAsidePart: PartOf<'allSetAside'> = ({ limit, after = '' }) => ({
  sql: allSetAsideSql,
  values: { limit, after },
  decode: (json) => (json ?? []) as SetAside[],
});

export const runsPart: PartOf<'runs'> = ({ limit, beforeRunId, status, packageName }) => {
  const isAny = status === null || status === 'succeeded';
  return {
    sql: isAny ? listAnySql : status === 'running' ? listRunningSql : listFailedSql,
    values: { limit, beforeRunId, status, packageName },
    decode: (json) => ((json ?? []) as (Omit<RunSummary, 'run'> & { run: unknown })[]).map(summarize),
  };
};

/** A damaged run is listed without its record, so that one never hides the others. */
function summarize({ runId, run, setAside }: Omit<RunSummary, 'run'> & { readonly run: unknown }): RunSummary {
  return { run: readIfSound(run, runId), runId, setAside };
}

function readIfSound(run: unknown, runId: string): Run | null {
  try {
    return readRun(run, runId);
  } catch (error) {
    if (isEdgeError(error) && error.code === 'damaged') {
      return null;
    }
    throw error;
  }
}
