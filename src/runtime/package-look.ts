// Compares all files of an installed package with what was digested. Files that were added since, such as the byte code
// that Python leaves beside a script, are named and are no difference: they are no part of the package.
import { lstat } from 'node:fs/promises';
import type { Mistake } from '../core/errors.ts';
import type { PackageFile } from '../core/revision.ts';
import { lookAtFile } from './installed-file.ts';
import { createChunkBuffer } from './package-file.ts';
import { scanPackage } from './package-scan.ts';

export type PackageLook = {
  /** Of digested files alone: missing, altered, of another kind. */
  readonly differences: readonly Mistake[];
  /** Files that are not part of the package. */
  readonly added: readonly string[];
};

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
