// Reading beside any holder, or without one: for commands that only look. Takes no lock of ours and writes nothing;
// each read is one short transaction, so that a writer waits for a few milliseconds at most.
import type { DatabaseSync } from 'node:sqlite';
import { EdgeError, isEdgeError } from '../../core/errors.ts';
import type { ReadName, ReadRequest, Reads } from '../../protocol/reads.ts';
import type { StoreInfo } from '../store.ts';
import {
  type DataPaths,
  databaseState,
  findDataDirectory,
  lostSettings,
  readSettings,
  statOf,
} from './data-directory.ts';
import { type DriverParts, type ReadOne, rollbackQuietly } from './driver.ts';
import { type Holder, readHolder } from './holder-lock.ts';
import { checkIntegrity, type IntegrityReport } from './integrity.ts';
import { openReadOnly, openWriter, readPragma } from './open.ts';
import { type StorageSettings, settleSettings } from './profile.ts';
import { catalogDifferences, checkHistory, engineName, type Schema } from './readiness.ts';
import { sqliteCode, sqliteCodes, statement, toEdgeError } from './statement.ts';

export type Reader = {
  /** Where config.json cannot be believed, profile and durability are a guess by the file alone. */
  readonly info: StoreInfo;
  /** What is wrong with config.json: who only reads can do without it. Null where nothing is. */
  readonly configError: EdgeError | null;
  /** Who says that it holds the directory and lives; null otherwise. */
  readonly holder: Holder | null;
  /** One consistent look. Waits up to 5 s for a commit of another process, then throws `busy`. */
  read<N extends ReadName>(request: ReadRequest<N>): Reads[N]['rows'];
  /** Several reads of one moment. `work` must be quick: it keeps a writer of a rollback journal waiting. */
  readTogether<T>(work: (read: ReadOne) => T): T;
  /** What differs from the schema of this program, each as one line: a store would refuse to open. A millisecond. */
  schemaProblems(): readonly string[];
  /** See integrity.ts, and the schema: table by table where a holder lives. */
  checkIntegrity(): IntegrityReport;
  close(): void;
};

/**
 * Throws `not-found` without a data directory, `damaged` where the database was lost, `unavailable` where it is older
 * or newer than the schema. Creates no file but a WAL's `-shm`.
 */
export function openReaderWith(
  { data }: { readonly data: string },
  { schema, parts }: { readonly schema: Schema; readonly parts: Pick<DriverParts, 'createReads'> },
): Reader {
  const paths = findDataDirectory(data);
  if (databaseState(paths) === 'fresh') {
    throw new EdgeError('not-found', `the data directory ${paths.data} has no database yet`, {
      hint: '`package install DIR`, `run DIR` and `serve` make it',
    });
  }
  const config = readConfigLeniently(paths);
  const db = openRecovered(paths, config.settings);
  try {
    checkHistory(db, schema.migrations);
    const settings = config.error === null ? config.settings : guessSettings(db);
    const reads = parts.createReads(db, null);
    const holder = readHolder(paths);
    const schemaProblems = () => catalogDifferences(db, schema);
    return {
      info: { ...settings, engine: engineName(db), capability: schema.capability },
      configError: config.error,
      holder,
      read: (request) => readOnce(db, { reading: () => reads(request), schemaProblems }),
      readTogether: (work) => readOnce(db, { reading: () => work(reads), schemaProblems }),
      schemaProblems,
      checkIntegrity: () => {
        const { problems, isComplete } = checkIntegrity(db, { isAlone: holder === null });
        return { problems: [...schemaProblems(), ...problems], isComplete };
      },
      close: () => db.close(),
    };
  } catch (error) {
    const failure = toEdgeError(error, `read ${paths.database}`, paths.database);
    db.close();
    throw failure;
  }
}

function readConfigLeniently(paths: DataPaths): { settings: StorageSettings; error: EdgeError | null } {
  const asked = { profile: null, durability: null };
  try {
    const fixed = readSettings(paths);
    const isLost = fixed.profile === null || fixed.durability === null;
    return { settings: settleSettings(asked, fixed), error: isLost ? lostSettings(paths) : null };
  } catch (error) {
    if (isEdgeError(error) && error.code === 'invalid') {
      return { settings: settleSettings(asked, asked), error };
    }
    throw error;
  }
}

/** A write-ahead log is the standalone profile's alone. */
function guessSettings(db: DatabaseSync): StorageSettings {
  const profile = readPragma(db, 'PRAGMA journal_mode') === 'wal' ? 'standalone' : 'edge';
  return settleSettings({ profile, durability: null }, { profile: null, durability: null });
}

// A holder that died inside a commit leaves a hot journal, which only a connection that writes can roll back. SQLite's
// own locks make that safe beside anybody.
function openRecovered(paths: DataPaths, settings: StorageSettings): DatabaseSync {
  const place = { path: paths.database, ...settings };
  try {
    return openReadable(place);
  } catch (error) {
    const cause = error instanceof EdgeError ? error.cause : error;
    if (sqliteCode(cause) !== sqliteCodes.readOnly || statOf(`${paths.database}-journal`) === null) {
      throw error;
    }
    openWriter({ ...place, isFresh: false }).close();
    return openReadable(place);
  }
}

const firstReadSql = 'SELECT count(*) AS count FROM sqlite_schema';

function openReadable(place: StorageSettings & { readonly path: string }): DatabaseSync {
  const db = openReadOnly(place);
  try {
    statement<Record<string, never>, { count: number }>(db, firstReadSql).get({});
    return db;
  } catch (error) {
    const failure = toEdgeError(error, `read ${place.path}`, place.path);
    db.close();
    throw failure;
  }
}

type Reading<T> = { readonly reading: () => T; readonly schemaProblems: () => readonly string[] };

function readOnce<T>(db: DatabaseSync, { reading, schemaProblems }: Reading<T>): T {
  try {
    db.exec('BEGIN');
    const rows = reading();
    db.exec('COMMIT');
    return rows;
  } catch (error) {
    const failure = toEdgeError(error, 'read the database', db.location());
    rollbackQuietly(db);
    throw explain(failure, schemaProblems);
  }
}

/** A statement that does not fit the schema is a defect only where the schema is the one that it was written for. */
function explain(error: unknown, schemaProblems: () => readonly string[]): unknown {
  const problems = isEdgeError(error) && error.code === 'internal' ? schemaProblems() : [];
  return problems.length === 0
    ? error
    : new EdgeError('damaged', `the schema of the database is not as this program made it: ${problems.join('; ')}`, {
        cause: error,
        hint: 'restore a backup',
      });
}
