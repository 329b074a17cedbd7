// Package files and their rows together: copied and synced before the transaction that makes them visible, removed
// after nothing refers to them.
import { existsSync, readdirSync } from 'node:fs';
import { stopOnDefect } from '../core/errors.ts';
import { isDigest } from '../core/ids.ts';
import { limits } from '../core/limits.ts';
import { cancelCondemned } from '../protocol/condemned.ts';
import { type InstallFacts, type InstallInput, install, installReads, refuseInstall } from '../protocol/package.ts';
import { operation } from '../protocol/protocol.ts';
import { read, type SetAside } from '../protocol/reads.ts';
import type { Store } from '../store/store.ts';
import { checkArguments } from './arguments.ts';
import { describeError, type Log } from './log.ts';
import type { PackageCopy } from './package-copy.ts';
import type { PackageGuard } from './package-guard.ts';
import type { PackageHolders } from './package-holders.ts';
import type { CheckedPackage } from './package-source.ts';
import { forEachRunningRun } from './recovery.ts';
import { localProjectId, type RuntimeSettings } from './settings.ts';
import type { InstallReport } from './verbs.ts';

export type PackageWork = {
  readonly store: Store;
  readonly packagesDirectory: string;
  readonly guard: PackageGuard;
  readonly holders: PackageHolders;
  readonly settings: Pick<RuntimeSettings, 'packagesQuotaBytes' | 'allowUnsigned'>;
  readonly log: Log;
};

/**
 * Checks, copies and publishes the package at a path. Refused before anything is copied where it would be refused
 * after. Throws `invalid` with every mistake, `full` where there is no room, `unavailable`.
 */
export async function installPackage(work: PackageWork, { path }: { readonly path: string }): Promise<InstallReport> {
  const { store, settings } = work;
  checkArguments({ path });
  // Evaluated when the first package comes: a daemon that only runs what it has does not pay for it.
  const { checkPackage } = await import('./package-source.ts');
  const checked = await checkPackage(path);
  const { revision, files, signature, contents } = checked;
  const { allowUnsigned } = settings;
  const input = { projectId: localProjectId, revision, files, signature, allowUnsigned };
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  const { packageName, version } = revision;
  const report = { packageName, version, files: files.length, bytes, leftOut: contents.scan.leftOut };
  const refused = refuseInstall(await readFacts(store, input), input);
  if (refused !== null) {
    return { ...report, mended: [], outcome: refused };
  }
  try {
    const { mended } = await placeFiles(work, checked);
    const outcome = await store.submit(operation(install, input));
    if (outcome.kind === 'not-allowed') {
      await removeUnusedPackages(work);
    } else {
      work.guard.note(revision.lockDigest, files);
      await sweepUnused(work);
    }
    return { ...report, mended, outcome };
  } catch (error) {
    // What was copied and is of no use must not fill the disk until the next start; the first error is the one to tell.
    await removeUnusedPackages(work).catch(() => {});
    throw error;
  }
}

async function readFacts(store: Store, input: InstallInput): Promise<InstallFacts> {
  const { head, condemned, publisher } = installReads(input);
  return {
    head: await store.read(head),
    condemned: await store.read(condemned),
    publisher: await store.read(publisher),
  };
}

async function placeFiles(work: PackageWork, checked: CheckedPackage): Promise<PackageCopy> {
  const { packagesDirectory, settings } = work;
  const { copyPackage, hasCopy } = await import('./package-copy.ts');
  const { openPackages, reachOf } = await import('./package-reach.ts');
  if (!(await hasCopy(packagesDirectory, checked.lockDigest))) {
    const { requireSpace } = await import('./package-space.ts');
    await requireSpace({
      packagesDirectory,
      quotaBytes: settings.packagesQuotaBytes,
      packageName: checked.revision.packageName,
      files: checked.files,
      sweep: () => removeUnusedPackages(work),
    });
  }
  const copy = await copyPackage({ checked, packagesDirectory });
  if (reachOf(checked.revision) === 'everyone') {
    await openPackages(packagesDirectory);
  }
  return copy;
}

/** For after a change that is durable, so that a failure is for the log. The next change or start tries again. */
export async function sweepUnused(work: PackageWork): Promise<void> {
  await removeUnusedPackages(work).catch((error: unknown) => {
    stopOnDefect(error);
    work.log(`package files that nothing needs were not removed: ${describeError(error)}`);
  });
}

/**
 * For the start, before anything runs: removes what an earlier process left half-way, knows the files of every package
 * that may start something, and ends what was forbidden and is still running.
 */
export async function openPackageWork(work: PackageWork): Promise<void> {
  await removeUnusedPackages(work);
  await noteInstalledFiles(work);
  await work.store.submit(operation(cancelCondemned, { after: null, requestedBy: 'runtime' }));
}

async function noteInstalledFiles({ store, packagesDirectory, guard, log }: PackageWork): Promise<void> {
  for (const lockDigest of listNames(packagesDirectory).filter(isDigest)) {
    try {
      const files = await store.read(read('packageFiles', { lockDigest }));
      if (files !== null) {
        guard.note(lockDigest, files);
      }
    } catch (error) {
      log(`package files ${lockDigest}: nothing of them starts: ${describeError(error)}`);
    }
  }
}

/**
 * Removes the files of every installation that nothing refers to: neither a present installation nor a run that is not
 * over. Whose end it has to wait for is remembered in `holders`. Costs one read where everything is present.
 */
export async function removeUnusedPackages(work: PackageWork): Promise<void> {
  while (await work.holders.look((hold) => removeUnusedOnce(work, hold))) {
    // Everything that was waited for has ended during the look.
  }
}

async function removeUnusedOnce(work: PackageWork, hold: (runId: string) => void): Promise<void> {
  const { store, packagesDirectory, guard } = work;
  const installations = await store.read(read('installations', { projectId: localProjectId }));
  const kept = new Set(
    installations
      .filter(({ state }) => state === 'active' || state === 'staged')
      .map(({ target }) => target.lockDigest),
  );
  const names = listNames(packagesDirectory).filter((name) => !kept.has(name));
  if (names.length === 0) {
    return;
  }
  const unused = new Set(names);
  await forEachKeptRun(work, (runId, lockDigest) => {
    kept.add(lockDigest);
    if (unused.has(lockDigest)) {
      hold(runId);
    }
  });
  if (names.some((name) => !kept.has(name))) {
    const { sweepPackages } = await import('./package-sweep.ts');
    const removed = await sweepPackages(packagesDirectory, kept);
    removed.forEach(guard.forget);
  }
}

/** Visits every run that is not over, one that was set aside included: it may be taken back. */
async function forEachKeptRun(work: PackageWork, visit: (runId: string, lockDigest: string) => void): Promise<void> {
  const { store } = work;
  await forEachRunningRun(work, async (runId) => {
    const plan = await store.read(read('plan', { runId }));
    if (plan !== null) {
      visit(runId, plan.target.lockDigest);
    }
  });
  let page: readonly SetAside[];
  let after = '';
  do {
    page = await store.read(read('allSetAside', { limit: limits.pageMax, after }));
    for (const { runId } of page) {
      // Where its plan cannot be read any more, it cannot be carried on either.
      const plan = await store.read(read('plan', { runId })).catch(() => null);
      if (plan !== null) {
        visit(runId, plan.target.lockDigest);
      }
    }
    after = page.at(-1)?.runId ?? after;
  } while (page.length === limits.pageMax);
}

function listNames(directory: string): readonly string[] {
  return existsSync(directory) ? readdirSync(directory) : [];
}
