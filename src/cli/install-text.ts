// What an install says.
import type { InstallReport } from '../runtime/verbs.ts';
import { type Failure, refusal } from './failure.ts';
import { formatBytes, formatCount } from './times.ts';

/** Null where the package is installed now. */
export function refusedInstall({ outcome, packageName }: InstallReport): Failure | null {
  return outcome.kind === 'not-allowed'
    ? refusal('not-allowed', outcome.reason, `install other bytes of package ${packageName}`)
    : null;
}

/** `installed blocklist 1.0.0 as generation 2 (8 files, 4.1 KiB)`; `self` is how this program is called. */
export function describeInstall(report: InstallReport, self: string): string {
  const { packageName, version, files, bytes, outcome } = report;
  if (outcome.kind === 'existing') {
    const isDisabled = outcome.lifecycleState === 'disabled';
    const state = isDisabled ? `, but disabled; let it start again: ${self} package enable ${packageName}` : '';
    return `${packageName} ${version} is installed already, as generation ${outcome.target.generation}${state}`;
  }
  const generation = outcome.kind === 'installed' ? ` as generation ${outcome.target.generation}` : '';
  return `installed ${packageName} ${version}${generation} (${formatCount(files, 'file')}, ${formatBytes(bytes)})`;
}

export function installDocument({ packageName, version, files, bytes, outcome }: InstallReport): object {
  const target = 'target' in outcome ? outcome.target : null;
  return {
    outcome: outcome.kind,
    packageName,
    version,
    generation: target?.generation ?? null,
    installationId: target?.installationId ?? null,
    lockDigest: target?.lockDigest ?? null,
    files,
    bytes,
  };
}
