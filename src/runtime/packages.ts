// Package files and their rows together: copied and synced before the transaction that makes them visible, removed
// after nothing refers to them.
import { existsSync, readdirSync } from 'node:fs';
import { limits } from '../core/limits.ts';
import { install } from '../protocol/package.ts';
import { operation } from '../protocol/protocol.ts';
import { read } from '../protocol/reads.ts';
import type { Store } from '../store/store.ts';
import { checkArguments } from './arguments.ts';
import type { Log } from './log.ts';
import { forEachRunningRun } from './recovery.ts';
import { localProjectId } from './settings.ts';
import type { InstallReport } from './verbs.ts';

type PackageFiles = { readonly store: Store; readonly packagesDirectory: string; readonly log: Log };

export async function installPackage(options: PackageFiles & { readonly directory: string }): Promise<InstallReport> {
  const { store, packagesDirectory, directory } = options;
  checkArguments({ directory });
  // Evaluated when the first package comes: a daemon that only runs what it has does not pay for it.
  const { checkPackage } = await import('./package-source.ts');
  const { copyPackage } = await import('./package-copy.ts');
  const checked = await checkPackage(directory);
  await copyPackage({ checked, packagesDirectory });
  const { revision, files } = checked;
  const input = { projectId: localProjectId, revision, publisherKeyId: null };
  const outcome = await store.submit(operation(install, input));
  if (outcome.kind === 'not-allowed') {
    await removeUnusedPackages(options);
  }
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  return { packageName: revision.packageName, version: revision.version, files: files.length, bytes, outcome };
}

/** Removes the files of every installation that nothing refers to: neither a present installation nor a running run. */
export async function removeUnusedPackages({ store, packagesDirectory, log }: PackageFiles): Promise<void> {
  const installations = await store.read(read('installations', { projectId: localProjectId }));
  const kept = new Set(
    installations
      .filter(({ state }) => state === 'active' || state === 'staged')
      .map(({ target }) => target.lockDigest),
  );
  await forEachRunningRun({ store, log }, async (runId) => {
    const plan = await store.read(read('plan', { runId }));
    if (plan !== null) {
      kept.add(plan.target.lockDigest);
    }
  });
  const aside = await store.read(read('allSetAside', { limit: limits.pageMax }));
  for (const { runId } of aside) {
    const plan = await store.read(read('plan', { runId })).catch(() => null);
    if (plan !== null) {
      kept.add(plan.target.lockDigest);
    }
  }
  if (listNames(packagesDirectory).some((name) => !kept.has(name))) {
    const { sweepPackages } = await import('./package-copy.ts');
    await sweepPackages(packagesDirectory, kept);
  }
}

function listNames(directory: string): readonly string[] {
  return existsSync(directory) ? readdirSync(directory) : [];
}
