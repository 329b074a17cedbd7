// Small files beside the database, replaced whole: a reader, and a power cut, see the old text or the new one, never a
// part. Must never be given the database, lock.db or their sidecars: closing those through `fs` drops SQLite's locks.
import { closeSync, fchmodSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import path from 'node:path';
import { fromFileError } from '../../core/file-error.ts';

export type FileText = { readonly path: string; readonly text: string };

/** Replaces the file, 0600; after a power cut it has the new text. Throws what `fromFileError` makes of a failure. */
export function writeDurably(file: FileText): void {
  replaceFile(file, { isSynced: true });
}

/** Replaces the file, 0600, without a sync: for what means nothing after a reboot. Same errors as `writeDurably`. */
export function writeAtomically(file: FileText): void {
  replaceFile(file, { isSynced: false });
}

function replaceFile(file: FileText, { isSynced }: { readonly isSynced: boolean }): void {
  // One name: whoever writes holds the directory, and what a killed process left is overwritten.
  const partPath = `${file.path}.partial`;
  try {
    writePart(partPath, file.text, isSynced);
    renameSync(partPath, file.path);
  } catch (error) {
    removeQuietly(partPath);
    throw fromFileError(error, { doing: `write ${file.path}`, access: 'writes' });
  }
  if (isSynced) {
    syncDirectory(path.dirname(file.path));
  }
}

// What failed first is what is told; a part that stays is overwritten by the next write.
function removeQuietly(partPath: string): void {
  try {
    rmSync(partPath, { force: true });
  } catch {}
}

function writePart(partPath: string, text: string, isSynced: boolean): void {
  const descriptor = openSync(partPath, 'w', 0o600);
  try {
    // A partial file that an earlier process left keeps the mode that it was made with.
    fchmodSync(descriptor, 0o600);
    writeSync(descriptor, text);
    if (isSynced) {
      fsyncSync(descriptor);
    }
  } finally {
    closeSync(descriptor);
  }
}

/** Makes the names in a directory durable. Throws what `fromFileError` makes of a failure. */
export function syncDirectory(directory: string): void {
  try {
    const descriptor = openSync(directory, 'r');
    try {
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
  } catch (error) {
    // A right to write there is not enough: it is opened for reading.
    throw fromFileError(error, { doing: `sync the directory ${directory}`, access: 'reads' });
  }
}
