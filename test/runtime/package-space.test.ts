import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { requireSpace } from '../../src/runtime/package-space.ts';

const MIB = 1024 * 1024;

function scene(t: Test, bytes: number) {
  const packagesDirectory = join(t.testdir(), 'data/packages');
  mkdirSync(join(packagesDirectory, 'a/deep'), { recursive: true });
  writeFileSync(join(packagesDirectory, 'a/deep/file'), Buffer.alloc(bytes));
  let swept = 0;
  const ask = (size: number, quotaBytes: number, onSweep: () => void = () => {}) =>
    requireSpace({
      packagesDirectory,
      quotaBytes,
      packageName: 'net-watch',
      files: [{ path: 'x', mode: 0o600, size, sha256: '' }],
      sweep: async () => {
        swept += 1;
        onSweep();
      },
    });
  return { packagesDirectory, ask, swept: () => swept };
}

t.test('a package that fits under the quota, to the byte, is let in', async (t) => {
  const { ask, swept } = scene(t, 3 * MIB);
  await ask(MIB, 4 * MIB);
  t.equal(swept(), 0);
  await t.rejects(ask(MIB + 1, 4 * MIB), { code: 'full' });
  t.equal(swept(), 1);
});

t.test('a package without room is refused as full, with all sizes and what to do', async (t) => {
  const { ask } = scene(t, 3 * MIB);
  await t.rejects(ask(2 * MIB, 4 * MIB), {
    code: 'full',
    message: 'package net-watch needs 2.0 MiB, but the packages here take 3.0 MiB of 4.0 MiB',
    hint: /uninstall a package that is not needed.*packagesQuota/,
  });
});

t.test('what nothing refers to is removed before a package is refused', async (t) => {
  const { ask, packagesDirectory, swept } = scene(t, 3 * MIB);
  await ask(2 * MIB, 4 * MIB, () => writeFileSync(join(packagesDirectory, 'a/deep/file'), ''));
  t.equal(swept(), 1);
});

t.test('a file system without room is told apart from a quota', async (t) => {
  const { ask } = scene(t, 0);
  await t.rejects(ask(2 ** 52, Number.MAX_SAFE_INTEGER), {
    code: 'full',
    message: /^package net-watch needs .* must stay so$/,
  });
});

t.test('the first package of a data directory needs no directory for packages', async (t) => {
  const packagesDirectory = join(t.testdir({ data: {} }), 'data/packages');
  const nothing = { packagesDirectory, packageName: 'x', files: [], sweep: async () => {} };
  await requireSpace({ ...nothing, quotaBytes: 0 });
  t.pass('nothing is measured');
});
