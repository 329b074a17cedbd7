// Installed files as their users meet them: altered and added ones, quotas, versions, what is left out, other users.
import { appendFileSync, chmodSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import {
  ask,
  go,
  installed,
  type Json,
  manifest,
  pack,
  runToEnd,
  serve,
  stop,
  traceOf,
  writeVersion,
} from './package-scene.ts';
import { cli, createSite, listRuns, readLines, showRun, writePackage } from './product.ts';

t.test('files that were altered since the install are not run, are told by name, and are put right', async (t) => {
  const site = createSite(t);
  go(site);
  const directory = writeVersion(site, '1.0.0');
  const daemon = await serve(t, site);
  await ask(t, site, ['package', 'install', directory]);
  t.equal(await runToEnd(t, site), 0);
  const [lockDigest] = installed(site);
  const word = join(site.data, 'packages', lockDigest!, 'scripts/word.sh');
  writeFileSync(word, 'WORD=1.0.1\n');
  t.equal(await runToEnd(t, site), 1);
  t.strictSame(traceOf(site), ['one 1.0.0', 'two 1.0.0'], 'nothing of it has run');
  const [run] = await listRuns(t, site);
  const failed = await showRun(t, site, run!.id);
  t.match(failed.steps[0], {
    status: 'failed',
    resultCode: 'package_altered',
    errorSummary: /not those that were installed: scripts\/word\.sh has other bytes; see `package verify sample`/,
  });
  const verified = await ask(t, site, ['package', 'verify', 'sample'], 5);
  t.match(verified, { isSound: false, differences: [{ file: 'scripts/word.sh', rule: 'has other bytes' }] });
  const doctor = await ask(t, site, ['doctor'], 5);
  t.match(
    (doctor['checks'] as readonly Json[]).find(({ name }) => name === 'packages'),
    { state: 'bad', text: /the files of sample are not those that were installed/ },
  );
  t.match(await ask(t, site, ['package', 'install', directory]), { outcome: 'existing', mended: ['scripts/word.sh'] });
  t.match(await ask(t, site, ['package', 'verify', 'sample']), { isSound: true, differences: [] });
  t.equal(await runToEnd(t, site), 0);
  await stop(t, daemon);
});

t.test('what commands leave beside their scripts is told and stops nothing', async (t) => {
  const site = createSite(t);
  go(site);
  const directory = writeVersion(site, '1.0.0');
  appendFileSync(
    join(directory, 'scripts/work.sh'),
    'mkdir -p scripts/__pycache__; date >>scripts/__pycache__/x.pyc\n',
  );
  for (const outcome of ['first', 'second']) {
    const ran = await cli(t, site, 'run', directory);
    t.equal(ran.code, 0, `${outcome}: ${ran.err}`);
  }
  const verified = await ask(t, site, ['package', 'verify', 'sample']);
  t.match(verified, { isSound: true, added: ['scripts/__pycache__/x.pyc'] });
  const text = await cli(t, site, 'package', 'verify', 'sample');
  t.match(text.out, /scripts\/__pycache__\/x\.pyc was added since; it is no part .* and no install removes it$/m);
  await ask(t, site, ['package', 'install', directory]);
  t.match(await ask(t, site, ['package', 'verify', 'sample']), { added: ['scripts/__pycache__/x.pyc'] }, 'indeed');
  await ask(t, site, ['package', 'quarantine', 'sample', '--reason', 'test']);
  const forbidden = await ask(t, site, ['package', 'verify', 'sample'], 3);
  t.match(forbidden, { isSound: true, isQuarantined: true, isForbidden: true });
});

t.test('a package beyond the quota is refused before it is copied, with sizes; removing one makes room', async (t) => {
  const site = createSite(t);
  go(site);
  t.equal((await cli(t, site, 'serve', '--until-idle')).code, 0);
  const config = join(site.data, 'config.json');
  writeFileSync(config, JSON.stringify({ ...JSON.parse(readFileSync(config, 'utf8')), packagesQuota: '1m' }));
  const large = writeVersion(site, '1.0.0');
  writeFileSync(join(large, 'data'), Buffer.alloc(700 * 1024));
  const other = writePackage(join(site.root, 'other'), {
    'qinglong.yaml': manifest('1.0.0').replace('sample', 'other'),
    'scripts/work.sh': '#!/bin/sh\n',
  });
  writeFileSync(join(other, 'data'), Buffer.alloc(600 * 1024));
  await ask(t, site, ['package', 'install', large]);
  const before = installed(site);
  const refused = await ask(t, site, ['package', 'install', other], 4);
  t.match(refused, {
    error: {
      code: 'full',
      message: 'package other needs 601 KiB, but the packages here take 701 KiB of 1.0 MiB',
      hint: /uninstall a package/,
    },
  });
  t.strictSame(installed(site), before);
  await ask(t, site, ['package', 'uninstall', 'sample']);
  t.match(await ask(t, site, ['package', 'install', other]), { outcome: 'installed' });
  writeFileSync(join(other, 'data'), Buffer.alloc(600 * 1024, 1));
  const update = await ask(t, site, ['package', 'install', other], 4);
  t.match(update, { error: { code: 'full' } }, 'the generation that is active counts until it is replaced');
});

t.test('other bytes under a version that was installed before are told', async (t) => {
  const site = createSite(t);
  const directory = writeVersion(site, '1.0.0');
  await ask(t, site, ['package', 'install', directory]);
  appendFileSync(join(directory, 'scripts/word.sh'), '\n');
  const again = await cli(t, site, 'package', 'install', directory);
  t.match(again.out, /as generation 2 .*; other bytes under the version that generation 1 had\n/);
  const next = await cli(t, site, 'package', 'install', writeVersion(site, '2.0.0'));
  t.notMatch(next.out, /other bytes/);
});

t.test('what is left out of a package is told with its size', async (t) => {
  const site = createSite(t);
  const directory = writeVersion(site, '1.0.0');
  const checked = await cli(t, site, 'package', 'check', directory);
  t.match(checked.out, /in 3 files, [0-9]+ B\n$/);
  writePackage(directory, { '.git/HEAD': 'ref', '.qinglong-edge/x': 'x' });
  t.match((await cli(t, site, 'package', 'check', directory)).out, /, without \.git and \.qinglong-edge\n$/);
  t.match((await cli(t, site, 'package', 'install', directory)).out, /, without \.git and \.qinglong-edge\)\n$/);
  rmSync(join(directory, '.git'), { recursive: true });
  t.match(await ask(t, site, ['package', 'install', pack(directory)]), {
    outcome: 'existing',
    leftOut: ['.qinglong-edge'],
  });
});

t.test('a check warns of scripts from Windows, and refuses nothing because of them', async (t) => {
  const site = createSite(t);
  const directory = writeVersion(site, '1.0.0');
  writeFileSync(join(directory, 'scripts/word.sh'), '#!/bin/sh\r\nWORD=x\r\n');
  const checked = await cli(t, site, 'package', 'check', directory);
  t.match(checked, {
    code: 0,
    err: 'warning: scripts/word.sh has lines that end in CRLF as on Windows: convert them to LF\n',
  });
  t.match(await ask(t, site, ['package', 'check', directory]), { warnings: [{ file: 'scripts/word.sh' }] });
});

const onlyRoot = process.getuid?.() === 0 ? {} : { skip: 'only root can become another user' };

t.test(
  'a task of another user runs its script from the package, and cannot read the data directory',
  onlyRoot,
  async (t) => {
    const site = createSite(t);
    chmodSync(site.root, 0o755);
    const place = mkdtempSync(join(tmpdir(), 'nobody-'));
    t.teardown(() => rmSync(place, { recursive: true, force: true }));
    chmodSync(place, 0o777);
    const out = join(place, 'out');
    const directory = writePackage(join(site.root, 'package'), {
      'qinglong.yaml': manifest('1.0.0', ', user: nobody'),
      'scripts/work.sh': `#!/bin/sh
id -un >>${out}
cat ${site.data}/qinglong.db >/dev/null 2>&1 && echo READ >>${out}
ls ${site.data} >/dev/null 2>&1 && echo LISTED >>${out}
echo x >>"$0" 2>/dev/null && echo WRITTEN >>${out}
exit 0
`,
    });
    const ran = await cli(t, site, 'run', directory);
    t.equal(ran.code, 0, `${ran.out}${ran.err}`);
    t.strictSame(readLines(out), ['nobody', 'nobody']);
    t.match(await ask(t, site, ['package', 'verify', 'sample']), { isSound: true });
    renameSync(out, `${out}.seen`);
  },
);
