// Ids of runs: by how they begin, which is what a person types instead of a whole one, and by the run that they retry.
import type { DatabaseSync } from 'node:sqlite';
import type { Reads } from '../../protocol/reads.ts';
import { statement } from './statement.ts';

// Ranges over unique indexes: a run that lost its identity is known by having been set aside. No character of an id
// comes after `~`.
const selectIdsSql = `SELECT runId FROM RunIdentities WHERE runId >= :prefix AND runId < :prefix || '~'
  UNION SELECT runId FROM SetAside WHERE runId >= :prefix AND runId < :prefix || '~'
  ORDER BY runId LIMIT +:limit`;

// Over the partial index on retries; run keys rise with time.
const selectRetriesSql = 'SELECT runId FROM RunIdentities WHERE retryOfRunId = :runId ORDER BY runKey LIMIT +:limit';

type IdReads = Pick<Reads, 'runIds' | 'retriesOfRun'>;
type IdReader = { readonly [N in keyof IdReads]: (args: IdReads[N]['args']) => IdReads[N]['rows'] };

export function createIdReads(db: DatabaseSync): IdReader {
  const selectIds = statement<{ prefix: string; limit: number }, { runId: string }>(db, selectIdsSql);
  const selectRetries = statement<{ runId: string; limit: number }, { runId: string }>(db, selectRetriesSql);
  return {
    runIds: (args) => selectIds.all(args).map(({ runId }) => runId),
    retriesOfRun: (args) => selectRetries.all(args).map(({ runId }) => runId),
  };
}
