// Brings a database to the schema of this program: roles, then numbered steps, each in one transaction together with
// its entry in `migrations`, so that a kill at any point leaves whole steps only. Decides nothing about when.
import { EdgeError } from '../../core/errors.ts';
import { Connection, type Statement } from './connection.ts';
import { isServerError, toEdgeError } from './failure.ts';
import { migrations } from './migrations.generated.ts';
import { statement, type Values } from './query.ts';
import { rolesSql } from './roles.generated.ts';

// Two migrations of one database at a time would only be in each other's way.
const lockSql = "SELECT pg_advisory_lock(hashtext('qinglong-edge migrations'))";
const hasSchemaSql = "SELECT count(*) AS count FROM pg_catalog.pg_namespace WHERE nspname = 'ql3'";
const makeSchemaSql = 'CREATE SCHEMA ql3 AUTHORIZATION ql3_owner';
const becomeOwnerSql = 'SET ROLE ql3_owner';
const hasHistorySql = "SELECT to_regclass('ql3.migrations') IS NOT NULL AS found";
const historySql = 'SELECT id, sha256 FROM ql3.migrations ORDER BY id';
const recordSql = 'INSERT INTO ql3.migrations (id, sha256) VALUES (:id, :sha256)';

/** What to do where the schema is not there, or this login may not make it. */
export const migrateHint = 'run `migrate` with a login that is a member of ql3_owner, or may make roles and schemas';
const insufficientPrivilege = '42501';

export type Applied = { readonly id: string; readonly sha256: string };

/**
 * Applies what is missing and returns its ids. The login has to be one that may make roles and schemas, or a member of
 * ql3_owner where both are there. Throws `unavailable` for a newer database or a login that may not, `damaged` where
 * the text of an applied migration has changed.
 */
export async function migratePostgres({ url }: { readonly url: string }): Promise<readonly string[]> {
  const connection = await Connection.open(url);
  try {
    await ask(connection, lockSql);
    const schemas = await ask(connection, hasSchemaSql);
    if (schemas[0]?.['count'] === '0') {
      await run(connection, [plain(rolesSql), plain(makeSchemaSql)]);
    }
    await run(connection, [plain(becomeOwnerSql)]);
    const pending = findPending(await readHistory(connection));
    for (const { id, sha256, sql } of pending) {
      const record = statement(recordSql, { id, sha256 }, { isKept: false });
      // One after the other: a failed step must not be committed by what stands behind it.
      await run(connection, [plain('BEGIN'), plain(sql), record, plain('COMMIT')]);
    }
    return pending.map(({ id }) => id);
  } catch (error) {
    throw isServerError(error) && error.code === insufficientPrivilege
      ? new EdgeError('unavailable', `cannot migrate the database: ${error.message}`, {
          cause: error,
          hint: migrateHint,
        })
      : toEdgeError(error, 'migrate the database');
  } finally {
    await connection.end();
  }
}

/** What was applied, in order; nothing where there is no history yet. */
export async function readHistory(connection: Connection): Promise<readonly Applied[]> {
  const found = await ask(connection, hasHistorySql);
  return found[0]?.['found'] === 't' ? ((await ask(connection, historySql)) as Applied[]) : [];
}

/** What is missing of a history. Throws where it is newer than this program, or a step differs from this one's. */
export function findPending(history: readonly Applied[]) {
  const newer = history.find(({ id }) => !migrations.some((migration) => migration.id === id));
  if (newer !== undefined) {
    throw new EdgeError('unavailable', `the database is newer than this program: it has ${newer.id}`, {
      hint: 'use the newer version of this program',
    });
  }
  const changed = migrations.find(({ id, sha256 }) => history.some((row) => row.id === id && row.sha256 !== sha256));
  if (changed !== undefined) {
    throw new EdgeError('damaged', `migration ${changed.id} was applied with another text`, {
      hint: 'use the version of this program that made the database',
    });
  }
  return migrations.filter(({ id }) => !history.some((row) => row.id === id));
}

function plain(text: string): Statement {
  return { text, values: [], name: null };
}

/** The rows of one statement. Throws the server's error. */
export async function ask(connection: Connection, sql: string, values: Values = {}) {
  const [answer] = await connection.exchange([statement(sql, values, { isKept: false })]);
  if (answer === undefined || 'error' in answer) {
    throw answer?.error;
  }
  return answer.rows;
}

async function run(connection: Connection, statements: readonly Statement[]): Promise<void> {
  for (const each of statements) {
    const [answer] = await connection.exchange([each]);
    if (answer !== undefined && 'error' in answer) {
      throw answer.error;
    }
  }
}
