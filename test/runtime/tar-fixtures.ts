// Archives for tests, made byte by byte: also those that no packer would make.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Test } from 'tap';
import { goodFiles } from './package-fixtures.ts';

export type Entry = {
  readonly name: string | Buffer;
  readonly body?: string | Buffer;
  /** One character; `0` is a regular file. */
  readonly type?: string;
  readonly mode?: number;
  /** Where it is to say something else than the length of its body. */
  readonly size?: number | Buffer;
  readonly linkName?: string;
  readonly prefix?: string;
  /** `ustar\0` + `00` by default; GNU tar writes `ustar  \0`. */
  readonly magic?: string;
};

const block = 512;

function padded(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, Buffer.alloc((block - (bytes.length % block)) % block)]);
}

export function header(entry: Entry): Buffer {
  const bytes = Buffer.alloc(block);
  const body = Buffer.from(entry.body ?? '');
  const put = (value: string | Buffer, at: number) => Buffer.from(value).copy(bytes, at);
  put(entry.name, 0);
  put(`${(entry.mode ?? 0o644).toString(8).padStart(7, '0')}\0`, 100);
  put('0000000\0', 108);
  put('0000000\0', 116);
  const size = entry.size ?? body.length;
  put(typeof size === 'number' ? `${size.toString(8).padStart(11, '0')}\0` : size, 124);
  put('00000000000\0', 136);
  put(entry.type ?? '0', 156);
  put(entry.linkName ?? '', 157);
  put(entry.magic ?? 'ustar\x0000', 257);
  put(entry.prefix ?? '', 345);
  bytes.fill(0x20, 148, 156);
  const sum = bytes.reduce((total, byte) => total + byte, 0);
  put(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return bytes;
}

export const end = Buffer.alloc(2 * block);

export function entryBytes(entry: Entry): Buffer {
  return Buffer.concat([header(entry), padded(Buffer.from(entry.body ?? ''))]);
}

export function tarOf(entries: readonly (Entry | Buffer)[], ending = end): Buffer {
  return Buffer.concat([...entries.map((entry) => (Buffer.isBuffer(entry) ? entry : entryBytes(entry))), ending]);
}

export function gzOf(entries: readonly (Entry | Buffer)[]): Buffer {
  return gzipSync(tarOf(entries));
}

/** An extended header with records as POSIX has them. */
export function pax(records: Readonly<Record<string, string>>, type = 'x'): Entry {
  const body = Buffer.concat(Object.entries(records).map(([key, value]) => paxRecord(key, value)));
  return { name: 'PaxHeaders/x', type, body };
}

function paxRecord(key: string, value: string): Buffer {
  const rest = Buffer.from(` ${key}=${value}\n`);
  const digits = [1, 2, 3, 4, 5].find((count) => `${count + rest.length}`.length === count)!;
  return Buffer.concat([Buffer.from(`${digits + rest.length}`), rest]);
}

/** The files of a package as entries, below a directory if one is given. */
export function packageEntries(
  files: Readonly<Record<string, string | Buffer>> = goodFiles,
  root = '',
): readonly Entry[] {
  return Object.entries(files).map(([path, body]) => ({
    name: root + path,
    body,
    mode: body.toString().startsWith('#!') ? 0o755 : 0o644,
  }));
}

/** In the test's own folder, which is emptied first. */
export function writeArchive(t: Test, bytes: Buffer, name = 'wan-watch-1.2.0.tar.gz'): string {
  const file = join(t.testdir(), name);
  writeFileSync(file, bytes);
  return file;
}
