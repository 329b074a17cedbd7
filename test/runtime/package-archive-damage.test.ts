// Archives that are cut off, altered, or made to hurt: refused as a whole, with their name and the reason.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import t from 'tap';
import { isEdgeError } from '../../src/core/errors.ts';
import { limits } from '../../src/core/limits.ts';
import { checkPackage } from '../../src/runtime/package-source.ts';
import { packageMistakes, writePackage } from './package-fixtures.ts';
import { entryBytes, gzOf, header, packageEntries, pax, tarOf, writeArchive } from './tar-fixtures.ts';

const wrongWhole: Readonly<Record<string, { readonly bytes: () => Buffer; readonly rule: RegExp }>> = {
  'nothing at all': { bytes: () => Buffer.alloc(0), rule: /is empty/ },
  'another packer': { bytes: () => Buffer.from('fd377a585a000004e6d6b446', 'hex'), rule: /is packed with xz: make a/ },
  'a zip': { bytes: () => Buffer.from('504b030414000000', 'hex'), rule: /is packed with zip/ },
  'a text that was compressed': { bytes: () => gzipSync('x'.repeat(2_000)), rule: /is damaged, or no tar archive/ },
  'no end': { bytes: () => gzipSync(tarOf(packageEntries(), Buffer.alloc(0))), rule: /is cut off/ },
  'half an end': { bytes: () => gzipSync(tarOf(packageEntries(), Buffer.alloc(512))), rule: /is cut off/ },
  'a lone block of zeros': {
    bytes: () => gzOf([...packageEntries(), Buffer.alloc(512), { name: 'behind' }]),
    rule: /has a lone block of zeros in its middle/,
  },
  'something behind the end': {
    bytes: () => gzipSync(Buffer.concat([tarOf(packageEntries()), Buffer.alloc(10_000), Buffer.from('x')])),
    rule: /has something behind its end/,
  },
  'something behind the compressed data': {
    bytes: () => Buffer.concat([gzOf(packageEntries()), Buffer.from('garbage')]),
    rule: /is damaged: its compressed data cannot be unpacked|has something behind its end/,
  },
  'something behind zeros behind the compressed data': {
    bytes: () => Buffer.concat([gzOf(packageEntries()), Buffer.alloc(200_000), Buffer.from('x')]),
    rule: /has something behind its end/,
  },
  'a wrong checksum of the compressed data': {
    bytes: () => {
      const bytes = gzOf(packageEntries());
      bytes.writeUInt32LE((bytes.readUInt32LE(bytes.length - 8) ^ 1) >>> 0, bytes.length - 8);
      return bytes;
    },
    rule: /is damaged: its compressed data cannot be unpacked/,
  },
  'an extended header at the end': {
    bytes: () => gzOf([...packageEntries(), pax({ path: 'x' })]),
    rule: /in the middle/,
  },
  'an extended header that makes no sense': {
    bytes: () => gzOf([...packageEntries(), { name: 'x', type: 'x', body: '99 path=x\n' }, { name: 'y' }]),
    rule: /has an extended header that makes no sense/,
  },
  'a name for all entries at once': {
    bytes: () => gzOf([pax({ path: 'qinglong.yaml' }, 'g'), ...packageEntries()]),
    rule: /says path for all of its entries at once/,
  },
  'a size that is no number': {
    bytes: () => gzOf([...packageEntries(), { name: 'x', size: Buffer.from('0000000000g\0') }]),
    rule: /has a header with a number that is none/,
  },
  'a size beyond all bounds': {
    bytes: () =>
      gzOf([...packageEntries(), { name: 'x', size: Buffer.from([0x80, 0, 0, 0x7f, ...Buffer.alloc(8, 0xff)]) }]),
    rule: /is cut off/,
  },
  'a hard link that may have data': {
    bytes: () => gzOf([...packageEntries(), { name: 'x', type: '1', size: 512, linkName: 'y' }, Buffer.alloc(512)]),
    rule: /holds "x", which is a hard link/,
  },
  'a sparse file': {
    bytes: () => gzOf([...packageEntries(), { name: 'x', type: 'S', body: 'x' }]),
    rule: /sparse file/,
  },
  'a sparse file of pax': {
    bytes: () => gzOf([...packageEntries(), pax({ 'GNU.sparse.major': '1' }), { name: 'x', body: 'x' }]),
    rule: /sparse file/,
  },
  'too long an extended header': {
    bytes: () => gzOf([{ name: 'x', type: 'x', body: Buffer.alloc(limits.archiveHeaderBytesMax + 1) }]),
    rule: /has an extended header of 262145 bytes, 262144 are allowed/,
  },
};

t.test('an archive that is wrong as a whole is refused with its name and the reason', async (t) => {
  for (const [name, { bytes, rule }] of Object.entries(wrongWhole)) {
    const file = writeArchive(t, bytes());
    const error: unknown = await checkPackage(file).catch((thrown: unknown) => thrown);
    t.match(error, { code: 'invalid', message: rule, mistakes: [{ file: 'wan-watch-1.2.0.tar.gz', rule }] }, name);
    t.match(error, { message: /^wan-watch-1\.2\.0\.tar\.gz / }, name);
  }
});

t.test('C072 an archive cut off anywhere is refused', async (t) => {
  const gz = gzOf(packageEntries());
  const tar = tarOf(packageEntries());
  for (const [whole, step] of [
    [gz, 7],
    [tar, 100],
  ] as const) {
    let refused = 0;
    for (let length = 0; length < whole.length; length += step) {
      const file = writeArchive(t, whole.subarray(0, length));
      const error: unknown = await checkPackage(file).catch((thrown: unknown) => thrown);
      refused += isEdgeError(error) && error.code === 'invalid' ? 1 : 0;
    }
    t.equal(refused, Math.ceil(whole.length / step), 'at every place');
  }
});

t.test('a byte that is changed anywhere is found, or makes another package', async (t) => {
  const tar = tarOf(packageEntries());
  const { lockDigest } = await checkPackage(writePackage(join(t.testdir(), 'directory')));
  const file = join(t.testdir(), 'changed.tar');
  await fc.assert(
    fc.asyncProperty(fc.nat(tar.length - 1), fc.integer({ min: 1, max: 255 }), async (at, change) => {
      const bytes = Buffer.from(tar);
      bytes[at] = bytes[at]! ^ change;
      writeFileSync(file, bytes);
      const checked = await checkPackage(file).catch((error: unknown) => {
        t.ok(isEdgeError(error), `${error}`);
        return null;
      });
      // Padding and what says who packed it when are no part of the package.
      const isPadding = checked !== null && checked.lockDigest === lockDigest;
      return checked === null || !isPadding || isIgnored(tar, at);
    }),
    { numRuns: 300 },
  );
});

/** Bytes between a body and its next header, and what stands behind the digits of a checksum. */
function isIgnored(tar: Buffer, at: number): boolean {
  return (tar[at] === 0 && at >= 512) || at % 512 === 154 || at % 512 === 155;
}

t.test('what an archive may unpack to is bounded: bytes, files, headers', async (t) => {
  const bomb = gzipSync(Buffer.concat([header({ name: 'bomb', size: 8 * 2 ** 30 - 1 }), Buffer.alloc(100 * 2 ** 20)]));
  t.ok(bomb.length < 200_000);
  await t.rejects(checkPackage(writeArchive(t, bomb)), {
    code: 'invalid',
    message: /unpacks to more than 100663296 bytes/,
  });
  const large = { name: 'large', body: Buffer.alloc(limits.packageBytesMax) };
  t.match(await packageMistakes(writeArchive(t, gzOf([...packageEntries(), large]))), [
    /^\.:- : holds 6710\d+ bytes, at most 67108864 are allowed/,
  ]);
  const many = Array.from({ length: limits.packageFilesMax }, (_, index) => ({ name: `f${index}` }));
  t.match(await packageMistakes(writeArchive(t, gzOf([...packageEntries(), ...many]))), [
    /^\.:- : holds too many entries: 4096 files and directories are allowed/,
  ]);
  const headers = Array.from({ length: limits.archiveHeadersMax + 1 }, () => entryBytes(pax({ comment: 'x' }, 'g')));
  await t.rejects(checkPackage(writeArchive(t, gzOf(headers))), { message: /has too many entries: 16384 headers/ });
  const zeros = gzipSync(Buffer.concat([tarOf(packageEntries()), Buffer.alloc(100 * 2 ** 20)]));
  await t.rejects(checkPackage(writeArchive(t, zeros)), { message: /unpacks to more than/ }, 'padding without end');
});
