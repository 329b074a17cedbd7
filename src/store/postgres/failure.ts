// What PostgreSQL, or the way to it, answers when something fails, as the one operating error. Owns the meaning of
// SQLSTATEs; never decides what is tried again, only which failures are of the kind that may be.
import { EdgeError, type ErrorCode, InvariantError } from '../../core/errors.ts';

type ServerError = Error & { readonly code: string; readonly severity: string };

/** An error that the server told, as opposed to one of the connection. */
export function isServerError(error: unknown): error is ServerError {
  return (
    error instanceof Error &&
    'severity' in error &&
    'code' in error &&
    typeof error.code === 'string' &&
    /^[0-9A-Z]{5}$/.test(error.code)
  );
}

/** Whether the session is over with it: by the server's word, or because nobody knows what it said. */
export function isSessionLost(error: unknown): boolean {
  return !isServerError(error) || error.severity === 'FATAL' || error.severity === 'PANIC';
}

// serialization_failure, deadlock_detected, lock_not_available.
const conflictCodes: ReadonlySet<string> = new Set(['40001', '40P01', '55P03']);

/** Whether others were in the way: the transaction certainly did not happen, and may be tried again from its start. */
export function isConflict(error: unknown): boolean {
  return isServerError(error) && conflictCodes.has(error.code) && !isSessionLost(error);
}

/** Whether an insert met an identity that is taken already: unique_violation. */
export function isCollision(error: unknown): boolean {
  return isServerError(error) && error.code === '23505';
}

/** Whether the transaction was already of no use: an earlier statement's failure is the reason. */
export function isAftermath(error: unknown): boolean {
  return isServerError(error) && error.code === '25P02';
}

type Meaning = { readonly code: ErrorCode; readonly hint: string };

const gone: Meaning = { code: 'unavailable', hint: 'check the server and the way to it, then try again' };
const inTheWay: Meaning = { code: 'busy', hint: 'others change the same; try again' };
const damagedData: Meaning = { code: 'damaged', hint: 'look at the server log; restore a backup of the database' };
const unholdable: Meaning = { code: 'invalid', hint: 'give a text without NUL characters' };

// By the whole code first, then by its class.
const meanings: Readonly<Record<string, Meaning>> = {
  '08': gone,
  '25P03': gone,
  '53100': { code: 'full', hint: 'free some space on the file system of the database' },
  '53': { code: 'unavailable', hint: 'the server lacks connections or memory; look at its log' },
  '57014': { code: 'busy', hint: 'the server gave up a statement that took too long; look at its load' },
  '57': gone,
  '58': { code: 'unavailable', hint: 'look at the server log' },
  '40001': inTheWay,
  '40P01': inTheWay,
  '55P03': inTheWay,
  '40': gone,
  '28': { code: 'unavailable', hint: 'check user, password and pg_hba.conf' },
  '3D': { code: 'unavailable', hint: 'make the database first, or mend its name in the URL' },
  '3F': { code: 'unavailable', hint: 'migrate the database first' },
  '42P01': { code: 'unavailable', hint: 'migrate the database first' },
  '42501': { code: 'unavailable', hint: 'grant this login ql3_runtime, and ql3_manager if it manages packages' },
  '25006': { code: 'unavailable', hint: 'this server only reads; connect to the primary' },
  // data_exception: what only digests and numbers can be.
  '22': { code: 'invalid', hint: 'give digests as 64 hex digits, and numbers within their bounds' },
  '22021': unholdable,
  '22P05': unholdable,
  XX001: damagedData,
  XX002: damagedData,
};

/** `doing` completes the sentence "cannot …". Any error but the server's and the connection's stays as it is. */
export function toEdgeError(error: unknown, doing: string): unknown {
  if (error instanceof EdgeError || error instanceof InvariantError || !(error instanceof Error)) {
    return error;
  }
  if (!isServerError(error)) {
    return isConnectionError(error)
      ? new EdgeError(gone.code, `cannot ${doing}: ${error.message}`, { cause: error, hint: gone.hint })
      : error;
  }
  if (error.code === 'QL003') {
    const hint = 'nothing was written; look at the run';
    return new EdgeError('unavailable', `${error.message}: another runtime may carry it on`, { cause: error, hint });
  }
  if (error.code === 'QL001') {
    return new InvariantError(`broken invariant: ${error.message}`);
  }
  const { code, hint } = meanings[error.code] ??
    meanings[error.code.slice(0, 2)] ?? { code: 'internal', hint: 'report this as a defect' };
  return new EdgeError(code, `cannot ${doing}: ${error.message} (SQLSTATE ${error.code})`, { cause: error, hint });
}

// pg gives its own errors no class; what it says of a connection that is gone begins with one of these.
const connectionWords =
  /^(?:Connection|Client|timeout|Query read timeout|The server does not support SSL|read |write )/;

function isConnectionError(error: Error): boolean {
  return (
    ('syscall' in error && 'code' in error) || error.name === 'AggregateError' || connectionWords.test(error.message)
  );
}
