// The cluster's own bundle has its driver inside; whatever ships for the edge has not one byte more for its sake.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import { buildAll } from '../../build/bundle.ts';
import { listBundledPackages } from '../../build/bundle-options.ts';
import { postgres } from '../../build/entry-points.ts';
import { projectRoot, readPackage } from '../../build/project.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'qinglong-edge-build-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));

const whole = await buildAll(projectRoot);

t.test('without anything of PostgreSQL, every other bundle is the same, byte for byte', async (t) => {
  for (const name of ['src', 'edge-evidence', 'package-lock.json', 'tsconfig.json', 'LICENSE']) {
    cpSync(path.join(projectRoot, name), path.join(folder, name), { recursive: true });
  }
  for (const name of ['src/postgres.ts', 'src/store/postgres']) {
    rmSync(path.join(folder, name), { recursive: true });
  }
  const { './postgres': _gone, ...exports } = readPackage(projectRoot).exports;
  writeFileSync(path.join(folder, 'package.json'), JSON.stringify({ ...readPackage(projectRoot), exports }));
  symlinkSync(path.join(projectRoot, 'node_modules'), path.join(folder, 'node_modules'));
  const without = await buildAll(folder);
  const others = whole.bundles.filter(({ entry }) => entry.output !== postgres.output);
  t.same(
    without.bundles.map(({ entry }) => entry.output),
    others.map(({ entry }) => entry.output),
  );
  for (const { entry, bytes, metafile } of others) {
    const same = without.bundles.find((bundle) => bundle.entry.output === entry.output);
    t.ok(Buffer.from(bytes).equals(Buffer.from(same!.bytes)), entry.output);
    const driver = listBundledPackages(metafile).filter((name) => name.startsWith('pg'));
    t.same(driver, [], `${entry.output} has no driver`);
    const sources = Object.keys(metafile.inputs).filter((file) => file.includes('postgres'));
    t.same(sources, [], `${entry.output} has no module of it`);
  }
});

t.test('the bundle of the cluster works where no package is installed', async (t) => {
  const alone = path.join(folder, 'alone');
  const file = path.join(alone, 'postgres.cjs');
  const bundle = whole.bundles.find(({ entry }) => entry.output === postgres.output);
  cpSync(path.join(projectRoot, 'LICENSE'), path.join(alone, 'LICENSE'));
  writeFileSync(file, bundle!.bytes);
  const script = `const { migratePostgres } = require(${JSON.stringify(file)});
    migratePostgres({ url: 'postgres://nobody@127.0.0.1:1/none' }).catch(({ code }) => console.log(code));`;
  const { stdout, stderr } = spawnSync(process.execPath, ['-e', script], { cwd: alone, encoding: 'utf8' });
  t.equal(stdout, 'unavailable\n', stderr);
  t.ok(listBundledPackages(bundle!.metafile).includes('pg'));
});
