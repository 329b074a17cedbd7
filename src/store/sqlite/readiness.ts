// Whether an open database is the one that this program was written for: history, catalog, capability, size, and that
// it can be written. Names every difference and repairs none. Checks of all rows are `verify`'s, not the start's.
import type { DatabaseSync } from 'node:sqlite';
import { EdgeError } from '../../core/errors.ts';
import {
  buildCatalog,
  type Catalog,
  compareCatalogs,
  describeCatalog,
  fingerprintSchema,
  listTexts,
} from './catalog.ts';
import { statOf } from './data-directory.ts';
import { type Migration, pendingMigrations } from './migrate.ts';
import { readPragma } from './open.ts';
import { statement, toEdgeError } from './statement.ts';

export type Capability = { readonly name: string; readonly version: number };

/** What a database must be: generated from the SQL files, but the capability, which they set. */
export type Schema = {
  readonly migrations: readonly Migration[];
  /** Of every object that the migrations make: `fingerprintSchema`. */
  readonly schemaFingerprint: string;
  readonly capability: Capability;
};

/** How many differences one error tells. */
const differencesToldMax = 20;

/**
 * Throws `unavailable` where the database is older or newer than the schema, or cannot be written; `damaged`, naming
 * what differs, where it is neither. Writes nothing; a few milliseconds.
 */
export function checkReadiness(db: DatabaseSync, schema: Schema, file: string): void {
  try {
    checkHistory(db, schema.migrations);
    const differences = [...sizeDifferences(db, file), ...catalogDifferences(db, schema)];
    // A newer database differs too, but is not damaged: it says so itself, where its table still can.
    if (!differences.some((difference) => difference.startsWith('table Capabilities'))) {
      refuseNewer(db, schema.capability);
    }
    refuseDifferences(file, differences);
    refuseDifferences(file, capabilityDifferences(db, schema.capability));
    checkWritable(db);
  } catch (error) {
    throw toEdgeError(error, `check ${file}`, file);
  }
}

/** Throws `unavailable` where migrations are pending or a foreign version is set; what `pendingMigrations` does too. */
export function checkHistory(db: DatabaseSync, migrations: readonly Migration[]): void {
  // This product counts no versions there; whoever set one knows something about the file that is not known here.
  const userVersion = readPragma(db, 'PRAGMA user_version');
  if (userVersion !== 0) {
    throw new EdgeError('unavailable', `the database says user_version ${userVersion}, which this program never sets`, {
      hint: 'use the program that made it, or restore a backup',
    });
  }
  const pending = pendingMigrations(db, migrations).map(({ id }) => id);
  if (pending.length > 0) {
    throw new EdgeError('unavailable', `the database is older than this program: it lacks ${pending.join(', ')}`, {
      hint: 'use the version of this program that made it',
    });
  }
}

/** Old and new writers never mix: a newer capability may mean that what looks known here is not. */
function refuseNewer(db: DatabaseSync, { name, version }: Capability): void {
  const found = statement<Record<string, never>, Capability>(db, capabilitySql).all({});
  const newer = found.find((capability) => capability.name === name && capability.version > version);
  if (newer !== undefined) {
    throw new EdgeError('unavailable', `the database has ${name} ${newer.version}, this program knows ${version}`, {
      hint: 'use the newer version of this program that made it',
    });
  }
}

function refuseDifferences(file: string, differences: readonly string[]): void {
  if (differences.length === 0) {
    return;
  }
  const told = differences.slice(0, differencesToldMax);
  const rest = differences.length - told.length;
  const more = rest === 0 ? '' : `; and ${rest} more`;
  throw new EdgeError('damaged', `${file} is not as this program made it: ${told.join('; ')}${more}`, {
    hint: 'run `doctor`, and restore a backup',
  });
}

/** What differs from the schema, each as one line; empty where nothing does. */
export function catalogDifferences(db: DatabaseSync, schema: Schema): readonly string[] {
  // An object's text decides all facts about it, so one fingerprint answers for all of them: 1 ms instead of 4, and no
  // list of them in memory. Where it differs the whole schema is made again, to say how; blanks and comments may
  // differ.
  if (fingerprintSchema(db) === schema.schemaFingerprint) {
    return [];
  }
  const expected = buildCatalog(schema.migrations);
  const differences = compareCatalogs(textsOf(expected), listTexts(db));
  try {
    return compareCatalogs(expected, describeCatalog(db));
  } catch {
    // A view whose table or column is gone cannot be described: then the objects alone are named.
    return differences;
  }
}

function textsOf(catalog: Catalog): Catalog {
  return Object.fromEntries(Object.entries(catalog).map(([name, facts]) => [name, { sql: facts['sql'] ?? '' }]));
}

const capabilitySql = 'SELECT name, version FROM Capabilities ORDER BY name';

function capabilityDifferences(db: DatabaseSync, wanted: Capability): readonly string[] {
  const found = statement<Record<string, never>, Capability>(db, capabilitySql).all({});
  const text = found.map(({ name, version }) => `${name} ${version}`).join(', ');
  return text === `${wanted.name} ${wanted.version}`
    ? []
    : [`capability is ${text === '' ? 'missing' : text} instead of ${wanted.name} ${wanted.version}`];
}

// A file that was cut, or that something was added to. Pages that still stand in a WAL are not in the file yet.
function sizeDifferences(db: DatabaseSync, file: string): readonly string[] {
  const journalMode = readPragma(db, 'PRAGMA journal_mode');
  if (journalMode === 'wal' && (statOf(`${file}-wal`)?.size ?? 0) > 0) {
    return [];
  }
  const wantedBytes = Number(readPragma(db, 'PRAGMA page_count')) * Number(readPragma(db, 'PRAGMA page_size'));
  const foundBytes = statOf(file)?.size ?? 0;
  return foundBytes === wantedBytes ? [] : [`the file has ${foundBytes} bytes instead of ${wantedBytes}`];
}

// SQLite opens for reading only, without a word, and then even BEGIN IMMEDIATE succeeds; a statement that would write
// does not. This one changes no row, so it writes nothing.
function checkWritable(db: DatabaseSync): void {
  db.exec('BEGIN IMMEDIATE');
  try {
    db.exec('UPDATE Migrations SET appliedAtMs = 0 WHERE 0');
  } finally {
    if (db.isTransaction) {
      db.exec('ROLLBACK');
    }
  }
}

/** Name and version of the engine behind a connection. */
export function engineName(db: DatabaseSync): string {
  const version = readPragma(db, 'SELECT sqlite_version()');
  return `SQLite ${version}`;
}
