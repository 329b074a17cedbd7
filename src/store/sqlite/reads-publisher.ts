// Reads of publishers and of what they signed, and of the file lists of packages.
import type { DatabaseSync } from 'node:sqlite';
import type { Reads } from '../../protocol/reads.ts';
import { toBytes } from './codec.ts';
import { decodePackageFiles, decodePublisher, type PackageFilesRow, type PublisherRow } from './rows-publisher.ts';
import { statement } from './statement.ts';

const selectPublisherSql = `SELECT keyId, publicKey, addedAtMs, revokedAtMs, revokeReason
  FROM Publishers WHERE keyId = :keyId`;
const selectPublishersSql = `SELECT keyId, publicKey, addedAtMs, revokedAtMs, revokeReason
  FROM Publishers ORDER BY addedAtMs, keyId`;
const selectFilesSql = 'SELECT lockDigest, files FROM PackageFiles WHERE lockDigest = :lockDigest';

export type PublisherReads = Pick<Reads, 'publisher' | 'publishers' | 'packageFiles'>;
type PublisherReader = {
  readonly [N in keyof PublisherReads]: (args: PublisherReads[N]['args']) => PublisherReads[N]['rows'];
};

/** The reads of publishers on one connection. They throw `damaged`. */
export function createPublisherReads(db: DatabaseSync): PublisherReader {
  const selectPublisher = statement<{ keyId: string }, PublisherRow>(db, selectPublisherSql);
  const selectPublishers = statement<Record<string, never>, PublisherRow>(db, selectPublishersSql);
  const selectFiles = statement<{ lockDigest: Uint8Array }, PackageFilesRow>(db, selectFilesSql);
  return {
    publisher({ keyId }) {
      const row = selectPublisher.get({ keyId });
      return row === null ? null : decodePublisher(row);
    },
    publishers: () => selectPublishers.all({}).map(decodePublisher),
    packageFiles({ lockDigest }) {
      const row = selectFiles.get({ lockDigest: toBytes(lockDigest) });
      return row === null ? null : decodePackageFiles(row);
    },
  };
}
