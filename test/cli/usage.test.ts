import { existsSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { settingFlag, settingNames, settingVariable } from '../../src/runtime/settings.ts';
import { ask, call, createSite, nameOf, type Refused, selfOf, start, writePackage, writeSteps } from './program.ts';

t.test('mistakes of a command line are told at once, and nothing is made', async (t) => {
  const site = createSite(t);
  const { code, out, err } = await call(t, site, 'runs', 'lits', '--tali', '5', '--profile', 'big');
  t.equal(code, 2);
  t.equal(out, '');
  t.same(err.split('\n'), [
    `qinglong-edge: invalid: the command line has 3 mistakes; see \`${nameOf()} --help\``,
    '  runs has no lits; did you mean list?',
    '  --tali is no option',
    '  --profile must be one of edge, standalone',
    '',
  ]);
  t.notOk(existsSync(site.data));
});

t.test('with --json a mistake is one JSON object', async (t) => {
  const { code, err } = await call(t, createSite(t), 'serve', 'now', '--json');
  t.equal(code, 2);
  t.match(JSON.parse(err) as Refused, { error: { code: 'invalid', mistakes: [{ path: '"now"' }] } });
});

t.test('reading and changing a directory that is not there is told with what makes it', async (t) => {
  const site = createSite(t);
  for (const args of [
    ['runs', 'list'],
    ['advance'],
    ['package', 'disable', 'x'],
    ['verify'],
    ['workflow', 'start', 'a/b'],
  ]) {
    const { code, err } = await call(t, site, ...args);
    t.equal(code, 3, args.join(' '));
    t.match(err, /^qinglong-edge: not-found: .*; .*`run DIR` and `serve` make one/);
  }
  t.notOk(existsSync(site.data), 'nothing made it');
});

t.test('every mistake of a package is told with file and line, and nothing is installed', async (t) => {
  const site = createSite(t);
  const directory = writePackage(join(site.root, 'p'), {
    'qinglong.yaml':
      'schema: qinglong/package@v1\nname: p\nversion: 1\ntasks:\n  a: { rum: [ls] }\n  b: { run: [./no.sh] }\n',
  });
  for (const command of [['package', 'check'], ['package', 'install'], ['run']]) {
    const { code, err } = await call(t, site, ...command, directory);
    t.equal(code, 2, command.join(' '));
    t.match(err, /^ {2}qinglong\.yaml:3: version must be /m);
    t.match(err, /^ {2}qinglong\.yaml:5: tasks\.a\.rum is not a known key; did you mean run\?$/m);
  }
  t.notOk(existsSync(join(site.data, 'packages')), 'no package was copied');
});

t.test('which workflow to run must be clear', async (t) => {
  const site = createSite(t);
  const directory = writePackage(join(site.root, 'p'), {
    'qinglong.yaml': `schema: qinglong/package@v1
name: p
version: 1.0.0
tasks: { a: { shell: 'true' } }
workflows:
  day: { steps: { a: { task: a } } }
  night: { steps: { a: { task: a } } }
`,
  });
  const several = await call(t, site, 'run', directory);
  t.equal(several.code, 2);
  t.match(several.err, 'package p has 2 workflows; choose one with --workflow: day, night');
  const misspelled = await call(t, site, 'run', directory, '--workflow', 'nigth');
  t.equal(misspelled.code, 2);
  t.match(misspelled.err, 'did you mean night?');
  t.notOk(existsSync(site.data), 'nothing was written');
  t.equal((await call(t, site, 'run', directory, '--workflow', 'night')).code, 0);
});

t.test('a file in place of a package directory is told with the directory that is meant', async (t) => {
  const site = createSite(t);
  const file = join(writeSteps(site, 'demo', { a: { shell: 'true' } }), 'qinglong.yaml');
  for (const command of [['package', 'check'], ['package', 'install'], ['run']]) {
    const { code, err } = await call(t, site, ...command, file);
    t.equal(code, 2, command.join(' '));
    t.match(
      err,
      `${file} is a file, not the directory of a package; give the directory that it is in: ${site.root}/demo\n`,
    );
  }
  t.notOk(existsSync(site.data));
});

t.test('a disabled package is refused with the command that enables it', async (t) => {
  const site = createSite(t);
  const directory = writeSteps(site, 'demo', { a: { shell: 'true' } });
  await call(t, site, 'package', 'install', directory);
  await call(t, site, 'package', 'disable', 'demo');
  for (const command of [
    ['workflow', 'start', 'demo/main'],
    ['run', directory],
  ]) {
    const { code, err } = await call(t, site, ...command);
    t.equal(code, 3);
    t.match(err, `package demo is disabled; let it start again: ${selfOf(site)} package enable demo\n`);
  }
  t.match((await call(t, site, 'package', 'install', directory)).out, `: ${selfOf(site)} package enable demo\n`);
});

t.test('an answer that nobody reads to its end ends the command quietly', async (t) => {
  const site = createSite(t);
  const running = start(t, site, ['--help']);
  running.process.stdout!.destroy();
  const { code, err } = await running.ended;
  t.same([code, err], [0, '']);
});

t.test('help and version need no data directory', async (t) => {
  const site = createSite(t);
  const help = await call(t, site, 'runs', 'logs', '--help');
  t.equal(help.code, 0);
  const options = '[--attempt N] [--tail N] [--all] [--offset BYTES] [--bytes N] [--follow] [--raw]';
  t.equal(help.out.split('\n')[0], `usage: ${nameOf()} runs logs ID [STEP] ${options}`);
  t.equal((await call(t, site, 'help', 'runs', 'logs')).out, help.out);
  t.match(await call(t, site, 'package', 'quarantine', 'demo'), {
    code: 2,
    err: `usage: ${nameOf()} package quarantine NAME --reason TEXT; `,
  });
  const version = await call(t, site, '--version');
  t.match(version.out, /^qinglong-edge \d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\), Node\.js \S+, SQLite \S+\n$/);
  t.equal((await call(t, site)).code, 2, 'nothing at all is a mistake');
});

t.test(
  'help of what holds a directory tells every setting, and what else takes one says nothing of the rest',
  async (t) => {
    const site = createSite(t);
    for (const command of ['serve', 'run']) {
      const { out } = await call(t, site, command, '--help');
      for (const name of settingNames) {
        t.match(out, new RegExp(`^ +--${settingFlag(name)} .+ \\[${settingVariable(name)}\\]$`, 'm'));
      }
    }
    const stop = (await call(t, site, 'stop', '--help')).out;
    t.match(stop, '[--on-stop HOW]\n');
    t.notMatch(stop, settingVariable('onStop'), 'the daemon has its own');
  },
);

t.test('a sound package is said to be sound, and not installed', async (t) => {
  const site = createSite(t);
  const directory = writeSteps(site, 'sound', { a: { shell: 'true' } });
  const { code, out } = await call(t, site, 'package', 'check', directory);
  t.equal(code, 0);
  t.match(out, /^sound 1\.0\.0 is sound: 1 task, 1 workflow in 1 file, /);
  t.notOk(existsSync(site.data));
});

t.test('run says of a workflow that is disabled that it is, as workflow start does', async (t) => {
  const site = createSite(t);
  const directory = writeSteps(site, 'demo', { a: { shell: 'true' } }, 'enabled: false');
  const refused = await call(t, site, 'run', directory, '--workflow', 'main');
  t.equal(refused.code, 3);
  t.match(
    refused.err,
    /^qinglong-edge: not-allowed: workflow main is disabled in its package; remove `enabled: false`/,
  );
  t.notOk(existsSync(site.data), 'nothing is written before');
  t.match((await call(t, site, 'run', directory)).err, /package demo has no workflow that is enabled; remove/);
  await call(t, site, 'package', 'install', directory);
  const { code, err } = await call(t, site, 'workflow', 'start', 'demo/main');
  t.equal(code, 3);
  t.match(err, `workflow main is disabled in its package; see \`${selfOf(site)} package show demo\``);
});

t.test('the reason of a quarantine is shown, and told with every refusal that it leads to', async (t) => {
  const site = createSite(t);
  const directory = writeSteps(site, 'demo', { a: { shell: 'true' } });
  await call(t, site, 'package', 'install', directory);
  await call(t, site, 'package', 'quarantine', 'demo', '--reason', 'mines coins');
  const { out } = await call(t, site, 'package', 'show', 'demo');
  t.match(out, /^quarantined +mines coins; nothing of it starts: install other bytes$/m);
  t.match(await ask(t, site, 'package', 'show', 'demo'), { isQuarantined: true, quarantineReason: 'mines coins' });
  for (const words of [
    ['workflow', 'start', 'demo/main'],
    ['package', 'install', directory],
    ['package', 'enable', 'demo'],
    ['run', directory],
  ]) {
    const { code, err } = await call(t, site, ...words);
    t.equal(code, 3);
    t.match(err, /quarantined \(mines coins\);/, words.join(' '));
  }
  t.match(
    (await call(t, site, 'package', 'verify', 'demo')).out,
    /^quarantined \(mines coins\): nothing of it starts/m,
  );
});

t.test('a key that is taken by another workflow is told to be replaced, and nothing of plans', async (t) => {
  const site = createSite(t);
  for (const name of ['one', 'two']) {
    await call(t, site, 'package', 'install', writeSteps(site, name, { a: { shell: 'true' } }));
  }
  await call(t, site, 'workflow', 'start', 'one/main', '--key', 'k');
  const { code, err } = await call(t, site, 'workflow', 'start', 'two/main', '--key', 'k');
  t.equal(code, 3);
  t.match(err, /^qinglong-edge: conflict: the idempotency key k started one\/main; use another key\n$/);
});

t.test('whoever gives a wrong option is told which ones there are', async (t) => {
  const site = createSite(t);
  const { code, err } = await call(t, site, 'runs', 'list', '--bogus');
  t.equal(code, 2);
  t.match(err, `usage: ${nameOf()} runs list [--status STATUS] [--package NAME] [--limit N]; see `);
});
