// What the file system answers, as the one operating error. Owns no access to files.
import { EdgeError, type ErrorCode } from '../../core/errors.ts';

type Meaning = { readonly code: ErrorCode; readonly hint: string };

const noSpace: Meaning = { code: 'full', hint: 'free space on that file system, then try again' };
const noRight: Meaning = {
  code: 'unavailable',
  hint: 'give this user the right to write there, or use another directory',
};

const meanings: Readonly<Record<string, Meaning>> = {
  ENOSPC: noSpace,
  EDQUOT: noSpace,
  EACCES: noRight,
  EPERM: noRight,
  EROFS: { code: 'unavailable', hint: 'mount that file system for writing, or use another directory' },
  ENOTDIR: { code: 'invalid', hint: 'name a directory' },
  ENAMETOOLONG: { code: 'invalid', hint: 'use a shorter path' },
};

/** The code that the file system gave, such as `ENOENT`; null for any other error. */
export function fileErrorCode(error: unknown): string | null {
  return error instanceof Error && 'code' in error && 'syscall' in error ? String(error.code) : null;
}

/** An error of the file system as an EdgeError; any other comes back as it is. `doing` completes "cannot …". */
export function fromFileError(error: unknown, doing: string): unknown {
  const code = fileErrorCode(error);
  if (code === null) {
    return error;
  }
  const meaning = meanings[code] ?? {
    code: 'unavailable',
    hint: 'check the storage (kernel log, `doctor`), then try again',
  };
  return new EdgeError(meaning.code, `cannot ${doing}: ${code}`, { cause: error, hint: meaning.hint });
}
