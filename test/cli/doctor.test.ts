import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { launcherShell } from '../launcher-shell.ts';
import { startProgram } from '../program.ts';
import { ask, call, createSite, printed, type Site, start, waits, writeSteps } from './program.ts';

type Report = {
  readonly checks: readonly {
    readonly name: string;
    readonly state: string;
    readonly text: string;
    readonly facts: Readonly<Record<string, unknown>>;
  }[];
};

async function checkOf(t: Test, site: Site, name: string) {
  const { checks } = JSON.parse((await call(t, site, 'doctor', '--json')).out) as Report;
  return checks.find((check) => check.name === name);
}

/** A run whose command goes on after its holder was killed; where its attempt's files are. */
async function leaveRunning(t: Test, site: Site): Promise<{ readonly runId: string; readonly directory: string }> {
  const serving = start(t, site, ['serve']);
  await printed(serving, 'serves');
  await call(t, site, 'package', 'install', writeSteps(site, 'demo', { a: { shell: waits } }));
  const { runId } = await ask<{ runId: string }>(t, site, 'workflow', 'start', 'demo/main');
  const following = start(t, site, ['runs', 'events', runId, '--follow']);
  await printed(following, 'attempt.started');
  following.process.kill('SIGKILL');
  type Status = { readonly attempts: readonly { readonly attemptId: string; readonly state: string }[] };
  let status = await ask<Status>(t, site, 'status');
  while (status.attempts[0]?.state !== 'running') {
    status = await ask<Status>(t, site, 'status');
  }
  serving.process.kill('SIGKILL');
  await Promise.all([serving.ended, following.ended]);
  return { runId, directory: join(site.run, 'attempts', status.attempts[0].attemptId) };
}

t.test('doctor names an attempt that cannot be decided, and why', async (t) => {
  const site = createSite(t);
  const { runId, directory } = await leaveRunning(t, site);
  t.match(await checkOf(t, site, 'attempts'), { state: 'ok', text: '1 without an end, each accounted for' });
  renameSync(join(directory, 'identity'), join(site.root, 'identity'));
  t.match(await checkOf(t, site, 'attempts'), {
    state: 'warning',
    text: /^step a of run \S+: .+identity is missing or damaged; left as it is until /,
    facts: { active: [{ runId, state: 'undecidable' }] },
  });
  t.match((await call(t, site, 'status')).out, /demo\/main +a +1 +cannot be decided .+ is missing or damaged$/m);
  renameSync(join(site.root, 'identity'), join(directory, 'identity'));
  t.equal((await call(t, site, 'runs', 'cancel', runId)).code, 0);
});

t.test('doctor names receipts that are none, and what is left of attempts that have ended', async (t) => {
  const site = createSite(t);
  const { runId, directory } = await leaveRunning(t, site);
  const name = 'left in the run directory';
  t.match(await checkOf(t, site, name), { state: 'ok', facts: { leftovers: [] } });
  const receipt = readFileSync(join(directory, 'receipt'));
  writeFileSync(join(directory, 'receipt'), 'ql-receipt-1 somebody-else 0 1.00 end\n');
  t.match(await checkOf(t, site, name), {
    state: 'warning',
    text: /^1 attempt with a receipt of another shape or of another attempt, which counts as none, such as /,
  });
  writeFileSync(join(directory, 'receipt'), receipt);
  mkdirSync(join(site.run, 'attempts', 'at_gone'));
  writeFileSync(join(site.run, 'attempts', 'at_gone', 'receipt'), 'ql-receipt-1 at_gone 0 1.00 end\n');
  t.match(await checkOf(t, site, name), {
    state: 'warning',
    text: /^1 attempt with a receipt that came too late to be counted, such as .+; a holder that starts looks/,
    facts: { leftovers: [{ attemptId: 'at_gone', receipt: 'late' }] },
  });
  t.equal((await call(t, site, 'runs', 'cancel', runId)).code, 0);
});

// What the environment says comes before config.json.
const skip = launcherShell === null ? false : 'the environment names the shell of this run';
t.test('doctor tells of a launcher whose shell is not there', { skip }, async (t) => {
  const site = createSite(t);
  t.match(await checkOf(t, site, 'launcher'), { state: 'ok', text: /env, nice, mkfifo, dd and wc are there$/ });
  mkdirSync(site.data, { mode: 0o700 });
  writeFileSync(join(site.data, 'config.json'), JSON.stringify({ shell: '/none/sh -e' }));
  t.match(await checkOf(t, site, 'launcher'), {
    state: 'bad',
    text: /^there is no \/none\/sh, which runs the launcher/,
  });
  writeFileSync(join(site.data, 'config.json'), JSON.stringify({ shell: [] }));
  const { code, out } = await call(t, site, 'doctor');
  t.equal(code, 4);
  t.match(out, /settings +bad +.+config\.json: shell must be the words of a shell/);
});

t.test('doctor tells what Node.js makes of TZ, whatever stands there', async (t) => {
  const site = createSite(t);
  const file = join(import.meta.dirname, '../../src/cli/main.ts');
  const zones: readonly (readonly [string, RegExp])[] = [
    ['Europe/Berlin', /^zone +ok +Europe\/Berlin, UTC\+0[12]:00$/m],
    ['UTC0', /^zone +ok +UTC, UTC\+00:00$/m],
    ['', /^zone +ok +UTC, UTC\+00:00$/m],
    ['CET-1CEST', /^zone +warning +UTC, UTC\+00:00; TZ is CET-1CEST, which Node\.js reads as UTC: give a name such/m],
    ['Foo/Bar', /^zone +warning +UTC, UTC\+00:00; TZ is Foo\/Bar, which Node\.js reads as UTC/m],
    ['a\u001b[31mb', /^zone +warning +UTC, UTC\+00:00; TZ is a\\x1b\[31mb, which/m],
  ];
  for (const [zone, pattern] of zones) {
    const { out } = await startProgram(t, site, ['doctor'], { file, env: { TZ: zone } }).ended;
    t.match(out, pattern, JSON.stringify(zone));
  }
});

t.test('a config.json that lost profile and durability is damage to doctor, as it is to serve', async (t) => {
  const site = createSite(t);
  await call(t, site, 'package', 'install', writeSteps(site, 'demo', { a: { shell: 'true' } }));
  writeFileSync(join(site.data, 'config.json'), '{"keepOutput":"always"}\n');
  const refused = await call(t, site, 'serve', '--until-idle');
  t.equal(refused.code, 5);
  t.match(refused.err, /^qinglong-edge: damaged: \S+config\.json no longer says profile and durability; put back/);
  const { code, out } = await call(t, site, 'doctor');
  t.equal(code, 5);
  t.match(out, /^config\.json +bad +damaged: \S+config\.json no longer says profile and durability; put back/m);
  const status = await call(t, site, 'status');
  t.match(status.out, /^settings +cannot be read, so nothing can hold the directory: .+ no longer says profile/m);
  t.notMatch(status.out, 'as a holder that is started here would have them');
  t.equal(status.code, 0);
});

t.test('doctor on a database that is none does not send its reader to doctor', async (t) => {
  const site = createSite(t);
  await call(t, site, 'package', 'install', writeSteps(site, 'demo', { a: { shell: 'true' } }));
  writeFileSync(join(site.data, 'qinglong.db'), 'no database'.repeat(400));
  const { code, out } = await call(t, site, 'doctor');
  t.equal(code, 5);
  t.match(out, /^database +bad +damaged: .+ is not a database \(SQLite 26\); restore a backup$/m);
  t.match((await call(t, site, 'runs', 'list')).err, '; run `doctor`; restore a backup if it says');
});
