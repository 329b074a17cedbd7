// What SQLite itself can say about the soundness of a file: its pages, b-trees, indexes and constraints, and its
// foreign keys. Reads only. Whether the rows tell a true story is `verify`'s question.
import type { DatabaseSync } from 'node:sqlite';
import { isEdgeError } from '../../core/errors.ts';
import { sqliteCode, sqliteCodes, statement, toEdgeError } from './statement.ts';

/** Each problem as one line; empty where the file is sound. */
export type IntegrityReport = { readonly problems: readonly string[]; readonly isComplete: boolean };

/** How many problems are told: whoever has more needs a backup, not a longer list. */
const problemsToldMax = 100;

type NoValues = Record<string, never>;

const tablesSql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 ORDER BY name";
// Without a table it ends by itself after 100 problems; a bound number would be taken for a table's name.
const wholeSql = 'SELECT integrity_check AS text FROM pragma_integrity_check LIMIT :limit';
const tableSql = 'SELECT integrity_check AS text FROM pragma_integrity_check(:table) LIMIT :limit';
const foreignKeysSql = 'SELECT "table" AS child, rowid AS id, parent FROM pragma_foreign_key_check LIMIT :limit';

type ForeignKeyRow = { readonly child: string; readonly id: number | null; readonly parent: string };

/**
 * Checks table by table, each as one short read, so that a writer is never kept waiting for the whole file; with
 * `isAlone`, for whoever holds the directory, all at once, which also finds pages that belong to nobody or to two.
 * Throws `busy` and `unavailable`, never `damaged`: that is what it reports.
 */
export function checkIntegrity(db: DatabaseSync, { isAlone }: { readonly isAlone: boolean }): IntegrityReport {
  const problems: string[] = [];
  try {
    const limit = problemsToldMax;
    const texts = isAlone
      ? statement<{ limit: number }, { text: string }>(db, wholeSql).all({ limit })
      : tablesOf(db).flatMap((table) =>
          statement<{ table: string; limit: number }, { text: string }>(db, tableSql).all({ table, limit }),
        );
    problems.push(...texts.map(({ text }) => text).filter((text) => text !== 'ok'));
    const orphans = statement<{ limit: number }, ForeignKeyRow>(db, foreignKeysSql).all({ limit });
    problems.push(...orphans.map(({ child, id, parent }) => `${child} row ${id ?? '?'} refers to no row of ${parent}`));
  } catch (error) {
    const failure = toEdgeError(error, 'check the database');
    // So damaged that the check itself cannot read it, or a schema that no longer makes sense to SQLite.
    const isDamage = isEdgeError(failure) && (failure.code === 'damaged' || sqliteCode(error) === sqliteCodes.error);
    if (!isDamage) {
      throw failure;
    }
    problems.push(failure.message);
  }
  return { problems: problems.slice(0, problemsToldMax), isComplete: problems.length < problemsToldMax };
}

function tablesOf(db: DatabaseSync): readonly string[] {
  return [
    'sqlite_schema',
    ...statement<NoValues, { name: string }>(db, tablesSql)
      .all({})
      .map(({ name }) => name),
  ];
}
