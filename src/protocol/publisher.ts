// Publishers: which keys may sign packages, and the end of that. A revocation is one fact that every start and every
// install reads; it is never taken back.
import { derivePublisherKeyId } from '../core/ids.ts';
import type { Publisher } from '../core/publisher.ts';
import { cancelCondemned } from './condemned.ts';
import { type Decision, operation, protocol } from './protocol.ts';
import { read } from './reads.ts';

export type AddPublisherInput = {
  /** 64 hex digits, checked by the caller. */
  readonly publicKey: string;
};

export type AddPublisherOutcome =
  | { readonly kind: 'added' | 'existing'; readonly publisher: Publisher }
  | { readonly kind: 'not-allowed'; readonly code: string; readonly reason: string };

/** Trusts a key from now on. A key that was revoked is never trusted again. */
export const addPublisher = protocol({
  name: 'add-publisher',
  load: ({ publicKey }: AddPublisherInput) => ({
    known: read('publisher', { keyId: derivePublisherKeyId(publicKey) }),
  }),
  decide: ({ known }, { publicKey }, { now }): Decision<AddPublisherOutcome> => {
    if (known?.revokedAtMs != null) {
      const reason = `the key ${known.keyId} was revoked (${known.revokeReason}), and that is for good`;
      return { outcome: { kind: 'not-allowed', code: 'publisher_revoked', reason } };
    }
    if (known !== null) {
      return { outcome: { kind: 'existing', publisher: known } };
    }
    const keyId = derivePublisherKeyId(publicKey);
    const publisher = { keyId, publicKey, addedAtMs: now.wallMs, revokedAtMs: null, revokeReason: null };
    return { outcome: { kind: 'added', publisher }, ledger: [{ write: 'publisher', publisher }] };
  },
});

export type RevokePublisherInput = {
  readonly projectId: string;
  readonly keyId: string;
  readonly reason: string;
  readonly requestedBy: string;
};

export type RevokePublisherOutcome =
  /** `packageNames` of those whose present generation it has signed. */
  | { readonly kind: 'revoked' | 'existing'; readonly keyId: string; readonly packageNames: readonly string[] }
  | { readonly kind: 'not-found'; readonly reason: string };

/** Ends the trust in a key: from this commit on nothing that it has signed starts, in whichever generation. */
export const revokePublisher = protocol({
  name: 'revoke-publisher',
  load: ({ projectId, keyId }: RevokePublisherInput) => ({
    known: read('publisher', { keyId }),
    heads: read('packages', { projectId }),
  }),
  decide: ({ known, heads }, { keyId, reason, requestedBy }, { now }): Decision<RevokePublisherOutcome> => {
    if (known === null) {
      return { outcome: { kind: 'not-found', reason: `no key ${keyId} was added` } };
    }
    const signed = heads.filter(
      ({ installation, lifecycle }) => installation.publisherKeyId === keyId && lifecycle.state !== 'uninstalled',
    );
    const packageNames = signed.map(({ installation }) => installation.target.packageName);
    if (known.revokedAtMs !== null) {
      return { outcome: { kind: 'existing', keyId, packageNames } };
    }
    return {
      outcome: { kind: 'revoked', keyId, packageNames },
      ledger: [{ write: 'revocation', keyId, reason, atMs: Math.max(now.wallMs, known.addedAtMs) }],
      follow: [operation(cancelCondemned, { after: null, requestedBy })],
    };
  },
});
