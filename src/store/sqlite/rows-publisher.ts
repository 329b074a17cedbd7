// Rows of publishers as records, and back; and the file lists of packages. A key id is a function of its key, and a
// lock digest of its list: both are checked.
import { canonicalJson } from '../../core/canonical-json.ts';
import { derivePublisherKeyId } from '../../core/ids.ts';
import type { Publisher } from '../../core/publisher.ts';
import { computeLockDigest, listExactly, type PackageFile } from '../../core/revision.ts';
import { damaged } from '../damaged.ts';
import { parseCanonical, toBytes, toHex } from './codec.ts';

/** The columns of a publisher. */
export function encodePublisher({ publicKey, ...fields }: Publisher) {
  return { ...fields, publicKey: toBytes(publicKey) };
}

export type PublisherRow = ReturnType<typeof encodePublisher>;

/** Throws `damaged` where the key id is not that of the key. */
export function decodePublisher(row: PublisherRow): Publisher {
  const publicKey = toHex(row.publicKey);
  if (derivePublisherKeyId(publicKey) !== row.keyId) {
    throw damaged('Publishers', `has another key under ${row.keyId}`);
  }
  const { keyId, addedAtMs, revokedAtMs, revokeReason } = row;
  return { keyId, publicKey, addedAtMs, revokedAtMs, revokeReason };
}

/** The list as it is stored: exactly what the lock digest is the digest of. */
export function encodePackageFiles(lockDigest: string, files: readonly PackageFile[]) {
  return { lockDigest: toBytes(lockDigest), files: canonicalJson(listExactly(files)) };
}

export type PackageFilesRow = ReturnType<typeof encodePackageFiles>;

/** Throws `damaged` where the list is not that of the lock digest. */
export function decodePackageFiles({ lockDigest, files }: PackageFilesRow): readonly PackageFile[] {
  const digest = toHex(lockDigest);
  const where = `PackageFiles ${digest.slice(0, 12)}`;
  const listed = parseCanonical(files, where) as readonly PackageFile[];
  if (!Array.isArray(listed) || !isDigestOf(digest, listed)) {
    throw damaged(where, 'is not the list of that digest');
  }
  return listed;
}

// What was altered may be no list of files at all, which canonical JSON or the digest's own rules refuse.
function isDigestOf(digest: string, files: readonly PackageFile[]): boolean {
  try {
    return computeLockDigest(files) === digest;
  } catch {
    return false;
  }
}
