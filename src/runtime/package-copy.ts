// Package files under the data directory: copying them in, and mending a copy that was altered.
// A directory named by a lock digest is complete and durable; whatever is under way has the name with `.partial`, and a
// kill at any point leaves only these two. The rename is the moment in which a copy comes to be.
// Callers are the one holder of the data directory, one copy or removal at a time.
import { lstat, mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join, resolve, sep } from 'node:path';
import { EdgeError } from '../core/errors.ts';
import type { PackageFile } from '../core/revision.ts';
import {
  directoriesAround,
  directoryModeFor,
  openUp,
  type Reach,
  storageError,
  syncDirectory,
  writeFileCopy,
} from './package-files.ts';
import { lookAtPackage } from './package-look.ts';
import { reachOf } from './package-reach.ts';
import type { ReadPackage } from './package-source.ts';
import { partialSuffix } from './package-sweep.ts';

export type PackageCopy = {
  /** `existing`: these exact bytes were there already; `mended`: they were, and some of them had been altered. */
  readonly outcome: 'created' | 'existing' | 'mended';
  readonly directory: string;
  /** Paths that were put right. */
  readonly mended: readonly string[];
};

export type CopyOptions = {
  readonly checked: ReadPackage;
  readonly packagesDirectory: string;
};

type Places = {
  readonly directory: string;
  readonly partial: string;
  readonly packagesDirectory: string;
  readonly reach: Reach;
};

/**
 * Copies a checked package into `packages/<lockDigest>`, hashing again what is written; a copy that is there is
 * compared file by file, and what differs is replaced. Durable when it resolves. Throws `invalid` when the source was
 * changed since the check, `full` and `unavailable` for the disk. After a failure nothing is there but, at worst, a
 * `.partial`.
 */
export async function copyPackage(options: CopyOptions): Promise<PackageCopy> {
  const { checked } = options;
  const packagesDirectory = resolve(options.packagesDirectory);
  const directory = join(packagesDirectory, checked.lockDigest);
  const partial = directory + partialSuffix;
  const places = { directory, partial, packagesDirectory, reach: reachOf(checked.revision) };
  if (checked.contents.kind === 'directory') {
    refuseCopyIntoItself(checked.contents.path, packagesDirectory);
  }
  try {
    return (await isDirectory(directory)) ? await mendCopy(checked, places) : await makeCopy(checked, places);
  } catch (error) {
    // Left to the sweep at the next start if it cannot be removed now; the first error is the one to tell.
    await rm(partial, { recursive: true, force: true }).catch(() => {});
    throw storageError(error, `copy the package into ${packagesDirectory}`);
  }
}

/** Whether a copy of these bytes is there, so that no room is needed for another one. */
export async function hasCopy(packagesDirectory: string, lockDigest: string): Promise<boolean> {
  return await isDirectory(join(packagesDirectory, lockDigest));
}

async function makeCopy(checked: ReadPackage, places: Places): Promise<PackageCopy> {
  const { directory, partial, packagesDirectory, reach } = places;
  await mkdir(packagesDirectory, { recursive: true, mode: 0o700 });
  await rm(partial, { recursive: true, force: true });
  const expected = byPath(checked.files);
  const made = new Set<string>();
  const makeDirectory = async (path: string) => {
    await mkdir(path, { mode: 0o700 });
    made.add(path);
  };
  await makeDirectory(partial);
  await checked.contents.forEachFile(async ({ path }, read) => {
    for (const around of directoriesAround(path).map((name) => join(partial, name))) {
      if (!made.has(around)) {
        await makeDirectory(around).catch((error: unknown) => {
          throw storageError(error, `make ${around}`);
        });
      }
    }
    await writeFileCopy({ file: expected.get(path)!, read, target: join(partial, path), reach });
  });
  await openUp(partial, checked.files, reach);
  for (const path of [...made].reverse()) {
    await syncDirectory(path);
  }
  await rename(partial, directory);
  await syncDirectory(packagesDirectory);
  await syncDirectory(dirname(packagesDirectory));
  return { outcome: 'created', directory, mended: [] };
}

/**
 * Replaces the files that differ, each by a rename: killed at any point, every file is what it was before or what it
 * should be, and commands that run from here see nothing else. What was added to the directory stays.
 */
async function mendCopy(checked: ReadPackage, places: Places): Promise<PackageCopy> {
  const { directory, partial, packagesDirectory, reach } = places;
  const { files } = checked;
  const { differences } = await lookAtPackage(directory, files);
  const mended = differences.flatMap(({ file }) => file ?? []);
  if (mended.length > 0) {
    await rm(partial, { recursive: true, force: true });
    await mkdir(partial, { mode: directoryModeFor('owner') });
    const expected = byPath(files);
    const fresh = new Map(mended.map((path, index) => [path, join(partial, `${index}`)]));
    await checked.contents.forEachFile(async ({ path }, read) => {
      const target = fresh.get(path);
      if (target !== undefined) {
        await writeFileCopy({ file: expected.get(path)!, read, target, reach });
      }
    });
    for (const [path, source] of fresh) {
      await replaceFile(source, { directory, path });
    }
    await rm(partial, { recursive: true, force: true });
  }
  await openUp(directory, files, reach);
  // The sync after its rename may be what failed the last time.
  await syncDirectory(packagesDirectory);
  const outcome = mended.length > 0 ? 'mended' : 'existing';
  return { outcome, directory, mended };
}

async function replaceFile(
  source: string,
  place: { readonly directory: string; readonly path: string },
): Promise<void> {
  const { directory, path } = place;
  const target = join(directory, path);
  for (const around of directoriesAround(path).map((name) => join(directory, name))) {
    const stats = await lstat(around).catch(() => null);
    if (stats?.isDirectory() !== true) {
      await rm(around, { force: true });
      await mkdir(around, { mode: 0o700 });
    }
  }
  if ((await lstat(target).catch(() => null))?.isDirectory() === true) {
    await rm(target, { recursive: true, force: true });
  }
  await rename(source, target);
  await syncDirectory(dirname(target));
}

function byPath(files: readonly PackageFile[]): ReadonlyMap<string, PackageFile> {
  return new Map(files.map((file) => [file.path, file]));
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
  const stats = await lstat(path).catch(() => null);
  return stats?.isDirectory() === true;
}
