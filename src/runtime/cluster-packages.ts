// Package files where several processes share a database: their bytes go with the installation, and whoever lacks them
// fetches them by the digest under which they were installed. Owns nothing of what a package is.
import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { EdgeError, isEdgeError } from '../core/errors.ts';
import { sha256 } from '../core/hash.ts';
import type { PackageFile } from '../core/revision.ts';
import { read } from '../protocol/reads.ts';
import type { Leases } from '../store/leases.ts';
import type { OperationStore } from '../store/store.ts';
import { describeError } from './log.ts';
import { directoriesAround, openUp, storageError, syncDirectory } from './package-files.ts';
import type { PackageGuard } from './package-guard.ts';
import { openPackages, reachOf } from './package-reach.ts';
import type { CheckedPackage } from './package-source.ts';

export type ClusterPackages = {
  readonly store: Pick<OperationStore, 'read'>;
  readonly leases: Pick<Leases, 'putContents' | 'getContents'>;
  readonly packagesDirectory: string;
  readonly guard: PackageGuard;
  /** What is being fetched, by lock digest: many runs of one package come at once. */
  readonly underWay: Map<string, Promise<string | null>>;
};

/** Puts the bytes of a package where every runtime finds them; before it is installed. */
export async function shareContents(leases: Pick<Leases, 'putContents'>, checked: CheckedPackage): Promise<void> {
  const { lockDigest, contents } = checked;
  await contents.forEachFile(async ({ path }, readFileOnce) => {
    const chunks: Uint8Array[] = [];
    await readFileOnce(async (chunk) => {
      chunks.push(Uint8Array.from(chunk));
    });
    await leases.putContents(lockDigest, [{ path, bytes: Buffer.concat(chunks) }]);
  });
}

/**
 * Fetches what is missing for a run, or was altered here. Answers why this machine cannot have it, as where it has no
 * space. Throws `unavailable` where the database does not have it, `damaged` where it has other bytes.
 */
export async function bringPackage(packages: ClusterPackages, runId: string): Promise<string | null> {
  const { store, guard, packagesDirectory } = packages;
  const plan = await store.read(read('plan', { runId }));
  const lockDigest = plan?.target.lockDigest;
  if (lockDigest === undefined) {
    return null;
  }
  const directory = join(packagesDirectory, lockDigest);
  if (guard.knows(lockDigest) && existsSync(directory) && guard.check(lockDigest) === null) {
    return null;
  }
  const begun = packages.underWay.get(lockDigest);
  if (begun !== undefined) {
    return begun;
  }
  const bringing = fetchMissing(packages, { runId, lockDigest });
  packages.underWay.set(lockDigest, bringing);
  try {
    return await bringing;
  } finally {
    packages.underWay.delete(lockDigest);
  }
}

async function fetchMissing(
  packages: ClusterPackages,
  { runId, lockDigest }: { readonly runId: string; readonly lockDigest: string },
): Promise<string | null> {
  const { store, guard, packagesDirectory } = packages;
  const directory = join(packagesDirectory, lockDigest);
  const files = await store.read(read('packageFiles', { lockDigest }));
  if (files === null) {
    throw missing(lockDigest, 'the list of its files');
  }
  guard.note(lockDigest, files);
  if (existsSync(directory) && guard.check(lockDigest) === null) {
    return null;
  }
  const facts = await store.read(read('packageOfRun', { runId }));
  const reach = facts?.revision === undefined ? 'owner' : reachOf(facts.revision);
  const trouble = await fetchFiles(packages, { lockDigest, files, reach });
  guard.note(lockDigest, files);
  return trouble;
}

type Fetched = {
  readonly lockDigest: string;
  readonly files: readonly PackageFile[];
  readonly reach: 'owner' | 'everyone';
};

let partials = 0;

/** Another process of this machine may fetch the same, and so may an earlier worker of this one. */
function nameOfPartial(directory: string): string {
  partials += 1;
  return `${directory}.${process.pid}-${partials}.partial`;
}

/** Answers what this machine's storage refuses. */
async function fetchFiles(packages: ClusterPackages, { lockDigest, files, reach }: Fetched): Promise<string | null> {
  const { leases, packagesDirectory } = packages;
  const directory = join(packagesDirectory, lockDigest);
  const partial = nameOfPartial(directory);
  try {
    await removeForsaken(packagesDirectory);
    await rm(partial, { recursive: true, force: true });
    await mkdir(partial, { recursive: true, mode: 0o700 });
    for (const file of files) {
      const bytes = await getBytes(leases, { lockDigest, file });
      const target = join(partial, file.path);
      await mkdir(dirname(target), { recursive: true, mode: 0o700 });
      await writeFile(target, bytes, { mode: 0o600, flush: true });
    }
    // Set and not left to the umask.
    await openUp(partial, files, reach);
    for (const path of new Set(files.flatMap((file) => directoriesAround(file.path)))) {
      await syncDirectory(join(partial, path));
    }
    await syncDirectory(partial);
    await takePlace(partial, directory, () => packages.guard.check(lockDigest) === null);
    await syncDirectory(packagesDirectory);
    if (reach === 'everyone') {
      await openPackages(packagesDirectory);
    }
    return null;
  } catch (error) {
    await rm(partial, { recursive: true, force: true }).catch(() => {});
    if (isEdgeError(error)) {
      throw error;
    }
    return describeError(storageError(error, `fetch package files ${lockDigest}`));
  }
}

/** What processes that are gone were fetching. A pid that another process has by now only keeps it a while longer. */
async function removeForsaken(packagesDirectory: string): Promise<void> {
  const names = existsSync(packagesDirectory) ? await readdir(packagesDirectory) : [];
  for (const name of names) {
    const pid = /^[0-9a-f]{64}\.([0-9]+)-[0-9]+\.partial$/.exec(name)?.[1];
    if (pid !== undefined && !existsSync(`/proc/${pid}`)) {
      await rm(join(packagesDirectory, name), { recursive: true, force: true });
    }
  }
}

/** Instead of what was altered. Where somebody else is faster, theirs stay: they are the same. */
async function takePlace(partial: string, directory: string, isWhole: () => boolean): Promise<void> {
  if (existsSync(directory) && !isWhole()) {
    const altered = nameOfPartial(directory);
    await rename(directory, altered);
    await rm(altered, { recursive: true, force: true });
  }
  try {
    await rename(partial, directory);
  } catch (error) {
    if (!existsSync(directory)) {
      throw error;
    }
    await rm(partial, { recursive: true, force: true });
  }
}

async function getBytes(
  leases: Pick<Leases, 'getContents'>,
  { lockDigest, file }: { readonly lockDigest: string; readonly file: PackageFile },
): Promise<Uint8Array> {
  const bytes = await leases.getContents(lockDigest, file.path);
  if (bytes === null) {
    throw missing(lockDigest, file.path);
  }
  if (sha256(bytes) !== file.sha256) {
    throw new EdgeError('damaged', `${file.path} of package files ${lockDigest} has other bytes in the database`, {
      hint: 'install the package again',
    });
  }
  return bytes;
}

function missing(lockDigest: string, what: string): EdgeError {
  return new EdgeError('unavailable', `package files ${lockDigest}: ${what} is not in the database`, {
    hint: 'install the package again',
  });
}
