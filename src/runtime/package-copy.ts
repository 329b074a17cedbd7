// Package files under the data directory: copying them in, verifying them, and removing what nothing refers to.
// A directory named by a lock digest is complete and durable; whatever is under way has the name with `.partial`, and a
// kill at any point leaves only these two. The rename is the moment in which a copy comes to be, or ceases.
// Callers are the one holder of the data directory, one copy or removal at a time.
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, resolve, sep } from 'node:path';
import { EdgeError, isEdgeError, type Mistake } from '../core/errors.ts';
import { isDigest } from '../core/ids.ts';
import { computeLockDigest, type PackageFile } from '../core/revision.ts';
import { changedError, createChunkBuffer, hashPackageFiles, readPackageFile } from './package-bytes.ts';
import { codeOf, scanPackage } from './package-scan.ts';
import type { CheckedPackage } from './package-source.ts';

const partialSuffix = '.partial';

export type PackageCopy = {
  /** `existing` when these exact bytes were there already, and still are. */
  readonly outcome: 'created' | 'existing';
  readonly directory: string;
};

/**
 * Copies a checked package into `packages/<lockDigest>`, hashing again what is written. Durable when it resolves.
 * Throws `invalid` when the source was changed since the check, `damaged` when an installed copy of these bytes was
 * altered, `full` and `unavailable` for the disk. After a failure nothing is there but, at worst, a `.partial`.
 */
export async function copyPackage(options: {
  readonly checked: CheckedPackage;
  readonly packagesDirectory: string;
}): Promise<PackageCopy> {
  const { checked } = options;
  const packagesDirectory = resolve(options.packagesDirectory);
  const { lockDigest } = checked;
  const directory = join(packagesDirectory, lockDigest);
  refuseCopyIntoItself(checked.directory, packagesDirectory);
  if (await isDirectory(directory)) {
    await requirePackageFiles(directory, lockDigest);
    // The sync after its rename may be what failed the last time.
    await syncDirectory(packagesDirectory);
    return { outcome: 'existing', directory };
  }
  const partial = directory + partialSuffix;
  try {
    await mkdir(packagesDirectory, { recursive: true, mode: 0o700 });
    await rm(partial, { recursive: true, force: true });
    await writeCopy(checked, partial);
    await rename(partial, directory);
    await syncDirectory(packagesDirectory);
    await syncDirectory(dirname(packagesDirectory));
  } catch (error) {
    // Left to the sweep at the next start if it cannot be removed now; the first error is the one to tell.
    await rm(partial, { recursive: true, force: true }).catch(() => {});
    throw storageError(error, `copy the package into ${packagesDirectory}`);
  }
  return { outcome: 'created', directory };
}

/** Compares an installed directory with its lock digest. No mistakes: every byte, name and mode is what it was. */
export async function verifyPackageFiles(directory: string, lockDigest: string): Promise<readonly Mistake[]> {
  const noted = (rule: string): readonly Mistake[] => [{ file: directory, path: '', line: null, rule }];
  if (!(await isDirectory(directory))) {
    return noted('is missing');
  }
  try {
    const scan = await scanPackage(directory, new Set());
    if (scan.mistakes.length > 0) {
      return scan.mistakes;
    }
    const actual = computeLockDigest(await hashPackageFiles(directory, scan.files));
    return actual === lockDigest ? [] : noted(`holds files with the lock digest ${actual}, not its own`);
  } catch (error) {
    return isEdgeError(error) ? error.mistakes : noted(`cannot be read (${codeOf(error)})`);
  }
}

/** Removes an installed copy; harmless when it is gone. A kill half-way leaves a `.partial`, never half a copy. */
export async function removePackage(packagesDirectory: string, lockDigest: string): Promise<void> {
  const directory = join(packagesDirectory, lockDigest);
  const partial = directory + partialSuffix;
  try {
    await rm(partial, { recursive: true, force: true });
    if (await isDirectory(directory)) {
      await rename(directory, partial);
      await rm(partial, { recursive: true, force: true });
    }
  } catch (error) {
    throw storageError(error, `remove package files from ${packagesDirectory}`);
  }
}

/**
 * Removes every `.partial` and every copy that is not to be kept; answers with the names removed. Anything under
 * another kind of name was not put there by this program and stays. For the start, before anything is copied.
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

async function writeCopy(checked: CheckedPackage, partial: string): Promise<void> {
  const directories = [partial];
  const made = new Set([partial]);
  const buffer = createChunkBuffer();
  await mkdir(partial, { mode: 0o700 });
  for (const file of checked.files) {
    for (const directory of directoriesOf(partial, file.path)) {
      if (!made.has(directory)) {
        made.add(directory);
        directories.push(directory);
        await mkdir(directory, { mode: 0o700 });
      }
    }
    await writeFileCopy(checked.directory, { file, target: join(partial, file.path), buffer });
  }
  for (const directory of directories.reverse()) {
    await syncDirectory(directory);
  }
}

async function writeFileCopy(
  root: string,
  options: { readonly file: PackageFile; readonly target: string; readonly buffer: Uint8Array },
): Promise<void> {
  const { file, target, buffer } = options;
  const handle = await open(target, 'wx', 0o600);
  try {
    const read = await readPackageFile(root, file, { buffer, onChunk: (chunk) => writeAll(handle, chunk) });
    if (read.sha256 !== file.sha256) {
      throw changedError(file.path);
    }
    // Set and not left to the umask: the mode is part of the lock digest.
    await handle.chmod(file.mode);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function writeAll(handle: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let written = 0; written < chunk.length; ) {
    written += (await handle.write(chunk, written)).bytesWritten;
  }
}

/** The directories around a file of a package, outermost first. */
function directoriesOf(root: string, path: string): readonly string[] {
  const names = path.split('/').slice(0, -1);
  return names.map((_, index) => join(root, ...names.slice(0, index + 1)));
}

/** Makes the entries of a directory durable: a rename alone may be forgotten by a power cut. */
async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function requirePackageFiles(directory: string, lockDigest: string): Promise<void> {
  const mistakes = await verifyPackageFiles(directory, lockDigest);
  if (mistakes.length > 0) {
    throw new EdgeError('damaged', `the installed files in ${directory} are no longer those that were installed`, {
      hint: 'uninstall the package, restart so that its files are removed, and install it again',
      mistakes,
    });
  }
}

function refuseCopyIntoItself(source: string, packagesDirectory: string): void {
  const isInside = packagesDirectory.startsWith(source + sep);
  if (isInside && !packagesDirectory.startsWith(join(source, '.qinglong-edge') + sep)) {
    throw new EdgeError('invalid', `the data directory ${dirname(packagesDirectory)} is inside of the package`, {
      hint: 'put the data directory elsewhere, or name it .qinglong-edge',
    });
  }
}

async function isDirectory(path: string): Promise<boolean> {
  const stats = await stat(path).catch(() => null);
  return stats?.isDirectory() === true;
}

/** What the file system answered, as the one operating error. `doing` completes "cannot …". */
function storageError(error: unknown, doing: string): EdgeError {
  if (isEdgeError(error)) {
    return error;
  }
  const code = codeOf(error);
  const isFull = code === 'ENOSPC' || code === 'EDQUOT';
  return new EdgeError(isFull ? 'full' : 'unavailable', `cannot ${doing}: ${code}`, {
    hint: isFull ? 'free space on that file system, then try again' : 'look at that directory and its permissions',
    cause: error,
  });
}
