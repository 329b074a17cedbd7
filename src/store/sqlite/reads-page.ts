// Reads over many runs, in pages: what can move, what is ready, what is running, who was set aside.
// Keyset pages over the partial index on runs that are not over, whose condition each query repeats to the letter: they
// cost what the running runs cost, however many have finished. Only ids and places leave here unverified; whoever acts
// on one reads it whole.
import type { DatabaseSync } from 'node:sqlite';
import { assert } from '../../core/errors.ts';
import { limits } from '../../core/limits.ts';
import type { Reads, RunCursor, RunPage, SetAside, StrayRun } from '../../protocol/reads.ts';
import { cutSteps } from '../step-page.ts';
import { toBytes, toHex } from './codec.ts';
import { type Statement, statement } from './statement.ts';

// A step moves if a need of it cannot succeed any more (a direct one is enough: a skip spreads in the same pass), or if
// all its needs succeeded; a run whose steps have all ended moves too. Needs that are no JSON make a candidate, so that
// reading its plan finds the damage. One statement, so that a page goes on until it is full or the runs are exhausted.
const candidatesSql = `SELECT i.runId, r.createdAtMs AS admittedAtMs, r.planDigest
  FROM RunRecords AS r INDEXED BY UnendedRuns
  CROSS JOIN RunIdentities AS i ON i.runKey = r.recordKey >> 8
  WHERE r.number = 0 AND r.status NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out')
    AND r.status = 'running' AND r.cancelRequestedAtMs IS NULL
    AND (r.createdAtMs, r.planDigest) > (+:admittedAtMs, +:planDigest)
    AND NOT EXISTS (SELECT 1 FROM SetAside AS a WHERE a.runId = i.runId)
    AND (
      NOT EXISTS (
        SELECT 1 FROM RunRecords AS s
        WHERE s.recordKey BETWEEN r.recordKey + 1 AND r.recordKey + 255
          AND s.status IN ('pending', 'ready', 'waiting_approval', 'running', 'lost')
      )
      OR EXISTS (
        SELECT 1 FROM RunRecords AS s
        CROSS JOIN QingLong3PluginPackageWorkflowAdmissionSteps AS l ON l.recordKey = s.recordKey
        WHERE s.recordKey BETWEEN r.recordKey + 1 AND r.recordKey + 255 AND s.status = 'pending'
          AND (
            NOT EXISTS (
              SELECT 1 FROM json_each(iif(json_valid(l.needs), l.needs, '[]')) AS n
              LEFT JOIN RunRecords AS d ON d.recordKey = r.recordKey + n.value
              WHERE d.status IS NOT 'succeeded'
            )
            OR EXISTS (
              SELECT 1 FROM json_each(iif(json_valid(l.needs), l.needs, '[]')) AS n
              CROSS JOIN RunRecords AS d ON d.recordKey = r.recordKey + n.value
              WHERE d.status IN ('failed', 'skipped', 'cancelled', 'timed_out')
            )
          )
      )
    )
  ORDER BY r.createdAtMs, r.planDigest LIMIT +:limit`;

const runningSql = `SELECT i.runId, r.createdAtMs AS admittedAtMs, r.planDigest
  FROM RunRecords AS r INDEXED BY UnendedRuns
  CROSS JOIN RunIdentities AS i ON i.runKey = r.recordKey >> 8
  WHERE r.number = 0 AND r.status NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out')
    AND r.status = 'running'
    AND (r.createdAtMs, r.planDigest) > (+:admittedAtMs, +:planDigest)
    AND NOT EXISTS (SELECT 1 FROM SetAside AS a WHERE a.runId = i.runId)
  ORDER BY r.createdAtMs, r.planDigest LIMIT +:limit`;

// The latest attempt of a step is the only one that can be of its present epoch. What is left out goes first, before
// any step is looked at: thousands of runs may wait for one workflow.
const readySql = `SELECT i.runId, i.packageName, i.workflowId, r.createdAtMs AS admittedAtMs, r.planDigest, l.stepKey
  FROM RunRecords AS r INDEXED BY UnendedRuns
  CROSS JOIN RunIdentities AS i ON i.runKey = r.recordKey >> 8
  CROSS JOIN RunRecords AS s ON s.recordKey BETWEEN r.recordKey + 1 AND r.recordKey + 255 AND s.status = 'ready'
  CROSS JOIN QingLong3PluginPackageWorkflowAdmissionSteps AS l ON l.recordKey = s.recordKey
  WHERE r.number = 0 AND r.status NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out')
    AND r.status = 'running' AND r.cancelRequestedAtMs IS NULL
    AND (r.createdAtMs, r.planDigest) > (+:admittedAtMs, +:planDigest)
    AND i.packageName || '/' || i.workflowId NOT IN (SELECT value FROM json_each(:except))
    AND NOT EXISTS (SELECT 1 FROM SetAside AS a WHERE a.runId = i.runId)
    AND NOT EXISTS (
      SELECT 1 FROM RunAttempts AS t WHERE t.attemptKey = s.lastAttemptKey AND t.stepRunVersion = s.version
    )
  ORDER BY r.createdAtMs, r.planDigest, s.recordKey LIMIT +:limit`;

const condemnedSql = `SELECT i.runId, r.createdAtMs AS admittedAtMs, r.planDigest
  FROM RunRecords AS r INDEXED BY UnendedRuns
  CROSS JOIN QingLong3PluginPackageWorkflowAdmissions AS l ON l.runKey = r.recordKey >> 8
  CROSS JOIN RunIdentities AS i ON i.runKey = l.runKey
  WHERE r.number = 0 AND r.status NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out')
    AND r.status = 'running' AND r.cancelRequestedAtMs IS NULL
    AND (r.createdAtMs, r.planDigest) > (+:admittedAtMs, +:planDigest)
    AND NOT EXISTS (SELECT 1 FROM SetAside AS a WHERE a.runId = i.runId)
    AND (
      EXISTS (
        SELECT 1 FROM PackageQuarantines AS q
        WHERE q.projectId = l.projectId AND q.packageName = l.packageName AND q.lockDigest = l.lockDigest
          AND q.installationId = l.installationId
      )
      OR EXISTS (
        SELECT 1 FROM PackageInstallations AS n
        CROSS JOIN Publishers AS p ON p.keyId = n.publisherKeyId
        WHERE n.installationId = l.installationId AND p.revokedAtMs IS NOT NULL
      )
    )
  ORDER BY r.createdAtMs, r.planDigest LIMIT +:limit`;

// Runs not over that no other read leads to. Where an identity is lost, the key of the admission still says
// which run it was; where that is lost too, only the check of the whole file finds what is left.
const straySql = `SELECT coalesce(i.runId, k.runId) AS runId, i.runId IS NULL AS isNameless, r.status
  FROM RunRecords AS r INDEXED BY UnendedRuns
  LEFT JOIN RunIdentities AS i ON i.runKey = r.recordKey >> 8
  LEFT JOIN QingLong3PluginPackageWorkflowAdmissions AS l ON l.runKey = r.recordKey >> 8 AND i.runId IS NULL
  LEFT JOIN AdmissionKeys AS k ON k.planId = l.planId
  WHERE r.number = 0 AND r.status NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out')
    AND (r.status <> 'running' OR r.createdAtMs IS NULL OR r.planDigest IS NULL OR i.runId IS NULL)
    AND coalesce(i.runId, k.runId) > :after
    AND NOT EXISTS (SELECT 1 FROM SetAside AS a WHERE a.runId = coalesce(i.runId, k.runId))
  ORDER BY 1 LIMIT +:limit`;

const setAsideSql = 'SELECT runId, code, summary, atMs FROM SetAside WHERE runId = :runId';
const allSetAsideSql = `SELECT runId, code, summary, atMs FROM SetAside
  WHERE runId > :after ORDER BY runId LIMIT +:limit`;

type PageArguments = { readonly limit: number; readonly after: RunCursor | null };
type PageValues = { limit: number; admittedAtMs: number; planDigest: Uint8Array };
type PageRow = { readonly runId: string; readonly admittedAtMs: number; readonly planDigest: Uint8Array };
type StrayRow = { readonly runId: string; readonly isNameless: 0 | 1; readonly status: string };
type ReadyRow = PageRow & { readonly stepKey: string; readonly packageName: string; readonly workflowId: string };

export type PageReads = Pick<
  Reads,
  'candidates' | 'readySteps' | 'runningRuns' | 'strayRuns' | 'condemnedRuns' | 'setAside' | 'allSetAside'
>;
type PageReader = { readonly [N in keyof PageReads]: (args: PageReads[N]['args']) => PageReads[N]['rows'] };

/** The reads over many runs on one connection. A page has 1 to `limits.pageMax` entries. */
export function createPageReads(db: DatabaseSync): PageReader {
  const candidates = statement<PageValues, PageRow>(db, candidatesSql);
  const running = statement<PageValues, PageRow>(db, runningSql);
  const ready = statement<PageValues & { except: string }, ReadyRow>(db, readySql);
  const condemned = statement<PageValues, PageRow>(db, condemnedSql);
  const stray = statement<{ limit: number; after: string }, StrayRow>(db, straySql);
  const setAside = statement<{ runId: string }, SetAside>(db, setAsideSql);
  const allSetAside = statement<{ limit: number; after: string }, SetAside>(db, allSetAsideSql);
  return {
    candidates: (page) => readPage(candidates, page),
    runningRuns: (page) => readPage(running, page),
    readySteps({ except = [], ...page }) {
      const values = { ...pageValues(page), limit: page.limit + limits.stepsMax, except: JSON.stringify(except) };
      return cutSteps(ready.all(values), page.limit, cursorOf);
    },
    strayRuns: ({ limit, after = '' }) => stray.all({ limit, after }).map(toStray),
    condemnedRuns: (page) => readPage(condemned, page),
    setAside: ({ runId }) => setAside.get({ runId }),
    allSetAside: ({ limit, after = '' }) => allSetAside.all({ limit, after }),
  };
}

function toStray({ runId, isNameless, status }: StrayRow): StrayRun {
  if (isNameless === 1) {
    return { runId, trouble: 'its row of RunIdentities is missing' };
  }
  const isKnown = status === 'running';
  return { runId, trouble: isKnown ? 'its row of RunRecords is not whole' : `its status is ${status}` };
}

function pageValues({ limit, after }: PageArguments): PageValues {
  assert(limit >= 1 && limit <= limits.pageMax, `a page has 1 to ${limits.pageMax} entries`);
  return { limit, admittedAtMs: after?.admittedAtMs ?? -1, planDigest: toBytes(after?.planDigest ?? '') };
}

function readPage(select: Statement<PageValues, PageRow>, page: PageArguments): RunPage {
  const rows = select.all(pageValues(page));
  return { runIds: rows.map(({ runId }) => runId), next: rows.length < page.limit ? null : cursorOf(rows.at(-1)!) };
}

function cursorOf({ admittedAtMs, planDigest }: PageRow): RunCursor {
  return { admittedAtMs, planDigest: toHex(planDigest) };
}
