// What a database says, without what differs from one execution to the next: the text is the same for two executions of
// the same operation, and another one for any other state. Reads tables as they are; knows nothing of what they mean.
import { existsSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

/** Of a file that is not there, or in which nothing was ever committed. */
export const noFacts = '';

// Times pass; lengths of time are part of what was asked for.
const timeColumns = /Ms$/;
const lengthColumns = /LengthMs$/;
// In JSON texts: times; then everything that is drawn or derived: UUIDs, ids with a prefix of two letters, digests.
const timeMembers = /"(\w*AtMs|startMs|startUptimeMs|durationMs)":\d+/g;
const drawn = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[a-z]{2}_[0-9a-f]{32}\b|\b[0-9a-f]{64}\b/g;

/**
 * Every row of every table, in order; times dropped, and ids and digests replaced by their places in the order of
 * appearance, so that who refers to whom stays visible. Opens for writing, since a hot journal has to be rolled back
 * first: give it a copy. Throws SQLite's error for a file that cannot be read.
 */
export function readFacts(databaseFile: string): string {
  if (!existsSync(databaseFile)) {
    return noFacts;
  }
  const db = openAlone(databaseFile);
  try {
    return readFactsOf(db);
  } finally {
    db.close();
  }
}

/** For a file that nobody else has open: without a shared memory file beside it, and without waiting for the disk. */
export function openAlone(databaseFile: string): DatabaseSync {
  const db = new DatabaseSync(databaseFile);
  try {
    db.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = OFF');
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

/** As `readFacts`, on an open connection. */
export function readFactsOf(db: DatabaseSync): string {
  const tables = db.prepare(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
  );
  const text = tables
    .all()
    .map(({ name }) => `${name}\n${describeTable(db, `${name}`)}`)
    .join('');
  const places = new Map<string, string>();
  return text.replaceAll(timeMembers, '"$1":t').replaceAll(drawn, (found) => {
    const place = places.get(found) ?? `#${places.size + 1}`;
    places.set(found, place);
    return place;
  });
}

function describeTable(db: DatabaseSync, name: string): string {
  const select = db.prepare(`SELECT * FROM ${name}`);
  select.setReturnArrays(true);
  const rows = select.all() as unknown as readonly (readonly unknown[])[];
  if (rows.length === 0) {
    return '';
  }
  const columns = select.columns().map(({ name: column }) => column);
  const isTime = columns.map((column) => timeColumns.test(column) && !lengthColumns.test(column));
  return rows
    .map((row) => `  ${row.map((value, index) => describeValue(value, isTime[index] === true)).join('|')}\n`)
    .join('');
}

function describeValue(value: unknown, isTime: boolean): string {
  if (value === null) {
    return '-';
  }
  if (isTime) {
    return 't';
  }
  if (value instanceof Uint8Array) {
    // Salts are drawn; whatever else is stored as bytes is a digest, a key or a signature.
    return value.length === 32 ? Buffer.from(value).toString('hex') : `${value.length} bytes`;
  }
  return `${value}`;
}
