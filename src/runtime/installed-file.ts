// One installed file, compared with what was digested when it was installed. Owns what "the same" means: a regular
// file, these bytes, executable or not as it was; and the stamp by which an unchanged file is known without reading
// it.
import { closeSync, constants, lstatSync, openSync, readSync, type Stats } from 'node:fs';
import { join } from 'node:path';
import type { PackageFile } from '../core/revision.ts';
import { codeOf, packageModeOf } from './package-file.ts';

/** What changes whenever a file is written, replaced or moved, whatever becomes of its own times. */
export type FileStamp = {
  readonly text: string;
  /** The kernel's own time of the last change, which nobody sets; it ticks every few milliseconds. */
  readonly changedMs: number;
};

export type FileLook = { readonly stamp: FileStamp } | { readonly rule: string };

/** Reads one file whole and compares it. At most one of this size is read without looking at anything else. */
export function lookAtFile(directory: string, file: PackageFile, buffer: Uint8Array): FileLook {
  const path = join(directory, file.path);
  try {
    const stats = lstatSync(path);
    const rule = ruleFor(stats, file);
    if (rule !== null) {
      return { rule };
    }
    return hashFile(path, buffer) === file.sha256 ? { stamp: stampOf(stats) } : { rule: 'has other bytes' };
  } catch (error) {
    const code = codeOf(error);
    return { rule: code === 'ENOENT' || code === 'ENOTDIR' ? 'is missing' : `cannot be read (${code})` };
  }
}

/** The stamp of whatever is there now; null where nothing is, or nothing that can be looked at. */
export function stampNow(directory: string, path: string): FileStamp | null {
  try {
    const stats = lstatSync(join(directory, path), { throwIfNoEntry: false });
    return stats === undefined ? null : stampOf(stats);
  } catch {
    // ENOTDIR: a file stands where a directory was. Whoever reads it next says so.
    return null;
  }
}

function ruleFor(stats: Stats, file: PackageFile): string | null {
  if (!stats.isFile()) {
    return 'is no regular file any more';
  }
  if (stats.size !== file.size) {
    return `has ${stats.size} bytes, not ${file.size}`;
  }
  return packageModeOf(stats.mode) === file.mode
    ? null
    : `${file.mode === 0o700 ? 'is not executable any more' : 'is executable now'}`;
}

function stampOf({ ino, size, mode, mtimeMs, ctimeMs }: Stats): FileStamp {
  return { text: `${ino} ${size} ${mode} ${mtimeMs} ${ctimeMs}`, changedMs: ctimeMs };
}

function hashFile(path: string, buffer: Uint8Array): string {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const hash = process.getBuiltinModule('node:crypto').createHash('sha256');
    for (let bytes = readSync(descriptor, buffer); bytes > 0; bytes = readSync(descriptor, buffer)) {
      hash.update(buffer.subarray(0, bytes));
    }
    return hash.digest('hex');
  } finally {
    closeSync(descriptor);
  }
}
