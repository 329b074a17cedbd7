import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { makeDirectories } from '../../src/store/make-directories.ts';

t.test('missing directories are made, 0700, and the topmost is told', async (t) => {
  const root = t.testdir({});
  t.equal(makeDirectories(join(root, 'a/b/c')), join(root, 'a'));
  for (const name of ['a', 'a/b', 'a/b/c']) {
    t.equal(statSync(join(root, name)).mode & 0o777, 0o700, name);
  }
  t.equal(makeDirectories(join(root, 'a/b/c')), null, 'nothing is missing any more');
  t.equal(makeDirectories(join(root, 'a/b/d')), join(root, 'a/b/d'));
});

t.test('what cannot be made is an error at once, also where the system says ENOENT for ever', async (t) => {
  const root = t.testdir({});
  writeFileSync(join(root, 'file'), '');
  t.throws(() => makeDirectories(join(root, 'file')), { code: 'EEXIST' });
  t.throws(() => makeDirectories(join(root, 'file/below')), { code: 'ENOTDIR' });
  t.throws(() => makeDirectories('/proc/no-such-process/below'), { code: 'ENOENT' });
});
