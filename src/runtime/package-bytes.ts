// Reads the bytes of scanned package files, with their SHA-256, so that what is hashed is what was scanned and what is
// copied is what was hashed. A file that is exchanged meanwhile is found by its size or its digest.
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { EdgeError, type Mistake } from '../core/errors.ts';
import type { PackageFile } from '../core/revision.ts';
import { codeOf, packageModeOf } from './package-file.ts';
import type { ScannedFile } from './package-scan.ts';

/** Called with each part of a file in turn; the bytes are only valid until it resolves. */
export type ChunkReader = (chunk: Uint8Array) => Promise<void>;

/** Reads one file to its end. Throws `invalid` when it is no longer the file that was scanned. */
export async function readPackageFile(
  root: string,
  file: ScannedFile,
  options: { readonly buffer: Uint8Array; readonly onChunk?: ChunkReader },
): Promise<PackageFile> {
  const handle = await openPackageFile(root, file.path);
  try {
    const stats = await handle.stat();
    const hash = createHash('sha256');
    let size = 0;
    for (let isAtEnd = !stats.isFile(); !isAtEnd; ) {
      const { bytesRead } = await handle.read(options.buffer, 0, options.buffer.length, null);
      const chunk = options.buffer.subarray(0, bytesRead);
      hash.update(chunk);
      await options.onChunk?.(chunk);
      size += bytesRead;
      // A file that grows while it is read has no end to wait for.
      isAtEnd = bytesRead === 0 || size > file.size;
    }
    if (!stats.isFile() || size !== file.size || packageModeOf(stats.mode) !== file.mode) {
      throw changedError(file.path);
    }
    return { path: file.path, mode: file.mode, size, sha256: hash.digest('hex') };
  } finally {
    await handle.close();
  }
}

// Neither a link nor a FIFO that took the file's place since the scan is followed or waited for.
async function openPackageFile(root: string, path: string): Promise<FileHandle> {
  try {
    return await open(join(root, path), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    throw fileError(path, `cannot be read (${codeOf(error)})`);
  }
}

/** What to say when a package is edited while it is read. */
export function changedError(path: string): EdgeError {
  return fileError(path, 'was changed while the package was read: try again when nobody writes to it');
}

function fileError(file: string, rule: string): EdgeError {
  const mistake: Mistake = { file, path: '', line: null, rule };
  return new EdgeError('invalid', `package file ${file} ${rule}`, {
    hint: 'nothing was installed',
    mistakes: [mistake],
  });
}
