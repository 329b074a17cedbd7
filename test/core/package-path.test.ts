import fc from 'fast-check';
import t from 'tap';
import { formatPath } from '../../src/core/manifest-notes.ts';
import { commandFile, normalizePackagePath } from '../../src/core/package-path.ts';

t.test('a path inside of the package has one form; what leaves it has none', async (t) => {
  for (const [path, form] of [
    ['.', '.'],
    ['./', '.'],
    ['a//b/./c/', 'a/b/c'],
    ['a/../b', 'b'],
    ['a/..', '.'],
    ['...', '...'],
    ['', null],
    ['/', null],
    ['/a', null],
    ['..', null],
    ['a/../../a', null],
  ] as const) {
    t.equal(normalizePackagePath(path), form, path);
  }
});

t.test('normalizing a path again changes nothing, and no form has a way up in it', async () => {
  const path = fc.array(fc.constantFrom('a', 'b', '.', '..', ''), { maxLength: 8 }).map((names) => names.join('/'));
  fc.assert(
    fc.property(path, (text) => {
      const form = normalizePackagePath(text);
      return form === null || (normalizePackagePath(form) === form && !form.split('/').includes('..'));
    }),
  );
});

t.test('a command names a file of the package only with a slash, seen from its working directory', async (t) => {
  t.strictSame(commandFile('./x.sh', '.'), { path: 'x.sh' });
  t.strictSame(commandFile('./x.sh', 'scripts'), { path: 'scripts/x.sh' });
  t.strictSame(commandFile('../bin/x', 'scripts'), { path: 'bin/x' });
  t.equal(commandFile('../x', '.'), 'outside');
  t.equal(commandFile('x.sh', 'scripts'), null);
  t.equal(commandFile('/bin/x', '.'), null);
});

t.test('a path in a message has dots between words, and brackets around everything else', async (t) => {
  t.equal(formatPath([]), '');
  t.equal(formatPath(['tasks', 'probe', 'run', 0]), 'tasks.probe.run[0]');
  t.equal(formatPath(['tasks', '小 工具', 'a.b']), 'tasks["小 工具"]["a.b"]');
});
