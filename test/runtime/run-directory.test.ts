import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import {
  findRunDirectoryTrouble,
  makePrivateDirectory,
  makeRunDirectory,
  removeRunDirectory,
  runDirectoryOf,
} from '../../src/runtime/run-directory.ts';

const nobody = 65_534;
const needsRoot = { skip: process.geteuid?.() !== 0 && 'needs root' };

function as<T>(uid: number, work: () => T): T {
  process.seteuid?.(uid);
  try {
    return work();
  } finally {
    process.seteuid?.(0);
  }
}

t.test('a run directory is made for this user alone', (t) => {
  const directory = join(t.testdir(), 'a', 'run');
  t.equal(findRunDirectoryTrouble('/data', directory), null, 'what is not there yet is no trouble');
  t.equal(makeRunDirectory('/data', directory), directory);
  t.equal(statSync(directory).mode & 0o777, 0o700);
  t.equal(makeRunDirectory('/data', directory), directory, 'and is taken as it is from then on');
  t.end();
});

t.test('one run directory serves one data directory', (t) => {
  const root = t.testdir({ one: {}, other: {} });
  const [one, other, run] = ['one', 'other', 'run'].map((name) => join(root, name)) as [string, string, string];
  makeRunDirectory(one, run);
  const expected = { code: 'busy', message: `the run directory ${run} is that of the data directory ${one}` };
  t.throws(() => makeRunDirectory(other, run), expected);
  t.match(findRunDirectoryTrouble(other, run), { ...expected, hint: /--run-dir/ });
  t.equal(findRunDirectoryTrouble(one, run), null);
  symlinkSync(one, join(root, 'alias'));
  t.equal(makeRunDirectory(join(root, 'alias'), run), run, 'another name of the same directory is the same');
  renameSync(one, join(root, 'moved'));
  t.equal(makeRunDirectory(join(root, 'moved'), run), run, 'it may be renamed');
  t.throws(() => makeRunDirectory(other, run), { code: 'busy', message: /data directory .*\/moved$/ });
  rmSync(join(root, 'moved'), { recursive: true });
  t.equal(makeRunDirectory(other, run), run, 'and is free again when that is gone');
  t.end();
});

t.test('while attempts are in it, a run directory stays that of its data directory, whatever that is called', (t) => {
  const root = t.testdir({ data: {} });
  const [data, run, other] = ['data', 'run', 'other'].map((name) => join(root, name)) as [string, string, string];
  makeRunDirectory(data, run);
  t.not(runDirectoryOf(data, null), run, 'an empty one binds nobody');
  mkdirSync(join(run, 'attempts', 'at-1'), { recursive: true });
  t.equal(runDirectoryOf(data, null), run);
  t.equal(makeRunDirectory(data, null), run);
  const hint = `go on with --run-dir ${run}, or without --run-dir, until they have ended`;
  t.throws(() => makeRunDirectory(data, other), { code: 'busy', hint });
  symlinkSync(data, join(root, 'alias'));
  t.equal(makeRunDirectory(join(root, 'alias'), null), run);
  renameSync(data, join(root, 'moved'));
  t.equal(makeRunDirectory(join(root, 'moved'), null), run);
  rmSync(join(run, 'attempts', 'at-1'), { recursive: true });
  t.equal(makeRunDirectory(join(root, 'moved'), other), other, 'and it is free to go elsewhere then');
  removeRunDirectory(run, join(root, 'moved'));
  t.ok(existsSync(run), 'a directory that somebody named is left where it is');
  t.end();
});

t.test('what was in a run directory before is not taken for the name of an owner', (t) => {
  const root = t.testdir({ data: {}, run: { 'data-directory': { kept: '' } } });
  chmodSync(join(root, 'run'), 0o700);
  t.throws(() => makeRunDirectory(join(root, 'data'), join(root, 'run')), { code: 'unavailable', hint: /--run-dir/ });
  t.ok(existsSync(join(root, 'run', 'data-directory', 'kept')));
  t.end();
});

t.test('what is a link, a file or open to others is refused, and left as it is', (t) => {
  const root = t.testdir({ file: '', open: { inside: '' }, real: {} });
  chmodSync(join(root, 'open'), 0o750);
  chmodSync(join(root, 'real'), 0o700);
  symlinkSync(join(root, 'real'), join(root, 'link'));
  symlinkSync(join(root, 'none'), join(root, 'dangling'));
  const refused: readonly (readonly [string, RegExp])[] = [
    ['file', /is not a directory$/],
    ['open', /is open to other users$/],
    ['link', /is a link$/],
    ['dangling', /is a link$/],
  ];
  for (const [name, message] of refused) {
    const directory = join(root, name);
    const expected = { code: 'unavailable', message, hint: /--run-dir/ };
    t.match(findRunDirectoryTrouble('/data', directory), expected, name);
    t.throws(() => makePrivateDirectory(directory), expected, name);
  }
  t.equal(statSync(join(root, 'open')).mode & 0o777, 0o750);
  t.notOk(existsSync(join(root, 'none')));
  t.end();
});

t.test('what belongs to somebody else is refused, also where it is closed and root asks', needsRoot, (t) => {
  const directory = join(t.testdir(), 'run');
  mkdirSync(directory, { mode: 0o700 });
  chownSync(directory, nobody, nobody);
  const expected = { code: 'unavailable', message: /belongs to user 65534, not to user 0$/, hint: /--run-dir/ };
  t.match(findRunDirectoryTrouble('/data', directory), expected);
  t.throws(() => makePrivateDirectory(directory), expected);
  t.end();
});

t.test('where everybody may write, each user has a directory of its own', needsRoot, (t) => {
  const shared = '/dev/shm';
  const place = as(nobody, () => runDirectoryOf('/data', null));
  const mine = runDirectoryOf('/data', null);
  t.not(place, mine);
  t.match(place, new RegExp(`^(${shared}/qinglong-edge-${nobody}|/run/user/${nobody}/qinglong-edge|/data/run)`));
  t.match(mine, /^(\/run\/qinglong-edge|\/dev\/shm\/qinglong-edge-0|\/run\/user\/0\/qinglong-edge|\/data\/run)/);
  t.end();
});

t.test('a directory that somebody else made first under the name of a user is refused', needsRoot, (t) => {
  const directory = as(nobody, () => runDirectoryOf('/data-of-a-test', null));
  const own = join(directory, '..');
  if (!own.startsWith('/dev/shm/') || lstatSync(own, { throwIfNoEntry: false }) !== undefined) {
    t.pass('this machine has another place for it');
    t.end();
    return;
  }
  // Root stands for the stranger here.
  mkdirSync(own, { mode: 0o777 });
  chmodSync(own, 0o777);
  t.teardown(() => rmSync(own, { recursive: true, force: true }));
  writeFileSync(join(own, 'file'), '');
  const expected = { code: 'unavailable', message: /belongs to user 0, not to user 65534$/ };
  t.throws(() => as(nobody, () => makeRunDirectory('/data-of-a-test', null)), expected);
  t.match(
    as(nobody, () => findRunDirectoryTrouble('/data-of-a-test', null)),
    expected,
  );
  t.notOk(existsSync(directory));
  t.end();
});
