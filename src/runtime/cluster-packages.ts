// Package files where several processes share a database: their bytes go with the installation, and whoever lacks them
// fetches them by the digest under which they were installed. Owns nothing of what a package is.
import { existsSync } from 'node:fs';
import { chmod, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { EdgeError } from '../core/errors.ts';
import { sha256 } from '../core/hash.ts';
import type { PackageFile } from '../core/revision.ts';
import { read } from '../protocol/reads.ts';
import type { Leases } from '../store/leases.ts';
import type { OperationStore } from '../store/store.ts';
import { directoryModeFor, fileModeFor } from './package-files.ts';
import type { PackageGuard } from './package-guard.ts';
import { reachOf } from './package-reach.ts';
import type { CheckedPackage } from './package-source.ts';

export type ClusterPackages = {
  readonly store: Pick<OperationStore, 'read'>;
  readonly leases: Pick<Leases, 'putContents' | 'getContents'>;
  readonly packagesDirectory: string;
  readonly guard: PackageGuard;
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

/** Fetches what is missing for a run. Throws `unavailable` where it is not to be had, `damaged` for other bytes. */
export async function bringPackage(packages: ClusterPackages, runId: string): Promise<void> {
  const { store, guard, packagesDirectory } = packages;
  const plan = await store.read(read('plan', { runId }));
  const lockDigest = plan?.target.lockDigest;
  if (lockDigest === undefined) {
    return;
  }
  const directory = join(packagesDirectory, lockDigest);
  if (guard.knows(lockDigest) && existsSync(directory)) {
    return;
  }
  const files = await store.read(read('packageFiles', { lockDigest }));
  if (files === null) {
    throw missing(lockDigest, 'the list of its files');
  }
  if (!existsSync(directory)) {
    const facts = await store.read(read('packageOfRun', { runId }));
    const reach = facts?.revision === undefined ? 'owner' : reachOf(facts.revision);
    await fetchFiles(packages, { lockDigest, files, reach });
  }
  guard.note(lockDigest, files);
}

type Fetched = {
  readonly lockDigest: string;
  readonly files: readonly PackageFile[];
  readonly reach: 'owner' | 'everyone';
};

async function fetchFiles({ leases, packagesDirectory }: ClusterPackages, fetched: Fetched): Promise<void> {
  const { lockDigest, files, reach } = fetched;
  const directory = join(packagesDirectory, lockDigest);
  // Another process of this machine may fetch the same.
  const partial = `${directory}.${process.pid}.partial`;
  await rm(partial, { recursive: true, force: true });
  for (const file of files) {
    const bytes = await leases.getContents(lockDigest, file.path);
    if (bytes === null) {
      throw missing(lockDigest, file.path);
    }
    if (sha256(bytes) !== file.sha256) {
      throw new EdgeError('damaged', `${file.path} of package files ${lockDigest} has other bytes in the database`, {
        hint: 'install the package again',
      });
    }
    const target = join(partial, file.path);
    await mkdir(dirname(target), { recursive: true, mode: directoryModeFor(reach) });
    await writeFile(target, bytes, { flush: true });
    await chmod(target, fileModeFor(file.mode, reach));
  }
  try {
    await rename(partial, directory);
  } catch (error) {
    await rm(partial, { recursive: true, force: true });
    if (!existsSync(directory)) {
      throw error;
    }
  }
}

function missing(lockDigest: string, what: string): EdgeError {
  return new EdgeError('unavailable', `package files ${lockDigest}: ${what} is not in the database`, {
    hint: 'install the package again',
  });
}
