// A package in a directory: what is scanned is read, what is read is hashed, and a file that is exchanged meanwhile is
// found by its size, mode or digest.

import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { EdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { PackageFile } from '../core/revision.ts';
import { readPackageFile } from './package-bytes.ts';
import { type HashedContents, type PackageContents, type ScriptWarning, warnOfScript } from './package-contents.ts';
import { codeOf, createChunkBuffer } from './package-file.ts';
import { omittedNames, scanPackage, signatureName } from './package-scan.ts';

/** Scans a directory whose path is absolute and without links. Rejects only when it cannot be read. */
export async function openDirectory(path: string): Promise<PackageContents> {
  const scan = await scanPackage(path, omittedNames);
  return {
    path,
    kind: 'directory',
    scan,
    async readManifest(file) {
      const chunks: Buffer[] = [];
      const onChunk = async (chunk: Uint8Array) => void chunks.push(Buffer.from(chunk));
      const { sha256 } = await readPackageFile(path, file, { buffer: createChunkBuffer(), onChunk });
      return { bytes: Buffer.concat(chunks), sha256 };
    },
    signatureFile: join(path, signatureName),
    readSignature: () => readSignature(join(path, signatureName)),
    async hash(): Promise<HashedContents> {
      const buffer = createChunkBuffer();
      const files: PackageFile[] = [];
      const warnings: ScriptWarning[] = [];
      for (const file of scan.files) {
        let head: ScriptWarning | null | undefined;
        const onChunk = async (chunk: Uint8Array) => {
          head = head === undefined ? warnOfScript(file.path, chunk) : head;
        };
        files.push(await readPackageFile(path, file, { buffer, onChunk }));
        warnings.push(...(head == null ? [] : [head]));
      }
      return { files, warnings };
    },
    async forEachFile(visit) {
      const buffer = createChunkBuffer();
      for (const file of scan.files) {
        await visit(file, (onChunk) =>
          readPackageFile(path, file, { buffer, ...(onChunk === null ? {} : { onChunk }) }),
        );
      }
    },
  };
}

// Neither a link nor a FIFO under this name is followed or waited for.
async function readSignature(file: string): Promise<Uint8Array | null> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const handle = await open(file, flags).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') {
      return null;
    }
    throw signatureError(`cannot be read (${codeOf(error)})`);
  });
  try {
    return handle === null ? null : await readSmall(handle);
  } finally {
    await handle?.close();
  }
}

async function readSmall(handle: FileHandle): Promise<Uint8Array> {
  const stats = await handle.stat();
  if (!stats.isFile() || stats.size > limits.signatureFileBytesMax) {
    const rule = stats.isFile() ? `has more than ${limits.signatureFileBytesMax} bytes` : 'is no regular file';
    throw signatureError(rule);
  }
  return await handle.readFile();
}

function signatureError(rule: string): EdgeError {
  return new EdgeError('invalid', `${signatureName} ${rule}`, {
    hint: 'sign the package again, or remove that file',
    mistakes: [{ file: signatureName, path: '', line: null, rule }],
  });
}
