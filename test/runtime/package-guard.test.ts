import { chmodSync, copyFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { copyPackage } from '../../src/runtime/package-copy.ts';
import { createPackageGuard } from '../../src/runtime/package-guard.ts';
import { checkPackage } from '../../src/runtime/package-source.ts';
import { createTestClock } from '../contract/world.ts';
import { goodFiles, writePackage } from './package-fixtures.ts';

async function scene(t: Test) {
  const root = t.testdir({ data: {} });
  const packagesDirectory = join(root, 'data/packages');
  const checked = await checkPackage(writePackage(join(root, 'source')));
  const { directory } = await copyPackage({ checked, packagesDirectory });
  // A second later than it is, so that what was written just now counts as settled.
  const clock = createTestClock(Date.now() + 1_000);
  const guard = createPackageGuard({ packagesDirectory, clock });
  const { lockDigest, files } = checked;
  const script = join(directory, 'scripts/rotate.sh');
  return { guard, clock, lockDigest, files, directory, script };
}

/** Until the kernel's clock has moved on, so that what is written next has another time than this file. */
function awaitTick(script: string): void {
  const probe = `${script}.probe`;
  do {
    writeFileSync(probe, '');
  } while (statSync(probe).ctimeMs <= statSync(script).ctimeMs);
  rmSync(probe);
}

t.test('files that are what was installed may be run', async (t) => {
  const { guard, lockDigest, files } = await scene(t);
  t.match(guard.check(lockDigest), /list of its files is missing/, 'nothing is known yet');
  guard.note(lockDigest, files);
  t.equal(guard.check(lockDigest), null);
  t.equal(guard.check(lockDigest), null, 'and again, by their stamps');
});

t.test('whatever is done to a digested file is seen at the next start, also with its old times and size', async (t) => {
  const changes: Readonly<Record<string, (script: string) => void>> = {
    'the same size and times': (script) => {
      const { atimeMs, mtimeMs } = statSync(script);
      writeFileSync(script, 'ECHO rotated\n');
      utimesSync(script, atimeMs / 1_000, mtimeMs / 1_000);
    },
    'another file under its name': (script) => {
      copyFileSync(script, `${script}.new`);
      writeFileSync(`${script}.new`, 'ECHO rotated\n');
      renameSync(`${script}.new`, script);
    },
    gone: (script) => rmSync(script),
    executable: (script) => chmodSync(script, 0o700),
  };
  for (const [name, change] of Object.entries(changes)) {
    for (const isHashed of [true, false]) {
      const { guard, lockDigest, files, script } = await scene(t);
      guard.note(lockDigest, files);
      t.equal(isHashed ? guard.check(lockDigest) : null, null);
      awaitTick(script);
      change(script);
      t.match(guard.check(lockDigest), /^scripts\/rotate\.sh (has other bytes|is missing|is executable now)$/, name);
      t.ok(guard.check(lockDigest), 'and stays seen');
    }
  }
});

t.test('a file with other times and the same bytes may be run, and so may one that was put right', async (t) => {
  const { guard, lockDigest, files, script } = await scene(t);
  guard.note(lockDigest, files);
  utimesSync(script, 1, 1);
  t.equal(guard.check(lockDigest), null, 'touched');
  copyFileSync(script, `${script}.new`);
  renameSync(`${script}.new`, script);
  t.equal(guard.check(lockDigest), null, 'restored from a backup');
  awaitTick(script);
  writeFileSync(script, 'ECHO rotated\n');
  t.ok(guard.check(lockDigest));
  writeFileSync(script, goodFiles['scripts/rotate.sh']!);
  t.equal(guard.check(lockDigest), null);
});

t.test('a file that was written within the same tick as it was hashed is hashed again', async (t) => {
  const { guard, clock, lockDigest, files, script } = await scene(t);
  guard.note(lockDigest, files);
  clock.now = { ...clock.now, wallMs: statSync(script).ctimeMs + 5 };
  t.equal(guard.check(lockDigest), null);
  // As if the kernel's clock had not moved: the stamp is the same whatever was written.
  const { ctimeMs, mtimeMs } = statSync(script);
  writeFileSync(script, 'ECHO rotated\n');
  t.ok(statSync(script).ctimeMs >= ctimeMs && statSync(script).mtimeMs >= mtimeMs);
  t.match(guard.check(lockDigest), /has other bytes/);
});

t.test('what was added keeps nothing from running, and of many altered files a few are named', async (t) => {
  const { guard, lockDigest, files, directory } = await scene(t);
  guard.note(lockDigest, files);
  writePackage(directory, { 'scripts/__pycache__/x.pyc': 'x' });
  t.equal(guard.check(lockDigest), null);
  const more = ['a', 'b', 'c'].map((path) => ({ path, mode: 0o600, size: 1, sha256: 'a'.repeat(64) }));
  guard.note(lockDigest, [...more, ...files]);
  t.equal(guard.check(lockDigest), 'a is missing, b is missing, c is missing');
  rmSync(join(directory, 'scripts'), { recursive: true });
  writeFileSync(join(directory, 'scripts'), '');
  t.match(guard.check(lockDigest), /and 2 more$/, 'a file in place of a directory');
  rmSync(directory, { recursive: true });
  t.equal(guard.check(lockDigest), 'a is missing, b is missing, c is missing, and 3 more');
});
