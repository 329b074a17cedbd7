import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { sha256 } from '../../src/core/hash.ts';
import { readPackageFile } from '../../src/runtime/package-bytes.ts';
import { createChunkBuffer } from '../../src/runtime/package-file.ts';

const scanned = { path: 'file', size: 5, mode: 0o600 };

function hashFile(directory: string, file = scanned) {
  return readPackageFile(directory, file, { buffer: createChunkBuffer() });
}

t.test('a file is read to its end in chunks, and hashed on the way', async (t) => {
  const bytes = Buffer.alloc(200_000, 'abc');
  const directory = t.testdir({ file: bytes });
  const chunks: Buffer[] = [];
  const read = await readPackageFile(
    directory,
    { ...scanned, size: bytes.length },
    { buffer: createChunkBuffer(), onChunk: async (chunk) => void chunks.push(Buffer.from(chunk)) },
  );
  t.strictSame(read, { path: 'file', mode: 0o600, size: 200_000, sha256: sha256(bytes) });
  t.ok(Buffer.concat(chunks).equals(bytes));
  t.ok(chunks.length >= 4);
});

t.test('an empty file has the digest of nothing', async (t) => {
  const directory = t.testdir({ file: '' });
  const read = await hashFile(directory, { ...scanned, size: 0 });
  t.equal(read.sha256, sha256(''));
});

t.test('whatever took the place of a scanned file is refused, and never followed or waited for', async (t) => {
  const exchange: Readonly<Record<string, (file: string) => void>> = {
    longer: (file) => writeFileSync(file, '123456'),
    shorter: (file) => writeFileSync(file, '1234'),
    gone: () => {},
    'a FIFO': (file) => execFileSync('mkfifo', [file]),
    'a directory': (file) => mkdirSync(file),
    'a link': (file) => {
      writeFileSync(`${file}.other`, '12345');
      symlinkSync('file.other', file);
    },
  };
  for (const [name, put] of Object.entries(exchange)) {
    const directory = t.testdir({ file: '12345' });
    rmSync(join(directory, 'file'));
    put(join(directory, 'file'));
    const refused = { code: 'invalid', mistakes: [{ file: 'file', path: '' }] };
    await t.rejects(hashFile(directory), refused, name);
    rmSync(join(directory, 'file'), { recursive: true, force: true });
  }
});

t.test('other bytes of the same length have another digest: the caller compares', async (t) => {
  const directory = t.testdir({ file: '12345', other: '54321' });
  const before = await hashFile(directory);
  renameSync(join(directory, 'other'), join(directory, 'file'));
  const after = await hashFile(directory);
  t.not(after.sha256, before.sha256);
});
