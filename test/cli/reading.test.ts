import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { ask, call, createSite, newestRun, type Site, writePackage, writeSteps } from './program.ts';

/** Changes rows behind the product's back. */
function tamper(site: Site, sql: string): void {
  const db = new DatabaseSync(join(site.data, 'qinglong.db'));
  db.exec(sql);
  db.close();
}

t.test('a run is shown with its tree, its attempts and why it failed', async (t) => {
  const site = createSite(t);
  const retry = 'retry: { limit: 1, backoff: 10ms }';
  const steps = { a: { shell: 'true' }, b: { shell: 'echo no; exit 7', more: retry, needs: ['a'] } };
  await call(t, site, 'run', writeSteps(site, 'demo', steps));
  const { run } = await newestRun(t, site);
  const { code, out } = await call(t, site, 'runs', 'show', run.id.slice(0, 20));
  t.equal(code, 0);
  t.match(out, /^workflow +demo\/main, generation 1$/m);
  t.match(out, /^`- \+ a +succeeded +\S+\n {3}`- x b +failed +\S+ +\(attempt 2\) {2}exit code 7$/m);
  t.match(out, /^b +2 +failed .* 7 +3 B +exit code 7$/m);
});

t.test('attempts are shown in the order in which they started', async (t) => {
  const site = createSite(t);
  const gate = (name: string) =>
    `i=0; while [ ! -e ${site.root}/${name} ] && [ $i -lt 300 ]; do sleep 0.1; i=$((i + 1)); done`;
  const steps = {
    // Its second attempt starts after the only one of b has begun.
    a: { shell: `${gate('b')}; exit 1`, more: 'retry: { limit: 1, backoff: 10ms }' },
    b: { shell: `touch ${site.root}/b` },
  };
  await call(t, site, '--profile', 'standalone', 'run', writeSteps(site, 'demo', steps));
  const { run } = await newestRun(t, site);
  const { out } = await call(t, site, 'runs', 'show', run.id);
  t.same(
    [...out.matchAll(/^([ab]) +(\d) +(?:failed|succeeded)/gm)].map(([, key, ordinal]) => `${key}${ordinal}`),
    ['a1', 'b1', 'a2'],
  );
});

t.test('a cancelled run is shown without being told to show it', async (t) => {
  const site = createSite(t);
  await call(t, site, 'package', 'install', writeSteps(site, 'demo', { a: { shell: 'true' } }));
  const { runId } = await ask<{ runId: string }>(t, site, 'workflow', 'start', 'demo/main');
  await call(t, site, 'runs', 'cancel', runId);
  const { out } = await call(t, site, 'runs', 'show', runId);
  t.match(out, /^status +cancelled$/m);
  t.notMatch(out, 'runs show');
});

t.test('events say in a few words what happened, and all of it only when asked; nothing trails', async (t) => {
  const site = createSite(t);
  await call(t, site, 'run', writeSteps(site, 'demo', { a: { shell: 'echo no; exit 7', more: 'timeout: 1m' } }));
  const { run } = await newestRun(t, site);
  const brief = (await call(t, site, 'runs', 'events', run.id)).out;
  t.match(brief, /^ {3}1 {2}\S+ \S+ {2}workflow\.admitted +demo\/main, generation 1, by \S+$/m);
  t.match(brief, /attempt\.started +a {2}for 1m00s at most$/m);
  t.match(brief, /attempt\.failed +a {2}exit code 7, 3 B of output$/m);
  t.notMatch(brief, /[{}]|[ \t]$/m);
  const whole = (await call(t, site, 'runs', 'events', run.id, '--verbose')).out;
  t.match(whole, /attempt\.failed +a {2}\{"exitCode":7,"outputBytes":3,.*\}$/m);
  t.notMatch(whole, /[ \t]$/m);
});

t.test('a beginning of an id is enough where it is one run, and says which there are otherwise', async (t) => {
  const site = createSite(t);
  const directory = writeSteps(site, 'demo', { a: { shell: 'true' } });
  await call(t, site, 'run', directory);
  await call(t, site, 'run', directory);
  const { runs } = await ask<{ runs: readonly { id: string }[] }>(t, site, 'runs', 'list');
  const [second, first] = runs.map(({ id }) => id) as [string, string];
  const ambiguous = await call(t, site, 'runs', 'show', first.slice(0, 4));
  t.equal(ambiguous.code, 2);
  t.match(ambiguous.err, `several runs: ${first}, ${second}`);
  t.equal((await call(t, site, 'runs', 'show', first.slice(0, 18))).code, 0);
  const none = await call(t, site, 'runs', 'show', 'zzz');
  t.equal(none.code, 3);
  t.match(none.err, 'no run has the id zzz');
});

t.test('the list is newest first, bounded, and filtered', async (t) => {
  const site = createSite(t);
  await call(t, site, 'run', writeSteps(site, 'good', { a: { shell: 'true' } }));
  await call(t, site, 'run', writeSteps(site, 'bad', { a: { shell: 'false' } }));
  type List = { readonly runs: readonly { readonly packageName: string; readonly setAside: null }[] };
  const names = async (...args: readonly string[]) =>
    (await ask<List>(t, site, 'runs', 'list', ...args)).runs.map(({ packageName }) => packageName);
  t.same(await names(), ['bad', 'good']);
  t.same(await names('--limit', '1'), ['bad']);
  t.same(await names('--status', 'succeeded'), ['good']);
  t.same(await names('--package', 'bad'), ['bad']);
  t.match((await call(t, site, 'runs', 'list')).out, /^RUN +STATUS +WORKFLOW +STARTED +TOOK\n/);
});

t.test('verify tells a sound history from a changed one, run by run', async (t) => {
  const site = createSite(t);
  await call(t, site, 'run', writeSteps(site, 'good', { a: { shell: 'true' } }));
  await call(t, site, 'run', writeSteps(site, 'bad', { a: { shell: 'false' } }));
  const { run } = await newestRun(t, site);
  t.match(await call(t, site, 'verify'), { code: 0, out: /\n2 runs, \d+ events: sound\n$/ });
  const place = `recordKey >> 8 = (SELECT runKey FROM RunIdentities WHERE runId = '${run.id}')`;
  tamper(site, `UPDATE RunRecords SET errorSummary = 'something else' WHERE ${place} AND recordKey & 255 = 0`);
  const { code, out } = await call(t, site, 'verify');
  t.equal(code, 5);
  t.match(out, `run ${run.id} is not sound:\n  `);
  t.match(out, /2 runs, \d+ events: 1 run not sound/);
  t.equal((await call(t, site, 'verify', run.id)).code, 5);
  t.match(await call(t, site, 'runs', 'list'), { code: 0, out: /damaged/ });
  t.equal((await call(t, site, 'runs', 'show', run.id)).code, 5);
});

t.test('a run that was set aside is taken back only when it is sound', async (t) => {
  const site = createSite(t);
  await call(t, site, 'run', writeSteps(site, 'demo', { a: { shell: 'true' } }));
  const { run } = await newestRun(t, site);
  tamper(site, `INSERT INTO SetAside (runId, code, summary, atMs) VALUES ('${run.id}', 'damaged', 'a test', 1)`);
  t.match(await call(t, site, 'doctor'), { code: 5, out: /damaged runs +bad +1 run set aside: .* \(a test\)/ });
  t.match((await call(t, site, 'runs', 'list')).out, 'set aside: a test');
  t.match(await call(t, site, 'verify', run.id, '--clear'), {
    code: 0,
    out: `run ${run.id} is sound and taken back\n`,
  });
  t.match(await call(t, site, 'verify', run.id, '--clear'), { code: 0, out: `run ${run.id} was not set aside\n` });
  t.equal((await call(t, site, 'doctor')).code, 0);
});

t.test('a schema that someone changed is told by doctor and by verify, as serve would refuse it', async (t) => {
  const site = createSite(t);
  await call(t, site, 'run', writeSteps(site, 'demo', { a: { shell: 'true' } }));
  const db = new DatabaseSync(join(site.data, 'qinglong.db'));
  db.exec('CREATE TABLE Extra (id INTEGER)');
  db.close();
  t.match(await call(t, site, 'doctor'), {
    code: 5,
    out: /^schema +bad +is not as .* table Extra: not part of the schema/m,
  });
  t.match(await call(t, site, 'verify'), { code: 5, out: /table Extra/ });
  t.equal((await call(t, site, 'serve', '--until-idle')).code, 5);
});

t.test('doctor looks at the machine without a directory, and at the directory with one', async (t) => {
  const site = createSite(t);
  const before = await call(t, site, 'doctor');
  t.equal(before.code, 0);
  t.match(before.out, /^data directory +warning +there is none at /m);
  await call(t, site, '--durability', 'delete-full', 'run', writeSteps(site, 'demo', { a: { shell: 'true' } }));
  const { out } = await call(t, site, 'doctor');
  t.match(out, /^durability +warning +profile edge, delete-full: .*a power cut may undo the last commit/m);
  t.match(out, /^write and sync +ok +delete-full works/m);
  t.match(out, /^schema +ok +local-control-core \d+$/m);
  type Report = { readonly checks: readonly { readonly name: string; readonly state: string }[] };
  const { checks } = await ask<Report>(t, site, 'doctor');
  t.ok(checks.some(({ name, state }) => name === 'clock' && state === 'ok'));
});

t.test('packages and workflows are listed with what an operator must know of them', async (t) => {
  const site = createSite(t);
  const file = `schema: qinglong/package@v1
name: demo
version: 2.0.0
title: "A title \\u2713"
tasks: { a: { run: [/bin/true], title: Says nothing } }
workflows: { main: { title: The one, timeout: 90s, steps: { a: { task: a } } } }
`;
  await call(t, site, 'package', 'install', writePackage(join(site.root, 'demo'), { 'qinglong.yaml': file }));
  t.match((await call(t, site, 'package', 'list')).out, /^demo +2\.0\.0 +1 +active +1 .* A title ✓$/m);
  t.match((await call(t, site, 'workflow', 'list')).out, /^demo\/main +active +1 +1m30s +The one$/m);
  t.equal((await call(t, site, 'package', 'disable', 'demo', '--reason', 'holiday')).code, 0);
  t.match((await call(t, site, 'package', 'show', 'demo')).out, /^state +disabled\nreason +holiday$/m);
  t.equal((await call(t, site, 'workflow', 'start', 'demo/main')).code, 3);
  t.match((await call(t, site, 'package', 'disable', 'demo')).out, 'demo is disabled already');
  t.equal((await call(t, site, 'package', 'enable', 'demo')).code, 0);
  t.equal((await call(t, site, 'package', 'quarantine', 'demo', '--reason', 'bad')).code, 0);
  t.match((await call(t, site, 'package', 'list')).out, 'quarantined');
  t.equal((await call(t, site, 'package', 'uninstall', 'demo')).code, 0);
  t.match((await call(t, site, 'workflow', 'list')).err, 'no workflows');
  t.match(await call(t, site, 'package', 'show', 'none'), { code: 3, err: /not installed/ });
});
