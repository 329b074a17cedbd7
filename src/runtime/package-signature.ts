// Ed25519 signatures on packages and the keys behind them: reading key files, signing, verifying. Decides nothing about
// trust, and never shows a private key.
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto';
import { EdgeError } from '../core/errors.ts';
import { derivePublisherKeyId } from '../core/ids.ts';
import { type PackageSignature, signatureSchema, signedText } from '../core/publisher.ts';
import { signatureName } from './package-scan.ts';

/** What stands before the 32 bytes of an Ed25519 key in its DER forms (RFC 8410). */
const publicPrefix = Buffer.from('302a300506032b6570032100', 'hex');
const keyBytes = 32;
const signatureBytes = 64;

const makeKey = 'openssl genpkey -algorithm ed25519 -out KEYFILE';
const makePublic = 'openssl pkey -in KEYFILE -pubout';

/**
 * The public key in the text of a file: PEM, or its 32 bytes as base64 or hex digits. 64 hex digits. Throws `invalid`,
 * for a private key too: that one must not leave where it was made.
 */
export function readPublicKey(text: string): string {
  const word = text.trim();
  if (word.includes('PRIVATE KEY')) {
    throw privateKeyError(word);
  }
  if (word.startsWith('-----BEGIN ')) {
    const isCertificate = word.startsWith('-----BEGIN CERTIFICATE');
    const key = isCertificate ? null : tryKey(() => createPublicKey(word));
    if (key?.asymmetricKeyType !== 'ed25519') {
      throw new EdgeError('invalid', `this is ${describeKey(key)}, and an Ed25519 public key is needed`, {
        hint: `make a key: ${makeKey}; and its public half: ${makePublic}`,
      });
    }
    return rawPublicKey(key);
  }
  const isHex = /^[0-9a-fA-F]{64}$/.test(word);
  const bytes = isHex ? Buffer.from(word, 'hex') : Buffer.from(word, 'base64');
  if (bytes.length !== keyBytes || (!isHex && bytes.toString('base64').replace(/=$/, '') !== word.replace(/=$/, ''))) {
    throw new EdgeError('invalid', 'this is no Ed25519 public key', {
      hint: `give it as PEM (${makePublic}), or its 32 bytes as base64 or hex digits`,
    });
  }
  return bytes.toString('hex');
}

/** Signs the bytes that a lock digest stands for with the private key in a PEM text. Throws `invalid`. */
export function signLockDigest(lockDigest: string, pem: string): PackageSignature {
  const key = tryKey(() => createPrivateKey(pem));
  if (key?.asymmetricKeyType !== 'ed25519') {
    const found = key === null ? '' : ` but ${describeKey(key)}`;
    throw new EdgeError('invalid', `this is no Ed25519 private key in PEM without a passphrase${found}`, {
      hint: `make one: ${makeKey}`,
    });
  }
  const publicKey = rawPublicKey(createPublicKey(key));
  const signature = sign(null, Buffer.from(signedText(lockDigest)), key).toString('hex');
  return { keyId: derivePublisherKeyId(publicKey), publicKey, signature };
}

export function isSignatureOf(lockDigest: string, { publicKey, signature }: Omit<PackageSignature, 'keyId'>): boolean {
  const der = Buffer.concat([publicPrefix, Buffer.from(publicKey, 'hex')]);
  try {
    const key = createPublicKey({ key: der, format: 'der', type: 'spki' });
    return verify(null, Buffer.from(signedText(lockDigest)), key, Buffer.from(signature, 'hex'));
  } catch {
    // No point of the curve, and so nobody's key.
    return false;
  }
}

/** The text of a signature file. */
export function printSignature({ publicKey, signature }: PackageSignature): string {
  const encode = (hex: string) => Buffer.from(hex, 'hex').toString('base64');
  const contents = { schema: signatureSchema, publicKey: encode(publicKey), signature: encode(signature) };
  return `${JSON.stringify(contents, null, 2)}\n`;
}

/** The signature in a file, right for these bytes. Throws `invalid` for a file of another form and for a wrong one. */
export function readSignatureFile(bytes: Uint8Array, lockDigest: string): PackageSignature {
  const parsed = parseSignature(bytes);
  if (parsed === null) {
    throw signatureError('is no signature of a package', `sign the package again, or remove ${signatureName}`);
  }
  if (!isSignatureOf(lockDigest, parsed)) {
    const hint = 'the package was changed since it was signed, or the signature is of another one: get it anew';
    throw signatureError('is not the signature of these files', hint);
  }
  return { keyId: derivePublisherKeyId(parsed.publicKey), ...parsed };
}

function parseSignature(bytes: Uint8Array): Omit<PackageSignature, 'keyId'> | null {
  try {
    const { schema, publicKey, signature, ...rest } = JSON.parse(
      new TextDecoder('utf-8', { fatal: true }).decode(bytes),
    );
    const key = decode(publicKey, keyBytes);
    const signed = decode(signature, signatureBytes);
    const isWhole = schema === signatureSchema && Object.keys(rest).length === 0;
    return isWhole && key !== null && signed !== null ? { publicKey: key, signature: signed } : null;
  } catch {
    return null;
  }
}

function decode(value: unknown, length: number): string | null {
  const bytes = typeof value === 'string' ? Buffer.from(value, 'base64') : Buffer.alloc(0);
  return bytes.length === length && bytes.toString('base64') === value ? bytes.toString('hex') : null;
}

/** Null for what is none. OpenSSL's own words help nobody, and a key with a passphrase is none here. */
function tryKey(parse: () => KeyObject): KeyObject | null {
  try {
    return parse();
  } catch {
    return null;
  }
}

/** What was given instead, with its kind where OpenSSL knows it. */
function describeKey(key: KeyObject | null): string {
  const kind = key?.asymmetricKeyType?.toUpperCase();
  return kind === undefined ? 'no key in PEM that can be read' : `a key of another kind (${kind})`;
}

/** Its owner is told how to make the public half, but only of a key that has a use here. */
function privateKeyError(pem: string): EdgeError {
  const key = tryKey(() => createPrivateKey(pem));
  const isOther = key !== null && key.asymmetricKeyType !== 'ed25519';
  const other = isOther ? `, and ${describeKey(key)} where an Ed25519 one is needed` : '';
  return new EdgeError('invalid', `this is a private key: only its owner may have it${other}`, {
    hint: isOther ? `make another key: ${makeKey}` : `make the public one from it: ${makePublic}`,
  });
}

function rawPublicKey(key: KeyObject): string {
  return key.export({ format: 'der', type: 'spki' }).subarray(-keyBytes).toString('hex');
}

function signatureError(rule: string, hint: string): EdgeError {
  const mistakes = [{ file: signatureName, path: '', line: null, rule }];
  return new EdgeError('invalid', `${signatureName} ${rule}`, { hint, mistakes });
}
