// Packages: install and publish, lifecycle, quarantine. Each is one transaction; files are copied before and removed
// after, by whoever calls.
import { appendLifecycle, appendPublication, type GenerationTarget, sealGeneration } from '../core/publication.ts';
import type { PackageSignature, Publisher } from '../core/publisher.ts';
import type { MaterializedRevision, PackageFile } from '../core/revision.ts';
import { quarantined } from '../core/start-guard.ts';
import { hasTransition, lifecycleTransitions } from '../core/states.ts';
import { cancelCondemned } from './condemned.ts';
import { type Decision, type LedgerWrite, operation, protocol } from './protocol.ts';
import { type LockCondemnation, type PackageHead, read } from './reads.ts';

export type InstallInput = {
  readonly projectId: string;
  readonly revision: MaterializedRevision;
  readonly files: readonly PackageFile[];
  /** Verified against these bytes by the caller. */
  readonly signature: PackageSignature | null;
  /** Whether packages may come without the signature of a trusted publisher. */
  readonly allowUnsigned: boolean;
};

/** Whose a package is, as far as this device knows; `keyId` is that of the signature that came with it. */
export type PackageTrust =
  | { readonly kind: 'unsigned' }
  | { readonly kind: 'trusted' | 'unknown-publisher'; readonly keyId: string };

export type InstallOutcome =
  | {
      readonly kind: 'installed';
      readonly target: GenerationTarget;
      readonly previousGeneration: number | null;
      /** Whether the generation before said that it was this version too, and had other bytes. */
      readonly isSameVersion: boolean;
      readonly trust: PackageTrust;
    }
  /** The active generation has exactly these bytes. */
  | {
      readonly kind: 'existing';
      readonly target: GenerationTarget;
      readonly lifecycleState: 'active' | 'disabled';
      readonly trust: PackageTrust;
    }
  | { readonly kind: 'not-allowed'; readonly code: string; readonly reason: string };

export type InstallFacts = {
  readonly head: PackageHead | null;
  readonly condemned: LockCondemnation;
  /** Who is known under the key id of the signature. */
  readonly publisher: Publisher | null;
};

/** What helps where the key behind some bytes is revoked; nothing else does. */
export const remedyOfRevoked = 'publish another version, signed by a trusted key';

/** What an install is decided on; also asked before anything is copied. */
export function installReads({ projectId, revision, signature }: InstallInput) {
  const { packageName, lockDigest } = revision;
  return {
    head: read('package', { projectId, packageName }),
    condemned: read('lockCondemnation', { projectId, packageName, lockDigest }),
    // No key id is empty, so the empty one finds nobody.
    publisher: read('publisher', { keyId: signature?.keyId ?? '' }),
  };
}

/** Why these bytes must not be installed; null where they may. */
export function refuseInstall(
  { condemned, publisher }: InstallFacts,
  { revision, signature, allowUnsigned }: InstallInput,
): Extract<InstallOutcome, { kind: 'not-allowed' }> | null {
  const { packageName } = revision;
  const refuse = (code: string, reason: string) => ({ kind: 'not-allowed' as const, code, reason });
  if (condemned.isQuarantined) {
    return refuse(
      'quarantined',
      quarantined(`exactly these bytes of package ${packageName} are quarantined`, condemned),
    );
  }
  const isKeyRevoked = publisher?.revokedAtMs != null;
  const revoked = isKeyRevoked ? { keyId: publisher.keyId, reason: publisher.revokeReason } : condemned.revokedKey;
  if (revoked !== null) {
    // Whoever signs them anew: what a revoked key has vouched for is not made good by another one.
    const { keyId, reason } = revoked;
    const said = `these bytes of package ${packageName} were signed by key ${keyId}, which is revoked (${reason})`;
    return refuse('publisher_revoked', said);
  }
  if (signature === null) {
    return allowUnsigned ? null : refuse('unsigned', `package ${packageName} has no signature`);
  }
  return publisher === null && !allowUnsigned
    ? refuse('publisher_unknown', `package ${packageName} is signed by ${signature.keyId}, which is not trusted here`)
    : null;
}

/** The files must be in place and synced before. Lost answer: look the lock digest up by installing again. */
export const install = protocol({
  name: 'install',
  freshIds: 1,
  load: installReads,
  decide: (facts, input, circumstances): Decision<InstallOutcome> => {
    const { projectId, revision, files, signature } = input;
    const { packageName, lockDigest } = revision;
    const refused = refuseInstall(facts, input);
    if (refused !== null) {
      return { outcome: refused };
    }
    const { head } = facts;
    const signedBy = facts.publisher === null ? null : signature;
    const state = head?.lifecycle.state ?? 'uninstalled';
    if (head !== null && state !== 'uninstalled' && isSameInstallation(head, lockDigest, signedBy)) {
      const trust = trustOf(head.installation.publisherKeyId, signature);
      return { outcome: { kind: 'existing', target: head.installation.target, lifecycleState: state, trust } };
    }
    const target = sealGeneration({
      projectId,
      packageName,
      installationId: circumstances.freshIds[0]!,
      lockDigest,
      generation: (head?.installation.target.generation ?? 0) + 1,
      materializedRevisionDigest: revision.digest,
    });
    const { wallMs: nowMs } = circumstances.now;
    const ledger = [
      { write: 'package-files' as const, lockDigest, files },
      ...publishGeneration({ head, target, revision, signedBy, nowMs }),
    ];
    const previousGeneration = head?.installation.target.generation ?? null;
    const isSameVersion =
      head?.installation.version === revision.version && head.installation.target.lockDigest !== lockDigest;
    const trust = trustOf(signedBy?.keyId ?? null, signature);
    return { outcome: { kind: 'installed', target, previousGeneration, isSameVersion, trust }, ledger };
  },
});

/** The same bytes under another trusted signature are a generation of their own: a revocation has to find them. */
function isSameInstallation({ installation }: PackageHead, lockDigest: string, signedBy: PackageSignature | null) {
  return (
    installation.target.lockDigest === lockDigest &&
    (signedBy === null || signedBy.keyId === installation.publisherKeyId)
  );
}

function trustOf(publisherKeyId: string | null, signature: PackageSignature | null): PackageTrust {
  if (publisherKeyId !== null) {
    return { kind: 'trusted', keyId: publisherKeyId };
  }
  return signature === null ? { kind: 'unsigned' } : { kind: 'unknown-publisher', keyId: signature.keyId };
}

function publishGeneration(options: {
  readonly head: PackageHead | null;
  readonly target: GenerationTarget;
  readonly revision: MaterializedRevision;
  readonly signedBy: PackageSignature | null;
  readonly nowMs: number;
}): readonly LedgerWrite[] {
  const { head, target, revision, signedBy, nowMs } = options;
  const installation = {
    target,
    version: revision.version,
    state: 'active' as const,
    publisherKeyId: signedBy?.keyId ?? null,
    signature: signedBy?.signature ?? null,
    installedAtMs: nowMs,
  };
  const lifecycle = appendLifecycle({ previous: null, target, state: 'active', reason: null, nowMs });
  const publication = appendPublication({
    previous: head?.publication ?? null,
    target,
    state: 'active',
    lifecycleEventDigest: lifecycle.lifecycleEventDigest,
    revision,
    nowMs,
  });
  const previousId = head?.installation.target.installationId ?? null;
  const superseded: LedgerWrite[] =
    head?.installation.state === 'active'
      ? [
          {
            write: 'installation-state',
            installationId: head.installation.target.installationId,
            from: 'active',
            to: 'superseded',
          },
        ]
      : [];
  return [
    { write: 'revision', revision },
    ...superseded,
    { write: 'installation', installation },
    { write: 'installation-head', installation, expectedInstallationId: previousId },
    { write: 'lifecycle', event: lifecycle },
    { write: 'publication', publication },
  ];
}

export type LifecycleInput = {
  readonly projectId: string;
  readonly packageName: string;
  readonly to: 'active' | 'disabled' | 'uninstalled';
  readonly reason: string | null;
};

export type LifecycleOutcome =
  | { readonly kind: 'changed'; readonly target: GenerationTarget }
  | { readonly kind: 'unchanged'; readonly target: GenerationTarget }
  | { readonly kind: 'not-found'; readonly reason: string }
  | { readonly kind: 'not-allowed'; readonly code: string; readonly reason: string };

/** Disable, enable, uninstall. Running runs finish with the generation that they began with. */
export const changeLifecycle = protocol({
  name: 'change-lifecycle',
  load: ({ projectId, packageName }: LifecycleInput) => ({ head: read('package', { projectId, packageName }) }),
  decide: ({ head }, { packageName, to, reason }, { now }): Decision<LifecycleOutcome> => {
    if (head === null) {
      return { outcome: { kind: 'not-found', reason: `package ${packageName} is not installed` } };
    }
    const { installation, lifecycle } = head;
    const { target } = installation;
    if (to === 'active' && (head.isQuarantined || head.isPublisherRevoked)) {
      const [code, what] = head.isQuarantined
        ? ['quarantined', `${quarantined('is quarantined', head)}; install other bytes`]
        : [
            'publisher_revoked',
            `was signed by key ${installation.publisherKeyId}, which is revoked; ${remedyOfRevoked}`,
          ];
      const refused = `generation ${target.generation} of package ${packageName} ${what}`;
      return { outcome: { kind: 'not-allowed', code, reason: refused } };
    }
    if (lifecycle.state === to) {
      return { outcome: { kind: 'unchanged', target } };
    }
    if (!hasTransition(lifecycleTransitions, lifecycle.state, to)) {
      const refused = `package ${packageName} is ${lifecycle.state}; install it again`;
      return { outcome: { kind: 'not-allowed', code: `package_${lifecycle.state}`, reason: refused } };
    }
    return { outcome: { kind: 'changed', target }, ledger: moveLifecycle(head, { to, reason, nowMs: now.wallMs }) };
  },
});

function moveLifecycle(
  head: PackageHead,
  { to, reason, nowMs }: { to: LifecycleInput['to']; reason: string | null; nowMs: number },
): readonly LedgerWrite[] {
  const { installation, publication, revision } = head;
  const { target } = installation;
  const event = appendLifecycle({ previous: head.lifecycle, target, state: to, reason, nowMs });
  const state = to === 'active' ? 'active' : to === 'disabled' ? 'withdrawn' : 'absent';
  // A package without workflows is absent all along: disabling it withdraws nothing.
  const isPublished = !(state === 'withdrawn' && publication.state === 'absent');
  const next = {
    previous: publication,
    target,
    state,
    lifecycleEventDigest: event.lifecycleEventDigest,
    revision,
    nowMs,
  } as const;
  const removed: LedgerWrite[] =
    to === 'uninstalled'
      ? [{ write: 'installation-state', installationId: target.installationId, from: 'active', to: 'removed' }]
      : [];
  return [
    { write: 'lifecycle', event },
    ...(isPublished ? [{ write: 'publication' as const, publication: appendPublication(next) }] : []),
    ...removed,
  ];
}

export type QuarantineInput = {
  readonly projectId: string;
  readonly packageName: string;
  readonly reason: string;
  readonly requestedBy: string;
};

export type QuarantineOutcome =
  | { readonly kind: 'quarantined' | 'existing'; readonly target: GenerationTarget }
  | { readonly kind: 'not-found'; readonly reason: string };

/** A permanent tombstone on the present installation and its bytes: nothing of it starts from this commit on. */
export const quarantine = protocol({
  name: 'quarantine',
  load: ({ projectId, packageName }: QuarantineInput) => ({ head: read('package', { projectId, packageName }) }),
  decide: ({ head }, { packageName, reason, requestedBy }, { now }): Decision<QuarantineOutcome> => {
    if (head === null) {
      return { outcome: { kind: 'not-found', reason: `package ${packageName} is not installed` } };
    }
    const { target } = head.installation;
    if (head.isQuarantined) {
      return { outcome: { kind: 'existing', target } };
    }
    const { projectId, installationId, lockDigest } = target;
    const tombstone = { projectId, packageName, installationId, lockDigest, reason, atMs: now.wallMs };
    return {
      outcome: { kind: 'quarantined', target },
      ledger: [{ write: 'quarantine', quarantine: tombstone }],
      follow: [operation(cancelCondemned, { after: null, requestedBy })],
    };
  },
});
