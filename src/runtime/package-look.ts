// Compares installed files with what was digested when they were installed. Owns what "the same" means: a regular file,
// these bytes, executable or not as it was. Files that were added since, such as the byte code that Python leaves
// beside a script, are named and are no difference: they are no part of the package.
import { createHash } from 'node:crypto';
import { closeSync, constants, lstatSync, openSync, readSync, type Stats } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Mistake } from '../core/errors.ts';
import type { PackageFile } from '../core/revision.ts';
import { createChunkBuffer } from './package-bytes.ts';
import { codeOf, packageModeOf, scanPackage } from './package-scan.ts';

/** What changes whenever a file is written, replaced or moved, whatever becomes of its own times. */
export type FileStamp = {
  readonly text: string;
  /** The kernel's own time of the last change, which nobody sets; it ticks every few milliseconds. */
  readonly changedMs: number;
};

export type FileLook = { readonly stamp: FileStamp } | { readonly rule: string };

export type PackageLook = {
  /** Of digested files alone: missing, altered, of another kind. */
  readonly differences: readonly Mistake[];
  /** Files that are not part of the package. */
  readonly added: readonly string[];
};

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

/** Looks at everything, and lets others work between two files. */
export async function lookAtPackage(directory: string, files: readonly PackageFile[]): Promise<PackageLook> {
  const buffer = createChunkBuffer();
  const differences: Mistake[] = [];
  const isThere = await lstat(directory).then(
    (stats) => stats.isDirectory(),
    () => false,
  );
  if (!isThere) {
    const rule = 'is missing: none of its files is there';
    return { differences: [{ file: directory, path: '', line: null, rule }], added: [] };
  }
  for (const file of files) {
    // A turn of the event loop between two files.
    await lstat(directory);
    const look = lookAtFile(directory, file, buffer);
    if ('rule' in look) {
      differences.push({ file: file.path, path: '', line: null, rule: look.rule });
    }
  }
  return { differences, added: await findAdded(directory, files) };
}

async function findAdded(directory: string, files: readonly PackageFile[]): Promise<readonly string[]> {
  const listed = new Set(files.map(({ path }) => path));
  const scan = await scanPackage(directory, new Set());
  const there = [...scan.files.map(({ path }) => path), ...scan.mistakes.map(({ file }) => file ?? '.')];
  return [...new Set(there)].filter((path) => !listed.has(path)).sort();
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
    const hash = createHash('sha256');
    for (let bytes = readSync(descriptor, buffer); bytes > 0; bytes = readSync(descriptor, buffer)) {
      hash.update(buffer.subarray(0, bytes));
    }
    return hash.digest('hex');
  } finally {
    closeSync(descriptor);
  }
}
