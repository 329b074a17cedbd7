// A package in a `.tar.gz`, `.tgz` or `.tar`. Nothing of it is unpacked anywhere before all of it was read and judged:
// once to look and hash, once more to copy, with every digest compared. What comes out is what a directory with the
// same files gives, its lock digest included.
import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open, readFile, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { EdgeError, isEdgeError, type Mistake } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { PackageFile } from '../core/revision.ts';
import { manifestNames } from './manifest-file.ts';
import { judgeEntries, type SeenEntry } from './package-archive-entries.ts';
import { changedError } from './package-bytes.ts';
import { type PackageContents, type ScriptWarning, warnOfScript } from './package-contents.ts';
import { codeOf, packageModeOf } from './package-file.ts';
import { type ScannedFile, signatureName } from './package-scan.ts';
import { archiveMistake, createTarReader, type TarEntry, type TarReader } from './tar-reader.ts';

const chunkBytes = 64 * 1024;
const gzipMagic = 0x1f8b;
const headBytes = 512;

/** How other packers begin their files: who made such a one is told what to make instead. */
const strangers: readonly (readonly [string, string])[] = [
  ['fd377a585a00', 'xz'],
  ['425a68', 'bzip2'],
  ['28b52ffd', 'zstd'],
  ['504b0304', 'zip'],
  ['377abcaf271c', '7z'],
];

/** Reads and judges a whole archive. Throws `invalid` for what is no sound one; the scan has what is wrong inside. */
export async function openArchive(path: string): Promise<PackageContents> {
  const { entries, kept } = await naming(path, () => look(path));
  const { root, scan, files, warnings } = judgeEntries(entries);
  const findKept = (name: string) => kept.get(root + name) ?? null;
  return {
    path,
    kind: 'archive',
    scan,
    async readManifest({ path: name }) {
      const found = findKept(name);
      if (found === null) {
        throw changedError(name);
      }
      return found;
    },
    signatureFile: findKept(signatureName) === null ? `${path}.sig` : null,
    async readSignature() {
      const inside = findKept(signatureName);
      const beside = await readBeside(`${path}.sig`);
      if (inside !== null && beside !== null) {
        throw new EdgeError('invalid', `${basename(path)} has two signatures, ${signatureName} and ${path}.sig`, {
          hint: 'remove the one that is not meant',
        });
      }
      return beside ?? inside?.bytes ?? null;
    },
    hash: async () => ({ files, warnings }),
    forEachFile: (visit) => naming(path, () => visitFiles(path, { root, scan: scan.files, visit })),
  };
}

async function readBeside(path: string): Promise<Uint8Array | null> {
  const stats = await stat(path).catch(() => null);
  return stats?.isFile() === true && stats.size <= limits.signatureFileBytesMax ? await readFile(path) : null;
}

type Looked = {
  readonly entries: readonly SeenEntry[];
  /** Small files that may turn out to be the manifest or the signature, by their names in the archive. */
  readonly kept: ReadonlyMap<string, { readonly bytes: Uint8Array; readonly sha256: string }>;
};

async function look(path: string): Promise<Looked> {
  const entries: SeenEntry[] = [];
  const kept = new Map<string, { bytes: Uint8Array; sha256: string }>();
  await readArchive(path, async (reader) => {
    for (let entry = await reader.next(); entry !== null; entry = await reader.next()) {
      const name = cleanName(entry);
      const seen = await lookAt(reader, entry, { name, isKept: isWanted(name, entry.size) && !kept.has(name) });
      entries.push(seen.entry);
      if (seen.bytes !== null) {
        kept.set(name, { bytes: seen.bytes, sha256: seen.entry.sha256 });
      }
    }
  });
  return { entries, kept };
}

/** Where a package may begin: at the top, or in the one directory there. Each is small, and there are at most six. */
function isWanted(name: string, size: number): boolean {
  const parts = name.split('/');
  const last = parts.at(-1)!;
  const bytesMax = last === signatureName ? limits.signatureFileBytesMax : limits.manifestBytesMax;
  return parts.length <= 2 && (manifestNames.includes(last) || last === signatureName) && size <= bytesMax;
}

type LookedAt = { readonly entry: SeenEntry; readonly bytes: Uint8Array | null };

async function lookAt(
  reader: TarReader,
  entry: TarEntry,
  { name, isKept }: { readonly name: string; readonly isKept: boolean },
): Promise<LookedAt> {
  const hash = createHash('sha256');
  const chunks: Buffer[] = [];
  let warning: ScriptWarning | null = null;
  let isFirst = true;
  await reader.read((chunk) => {
    hash.update(chunk);
    if (isFirst) {
      warning = warnOfScript(name, chunk);
      isFirst = false;
    }
    if (isKept) {
      chunks.push(Buffer.from(chunk));
    }
  });
  const { kind, size, mode } = entry;
  const isReadable = isUtf8(entry.name) && !entry.name.includes(0);
  return {
    entry: { name, isReadable, kind, size, mode, sha256: hash.digest('hex'), warning },
    bytes: isKept ? Buffer.concat(chunks) : null,
  };
}

/** As it is compared with others: without the `./` at its beginning and the slash at its end that packers write. */
function cleanName({ name }: TarEntry): string {
  const parts = name.toString().split('/');
  const isAbsolute = parts[0] === '' && parts.length > 1;
  const kept = parts.filter((part) => part !== '' && part !== '.');
  return (isAbsolute ? '/' : '') + kept.join('/');
}

type Visit = {
  readonly root: string;
  readonly scan: readonly ScannedFile[];
  readonly visit: Parameters<PackageContents['forEachFile']>[0];
};

/** The second reading: whatever is not what the first one saw is refused. */
async function visitFiles(path: string, { root, scan, visit }: Visit): Promise<void> {
  const missing = new Map(scan.map((file) => [root + file.path, file]));
  await readArchive(path, async (reader) => {
    for (let entry = await reader.next(); entry !== null; entry = await reader.next()) {
      const name = cleanName(entry);
      const file = entry.kind === 'file' ? missing.get(name) : undefined;
      if (file !== undefined) {
        missing.delete(name);
        await visitFile(reader, { entry, file, visit });
      }
    }
  });
  const [gone] = missing.values();
  if (gone !== undefined) {
    throw changedError(gone.path);
  }
}

async function visitFile(
  reader: TarReader,
  { entry, file, visit }: { readonly entry: TarEntry; readonly file: ScannedFile } & Pick<Visit, 'visit'>,
): Promise<void> {
  if (entry.size !== file.size || packageModeOf(entry.mode) !== file.mode) {
    throw changedError(file.path);
  }
  await visit(file, async (onChunk): Promise<PackageFile> => {
    const hash = createHash('sha256');
    await reader.read(async (chunk) => {
      hash.update(chunk);
      await onChunk?.(chunk);
    });
    return { ...file, sha256: hash.digest('hex') };
  });
}

/** Opens the archive, unpacks it as it comes, and makes sure that it ended where its file ends. */
async function readArchive(path: string, work: (reader: TarReader) => Promise<void>): Promise<void> {
  const { handle, size, isGzip } = await openRegular(path);
  try {
    const stream = handle.createReadStream({ autoClose: false, start: 0, end: size - 1, highWaterMark: chunkBytes });
    const readAll = async (chunks: AsyncIterable<Uint8Array>) => {
      const reader = createTarReader(chunks);
      await work(reader);
    };
    if (!isGzip) {
      await pipeline(stream, readAll);
      return;
    }
    const gunzip = createGunzip({ chunkSize: chunkBytes });
    await pipeline(stream, gunzip, readAll);
    await refuseTail(handle, { from: gunzip.bytesWritten, to: size });
  } finally {
    await handle.close();
  }
}

/** Whether a file is an archive, of whatever kind, by how it begins. Rejects if it cannot be read. */
export async function looksLikeArchive(path: string): Promise<boolean> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const head = Buffer.alloc(headBytes);
    await handle.read(head, 0, headBytes, 0);
    const hex = head.toString('hex', 0, 8);
    const isStranger = strangers.some(([magic]) => hex.startsWith(magic));
    const isTar = head.toString('latin1', 257, 262) === 'ustar';
    // What is empty, cut off, or older than the magic of tar, is known by its name alone.
    return isStranger || isTar || head.readUInt16BE(0) === gzipMagic || /\.(tar|tgz|tar\.gz)$/.test(path);
  } finally {
    await handle.close();
  }
}

async function openRegular(path: string): Promise<{ handle: FileHandle; size: number; isGzip: boolean }> {
  // Without waiting: what is a FIFO by now has no end, and perhaps no beginning.
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = await handle.stat();
    if (!stats.isFile()) {
      throw archiveMistake('is no regular file');
    }
    const head = Buffer.alloc(8);
    await handle.read(head, 0, head.length, 0);
    const hex = head.toString('hex');
    const stranger = strangers.find(([magic]) => hex.startsWith(magic));
    if (stats.size === 0 || stranger !== undefined) {
      throw archiveMistake(stats.size === 0 ? 'is empty' : `is packed with ${stranger![1]}: make a .tar.gz`);
    }
    return { handle, size: stats.size, isGzip: head.readUInt16BE(0) === gzipMagic };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** gunzip stops at the first zero behind a member, and would not see what comes after. */
async function refuseTail(handle: FileHandle, { from, to }: { readonly from: number; readonly to: number }) {
  const buffer = Buffer.alloc(chunkBytes);
  for (let at = from; at < to; ) {
    const { bytesRead } = await handle.read(buffer, 0, Math.min(buffer.length, to - at), at);
    if (bytesRead === 0 || buffer.subarray(0, bytesRead).some((byte) => byte !== 0)) {
      throw archiveMistake('has something behind its end');
    }
    at += bytesRead;
  }
}

/** Gives the archive's name to what is wrong with it, and words to what the unpacking answers. */
async function naming<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (raw) {
    const error = fromUnpacking(raw);
    if (!isEdgeError(error) || error.mistakes[0]?.file !== null) {
      throw error;
    }
    const name = basename(path);
    const mistakes = error.mistakes.map((mistake): Mistake => ({ ...mistake, file: name }));
    const message = error.message.replace('the archive', () => name);
    throw new EdgeError(error.code, message, { hint: error.hint, cause: raw, mistakes });
  }
}

function fromUnpacking(error: unknown): unknown {
  const code = codeOf(error);
  if (code === 'Z_BUF_ERROR') {
    return archiveMistake('is cut off: its compressed data ends before its end');
  }
  if (code.startsWith('Z_')) {
    const what = error instanceof Error ? error.message : code;
    return archiveMistake(`is damaged: its compressed data cannot be unpacked (${what})`);
  }
  // What a visitor does with the bytes fails as an operating error of its own, so this is the reading.
  return error instanceof Error && 'syscall' in error ? archiveMistake(`cannot be read (${code})`) : error;
}
