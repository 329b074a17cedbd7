// What an install says.
import { remedyOfRevoked } from '../protocol/package.ts';
import type { InstallReport } from '../runtime/verbs.ts';
import { type Failure, refusal } from './failure.ts';
import { formatBytes, formatCount } from './times.ts';

const remedies: Readonly<Record<string, string>> = {
  unsigned: 'have its publisher sign it (`package sign`), or set allowUnsigned to true in config.json',
  publisher_unknown: 'if you trust that publisher, add the key: `publisher add KEYFILE`',
  publisher_revoked: remedyOfRevoked,
};

/** Null where the package is installed now. */
export function refusedInstall({ outcome, packageName }: InstallReport): Failure | null {
  return outcome.kind === 'not-allowed'
    ? refusal('not-allowed', outcome.reason, remedies[outcome.code] ?? `install other bytes of package ${packageName}`)
    : null;
}

/** `installed blocklist 1.0.0 as generation 2 (8 files, 4.1 KiB)`; `self` is how this program is called. */
export function describeInstall(report: InstallReport, self: string): string {
  const { packageName, version, files, bytes, leftOut, outcome, mended } = report;
  if (outcome.kind === 'not-allowed') {
    return `${packageName} ${version} is not installed`;
  }
  const notes = [...describeMended(mended), ...describeTrust(report)];
  const tail = notes.map((note) => `; ${note}`).join('');
  if (outcome.kind === 'existing') {
    const isDisabled = outcome.lifecycleState === 'disabled';
    const state = isDisabled ? `, but disabled; let it start again: ${self} package enable ${packageName}` : '';
    return `${packageName} ${version} is installed already, as generation ${outcome.target.generation}${state}${tail}`;
  }
  const without = leftOut.length === 0 ? '' : `, without ${leftOut.join(' and ')}`;
  const size = `${formatCount(files, 'file')}, ${formatBytes(bytes)}${without}`;
  const same = outcome.isSameVersion
    ? `; other bytes under the version that generation ${outcome.previousGeneration} had`
    : '';
  return `installed ${packageName} ${version} as generation ${outcome.target.generation} (${size})${same}${tail}`;
}

function describeMended(mended: readonly string[]): readonly string[] {
  return mended.length === 0
    ? []
    : [`put right ${formatCount(mended.length, 'file')} that had been altered: ${mended.join(', ')}`];
}

function describeTrust({ outcome }: InstallReport): readonly string[] {
  const trust = 'trust' in outcome ? outcome.trust : null;
  switch (trust?.kind) {
    case 'trusted':
      return [`signed by ${trust.keyId}`];
    case 'unknown-publisher':
      return [`signed by ${trust.keyId}, which is not trusted here, so it counts as unsigned`];
    default:
      return [];
  }
}

export function installDocument(report: InstallReport): object {
  const { packageName, version, files, bytes, leftOut, mended, outcome } = report;
  const target = 'target' in outcome ? outcome.target : null;
  const trust = 'trust' in outcome ? outcome.trust : null;
  return {
    outcome: outcome.kind,
    packageName,
    version,
    generation: target?.generation ?? null,
    installationId: target?.installationId ?? null,
    lockDigest: target?.lockDigest ?? null,
    isSameVersion: outcome.kind === 'installed' && outcome.isSameVersion,
    trust: trust?.kind ?? null,
    signedBy: trust !== null && 'keyId' in trust ? trust.keyId : null,
    mended,
    files,
    bytes,
    leftOut,
  };
}
