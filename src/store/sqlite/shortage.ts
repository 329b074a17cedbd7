// Why SQLite could not make or open a file: it says "unable to open database file", whether space, inodes or
// descriptors ran out. Asked by trying the same beside it, at once and in the same process. Touches no file of SQLite:
// closing one through `fs` would drop its locks.
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import path from 'node:path';
import { fileErrorCode } from '../../core/file-error.ts';

const shortages: ReadonlySet<string | null> = new Set(['ENOSPC', 'EDQUOT', 'EMFILE', 'ENFILE']);

/** A small file system block, and not less than what SQLite adds to a file at once. */
const trialBytes = 4096;

/**
 * What the file system says that is short for one more file beside `file`; null where it takes one, or refuses it for
 * another reason, such as a missing right.
 */
export function findShortage(file: string): unknown {
  // A name like those of the trial of a storage, so that what a killed process leaves goes the same way; longer than
  // any of SQLite's, since a directory may have room for a short name alone.
  const trial = path.join(path.dirname(file), `probe-${process.pid}.db-shortagetrial`);
  try {
    writeTrial(trial);
    return null;
  } catch (error) {
    return shortages.has(fileErrorCode(error)) ? error : null;
  } finally {
    removeQuietly(trial);
  }
}

function writeTrial(trial: string): void {
  const descriptor = openSync(trial, 'wx', 0o600);
  try {
    // Random, as flash file systems compress.
    writeSync(descriptor, process.getBuiltinModule('node:crypto').randomBytes(trialBytes));
  } finally {
    closeSync(descriptor);
  }
}

function removeQuietly(trial: string): void {
  try {
    rmSync(trial, { force: true });
  } catch {
    // The next trial of the storage takes it away.
  }
}
