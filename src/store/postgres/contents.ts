// The bytes of packages, which go through the database, so that every runtime runs the same.
import { sha256 } from '../../core/hash.ts';
import type { Leases } from '../leases.ts';
import type { Asked } from './asked.ts';

// What is damaged there gives way: a digest has one set of bytes.
const clearOtherSql = `DELETE FROM ql3.package_contents
  WHERE lock_digest = decode(:lockDigest, 'hex') AND path = :path AND sha256(bytes) <> decode(:sha256, 'hex')`;
const putSql = `INSERT INTO ql3.package_contents (lock_digest, path, bytes)
  VALUES (decode(:lockDigest, 'hex'), :path, decode(:bytes, 'base64')) ON CONFLICT DO NOTHING`;
const getSql = `SELECT encode(bytes, 'base64') AS bytes FROM ql3.package_contents
  WHERE lock_digest = decode(:lockDigest, 'hex') AND path = :path`;

export function createContents(ask: Asked['ask']): Pick<Leases, 'putContents' | 'getContents'> {
  return {
    async putContents(lockDigest, files) {
      for (const { path, bytes } of files) {
        await ask(clearOtherSql, { lockDigest, path, sha256: sha256(bytes) });
        await ask(putSql, { lockDigest, path, bytes: Buffer.from(bytes).toString('base64') });
      }
    },
    async getContents(lockDigest, path) {
      const [row] = await ask(getSql, { lockDigest, path });
      return row === undefined ? null : Buffer.from(`${row['bytes']}`, 'base64');
    },
  };
}
