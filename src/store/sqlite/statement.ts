// The one way to run a statement with values, and the one translation of what SQLite answers when it fails. Owns no
// policy: which statements there are, and what a failure means for a turn, is decided by those who call.
//
// node:sqlite binds NULL, without a word, for a missing named parameter, for a Date and for NaN, and rounds integers
// beyond 2^53. So every value is looked at here before it is bound.
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { assert, EdgeError, type ErrorCode } from '../../core/errors.ts';
import { fromFileError } from '../../core/file-error.ts';
import { findShortage } from './shortage.ts';

/**
 * What a column holds. A number is an integer: nothing in the schema is REAL. node:sqlite binds it as a double, which
 * an INTEGER column takes back as an integer, but an expression does not: `:n / 2` divides without rounding.
 */
export type SqlValue = null | number | string | Uint8Array;

export type Statement<P extends Record<string, SqlValue>, R> = {
  /** The first row; null where there is none. */
  get(values: P): R | null;
  all(values: P): R[];
  /** Returns how many rows it changed. */
  run(values: P): number;
};

/**
 * A statement with named parameters (`:name`, given without the colon). Compiled at its first use, then kept, so that
 * opening a store costs nothing for what is never asked. Exactly the named values must be given; anything else, and
 * any value that SQLite would take for NULL or round, is a broken invariant. SQLite's own errors pass unchanged.
 */
export function statement<P extends Record<string, SqlValue>, R = never>(
  db: DatabaseSync,
  sql: string,
): Statement<P, R> {
  let prepared: Prepared | null = null;
  const bind = (values: P): SqlValue[] => {
    prepared ??= prepareByPlace(db, sql);
    return orderValues(values, prepared, sql);
  };
  return {
    get: (values) => {
      const placed = bind(values);
      return (prepared!.statement.get(...placed) as R | undefined) ?? null;
    },
    all: (values) => {
      const placed = bind(values);
      return prepared!.statement.all(...placed) as R[];
    },
    run: (values) => {
      const placed = bind(values);
      return Number(prepared!.statement.run(...placed).changes);
    },
  };
}

type Prepared = {
  readonly statement: StatementSync;
  /** The name behind each `?`, in order; one that is used twice stands here twice. */
  readonly places: readonly string[];
  readonly namesCount: number;
};

// Strings, quoted names and comments first, so that nothing inside them counts.
const tokens = /'[^']*'|"[^"]*"|--[^\n]*|\/\*[\s\S]*?\*\/|[?@$]|:([A-Za-z_]\w*)/g;

// node:sqlite looks every named value up by its name, again at each call: 7.9 µs for 21 of them, against 1.5 by place.
function prepareByPlace(db: DatabaseSync, sql: string): Prepared {
  const places: string[] = [];
  const placed = sql.replaceAll(tokens, (token: string, name: string | undefined) => {
    assert(!/^[?@$]/.test(token), `parameters are written :name, in: ${sql}`);
    if (name === undefined) {
      return token;
    }
    places.push(name);
    return '?';
  });
  return { statement: db.prepare(placed), places, namesCount: new Set(places).size };
}

/** Every value in its places; each is looked at. */
function orderValues(values: Record<string, SqlValue>, { places, namesCount }: Prepared, sql: string): SqlValue[] {
  const ordered: SqlValue[] = [];
  for (const name of places) {
    const value = values[name];
    const isBindable =
      value === null ||
      typeof value === 'string' ||
      (typeof value === 'number' && Number.isSafeInteger(value)) ||
      value instanceof Uint8Array;
    if (!isBindable) {
      assert(false, `:${name} is null, a safe integer, a string or bytes, in: ${sql}`);
    }
    ordered.push(value);
  }
  const given = Object.keys(values);
  if (given.length !== namesCount) {
    const names = [...new Set(places)];
    assert(false, `exactly ${names.join(', ')} are given, not ${given.join(', ')}, in: ${sql}`);
  }
  return ordered;
}

// Result codes of SQLite (sqlite3.h). An extended code carries its primary code in the low byte.
const primaryMask = 0xff;
const ioErrorCorruptFs = 10 | (33 << 8);
const cannotOpen = 14;
const ioErrorSharedMemorySize = 10 | (19 << 8);
const constraintPrimaryKey = 19 | (6 << 8);
const constraintUnique = 19 | (8 << 8);

type SqliteError = Error & { readonly errcode: number; readonly errstr: string };

function isSqliteError(error: unknown): error is SqliteError {
  return error instanceof Error && 'errcode' in error && typeof error.errcode === 'number';
}

/** The primary result code of an error of SQLite; null for any other error. */
export function sqliteCode(error: unknown): number | null {
  return isSqliteError(error) ? error.errcode & primaryMask : null;
}

export const sqliteCodes = {
  error: 1,
  busy: 5,
  locked: 6,
  readOnly: 8,
  ioError: 10,
  corrupt: 11,
  full: 13,
  constraint: 19,
  notADatabase: 26,
} as const;

/** Whether an insert met an identity that is taken already. */
export function isCollision(error: unknown): boolean {
  return isSqliteError(error) && (error.errcode === constraintUnique || error.errcode === constraintPrimaryKey);
}

/** What a full disk, and a process without descriptors, is told as. */
const tellsNoCause: ReadonlySet<number> = new Set([cannotOpen, ioErrorSharedMemorySize]);

type Meaning = { readonly code: ErrorCode; readonly hint: string };

const lockedOut: Meaning = { code: 'busy', hint: 'another process is using the database; try again' };
const damagedFile: Meaning = {
  code: 'damaged',
  hint: 'run `doctor`; restore a backup if it says that the file is damaged',
};
const noAccess: Meaning = {
  code: 'unavailable',
  hint: 'check owner, mode and mount of the data directory, then try again',
};
const noService: Meaning = { code: 'unavailable', hint: 'check the storage (kernel log, `doctor`), then start again' };

const meanings: Readonly<Record<number, Meaning>> = {
  3: noAccess, // PERM
  5: lockedOut, // BUSY
  6: lockedOut, // LOCKED
  7: { code: 'unavailable', hint: 'free memory on this machine, then try again' }, // NOMEM
  8: noAccess, // READONLY
  10: noService, // IOERR
  11: damagedFile, // CORRUPT
  13: { code: 'full', hint: 'free some space on the file system of the data directory' }, // FULL
  14: noAccess, // CANTOPEN
  15: lockedOut, // PROTOCOL: the WAL's lock could not be had
  26: damagedFile, // NOTADB
};

/**
 * An error of SQLite as the one operating error, with its code from the closed table and the cause kept; every other
 * error comes back as it is. `doing` completes the sentence "cannot …". `file` is the database: where it is given,
 * what was short when a file could not be made is found out, so give the error before anything is closed.
 */
export function toEdgeError(error: unknown, doing: string, file: string | null = null): unknown {
  if (!isSqliteError(error)) {
    // node:sqlite refuses to read an integer beyond 2^53: no column of ours may hold one.
    const isUnreadable = error instanceof RangeError && 'code' in error && error.code === 'ERR_OUT_OF_RANGE';
    return isUnreadable
      ? new EdgeError('damaged', `cannot ${doing}: ${error.message}`, { cause: error, hint: damagedFile.hint })
      : error;
  }
  const shortage = file !== null && tellsNoCause.has(error.errcode) ? findShortage(file) : null;
  if (shortage !== null) {
    const told = fromFileError(shortage, { doing, access: 'writes' });
    return told instanceof EdgeError ? new EdgeError(told.code, told.message, { cause: error, hint: told.hint }) : told;
  }
  const meaning =
    error.errcode === ioErrorCorruptFs
      ? damagedFile
      : (meanings[error.errcode & primaryMask] ?? { code: 'internal', hint: 'report this as a defect' });
  return new EdgeError(meaning.code, `cannot ${doing}: ${error.message} (SQLite ${error.errcode})`, {
    cause: error,
    hint: meaning.hint,
  });
}
