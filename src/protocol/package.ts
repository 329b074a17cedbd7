// Packages: install and publish, lifecycle, quarantine. Each is one transaction; files are copied before and removed
// after, by whoever calls.

import { limits } from '../core/limits.ts';
import { appendLifecycle, appendPublication, type GenerationTarget, sealGeneration } from '../core/publication.ts';
import type { MaterializedRevision } from '../core/revision.ts';
import { hasTransition, lifecycleTransitions } from '../core/states.ts';
import { cancel } from './cancel.ts';
import { type Decision, type LedgerWrite, type Operation, operation, protocol } from './protocol.ts';
import { type PackageHead, read } from './reads.ts';

export type InstallInput = {
  readonly projectId: string;
  readonly revision: MaterializedRevision;
  readonly publisherKeyId: string | null;
};

export type InstallOutcome =
  | { readonly kind: 'installed'; readonly target: GenerationTarget; readonly previousGeneration: number | null }
  /** The active generation has exactly these bytes. */
  | { readonly kind: 'existing'; readonly target: GenerationTarget; readonly lifecycleState: 'active' | 'disabled' }
  | { readonly kind: 'not-allowed'; readonly code: string; readonly reason: string };

/** The files must be in place and synced before. Lost answer: look the lock digest up by installing again. */
export const install = protocol({
  name: 'install',
  freshIds: 1,
  load: ({ projectId, revision }: InstallInput) => ({
    head: read('package', { projectId, packageName: revision.packageName }),
    isLockQuarantined: read('isLockQuarantined', {
      projectId,
      packageName: revision.packageName,
      lockDigest: revision.lockDigest,
    }),
  }),
  decide: (
    { head, isLockQuarantined },
    { projectId, revision, publisherKeyId },
    circumstances,
  ): Decision<InstallOutcome> => {
    const { packageName, lockDigest } = revision;
    if (isLockQuarantined) {
      const reason = `exactly these bytes of package ${packageName} are quarantined`;
      return { outcome: { kind: 'not-allowed', code: 'quarantined', reason } };
    }
    const state = head?.lifecycle.state ?? 'uninstalled';
    if (head !== null && state !== 'uninstalled' && head.installation.target.lockDigest === lockDigest) {
      return { outcome: { kind: 'existing', target: head.installation.target, lifecycleState: state } };
    }
    const target = sealGeneration({
      projectId,
      packageName,
      installationId: circumstances.freshIds[0]!,
      lockDigest,
      generation: (head?.installation.target.generation ?? 0) + 1,
      materializedRevisionDigest: revision.digest,
    });
    const previousGeneration = head?.installation.target.generation ?? null;
    const ledger = publishGeneration({ head, target, revision, publisherKeyId, nowMs: circumstances.now.wallMs });
    return { outcome: { kind: 'installed', target, previousGeneration }, ledger };
  },
});

function publishGeneration(options: {
  readonly head: PackageHead | null;
  readonly target: GenerationTarget;
  readonly revision: MaterializedRevision;
  readonly publisherKeyId: string | null;
  readonly nowMs: number;
}): readonly LedgerWrite[] {
  const { head, target, revision, publisherKeyId, nowMs } = options;
  const installation = {
    target,
    version: revision.version,
    state: 'active' as const,
    publisherKeyId,
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
    if (to === 'active' && head.isQuarantined) {
      const refused = `generation ${target.generation} of package ${packageName} is quarantined; install other bytes`;
      return { outcome: { kind: 'not-allowed', code: 'quarantined', reason: refused } };
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
      follow: [operation(cancelInstallation, { installationId, requestedBy })],
    };
  },
});

export type CancelInstallationOutcome = { readonly runIds: readonly string[] };

type CancelInstallationInput = { readonly installationId: string; readonly requestedBy: string };

/** One page of cancel intents on the running runs of a quarantined installation; a full page is followed by another. */
export const cancelInstallation = protocol({
  name: 'cancel-installation',
  load: ({ installationId }: CancelInstallationInput) => ({
    runIds: read('runsOfInstallation', { installationId, limit: limits.pageMax }),
  }),
  decide: ({ runIds }, input): Decision<CancelInstallationOutcome> => {
    const { requestedBy } = input;
    const cancels = runIds.map((runId) => operation(cancel, { runId, reason: 'policy', requestedBy }));
    return { outcome: { runIds }, follow: [...cancels, ...nextPage(runIds, input)] };
  },
});

function nextPage(runIds: readonly string[], input: CancelInstallationInput): readonly Operation[] {
  return runIds.length === limits.pageMax ? [operation(cancelInstallation, input)] : [];
}
