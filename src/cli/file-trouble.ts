// What the system answers about a file that a person named, in words.
import path from 'node:path';

/** `there is no file plan.json`. */
export function describeReadTrouble(cause: unknown, file: string): string {
  switch (codeOf(cause)) {
    case 'ENOENT':
    case 'ENOTDIR':
      return `there is no file ${file}`;
    case 'EISDIR':
      return `${file} is a directory`;
    case 'EACCES':
    case 'EPERM':
      return `this user may not read ${file}`;
    default:
      return `cannot read ${file}: ${codeOf(cause)}`;
  }
}

/** `there is no directory out`. */
export function describeWriteTrouble(cause: unknown, file: string): string {
  switch (codeOf(cause)) {
    case 'ENOENT':
    case 'ENOTDIR':
      return `there is no directory ${path.dirname(file)}`;
    case 'EISDIR':
      return `${file} is a directory`;
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return `this user may not write ${file}`;
    case 'ENOSPC':
    case 'EDQUOT':
      return `there is no space for ${file}`;
    default:
      return `cannot write ${file}: ${codeOf(cause)}`;
  }
}

function codeOf(cause: unknown): string {
  return cause instanceof Error && 'code' in cause ? `${cause.code}` : 'unknown error';
}
