// What the file system answers, as the one operating error. Owns no access to files.
import { EdgeError, type ErrorCode } from './errors.ts';

type Meaning = { readonly code: ErrorCode; readonly hint: string };

const noSpace: Meaning = { code: 'full', hint: 'free space on that file system, then try again' };
const noRight: Meaning = {
  code: 'unavailable',
  hint: 'give this user the right to write there, or use another directory',
};
const noSight: Meaning = { code: 'unavailable', hint: 'run this as the owner of that directory' };
const noDescriptor: Meaning = {
  code: 'unavailable',
  hint: 'let this user open more files (ulimit -n), then try again',
};

const meanings: Readonly<Record<string, Meaning>> = {
  ENOSPC: noSpace,
  EDQUOT: noSpace,
  EACCES: noRight,
  EPERM: noRight,
  EROFS: { code: 'unavailable', hint: 'mount that file system for writing, or use another directory' },
  ENOTDIR: { code: 'invalid', hint: 'name another path: a part of this one is a file, not a directory' },
  ENAMETOOLONG: { code: 'invalid', hint: 'use a shorter path' },
  ELOOP: { code: 'invalid', hint: 'name a path without links that lead in a circle' },
  EMFILE: noDescriptor,
  ENFILE: noDescriptor,
};

/** The code that the file system gave, such as `ENOENT`; null for any other error. */
export function fileErrorCode(error: unknown): string | null {
  return error instanceof Error && 'code' in error && 'syscall' in error ? String(error.code) : null;
}

/** What was tried when the file system refused. */
export type FileAttempt = {
  /** Completes "cannot …". */
  readonly doing: string;
  /** Who only reads has no use for a right to write. */
  readonly access: 'reads' | 'writes';
  /** For a place that has another remedy than most. */
  readonly hint?: string;
};

/** An error of the file system as an EdgeError; any other comes back as it is. */
export function fromFileError(error: unknown, { doing, access, hint }: FileAttempt): unknown {
  const code = fileErrorCode(error);
  if (code === null) {
    return error;
  }
  const isUnseen = (code === 'EACCES' || code === 'EPERM') && access === 'reads';
  const meaning = (isUnseen ? noSight : meanings[code]) ?? {
    code: 'unavailable',
    hint: 'check the storage (kernel log, `doctor`), then try again',
  };
  // What lacks space is helped by space alone, wherever it is.
  const told = meaning.code === 'full' ? meaning.hint : (hint ?? meaning.hint);
  return new EdgeError(meaning.code, `cannot ${doing}: ${code}`, { cause: error, hint: told });
}
