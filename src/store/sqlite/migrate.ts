// Brings a database from one version of the schema to the next: numbered steps, each in one IMMEDIATE transaction
// together with its entry in `Migrations`, so that a kill at any point leaves whole steps only and starting again goes
// on there. Decides nothing about when: store.ts migrates what this process is making, and what an operator asks for.
import type { DatabaseSync } from 'node:sqlite';
import { assert, EdgeError } from '../../core/errors.ts';
import { statement, toEdgeError } from './statement.ts';

/** `sha256` names the exact text that was reviewed; the list is in the order in which it is applied. */
export type Migration = { readonly id: string; readonly sha256: string; readonly sql: string };

type Applied = { readonly id: string; readonly sha256: string };
type NoValues = Record<string, never>;

const hasHistorySql = "SELECT 1 AS found FROM sqlite_schema WHERE type = 'table' AND name = 'Migrations'";
const historySql = 'SELECT id, sha256 FROM Migrations ORDER BY id';
const recordSql = 'INSERT INTO Migrations (id, sha256, appliedAtMs) VALUES (:id, :sha256, :appliedAtMs)';

/**
 * The migrations that the database still lacks; reads only. Throws `unavailable` where the database is newer than this
 * program, `damaged` where an applied migration had another text or one in between is missing.
 */
export function pendingMigrations(db: DatabaseSync, migrations: readonly Migration[]): readonly Migration[] {
  const applied = readHistory(db);
  const known = new Map(migrations.map((migration) => [migration.id, migration]));
  const unknown = applied.filter(({ id }) => !known.has(id)).map(({ id }) => id);
  if (unknown.length > 0) {
    throw new EdgeError('unavailable', `the database is newer than this program: it has ${unknown.join(', ')}`, {
      hint: 'use the version that migrated it, or a newer one',
    });
  }
  for (const [position, { id, sha256 }] of applied.entries()) {
    if (known.get(id)?.sha256 !== sha256 || migrations[position]?.id !== id) {
      throw new EdgeError('damaged', `migration ${id} was applied with another text or out of order`, {
        hint: 'use the program that made this database, or restore a backup',
      });
    }
  }
  return migrations.slice(applied.length);
}

function readHistory(db: DatabaseSync): Applied[] {
  const hasHistory = statement<NoValues, { found: number }>(db, hasHistorySql).get({}) !== null;
  return hasHistory ? statement<NoValues, Applied>(db, historySql).all({}) : [];
}

/**
 * Applies what is pending, oldest first, and returns the ids. Throws what `pendingMigrations` throws, before any write;
 * a step that fails is rolled back whole and is told by its id.
 */
export function applyMigrations(db: DatabaseSync, migrations: readonly Migration[], nowMs: number): readonly string[] {
  const pending = pendingMigrations(db, migrations);
  for (const migration of pending) {
    applyMigration(db, migration, nowMs);
  }
  return pending.map(({ id }) => id);
}

function applyMigration(db: DatabaseSync, { id, sha256, sql }: Migration, appliedAtMs: number): void {
  try {
    db.exec('BEGIN IMMEDIATE');
    db.exec(sql);
    assert(db.isTransaction, `migration ${id} leaves the transaction to its caller`);
    statement(db, recordSql).run({ id, sha256, appliedAtMs });
    db.exec('COMMIT');
  } catch (error) {
    // On a full disk SQLite may have rolled back already; a second ROLLBACK would hide `error`.
    if (db.isTransaction) {
      db.exec('ROLLBACK');
    }
    throw toEdgeError(error, `apply migration ${id}`, db.location());
  }
}
