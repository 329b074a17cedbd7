// Packages as their users meet them: archives, updates under way, restarts, removals.
import { existsSync, mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ask, go, installed, pack, runToEnd, serve, stop, traceOf, writeVersion } from './package-scene.ts';
import { cli, createSite, listRuns, showRun, writePackage } from './product.ts';

t.test('an archive is checked, run and installed like the directory that it was made of', async (t) => {
  const site = createSite(t);
  go(site);
  const directory = writeVersion(site, '1.0.0');
  const archive = pack(directory);
  const ofDirectory = await ask(t, site, ['package', 'check', directory]);
  const ofArchive = await ask(t, site, ['package', 'check', archive]);
  t.match(ofArchive, { archive, directory: null, lockDigest: ofDirectory['lockDigest'], files: 3, warnings: [] });
  t.notOk(existsSync(site.data), 'a check writes nothing');
  const ran = await cli(t, site, 'run', archive);
  t.equal(ran.code, 0, ran.err);
  t.strictSame(traceOf(site), ['one 1.0.0', 'two 1.0.0']);
  t.match(await ask(t, site, ['package', 'install', directory]), { outcome: 'existing' });
  t.match(await ask(t, site, ['package', 'verify', 'sample']), {
    isSound: true,
    files: 3,
    signature: { state: 'unsigned' },
  });
});

t.test('a daemon installs the archive that a command names, by its path there', async (t) => {
  const site = createSite(t);
  go(site);
  pack(writeVersion(site, '1.0.0'));
  const daemon = await serve(t, site);
  t.match(await ask(t, site, ['package', 'install', 'package-1.0.0.tar.gz']), { outcome: 'installed', generation: 1 });
  t.equal(await runToEnd(t, site), 0);
  await stop(t, daemon);
});

t.test('C072 a package that is updated while it runs: the run ends with the bytes that it began with', async (t) => {
  const site = createSite(t);
  const daemon = await serve(t, site);
  await ask(t, site, ['package', 'install', writeVersion(site, '1.0.0')]);
  const { runId } = await ask(t, site, ['workflow', 'start', 'sample/main']);
  const [first] = installed(site);
  await ask(t, site, ['package', 'install', pack(writeVersion(site, '2.0.0'))]);
  t.match(installed(site), { length: 2 }, 'the old files stay while the run needs them');
  go(site);
  const events = await cli(t, site, 'runs', 'events', String(runId), '--follow');
  t.equal(events.code, 0, events.err);
  t.strictSame(traceOf(site), ['one 1.0.0', 'two 1.0.0'], 'its second step too');
  t.match(await showRun(t, site, String(runId)), { run: { status: 'succeeded', generation: 1 } });
  await ask(t, site, ['package', 'enable', 'sample']);
  t.notOk(installed(site).includes(first!), 'the old files went with the end of that run');
  t.equal(await runToEnd(t, site), 0);
  t.strictSame(traceOf(site).slice(2), ['one 2.0.0', 'two 2.0.0']);
  t.equal((await listRuns(t, site)).length, 2, 'the history of both is kept');
  await stop(t, daemon);
});

t.test('C072 an update from an empty or a cut-off package is refused, and the old version stays active', async (t) => {
  const site = createSite(t);
  go(site);
  await ask(t, site, ['package', 'install', writeVersion(site, '1.0.0')]);
  const before = installed(site);
  const cutOff = pack(writeVersion(site, '2.0.0'));
  truncateSync(cutOff, 200);
  const empty = join(site.root, 'empty');
  mkdirSync(empty);
  const emptyManifest = writePackage(join(site.root, 'empty-manifest'), { 'qinglong.yaml': '' });
  const emptyArchive = join(site.root, 'empty.tar.gz');
  writeFileSync(emptyArchive, '');
  for (const bad of [cutOff, empty, emptyManifest, emptyArchive, join(site.root, 'nowhere')]) {
    t.match(await ask(t, site, ['package', 'install', bad], 2), { error: { code: 'invalid' } }, bad);
  }
  t.strictSame(installed(site), before);
  t.match(await ask(t, site, ['package', 'show', 'sample']), { version: '1.0.0', generation: 1, state: 'active' });
  t.equal(await runToEnd(t, site), 0);
});

t.test('C073 a restart needs no source and reinstalls nothing', async (t) => {
  const site = createSite(t);
  go(site);
  const directory = writeVersion(site, '1.0.0');
  await ask(t, site, ['package', 'install', directory]);
  rmSync(directory, { recursive: true });
  const daemon = await serve(t, site);
  t.equal(await runToEnd(t, site), 0);
  t.match(await ask(t, site, ['package', 'show', 'sample']), { generation: 1 });
  await stop(t, daemon);
});

t.test('C073 a package that never ends times out, and can be removed', async (t) => {
  const site = createSite(t);
  const daemon = await serve(t, site);
  await ask(t, site, ['package', 'install', writeVersion(site, '1.0.0', ', timeout: 300ms, grace: 100ms')]);
  const waited = await cli(t, site, 'workflow', 'start', 'sample/main', '--wait');
  t.match(waited.code, 1, 'the step behind it is skipped');
  const [run] = await listRuns(t, site);
  t.match(await showRun(t, site, run!.id), { steps: [{ stepKey: 'one', status: 'timed_out' }, { status: 'skipped' }] });
  t.match(await ask(t, site, ['package', 'uninstall', 'sample']), { state: 'uninstalled' });
  t.strictSame(installed(site), []);
  for (const endless of ['/dev/zero', '/dev/stdin']) {
    t.match(await ask(t, site, ['package', 'install', endless], 2), { error: { code: 'invalid' } }, endless);
  }
  await stop(t, daemon);
});
