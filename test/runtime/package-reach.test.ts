// Who can reach the files of a package that runs as another user: only as far as these go, everything else stays
// closed.
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { copyPackage } from '../../src/runtime/package-copy.ts';
import { openPackages, reachOf } from '../../src/runtime/package-reach.ts';
import { checkPackage } from '../../src/runtime/package-source.ts';
import { goodFiles, goodManifest, writePackage } from './package-fixtures.ts';

const asNobody = { ...goodFiles, 'qinglong.yaml': goodManifest.replace('    cwd: .', '    cwd: .\n    user: nobody') };

/** Where another user gets to, unlike in the folder of the tests. */
function makeRoot(t: Test): string {
  const root = mkdtempSync(join(tmpdir(), 'reach-'));
  chmodSync(root, 0o755);
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  return root;
}

async function installInto(root: string, files: Readonly<Record<string, string>>) {
  const data = join(root, 'data');
  mkdirSync(data, { mode: 0o700 });
  const checked = await checkPackage(writePackage(join(root, 'source'), files));
  const packagesDirectory = join(data, 'packages');
  const { directory } = await copyPackage({ checked, packagesDirectory });
  return { data, packagesDirectory, directory, checked };
}

const modeOf = (path: string) => statSync(path).mode & 0o777;

t.test('without another user everything stays the owner’s alone', async (t) => {
  const { data, packagesDirectory, directory, checked } = await installInto(makeRoot(t), goodFiles);
  t.equal(reachOf(checked.revision), 'owner');
  for (const path of [data, packagesDirectory, directory, join(directory, 'scripts/probe.sh')]) {
    t.equal(modeOf(path), 0o700, path);
  }
  t.equal(modeOf(join(directory, 'qinglong.yaml')), 0o600);
});

t.test('with one, package files can be read and executed by everyone, and written by their owner alone', async (t) => {
  const before = process.umask(0o077);
  t.teardown(() => process.umask(before));
  const { directory, packagesDirectory, checked } = await installInto(makeRoot(t), asNobody);
  t.equal(reachOf(checked.revision), 'everyone');
  const modes = { '.': 0o755, scripts: 0o755, 'scripts/probe.sh': 0o755, 'scripts/rotate.sh': 0o644 };
  for (const [path, mode] of Object.entries(modes)) {
    t.equal(modeOf(join(directory, path)), mode, path);
  }
  t.equal((await checkPackage(directory)).lockDigest, checked.lockDigest, 'the lock digest knows nothing of it');
  chmodSync(join(directory, 'scripts'), 0o700);
  chmodSync(join(directory, 'scripts/probe.sh'), 0o700);
  t.equal((await copyPackage({ checked, packagesDirectory })).outcome, 'existing');
  t.equal(modeOf(join(directory, 'scripts')), 0o755, 'the same package puts modes right');
  t.equal(modeOf(join(directory, 'scripts/probe.sh')), 0o755);
});

t.test('the way to them is opened, and everything beside it is closed first', async (t) => {
  const { data, packagesDirectory } = await installInto(makeRoot(t), asNobody);
  mkdirSync(join(data, 'artifacts'), { mode: 0o755 });
  writeFileSync(join(data, 'qinglong.db'), '', { mode: 0o644 });
  writeFileSync(join(data, 'config.json'), '', { mode: 0o600 });
  symlinkSync('/etc/passwd', join(data, 'link'));
  const passwd = modeOf('/etc/passwd');
  await openPackages(packagesDirectory);
  t.equal(modeOf(data), 0o711);
  t.equal(modeOf(packagesDirectory), 0o711);
  t.equal(modeOf(join(data, 'artifacts')), 0o700);
  t.equal(modeOf(join(data, 'qinglong.db')), 0o600);
  t.equal(modeOf(join(data, 'config.json')), 0o600);
  t.equal(modeOf('/etc/passwd'), passwd, 'a link is not followed');
});

const onlyRoot = process.getuid?.() === 0 ? {} : { skip: 'only root can become another user' };

t.test('another user runs the command of such a package, and reads nothing else', onlyRoot, async (t) => {
  const { data, packagesDirectory, directory } = await installInto(makeRoot(t), asNobody);
  writeFileSync(join(data, 'qinglong.db'), 'secret', { mode: 0o644 });
  await openPackages(packagesDirectory);
  const run = (command: string, ...args: readonly string[]) =>
    execFileSync(command, args, { uid: 65_534, gid: 65_534, encoding: 'utf8', stdio: 'pipe', cwd: '/' });
  t.equal(run(join(directory, 'scripts/probe.sh')), 'up\n');
  t.throws(() => run('cat', join(data, 'qinglong.db')), 'a file beside the packages');
  t.throws(() => run('ls', data), 'the list of the data directory');
  t.throws(() => run('ls', packagesDirectory), 'the list of the packages');
  t.throws(() => run('sh', '-c', `echo x >>${directory}/scripts/probe.sh`), 'writing');
});
