// The bytes of packages, which go through the database, so that every runtime runs the same: piece by piece, so that a
// slow way to the server makes it slow and nothing else.
import { sha256 } from '../../core/hash.ts';
import type { Leases } from '../leases.ts';
import type { Asked } from './asked.ts';

/** The table's own bound. A piece takes less than a statement may, at 100 KB a second. */
const pieceBytes = 1024 * 1024;

// What is damaged there gives way: a digest has one set of bytes.
const clearOtherSql = `DELETE FROM ql3.package_contents
  WHERE lock_digest = decode(:lockDigest, 'hex') AND path = :path AND piece = :piece
    AND sha256(bytes) <> decode(:sha256, 'hex')`;
const clearBeyondSql = `DELETE FROM ql3.package_contents
  WHERE lock_digest = decode(:lockDigest, 'hex') AND path = :path AND piece > :piece`;
const hasSql = `SELECT piece FROM ql3.package_contents
  WHERE lock_digest = decode(:lockDigest, 'hex') AND path = :path AND piece = :piece`;
const putSql = `INSERT INTO ql3.package_contents (lock_digest, path, piece, bytes)
  VALUES (decode(:lockDigest, 'hex'), :path, :piece, decode(:bytes, 'base64')) ON CONFLICT DO NOTHING`;
const getSql = `SELECT encode(bytes, 'base64') AS bytes FROM ql3.package_contents
  WHERE lock_digest = decode(:lockDigest, 'hex') AND path = :path AND piece = :piece`;

export function createContents(ask: Asked['ask']): Pick<Leases, 'putContents' | 'getContents'> {
  return {
    async putContents(lockDigest, files) {
      for (const { path, bytes } of files) {
        const pieces = cut(bytes);
        for (const [piece, part] of pieces.entries()) {
          await ask(clearOtherSql, { lockDigest, path, piece, sha256: sha256(part) });
          if ((await ask(hasSql, { lockDigest, path, piece })).length === 0) {
            await ask(putSql, { lockDigest, path, piece, bytes: Buffer.from(part).toString('base64') });
          }
        }
        await ask(clearBeyondSql, { lockDigest, path, piece: pieces.length - 1 });
      }
    },
    async getContents(lockDigest, path) {
      const parts: Uint8Array[] = [];
      for (let piece = 0; ; piece += 1) {
        const [row] = await ask(getSql, { lockDigest, path, piece });
        if (row === undefined) {
          return piece === 0 ? null : Buffer.concat(parts);
        }
        parts.push(Buffer.from(`${row['bytes']}`, 'base64'));
      }
    },
  };
}

/** At least one piece: an empty file is there as well. */
function cut(bytes: Uint8Array): readonly Uint8Array[] {
  const pieces: Uint8Array[] = [bytes.subarray(0, pieceBytes)];
  for (let at = pieceBytes; at < bytes.length; at += pieceBytes) {
    pieces.push(bytes.subarray(at, at + pieceBytes));
  }
  return pieces;
}
