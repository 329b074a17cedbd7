import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { probeStorage, tryDurability } from '../../../src/store/sqlite/probe.ts';
import { type Durability, durabilities } from '../../../src/store/sqlite/profile.ts';
import { startChild } from './child.ts';

t.test('every durability works here, and the probe leaves nothing behind', async (t) => {
  const data = t.testdir();
  for (const durability of Object.keys(durabilities) as Durability[]) {
    t.equal(tryDurability({ data, durability }), null, durability);
    probeStorage({ data, durability });
  }
  t.same(readdirSync(data), []);
});

const probeProgram = (data: string, durability: Durability) => `
  const { probeStorage } = await sqlite('probe.ts');
  try {
    probeStorage({ data: ${JSON.stringify(data)}, durability: '${durability}' });
    console.log('works');
  } catch (error) {
    console.log(error.code + ': ' + error.message + '; ' + error.hint);
  }`;

// A WAL needs a shared memory file of 32 KiB. With files limited to less it fails as it does on JFFS2: after
// journal_mode has answered `wal`.
const smallFiles = ['sh', '-c', 'ulimit -f 24; exec "$@"', 'sh'];

t.test('C055: where a WAL does not work, the error names the durability that does', async (t) => {
  const data = t.testdir();
  const child = startChild(t, probeProgram(data, 'wal-full'), { prefix: smallFiles });
  const line = await child.line();
  t.match(line, /^unavailable: durability wal-full does not work in /);
  t.match(line, /; durability delete-extra works there: choose profile edge$/);
  t.same(readdirSync(data), []);
});

const mkfs = ['/sbin/mkfs.ext4', '/usr/sbin/mkfs.ext4'].find((file) => existsSync(file));
const needsMount = { skip: (process.geteuid?.() !== 0 || mkfs === undefined) && 'needs root and mkfs.ext4' };

t.test('blocks in which a full file system would end the process are refused for a WAL', needsMount, (t) => {
  const root = t.testdir({ mounted: {} });
  const [image, data] = [join(root, 'image'), join(root, 'mounted')];
  writeFileSync(image, '');
  truncateSync(image, 8 * 1024 * 1024);
  execFileSync(mkfs ?? '', ['-q', '-b', '1024', image]);
  execFileSync('mount', ['-o', 'loop', image, data]);
  try {
    t.match(tryDurability({ data, durability: 'wal-full' }), { code: 'unavailable', message: /blocks of 1024 bytes/ });
    t.equal(tryDurability({ data, durability: 'delete-extra' }), null);
  } finally {
    execFileSync('umount', [data]);
  }
  t.end();
});

t.test('under the same limit a rollback journal works', async (t) => {
  const child = startChild(t, probeProgram(t.testdir(), 'delete-extra'), { prefix: smallFiles });
  t.equal(await child.line(), 'works');
});

t.test('where nothing can be written, the error says that no durability works', async (t) => {
  const data = t.testdir();
  const child = startChild(t, probeProgram(data, 'delete-extra'), {
    prefix: ['sh', '-c', 'ulimit -f 0; exec "$@"', 'sh'],
  });
  t.match(await child.line(), /^unavailable: durability delete-extra does not work .*no other durability works there/);
  t.same(readdirSync(data), []);
});
