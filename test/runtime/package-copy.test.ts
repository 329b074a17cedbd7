import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  watch,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { copyPackage } from '../../src/runtime/package-copy.ts';
import { lookAtPackage } from '../../src/runtime/package-look.ts';
import { type CheckedPackage, checkPackage } from '../../src/runtime/package-source.ts';
import { removePackage, sweepPackages } from '../../src/runtime/package-sweep.ts';
import { goodFiles, writePackage } from './package-fixtures.ts';

/** A package and an empty data directory beside it. */
async function scene(directory: string) {
  const source = writePackage(join(directory, 'source'));
  const packagesDirectory = join(directory, 'data/packages');
  mkdirSync(join(directory, 'data'));
  const checked = await checkPackage(source);
  return { source, packagesDirectory, checked, target: join(packagesDirectory, checked.lockDigest) };
}

/** `path: rule` of every digested file that is not what it was, and the names of what was added. */
async function look(target: string, { files }: CheckedPackage) {
  const { differences, added } = await lookAtPackage(target, files);
  return { differences: differences.map(({ file, rule }) => `${file}: ${rule}`), added };
}

const sound = { differences: [], added: [] };

t.test('a copy has the bytes of the package under its lock digest, for its owner alone', async (t) => {
  const { packagesDirectory, checked, target } = await scene(t.testdir());
  t.match(await copyPackage({ checked, packagesDirectory }), { outcome: 'created', directory: target, mended: [] });
  for (const [path, content] of Object.entries(goodFiles)) {
    t.equal(readFileSync(join(target, path), 'utf8'), content);
  }
  const mode = (path: string) => statSync(join(packagesDirectory, path)).mode & 0o7777;
  t.equal(mode('.'), 0o700);
  t.equal(mode(checked.lockDigest), 0o700);
  t.equal(mode(`${checked.lockDigest}/scripts`), 0o700);
  t.equal(mode(`${checked.lockDigest}/scripts/probe.sh`), 0o700);
  t.equal(mode(`${checked.lockDigest}/qinglong.yaml`), 0o600);
  t.strictSame(readdirSync(packagesDirectory), [checked.lockDigest]);
  t.strictSame(await look(target, checked), sound);
});

t.test('an installed copy is a package of its own, with the same lock digest', async (t) => {
  const { packagesDirectory, checked, target } = await scene(t.testdir());
  await copyPackage({ checked, packagesDirectory });
  t.equal((await checkPackage(target)).lockDigest, checked.lockDigest);
});

t.test('the mode of a copy does not depend on the umask', async (t) => {
  const { packagesDirectory, checked, target } = await scene(t.testdir());
  const before = process.umask(0);
  t.teardown(() => process.umask(before));
  await copyPackage({ checked, packagesDirectory });
  for (const [path, mode] of [
    ['.', 0o700],
    ['scripts/probe.sh', 0o700],
    ['scripts/rotate.sh', 0o600],
  ] as const) {
    t.equal(statSync(join(target, path)).mode & 0o777, mode, path);
  }
});

t.test('the same bytes again are not copied again, from whichever directory they come', async (t) => {
  const directory = t.testdir();
  const { packagesDirectory, checked, target } = await scene(directory);
  await copyPackage({ checked, packagesDirectory });
  const { ino } = statSync(target);
  const twin = await checkPackage(writePackage(join(directory, 'twin')));
  t.equal((await copyPackage({ checked: twin, packagesDirectory })).outcome, 'existing');
  t.equal(statSync(target).ino, ino);
});

t.test('a file that is changed between check and copy is refused, and nothing is left', async (t) => {
  const change: Readonly<Record<string, (source: string) => void>> = {
    'other bytes': (source) => writeFileSync(join(source, 'scripts/rotate.sh'), 'ECHO rotated\n'),
    'more bytes': (source) => appendFileSync(join(source, 'scripts/rotate.sh'), 'x'),
    'fewer bytes': (source) => writeFileSync(join(source, 'scripts/rotate.sh'), ''),
    'another mode': (source) => chmodSync(join(source, 'scripts/rotate.sh'), 0o755),
    gone: (source) => rmSync(join(source, 'scripts/rotate.sh')),
    'a directory': (source) => {
      rmSync(join(source, 'scripts/rotate.sh'));
      mkdirSync(join(source, 'scripts/rotate.sh'));
    },
  };
  for (const [name, apply] of Object.entries(change)) {
    const { source, packagesDirectory, checked } = await scene(t.testdir());
    apply(source);
    await t.rejects(
      copyPackage({ checked, packagesDirectory }),
      { code: 'invalid', mistakes: [{ file: 'scripts/rotate.sh' }] },
      name,
    );
    t.strictSame(readdirSync(packagesDirectory), [], name);
  }
});

const alterations: Readonly<Record<string, { readonly apply: (target: string) => void; readonly told: RegExp }>> = {
  'another byte': {
    apply: (target) => writeFileSync(join(target, 'scripts/rotate.sh'), 'echo rotateD\n'),
    told: /^scripts\/rotate\.sh: has other bytes$/,
  },
  'more bytes': {
    apply: (target) => appendFileSync(join(target, 'scripts/rotate.sh'), '#'),
    told: /^scripts\/rotate\.sh: has 14 bytes, not 13$/,
  },
  'a file less': {
    apply: (target) => rmSync(join(target, 'scripts/rotate.sh')),
    told: /^scripts\/rotate\.sh: is missing$/,
  },
  'no more executable': {
    apply: (target) => chmodSync(join(target, 'scripts/probe.sh'), 0o600),
    told: /^scripts\/probe\.sh: is not executable any more$/,
  },
  'executable now': {
    apply: (target) => chmodSync(join(target, 'scripts/rotate.sh'), 0o755),
    told: /^scripts\/rotate\.sh: is executable now$/,
  },
  'a link to the same bytes': {
    apply: (target) => {
      renameSync(join(target, 'scripts/rotate.sh'), join(target, '../moved'));
      symlinkSync('../../moved', join(target, 'scripts/rotate.sh'));
    },
    told: /^scripts\/rotate\.sh: is no regular file any more$/,
  },
  'a directory': {
    apply: (target) => {
      rmSync(join(target, 'scripts/rotate.sh'));
      mkdirSync(join(target, 'scripts/rotate.sh/deep'), { recursive: true });
    },
    told: /^scripts\/rotate\.sh: is no regular file any more$/,
  },
};

t.test('a copy that was altered is told file by file, and the same package puts exactly that right', async (t) => {
  for (const [name, { apply, told }] of Object.entries(alterations)) {
    const { packagesDirectory, checked, target } = await scene(t.testdir());
    await copyPackage({ checked, packagesDirectory });
    const { ino } = statSync(join(target, 'qinglong.yaml'));
    apply(target);
    const { differences } = await look(target, checked);
    t.equal(differences.length, 1, name);
    t.match(differences[0], told, name);
    const mended = await copyPackage({ checked, packagesDirectory });
    t.match(mended, { outcome: 'mended', mended: [differences[0]!.split(':')[0]] }, name);
    t.strictSame((await look(target, checked)).differences, [], name);
    t.equal(statSync(join(target, 'qinglong.yaml')).ino, ino, 'what was sound is not touched');
    t.equal((await copyPackage({ checked, packagesDirectory })).outcome, 'existing', name);
    t.notOk(existsSync(`${target}.partial`), name);
  }
});

t.test('a copy of which everything is gone, or a file stands where a directory was, is put right', async (t) => {
  const { packagesDirectory, checked, target } = await scene(t.testdir());
  await copyPackage({ checked, packagesDirectory });
  rmSync(join(target, 'scripts'), { recursive: true });
  writeFileSync(join(target, 'scripts'), 'no directory');
  t.strictSame((await look(target, checked)).differences, [
    'scripts/probe.sh: is missing',
    'scripts/rotate.sh: is missing',
  ]);
  t.match(await copyPackage({ checked, packagesDirectory }), { outcome: 'mended' });
  for (const name of readdirSync(target)) {
    rmSync(join(target, name), { recursive: true });
  }
  t.match(await copyPackage({ checked, packagesDirectory }), { outcome: 'mended', mended: { length: 3 } });
  t.strictSame(await look(target, checked), sound);
});

t.test('what was added to a copy is named, is no difference, and stays', async (t) => {
  const { packagesDirectory, checked, target } = await scene(t.testdir());
  await copyPackage({ checked, packagesDirectory });
  writePackage(target, { 'scripts/__pycache__/x.pyc': 'x', '.git/HEAD': 'x' });
  symlinkSync('/etc/passwd', join(target, 'link'));
  const added = ['.git/HEAD', 'link', 'scripts/__pycache__/x.pyc'];
  t.strictSame(await look(target, checked), { differences: [], added });
  t.equal((await copyPackage({ checked, packagesDirectory })).outcome, 'existing');
  t.strictSame((await look(target, checked)).added, added);
});

t.test('a copy that is missing is told as one', async (t) => {
  const { packagesDirectory, checked, target } = await scene(t.testdir());
  t.strictSame((await look(target, checked)).differences, [`${target}: is missing: none of its files is there`]);
  await copyPackage({ checked, packagesDirectory });
  await removePackage(packagesDirectory, checked.lockDigest);
  t.strictSame(readdirSync(packagesDirectory), []);
  await removePackage(packagesDirectory, checked.lockDigest);
});

t.test('a .partial that was left is no hindrance, whatever is in it', async (t) => {
  const { packagesDirectory, checked, target } = await scene(t.testdir());
  writePackage(`${target}.partial`, { 'scripts/probe.sh': 'half', 'x/y': 'z' });
  t.equal((await copyPackage({ checked, packagesDirectory })).outcome, 'created');
  t.strictSame(readdirSync(packagesDirectory), [checked.lockDigest]);
  t.strictSame(await look(target, checked), sound);
});

t.test('a sweep removes copies that nothing refers to and every .partial, and nothing else', async (t) => {
  const { packagesDirectory, checked, target } = await scene(t.testdir());
  await copyPackage({ checked, packagesDirectory });
  const [stale, half] = ['a'.repeat(64), 'b'.repeat(64)];
  writePackage(join(packagesDirectory, stale), { 'qinglong.yaml': '' });
  writePackage(join(packagesDirectory, `${half}.partial`), { 'qinglong.yaml': '' });
  writePackage(`${target}.partial`, { 'qinglong.yaml': '' });
  writePackage(join(packagesDirectory, 'notes'), { 'by-hand': '' });
  const removed = await sweepPackages(packagesDirectory, new Set([checked.lockDigest]));
  t.strictSame(removed, [`${checked.lockDigest}.partial`, stale, `${half}.partial`].sort());
  t.strictSame(readdirSync(packagesDirectory), [checked.lockDigest, 'notes'].sort());
  t.strictSame(await sweepPackages(packagesDirectory, new Set([checked.lockDigest])), []);
});

t.test('a sweep of a directory that does not exist yet finds nothing', async (t) => {
  t.strictSame(await sweepPackages(join(t.testdir(), 'packages'), new Set()), []);
});

t.test('a packages directory inside of the package is refused, unless it is the default one', async (t) => {
  const source = writePackage(t.testdir());
  const checked = await checkPackage(source);
  await t.rejects(copyPackage({ checked, packagesDirectory: join(source, 'data/packages') }), {
    code: 'invalid',
    message: /data is inside of the package/,
  });
  t.strictSame(readdirSync(source).sort(), ['qinglong.yaml', 'scripts']);
  const { outcome } = await copyPackage({ checked, packagesDirectory: join(source, '.qinglong-edge/packages') });
  t.equal(outcome, 'created');
  t.equal((await checkPackage(source)).lockDigest, checked.lockDigest);
});

t.test('a packages directory that cannot be made is unavailable, with the reason', async (t) => {
  const { source, checked } = await scene(t.testdir());
  const packagesDirectory = join(source, '../source/qinglong.yaml/packages');
  const elsewhere = { ...checked, contents: { ...checked.contents, path: join(source, 'x') } };
  await t.rejects(copyPackage({ checked: elsewhere, packagesDirectory }), {
    code: 'unavailable',
    message: /ENOTDIR/,
  });
});

/** Copies in a process that is killed at the `events`-th change seen in the copy; says how it ended. */
async function killCopy(options: { source: string; packagesDirectory: string; partial: string; events: number }) {
  const { source, packagesDirectory, partial, events } = options;
  const script = join(import.meta.dirname, 'package-copier.ts');
  const child = spawn(process.execPath, [script, source, packagesDirectory], {
    env: {},
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let seen = 0;
  const count = () => {
    seen += 1;
    if (seen === events) {
      child.kill('SIGKILL');
    }
  };
  const outer = watch(packagesDirectory, () => {
    count();
    if (existsSync(partial) && seen === 1) {
      watchers.push(watch(partial, count));
    }
  });
  const watchers = [outer];
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null];
  for (const watcher of watchers) {
    watcher.close();
  }
  return { code, signal };
}

t.test('a kill at any point leaves a .partial or a complete copy, and the next copy succeeds', async (t) => {
  const directory = t.testdir();
  const { source, packagesDirectory } = await scene(directory);
  for (let index = 0; index < 200; index += 1) {
    writePackage(source, { [`f${index}`]: `${index}`.repeat(1_000) });
  }
  const checked = await checkPackage(source);
  const target = join(packagesDirectory, checked.lockDigest);
  mkdirSync(packagesDirectory);
  const partial = `${target}.partial`;
  let killed = 0;
  for (const events of [1, 2, 10, 60, 200, 500]) {
    const { code, signal } = await killCopy({ source, packagesDirectory, partial, events });
    t.ok(signal === 'SIGKILL' || code === 0, `ended by the kill or by itself (${events})`);
    killed += signal === 'SIGKILL' ? 1 : 0;
    for (const name of readdirSync(packagesDirectory)) {
      t.ok(name === `${checked.lockDigest}.partial` || name === checked.lockDigest, name);
    }
    if (existsSync(target)) {
      t.strictSame(await look(target, checked), sound, 'what has the name is complete');
    }
    await sweepPackages(packagesDirectory, new Set());
    t.strictSame(readdirSync(packagesDirectory), []);
  }
  t.ok(killed > 0, `${killed} of 6 copies were killed on the way`);
  t.equal((await copyPackage({ checked, packagesDirectory })).outcome, 'created');
});
