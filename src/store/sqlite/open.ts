// Opens SQLite files by profile, so that whoever holds a connection knows what it is: 0600, no link, every pragma's
// answer checked. Owns no lock and no schema. Never closes a file of SQLite through `fs` once SQLite may have it open.
import { accessSync, chmodSync, closeSync, constants, openSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync, type DatabaseSyncOptions } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { assert, EdgeError } from '../../core/errors.ts';
import { fileErrorCode, fromFileError } from '../../core/file-error.ts';
import { limits } from '../../core/limits.ts';
import { statOf } from './data-directory.ts';
import { syncDirectory } from './durable-file.ts';
import {
  durabilities,
  layoutPragmas,
  type Pragma,
  readerPragmas,
  type StorageSettings,
  servingPragmas,
  writerPragmas,
} from './profile.ts';
import { sqliteCode, sqliteCodes, toEdgeError } from './statement.ts';

const connectionOptions = {
  allowExtension: false,
  defensive: true,
  enableDoubleQuotedStringLiterals: false,
  enableForeignKeyConstraints: true,
} as const satisfies DatabaseSyncOptions;

export type OpenWriter = StorageSettings & {
  readonly path: string;
  /** Whether the file may be missing, empty, or in another journal mode: it is being made. */
  readonly isFresh: boolean;
};

/**
 * A connection that writes, and waits up to 5 s where another is in the way: nobody is served yet. Throws `damaged`,
 * `unavailable`, `busy`, `full`; `invalid` for a link or another journal mode.
 */
export function openWriter({ path: file, durability, isFresh }: OpenWriter): DatabaseSync {
  makePrivateFile(file, { mayCreate: isFresh });
  const db = connect(file, 'rw', { timeout: limits.turnRetryMsMax });
  return settle(db, file, () => {
    if (isFresh) {
      setPragmas(db, layoutPragmas);
    } else {
      refuseOtherJournal(db, file, durabilities[durability].journalMode);
    }
    setPragmas(db, writerPragmas(durability));
    checkPragmas(db, layoutPragmas);
  });
}

/** A connection that reads beside any writer; waits for one that is committing. Creates nothing but a WAL's `-shm`. */
export function openReadOnly({ path: file, profile }: { readonly path: string } & StorageSettings): DatabaseSync {
  refuseLinks(file);
  const db = connect(file, 'ro', { readOnly: true, timeout: limits.turnRetryMsMax });
  return settle(db, file, () => setPragmas(db, readerPragmas(profile)));
}

/** A file that only carries SQLite's lock; waits 50 ms for it. Same errors as `openWriter`. */
export function openLockFile(file: string): DatabaseSync {
  makePrivateFile(file, { mayCreate: true });
  return connect(file, 'rw', { timeout: limits.busyTimeoutMs });
}

/** Whether another process holds the exclusive lock of a lock file now. Writes nothing, and is gone at once. */
export function isLockFileHeld(file: string): boolean {
  refuseLinks(file);
  if (statOf(file) === null) {
    return false;
  }
  const db = connect(file, 'ro', { readOnly: true, timeout: 0 });
  try {
    db.prepare('SELECT count(*) FROM sqlite_schema').get();
    return false;
  } catch (error) {
    if (sqliteCode(error) === sqliteCodes.busy) {
      return true;
    }
    throw toEdgeError(error, `look at the lock ${file}`, file);
  } finally {
    db.close();
  }
}

// With `mode=rw` a file that vanished just now is an error, never a new database.
function connect(file: string, mode: 'rw' | 'ro', options: DatabaseSyncOptions): DatabaseSync {
  const url = pathToFileURL(file);
  url.searchParams.set('mode', mode);
  try {
    return new DatabaseSync(url, { ...connectionOptions, ...options });
  } catch (error) {
    throw toEdgeError(error, `open ${file}`, file);
  }
}

function settle(db: DatabaseSync, file: string, prepare: () => void): DatabaseSync {
  try {
    prepare();
    return db;
  } catch (error) {
    const failure = toEdgeError(error, `open ${file}`, file);
    db.close();
    throw failure;
  }
}

/** Sets pragmas and asks for each again: SQLite refuses without a word what it cannot do. */
function setPragmas(db: DatabaseSync, pragmas: readonly Pragma[]): void {
  for (const { set } of pragmas) {
    db.exec(set);
  }
  checkPragmas(db, pragmas);
}

function checkPragmas(db: DatabaseSync, pragmas: readonly Pragma[]): void {
  for (const { set, answer } of pragmas) {
    const actual = readPragma(db, set.slice(0, set.indexOf(' =')));
    if (actual !== answer) {
      throw new EdgeError('unavailable', `SQLite answers ${actual} to "${set}"`, {
        hint: 'this database was made with other settings, or this Node.js cannot give them; see `doctor`',
      });
    }
  }
}

/** Ends the patience of a connection: from now on it serves. */
export function beginServing(db: DatabaseSync): void {
  setPragmas(db, servingPragmas);
}

/** The one value that a pragma answers with. */
export function readPragma(db: DatabaseSync, sql: string): unknown {
  const row = db.prepare(sql).get();
  return row === undefined ? null : Object.values(row)[0];
}

function refuseOtherJournal(db: DatabaseSync, file: string, wanted: string): void {
  const actual = readPragma(db, 'PRAGMA journal_mode');
  if (actual !== wanted) {
    throw new EdgeError('invalid', `${file} is in journal mode ${actual}, but config.json says ${wanted}`, {
      hint: 'put back the profile and durability that the data directory was made with',
    });
  }
}

const sidecarEndings = ['', '-journal', '-wal', '-shm'] as const;

function refuseLinks(file: string): void {
  assert(path.isAbsolute(file), 'a database is opened by its absolute path');
  for (const ending of sidecarEndings) {
    const stats = statOf(file + ending);
    if (stats !== null && !stats.isFile()) {
      throw new EdgeError('invalid', `${file}${ending} is not a regular file`, {
        hint: 'databases are never reached through a link: put the file itself there',
      });
    }
  }
}

// SQLite would make the file 0644, and gives its sidecars the same mode as the file.
function makePrivateFile(file: string, { mayCreate }: { readonly mayCreate: boolean }): void {
  refuseLinks(file);
  try {
    const stats = statOf(file);
    if (stats === null && mayCreate) {
      createFile(file);
    } else if (stats !== null && (stats.mode & 0o077) !== 0) {
      chmodSync(file, 0o600);
    }
    // Met with EROFS or EACCES, SQLite opens for reading only and says nothing.
    accessSync(file, constants.R_OK | constants.W_OK);
    accessSync(path.dirname(file), constants.W_OK);
  } catch (error) {
    throw fromFileError(error, { doing: `open ${file} for writing`, access: 'writes' });
  }
}

function createFile(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600));
    syncDirectory(path.dirname(file));
  } catch (error) {
    // Another process made it first: `wx` has not opened it.
    if (fileErrorCode(error) !== 'EEXIST') {
      throw error;
    }
  }
}
