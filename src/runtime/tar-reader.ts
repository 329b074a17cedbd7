// Reads the entries of a tar archive from a stream of chunks: ustar, pax, and the long names of GNU tar. Owns the
// format alone: what an entry may be, and under which name, is for the caller to judge. Stops at the first thing that
// makes no sense, because nothing after it can be trusted to be what it says.
//
// Own code, measured against modern-tar (zero dependencies, 7 KB minified, this 4): names are kept as bytes here, so
// that one that is no UTF-8 is seen and not replaced; unknown and sparse entries are told apart, not read as plain
// files.
import { EdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';

const blockBytes = 512;
const zeroBlock = Buffer.alloc(blockBytes);

export type TarKind =
  | 'file'
  | 'directory'
  | 'hard link'
  | 'symbolic link'
  | 'device'
  | 'FIFO'
  | 'sparse file'
  | 'entry of an unknown kind';

export type TarEntry = {
  readonly kind: TarKind;
  /** As it stands there, whatever bytes that are. */
  readonly name: Buffer;
  /** Permission bits, those of set-user-ID and set-group-ID included. */
  readonly mode: number;
  /** Bytes of a file; 0 for everything else. */
  readonly size: number;
};

export type TarReader = {
  /** The next entry, what is left of the one before skipped; null at the end of the archive. */
  next(): Promise<TarEntry | null>;
  /** Hands on the bytes of the present file, each part valid until the promise of `onChunk` resolves. */
  read(onChunk: (chunk: Uint8Array) => void | Promise<void>): Promise<void>;
};

/** What is wrong with an archive as a whole; its name is put in by who knows it. */
export function archiveMistake(rule: string): EdgeError {
  return new EdgeError('invalid', `the archive ${rule}`, {
    hint: 'make the archive again, or give the directory; nothing was installed',
    mistakes: [{ file: null, path: '', line: null, rule }],
  });
}

function refuse(rule: string): never {
  throw archiveMistake(rule);
}

/** What extended headers say of the next entry. */
type Extension = { name?: Buffer; size?: number; isSparse?: boolean };

const kinds: Readonly<Record<string, TarKind>> = {
  '0': 'file',
  '\0': 'file',
  // Contiguous, which no system knows any more.
  '7': 'file',
  '1': 'hard link',
  '2': 'symbolic link',
  '3': 'device',
  '4': 'device',
  '5': 'directory',
  '6': 'FIFO',
  S: 'sparse file',
};

/** Reads from its beginning. Every method rejects with `archiveMistake` for what is no sound archive. */
export function createTarReader(chunks: AsyncIterable<Uint8Array>): TarReader {
  const source = createSource(chunks);
  let headers = 0;
  // Of the present file: bytes not handed on yet, and the padding behind them.
  let left = 0;
  let padding = 0;

  async function skipRest(): Promise<void> {
    while (left > 0) {
      left -= (await source.some(left)).length;
    }
    await source.exactly(padding);
    padding = 0;
  }

  async function readHeader(extension: Extension): Promise<TarEntry | 'extended' | null> {
    const block = await source.exactly(blockBytes);
    if (block.equals(zeroBlock)) {
      return Object.keys(extension).length === 0 ? await readEnd(source) : refuse('ends in the middle of an entry');
    }
    headers += 1;
    if (headers > limits.archiveHeadersMax) {
      refuse(`has too many entries: ${limits.archiveHeadersMax} headers are allowed`);
    }
    checkSum(block);
    const type = String.fromCharCode(block[156]!);
    const size = readNumber(block.subarray(124, 136));
    if (type === 'x' || type === 'g' || type === 'L' || type === 'K') {
      Object.assign(extension, readExtension(type, await readExtended(source, size)));
      return 'extended';
    }
    return describe(block, { type, size: extension.size ?? size, extension });
  }

  return {
    async next() {
      await skipRest();
      const extension: Extension = {};
      let entry = await readHeader(extension);
      while (entry === 'extended') {
        entry = await readHeader(extension);
      }
      left = entry?.size ?? 0;
      padding = paddingOf(left);
      return entry;
    },
    async read(onChunk) {
      while (left > 0) {
        const chunk = await source.some(left);
        left -= chunk.length;
        await onChunk(chunk);
      }
    },
  };
}

async function readExtended(source: Source, size: number): Promise<Buffer> {
  if (size > limits.archiveHeaderBytesMax) {
    refuse(`has an extended header of ${size} bytes, ${limits.archiveHeaderBytesMax} are allowed`);
  }
  const data = Buffer.from(await source.exactly(size));
  await source.exactly(paddingOf(size));
  return data;
}

/** Two blocks of zeros, and nothing but zeros behind them. */
async function readEnd(source: Source): Promise<null> {
  if (!(await source.exactly(blockBytes)).equals(zeroBlock)) {
    refuse('has a lone block of zeros in its middle');
  }
  for (let rest = await source.any(); rest !== null; rest = await source.any()) {
    if (rest.some((byte) => byte !== 0)) {
      refuse('has something behind its end');
    }
  }
  return null;
}

function paddingOf(size: number): number {
  return (blockBytes - (size % blockBytes)) % blockBytes;
}

function describe(
  block: Buffer,
  { type, size, extension }: { readonly type: string; readonly size: number; readonly extension: Extension },
): TarEntry {
  const name = extension.name ?? nameOf(block);
  const mode = readNumber(block.subarray(100, 108)) & 0o7777;
  // Before there was a type for it, a directory was a name with a slash at its end.
  const isDirectoryName = (type === '\0' || type === '0') && name.at(-1) === 0x2f;
  const known = isDirectoryName ? 'directory' : (kinds[type] ?? 'entry of an unknown kind');
  const kind = known === 'file' && extension.isSparse === true ? 'sparse file' : known;
  if (kind !== 'file' && kind !== 'directory' && size > 0) {
    // Whether anything follows is a matter on which programs differ.
    refuse(`holds ${JSON.stringify(name.toString())}, which is a ${kind}: a package holds regular files only`);
  }
  return { kind, name, mode, size: kind === 'file' ? size : 0 };
}

/** `prefix/name` as POSIX has it. GNU tar keeps other things where the prefix is, and says so in its magic. */
function nameOf(block: Buffer): Buffer {
  const name = untilNul(block.subarray(0, 100));
  const isPosix = block.toString('latin1', 257, 263) === 'ustar\0';
  const prefix = isPosix ? untilNul(block.subarray(345, 500)) : Buffer.alloc(0);
  return prefix.length === 0 ? Buffer.from(name) : Buffer.concat([prefix, Buffer.from('/'), name]);
}

function untilNul(bytes: Buffer): Buffer {
  const end = bytes.indexOf(0);
  return end < 0 ? bytes : bytes.subarray(0, end);
}

function checkSum(block: Buffer): void {
  let sum = 8 * 0x20;
  for (let index = 0; index < blockBytes; index += 1) {
    sum += index >= 148 && index < 156 ? 0 : block[index]!;
  }
  if (parseNumber(block.subarray(148, 156)) !== sum) {
    refuse('is damaged, or no tar archive: a header differs from its checksum');
  }
}

function readNumber(field: Buffer): number {
  return parseNumber(field) ?? refuse('has a header with a number that is none');
}

/** Octal digits between blanks and NULs, or a big-endian number where the first bit is set; null for anything else. */
function parseNumber(field: Buffer): number | null {
  if ((field[0]! & 0x80) !== 0) {
    const [first, ...rest] = field;
    return rest.reduce((value, byte) => value * 256 + byte, first! & 0x7f);
  }
  const text = field.toString('latin1').replace(/^[ \0]+|[ \0].*$/gs, '');
  return /^[0-7]*$/.test(text) ? Number.parseInt(`0${text}`, 8) : null;
}

function readExtension(type: string, data: Buffer): Extension {
  if (type === 'L') {
    return { name: Buffer.from(untilNul(data)) };
  }
  // The target of a link: no link is taken, whatever it leads to.
  return type === 'K' ? {} : readPax(data, type === 'g');
}

/** Records of the form `LENGTH KEY=VALUE\n`, of which three kinds mean anything here. */
function readPax(data: Buffer, isGlobal: boolean): Extension {
  const extension: Extension = {};
  for (let at = 0; at < data.length; ) {
    const blank = data.indexOf(0x20, at);
    const digits = blank < 0 ? '' : data.toString('latin1', at, blank);
    const end = /^[1-9][0-9]{0,6}$/.test(digits) ? at + Number(digits) : 0;
    const equals = data.indexOf(0x3d, at);
    if (end <= equals || end > data.length || equals < blank || data[end - 1] !== 0x0a) {
      refuse('has an extended header that makes no sense');
    }
    const key = data.toString('latin1', blank + 1, equals);
    const value = data.subarray(equals + 1, end - 1);
    at = end;
    if (isGlobal && /^(path|size|linkpath|GNU\.sparse\..*)$/.test(key)) {
      refuse(`says ${key} for all of its entries at once`);
    }
    if (key === 'path') {
      extension.name = Buffer.from(value);
    } else if (key === 'size') {
      const text = value.toString('latin1');
      extension.size = /^[0-9]{1,15}$/.test(text) ? Number(text) : refuse('has an extended header with a wrong size');
    } else if (key.startsWith('GNU.sparse.')) {
      extension.isSparse = true;
    }
  }
  return extension;
}

type Source = {
  /** Exactly so many bytes. */
  exactly(bytes: number): Promise<Buffer>;
  /** At least one byte, at most so many. */
  some(bytesMax: number): Promise<Buffer>;
  /** What comes next, whatever it is; null at the end. */
  any(): Promise<Buffer | null>;
};

/** Bytes in the portions that the format has. All that comes is counted: an archive may unpack to anything. */
function createSource(chunks: AsyncIterable<Uint8Array>): Source {
  const iterator = chunks[Symbol.asyncIterator]();
  let rest: Buffer = Buffer.alloc(0);
  let total = 0;

  async function fill(): Promise<boolean> {
    while (rest.length === 0) {
      const { done, value } = await iterator.next();
      if (done === true) {
        return false;
      }
      total += value.length;
      if (total > limits.archiveBytesMax) {
        refuse(`unpacks to more than ${limits.archiveBytesMax} bytes, which is what an archive may`);
      }
      rest = Buffer.from(value.buffer, value.byteOffset, value.length);
    }
    return true;
  }

  async function some(bytesMax: number): Promise<Buffer> {
    if (!(await fill())) {
      refuse('is cut off: it ends before its end');
    }
    const taken = rest.subarray(0, bytesMax);
    rest = rest.subarray(taken.length);
    return taken;
  }

  return {
    some,
    async exactly(bytes) {
      const parts: Buffer[] = [];
      for (let missing = bytes; missing > 0; missing -= parts.at(-1)!.length) {
        parts.push(await some(missing));
      }
      return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
    },
    async any() {
      const isThere = await fill();
      const taken = rest;
      rest = Buffer.alloc(0);
      return isThere ? taken : null;
    },
  };
}
