import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { readRegularFile } from '../../src/store/regular-file.ts';

t.test('only a regular file is read, and nothing is waited for', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'regular-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const [file, link, fifo] = ['file', 'link', 'fifo'].map((name) => join(folder, name)) as [string, string, string];
  writeFileSync(file, 'text');
  symlinkSync(file, link);
  spawnSync('mkfifo', [fifo]);
  t.same(
    [file, link].map((name) => `${readRegularFile(name, 'name another')}`),
    ['text', 'text'],
  );
  t.throws(() => readRegularFile(fifo, 'name another'), {
    code: 'invalid',
    message: `${fifo} is no regular file`,
    hint: 'name another',
  });
  t.throws(() => readRegularFile(folder, 'name another'), { code: 'invalid', message: `${folder} is a directory` });
  t.throws(() => readRegularFile(join(folder, 'none'), 'name another'), { code: 'ENOENT' });
  t.end();
});
