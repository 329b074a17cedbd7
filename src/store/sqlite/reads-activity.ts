// What is going on over all runs: how many there are, and which steps have an attempt that has not ended. For people;
// only numbers and places leave here, and whoever shows one reads it whole. Costs what is running, not what has ended.
import type { DatabaseSync } from 'node:sqlite';
import { deriveStepRunId } from '../../core/ids.ts';
import type { Reads } from '../../protocol/reads.ts';
import { statement } from './statement.ts';

const countsSql = `SELECT
    (SELECT count(*) FROM RunRecords AS r INDEXED BY UnendedRuns
      CROSS JOIN RunIdentities AS i ON i.runKey = r.recordKey >> 8
      WHERE r.number = 0 AND r.status NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out')
        AND r.status = 'running'
        AND NOT EXISTS (SELECT 1 FROM SetAside AS a WHERE a.runId = i.runId)) AS runningCount,
    (SELECT count(*) FROM SetAside) AS setAsideCount`;

// An attempt that has not ended is the latest of its step.
const activeSql = `SELECT i.runId, l.stepKey
  FROM RunRecords AS r INDEXED BY UnendedRuns
  CROSS JOIN RunIdentities AS i ON i.runKey = r.recordKey >> 8
  CROSS JOIN RunRecords AS s ON s.recordKey BETWEEN r.recordKey + 1 AND r.recordKey + 255
    AND s.status IN ('ready', 'running')
  CROSS JOIN RunAttempts AS t ON t.attemptKey = s.lastAttemptKey AND t.status IN ('claimed', 'starting', 'running')
  CROSS JOIN QingLong3PluginPackageWorkflowAdmissionSteps AS l ON l.recordKey = s.recordKey
  WHERE r.number = 0 AND r.status NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out')
    AND r.status = 'running'
    AND NOT EXISTS (SELECT 1 FROM SetAside AS a WHERE a.runId = i.runId)
  ORDER BY t.attemptKey LIMIT +:limit`;

const busySql = `SELECT count(*) AS count
  FROM RunRecords AS r INDEXED BY UnendedRuns
  CROSS JOIN RunIdentities AS i ON i.runKey = r.recordKey >> 8
    AND i.packageName = :packageName AND i.workflowId = :workflowId
  CROSS JOIN RunRecords AS s ON s.recordKey BETWEEN r.recordKey + 1 AND r.recordKey + 255
    AND s.status IN ('ready', 'running')
  CROSS JOIN RunAttempts AS t ON t.attemptKey = s.lastAttemptKey AND t.status IN ('claimed', 'starting', 'running')
  WHERE r.number = 0 AND r.status NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out')
    AND r.status = 'running'
    AND NOT EXISTS (SELECT 1 FROM SetAside AS a WHERE a.runId = i.runId)`;

type ActivityReads = Pick<Reads, 'runCounts' | 'activeSteps' | 'busyOfWorkflow'>;
type ActivityReader = {
  readonly [N in keyof ActivityReads]: (args: ActivityReads[N]['args']) => ActivityReads[N]['rows'];
};

export function createActivityReads(db: DatabaseSync): ActivityReader {
  const counts = statement<Record<string, never>, Reads['runCounts']['rows']>(db, countsSql);
  const active = statement<{ limit: number }, { runId: string; stepKey: string }>(db, activeSql);
  const busy = statement<Reads['busyOfWorkflow']['args'], { count: number }>(db, busySql);
  return {
    busyOfWorkflow: (workflow) => busy.get(workflow)?.count ?? 0,
    runCounts: () => counts.get({}) ?? { runningCount: 0, setAsideCount: 0 },
    activeSteps: ({ limit }) =>
      active.all({ limit }).map(({ runId, stepKey }) => ({ runId, stepRunId: deriveStepRunId({ runId, stepKey }) })),
  };
}
