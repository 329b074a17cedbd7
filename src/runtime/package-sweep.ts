// Removing package files: one copy that is not needed, or everything that nothing refers to. A kill half-way leaves a
// `.partial`, never half a copy under a name that counts.
import { readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isDigest } from '../core/ids.ts';
import { codeOf } from './package-file.ts';
import { storageError } from './package-files.ts';

export const partialSuffix = '.partial';

/** Removes an installed copy; harmless when it is gone. */
export async function removePackage(packagesDirectory: string, lockDigest: string): Promise<void> {
  const directory = join(packagesDirectory, lockDigest);
  const partial = directory + partialSuffix;
  try {
    await rm(partial, { recursive: true, force: true });
    const stats = await stat(directory).catch(() => null);
    if (stats?.isDirectory() === true) {
      await rename(directory, partial);
      await rm(partial, { recursive: true, force: true });
    }
  } catch (error) {
    throw storageError(error, `remove package files from ${packagesDirectory}`);
  }
}

/**
 * Removes every `.partial` and every copy that is not to be kept; answers with the names removed. Anything under
 * another kind of name was not put there by this program and stays. For when no copy is under way.
 */
export async function sweepPackages(
  packagesDirectory: string,
  keepLockDigests: ReadonlySet<string>,
): Promise<readonly string[]> {
  const names = await readdir(packagesDirectory).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') {
      return [];
    }
    throw storageError(error, `list the package files in ${packagesDirectory}`);
  });
  const removed: string[] = [];
  for (const name of names.sort()) {
    const isPartial = name.endsWith(partialSuffix);
    const lockDigest = isPartial ? name.slice(0, -partialSuffix.length) : name;
    if (!isDigest(lockDigest) || (!isPartial && keepLockDigests.has(lockDigest))) {
      continue;
    }
    if (isPartial) {
      await rm(join(packagesDirectory, name), { recursive: true, force: true }).catch((error: unknown) => {
        throw storageError(error, `remove package files from ${packagesDirectory}`);
      });
    } else {
      await removePackage(packagesDirectory, lockDigest);
    }
    removed.push(name);
  }
  return removed;
}
