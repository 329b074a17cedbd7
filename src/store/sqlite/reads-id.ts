// Ids of runs by how they begin: what a person types instead of a whole one.
import type { DatabaseSync } from 'node:sqlite';
import type { Reads } from '../../protocol/reads.ts';
import { statement } from './statement.ts';

// A range over the unique index. No character of an id comes after `~`.
const selectIdsSql = `SELECT runId FROM RunIdentities
  WHERE runId >= :prefix AND runId < :prefix || '~' ORDER BY runId LIMIT :limit`;

export function createIdReads(db: DatabaseSync): (args: Reads['runIds']['args']) => readonly string[] {
  const selectIds = statement<{ prefix: string; limit: number }, { runId: string }>(db, selectIdsSql);
  return (args) => selectIds.all(args).map(({ runId }) => runId);
}
