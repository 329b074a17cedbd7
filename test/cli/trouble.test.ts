// What is said where something is not as it should be: settings that cannot be read, directories that cannot be used,
// a database that is damaged.
import { chmodSync, closeSync, mkdirSync, openSync, symlinkSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t, { type Test } from 'tap';
import { ask, call, createSite, type Refused, type Site, writeSteps } from './program.ts';

type Report = { readonly checks: readonly { readonly name: string; readonly state: string; readonly text: string }[] };

async function checkOf(t: Test, site: Site, name: string) {
  const { checks } = JSON.parse((await call(t, site, 'doctor', '--json')).out) as Report;
  return checks.find((check) => check.name === name);
}

/** Makes the root page of a table unreadable. */
function damage(site: Site, table: string): void {
  const file = join(site.data, 'qinglong.db');
  const db = new DatabaseSync(file);
  const row = db.prepare('SELECT rootpage FROM sqlite_schema WHERE name = ?').get(table);
  db.close();
  const descriptor = openSync(file, 'r+');
  writeSync(descriptor, Buffer.alloc(1024, 0xff), 0, 1024, (Number(row?.['rootpage']) - 1) * 1024);
  closeSync(descriptor);
}

t.test('a config.json that is no JSON keeps nobody from reading, and is told once', async (t) => {
  const site = createSite(t);
  await call(t, site, '--profile', 'standalone', 'run', writeSteps(site, 'demo', { a: { shell: 'false' } }));
  const config = join(site.data, 'config.json');
  writeFileSync(config, '{bad');
  for (const words of [['runs', 'list'], ['package', 'list'], ['runs', 'logs'], ['status']] as const) {
    const { runs } = await ask<{ readonly runs: readonly { readonly id: string }[] }>(t, site, 'runs', 'list');
    const { code, out, err } = await call(t, site, ...words, ...(words[1] === 'logs' ? [runs[0]!.id] : []));
    t.equal(code, 0, words.join(' '));
    t.equal(`${out}${err}`.split(`${config} is not a JSON object`).length - 1, 1, words.join(' '));
  }
  t.match(await ask(t, site, 'status'), { profile: null, settingsError: /not a JSON object/ });
  t.match(await call(t, site, 'serve', '--until-idle'), { code: 2, err: /not a JSON object/ });
  t.match(await checkOf(t, site, 'settings'), { state: 'bad', text: /config\.json is not a JSON object/ });
  t.match(await checkOf(t, site, 'launcher'), { state: 'ok' });
});

t.test('doctor names every wrong key of the settings, profile and durability included', async (t) => {
  const site = createSite(t);
  await call(t, site, 'package', 'install', writeSteps(site, 'demo', { a: { shell: 'true' } }));
  const config = { profile: 'x', durability: 'delete-extra', concurrency: 'a', stopLimit: 3 };
  writeFileSync(join(site.data, 'config.json'), JSON.stringify(config));
  const { state, text = '' } = (await checkOf(t, site, 'settings')) ?? {};
  t.equal(state, 'bad');
  for (const key of ['profile must be edge', 'concurrency must be a whole', 'stopLimit must be a whole']) {
    t.match(text, key);
  }
  t.match(await checkOf(t, site, 'durability'), { state: 'unknown' });
});

t.test('a data directory below a file is a mistake of whoever named it, for every command', async (t) => {
  const site = { ...createSite(t), data: '/dev/null/x' };
  const directory = writeSteps(site, 'demo', { a: { shell: 'true' } });
  for (const words of [['serve'], ['status'], ['runs', 'list'], ['package', 'install', directory]]) {
    const { code, err } = await call(t, site, ...words, '--json');
    t.equal(code, 2, words.join(' '));
    const { error } = JSON.parse(err) as Refused;
    t.match(error, { code: 'invalid', message: /^cannot .+: ENOTDIR$/, hint: /a part of this one is a file/ });
  }
  t.equal((await call(t, site, 'doctor')).code, 4);
});

t.test('a run directory that cannot be trusted is refused before anything is done, and doctor says so', async (t) => {
  const site = createSite(t);
  const directory = writeSteps(site, 'demo', { a: { shell: 'true' } });
  mkdirSync(join(site.root, 'real'), { mode: 0o700 });
  symlinkSync(join(site.root, 'real'), site.run);
  for (const words of [
    ['package', 'install', directory],
    ['run', directory],
    ['serve', '--until-idle'],
  ]) {
    const { code, out, err } = await call(t, site, ...words);
    t.equal(code, 4, words.join(' '));
    t.match(
      err,
      /unavailable: the run directory \S+ is a link; move it away, or name another run directory with --run-dir/,
    );
    t.notMatch(out + err, /\binstalled\b/);
  }
  t.match(await checkOf(t, site, 'run directory'), { state: 'bad', text: /is a link/ });
});

t.test('installing tells which settings are missing and which directory is in the way of other users', async (t) => {
  const site = createSite(t);
  const more = 'user: nobody, env: { A: { setting: token }, B: { setting: other, default: x } }';
  const directory = writeSteps(site, 'demo', { a: { shell: 'true', more } });
  chmodSync(site.root, 0o700);
  const { code, err } = await call(t, site, 'package', 'install', directory);
  t.equal(code, 0);
  t.match(
    err,
    /^it needs the setting token, which has no value yet: .+ settings set demo token - \(reads it from .+\)$/m,
  );
  t.notMatch(err, 'other,');
  const isRoot = process.geteuid?.() === 0;
  t.equal(err.includes(`${site.root} lets no other user pass: chmod o+x ${site.root}`), isRoot);
  const closedDirectory = isRoot ? site.root : null;
  const document = await ask(t, site, 'package', 'install', directory);
  t.match(document, { outcome: 'existing', missingSettings: ['token'], closedDirectory });
  if (isRoot) {
    t.match(await checkOf(t, site, 'other users'), { state: 'warning', text: `${site.root} lets no other user pass` });
  }
  chmodSync(site.root, 0o711);
  await call(t, site, 'settings', 'set', 'demo', 'token', 'x');
  t.equal((await call(t, site, 'package', 'install', directory)).err, '', 'and nothing once that is done');
});

t.test('serve --until-idle ends with 5 where the database is so damaged that nothing can start', async (t) => {
  const site = createSite(t);
  await call(t, site, 'package', 'install', writeSteps(site, 'demo', { a: { shell: 'true' } }));
  await call(t, site, 'workflow', 'start', 'demo/main');
  damage(site, 'QingLong3PluginPackageWorkflowAdmissionSteps');
  t.match(await call(t, site, 'serve', '--until-idle'), { code: 5, err: /qinglong-edge: damaged: .+malformed/ });
  t.match(await call(t, site, 'verify'), { code: 5, err: /restore a backup of the whole data directory/ });
});

t.test('values of settings are shown so that they can be told apart', async (t) => {
  const site = createSite(t);
  const more = 'env: { A: { setting: empty }, B: { setting: lines }, C: { setting: plain }, D: { setting: none } }';
  await call(t, site, 'package', 'install', writeSteps(site, 'demo', { a: { shell: 'true', more } }));
  for (const [name, value] of Object.entries({ empty: '', lines: 'one\ntwo', plain: 'a b' })) {
    await call(t, site, 'settings', 'set', 'demo', name, value);
  }
  const { out } = await call(t, site, 'settings', 'list', 'demo', '--values');
  t.match(out, /^empty .* ""$/m);
  t.match(out, /^lines .* "one\\ntwo"$/m);
  t.match(out, /^plain .* a b$/m);
  t.match(out, /^none +missing +a\.D$/m);
});

t.test('a list without what was asked for does not say that there is nothing', async (t) => {
  const site = createSite(t);
  const directory = writeSteps(site, 'demo', { a: { shell: 'exit 3', more: 'retry: { limit: 1, backoff: 10ms }' } });
  t.match((await call(t, site, 'package', 'list')).err, '`package install DIR`, `run DIR` and `serve` make one');
  await call(t, site, 'package', 'install', directory);
  t.match((await call(t, site, 'runs', 'list', '--package', 'none')).err, /^no runs; start one: /);
  await call(t, site, 'run', directory);
  t.match(
    (await call(t, site, 'runs', 'list', '--package', 'none')).err,
    /^no runs of package none; see all: .+list$/m,
  );
  t.match((await call(t, site, 'runs', 'list', '--status', 'timed_out')).err, /^no timed out runs; /);
  const { runs } = await ask<{ readonly runs: readonly { readonly id: string }[] }>(t, site, 'runs', 'list');
  const shown = await ask(t, site, 'runs', 'show', runs[0]!.id);
  t.match(shown, {
    steps: [
      {
        attempts: [
          { attempt: 1, number: 1 },
          { attempt: 2, number: 2 },
        ],
      },
    ],
  });
  await call(t, site, 'package', 'uninstall', 'demo');
  for (const more of [[], ['--wait']]) {
    t.match(await call(t, site, 'runs', 'retry', runs[0]!.id, ...more), {
      code: 3,
      err: /not-allowed: package demo is uninstalled; install it again: .+ package install DIR/,
    });
  }
});

t.test('a part of an output that is all there is not told to be a part', async (t) => {
  const site = createSite(t);
  const shell = 'i=0; while [ $i -lt 2000 ]; do echo "line number $i"; i=$((i + 1)); done; exit 3';
  const directory = writeSteps(site, 'demo', { a: { shell } });
  await call(t, site, 'run', directory, '--output-bytes-max', '4k');
  const { runs } = await ask<{ readonly runs: readonly { readonly id: string }[] }>(t, site, 'runs', 'list');
  const logs = (...words: readonly string[]) => call(t, site, 'runs', 'logs', runs[0]!.id, 'a', ...words);
  t.match((await logs()).err, 'only a part of its');
  t.notMatch((await logs('--offset', '0', '--bytes', '100')).err, 'only a part of its');
  t.notMatch((await logs('--tail', '2')).err, 'only a part of its');
  t.match((await logs('--offset', '100', '--bytes', '20000')).err, 'only a part of its');
});
