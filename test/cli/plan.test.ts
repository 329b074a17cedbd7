import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { Plan } from '../../src/core/plan.ts';
import { ask, call, createSite, type Site, start, writeSteps } from './program.ts';

type Admitted = { readonly outcome: string; readonly receipt: { readonly runId: string } };

async function plan(t: Test, site: Site, file: string): Promise<string> {
  const path = join(site.root, file);
  const { code, err } = await call(t, site, 'workflow', 'plan', 'demo/main', '--out', path);
  t.equal(code, 0, err);
  return path;
}

async function install(t: Test, site: Site, shell = 'true'): Promise<void> {
  t.equal((await call(t, site, 'package', 'install', writeSteps(site, 'demo', { a: { shell } }))).code, 0);
}

t.test('a plan is admitted once, and gives the same receipt ever after', async (t) => {
  const site = createSite(t);
  await install(t, site);
  const file = await plan(t, site, 'plan.json');
  const admit = async () => JSON.parse((await call(t, site, 'workflow', 'admit', file)).out) as Admitted;
  const first = await admit();
  t.equal(first.outcome, 'created');
  const expected = { outcome: 'existing', receipt: first.receipt };
  t.same(await admit(), expected, 'again');
  t.equal((await call(t, site, 'serve', '--until-idle')).code, 0);
  t.same(await admit(), expected, 'after its end');
  await call(t, site, 'package', 'quarantine', 'demo', '--reason', 'because');
  t.same(await admit(), expected, 'after quarantine');
  await call(t, site, 'package', 'uninstall', 'demo');
  t.same(await admit(), expected, 'after uninstall');
  const { runs } = await ask<{ runs: readonly { id: string }[] }>(t, site, 'runs', 'list');
  t.same(
    runs.map(({ id }) => id),
    [first.receipt.runId],
    'one run',
  );
});

t.test('a plan is printed, and admitted from standard input', async (t) => {
  const site = createSite(t);
  await install(t, site);
  const { out } = await call(t, site, 'workflow', 'plan', 'demo/main');
  t.match(JSON.parse(out) as Plan, { schema: 'qinglong/workflow-plan@v1', workflowId: 'main' });
  const { code, out: admitted } = await start(t, site, ['workflow', 'admit', '-'], out).ended;
  t.equal(code, 0);
  t.match(JSON.parse(admitted), { outcome: 'created' });
});

t.test('a changed plan is refused with every mistake, its place and its line', async (t) => {
  const site = createSite(t);
  await install(t, site);
  const file = await plan(t, site, 'plan.json');
  const contents = JSON.parse(readFileSync(file, 'utf8')) as Plan;
  writeFileSync(file, JSON.stringify({ ...contents, workflowId: 'Main!', extra: 1 }, null, 2));
  const { code, err } = await call(t, site, 'workflow', 'admit', file);
  t.equal(code, 2);
  t.match(err, /has 2 mistakes; /);
  t.match(err, /^ {2}\S+plan\.json:\d+: extra is not a known field$/m);
  t.match(err, /^ {2}\S+plan\.json:\d+: workflowId must be a name/m);
  writeFileSync(file, JSON.stringify({ ...contents, plannedAtMs: contents.plannedAtMs + 1 }));
  const altered = await call(t, site, 'workflow', 'admit', file);
  t.equal(altered.code, 2);
  t.match(altered.err, 'planDigest is not the digest of this plan');
});

t.test('a file that is no plan is told in words, once', async (t) => {
  const site = createSite(t);
  await install(t, site);
  const file = join(site.root, 'p.json');
  writeFileSync(file, '{');
  const broken = await call(t, site, 'workflow', 'admit', file);
  t.equal(broken.code, 2);
  t.equal(broken.err.split('is no JSON').length, 2, broken.err);
  t.match(await call(t, site, 'workflow', 'admit', `${file}.no`), {
    code: 2,
    err: `invalid: there is no file ${file}.no;`,
  });
  t.match(await call(t, site, 'workflow', 'admit', site.root), { code: 2, err: `${site.root} is a directory;` });
  const out = join(site.root, 'none', 'p.json');
  const planned = await call(t, site, 'workflow', 'plan', 'demo/main', '--out', out);
  t.match(planned, { code: 4, err: `there is no directory ${site.root}/none;` });
});

t.test('a new plan after a quarantine is refused, and its maker is told before', async (t) => {
  const site = createSite(t);
  await install(t, site);
  await call(t, site, 'package', 'quarantine', 'demo', '--reason', 'because');
  const planned = await call(t, site, 'workflow', 'plan', 'demo/main', '--out', join(site.root, 'late.json'));
  t.match(planned.err, 'this plan would not be admitted now');
  const { code, err } = await call(t, site, 'workflow', 'admit', join(site.root, 'late.json'));
  t.equal(code, 3);
  t.match(err, 'not-allowed');
});

t.test('a plan for an older generation is refused', async (t) => {
  const site = createSite(t);
  await install(t, site);
  const file = await plan(t, site, 'plan.json');
  await install(t, site, 'echo other');
  t.equal((await call(t, site, 'workflow', 'admit', file)).code, 3);
});

t.test('a key starts one run, also across generations', async (t) => {
  const site = createSite(t);
  await install(t, site);
  const first = await call(t, site, 'workflow', 'start', 'demo/main', '--key', 'k');
  await install(t, site, 'echo other');
  const again = await call(t, site, 'workflow', 'start', 'demo/main', '--key', 'k');
  t.equal(first.code, 0);
  t.equal(again.out, first.out, 'the id of the run');
  t.match(again.err, 'the key led to this run already');
});

t.test('what is not there is refused by name', async (t) => {
  const site = createSite(t);
  await install(t, site);
  for (const args of [
    ['plan', 'none/main'],
    ['plan', 'demo/none'],
    ['start', 'none/main'],
    ['start', 'demo/none'],
  ]) {
    const { code, err } = await call(t, site, 'workflow', ...args);
    t.equal(code, 3, args.join(' '));
    t.match(err, /^qinglong-edge: not-found: .*none/);
  }
});

t.test('start --wait carries the run on itself where nobody else does', async (t) => {
  const site = createSite(t);
  await install(t, site, 'echo hello; exit 2');
  const { code, out } = await call(t, site, 'workflow', 'start', 'demo/main', '--wait');
  t.equal(code, 1);
  t.match(out, '| hello');
});

t.test('advance moves one page of frontiers and starts nothing', async (t) => {
  const site = createSite(t);
  await install(t, site);
  await call(t, site, 'workflow', 'start', 'demo/main');
  t.same(await ask(t, site, 'advance', '--page', '1'), { outcomes: [], hasMore: false }, 'its step is ready already');
  t.match((await call(t, site, 'runs', 'list')).out, 'running');
});

t.test('a pipe with a name is as good as a file, for what is read and for what is written', async (t) => {
  const site = createSite(t);
  await install(t, site);
  const fifo = join(site.root, 'fifo');
  const saved = join(site.root, 'saved.json');
  t.equal(spawnSync('mkfifo', [fifo]).status, 0);
  // As a shell does it for `<(...)` and `>(...)`; each side waits for the other.
  const reader = spawn('/bin/sh', ['-c', 'cat "$0" >"$1"', fifo, saved], { stdio: 'ignore' });
  const hasRead = once(reader, 'close');
  t.equal((await call(t, site, 'workflow', 'plan', 'demo/main', '--out', fifo)).code, 0);
  await hasRead;
  const writer = spawn('/bin/sh', ['-c', 'cat "$1" >"$0"', fifo, saved], { stdio: 'ignore' });
  const hasWritten = once(writer, 'close');
  t.equal((await ask<{ readonly outcome: string }>(t, site, 'workflow', 'admit', fifo)).outcome, 'created');
  await hasWritten;
});

t.test('a FIFO in the place of the settings is refused, and not waited for', async (t) => {
  const site = createSite(t);
  await install(t, site);
  const config = join(site.data, 'config.json');
  rmSync(config);
  t.equal(spawnSync('mkfifo', [config]).status, 0);
  const ended = await call(t, site, 'serve', '--until-idle');
  t.equal(ended.code, 2);
  t.match(ended.err, `${config} is no regular file; `);
});
