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
  watch,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { copyPackage, removePackage, sweepPackages, verifyPackageFiles } from '../../src/runtime/package-copy.ts';
import { checkPackage } from '../../src/runtime/package-source.ts';
import { goodFiles, writePackage } from './package-fixtures.ts';

/** A package and an empty data directory beside it. */
async function scene(directory: string) {
  const source = writePackage(join(directory, 'source'));
  const packagesDirectory = join(directory, 'data/packages');
  mkdirSync(join(directory, 'data'));
  const checked = await checkPackage(source);
  return { source, packagesDirectory, checked, target: join(packagesDirectory, checked.lockDigest) };
}

t.test('a copy has the bytes of the package under its lock digest, for its owner alone', async (t) => {
  const { packagesDirectory, checked, target } = await scene(t.testdir());
  t.strictSame(await copyPackage({ checked, packagesDirectory }), { outcome: 'created', directory: target });
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
  t.strictSame(await verifyPackageFiles(target, checked.lockDigest), []);
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

t.test('an installed copy that was altered is damaged, and is not repaired silently', async (t) => {
  const alter: Readonly<Record<string, (target: string) => void>> = {
    'another byte': (target) => writeFileSync(join(target, 'scripts/rotate.sh'), 'echo rotateD\n'),
    'a file more': (target) => writeFileSync(join(target, 'scripts/extra.sh'), ''),
    'a file less': (target) => rmSync(join(target, 'scripts/rotate.sh')),
    'another name': (target) => renameSync(join(target, 'scripts/rotate.sh'), join(target, 'scripts/r.sh')),
    'another mode': (target) => chmodSync(join(target, 'scripts/probe.sh'), 0o600),
    'a .git': (target) => writePackage(target, { '.git/HEAD': 'x' }),
  };
  for (const [name, apply] of Object.entries(alter)) {
    const { packagesDirectory, checked, target } = await scene(t.testdir());
    await copyPackage({ checked, packagesDirectory });
    apply(target);
    t.equal((await verifyPackageFiles(target, checked.lockDigest)).length, 1, name);
    await t.rejects(copyPackage({ checked, packagesDirectory }), { code: 'damaged' }, name);
    t.ok(existsSync(target), name);
  }
});

t.test('a copy that is missing is a mistake of its own', async (t) => {
  const { packagesDirectory, checked, target } = await scene(t.testdir());
  t.match(await verifyPackageFiles(target, checked.lockDigest), [{ file: target, rule: 'is missing' }]);
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
  t.strictSame(await verifyPackageFiles(target, checked.lockDigest), []);
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
  await t.rejects(copyPackage({ checked: { ...checked, directory: join(source, 'x') }, packagesDirectory }), {
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
      t.strictSame(await verifyPackageFiles(target, checked.lockDigest), [], 'what has the name is complete');
    }
    await sweepPackages(packagesDirectory, new Set());
    t.strictSame(readdirSync(packagesDirectory), []);
  }
  t.ok(killed > 0, `${killed} of 6 copies were killed on the way`);
  t.equal((await copyPackage({ checked, packagesDirectory })).outcome, 'created');
});
