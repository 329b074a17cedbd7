// Publishers: the keys that may sign packages, and what exactly a signature says. Pure; the cryptography is done by
// whoever has the bytes, trust is decided in the transaction that installs.

/** A key that was added on this device. `publicKey` is the 32 bytes of an Ed25519 key, as 64 hex digits. */
export type Publisher = {
  /** A function of the key: see `derivePublisherKeyId`. */
  readonly keyId: string;
  readonly publicKey: string;
  readonly addedAtMs: number;
  /** Set once and for good. */
  readonly revokedAtMs: number | null;
  readonly revokeReason: string | null;
};

/** A signature that is right for the bytes it came with; whether its key is trusted is another question. */
export type PackageSignature = {
  readonly keyId: string;
  readonly publicKey: string;
  /** 64 bytes, as 128 hex digits. */
  readonly signature: string;
};

export const signatureSchema = 'qinglong/package-signature@v1';

/**
 * What is signed: label, one NUL, and the lock digest as 64 hex digits. The label keeps a signature on a package from
 * standing for one on anything else.
 */
export function signedText(lockDigest: string): string {
  return `${signatureSchema}\0${lockDigest}`;
}
