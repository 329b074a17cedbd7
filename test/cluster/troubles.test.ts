// Several runtimes on one database when something is wrong with one of them, or with a run: what is held elsewhere goes
// on, and nothing is held for good.
import { appendFileSync, existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { openProxy } from '../store/postgres/proxy.ts';
import { type Gated, gatedName, writeGated } from './gated.ts';
import { Ground } from './ground.ts';

type Scene = { readonly ground: Ground; readonly gated: Gated };

async function openScene(t: Test): Promise<Scene> {
  const ground = await Ground.open();
  t.teardown(() => ground.close());
  const gated = writeGated(ground.root);
  t.teardown(() => gated.close());
  await ground.ask('package', 'install', gated.directory);
  return { ground, gated };
}

const kindsOf = (gated: Gated) => gated.lines().map((line) => line.split(' ')[0]);

t.test('runs that others end do not take the place of what could be carried on', async (t) => {
  const { ground } = await openScene(t);
  ground.serve('machine', { concurrency: 1 });
  const failing = await Promise.all([1, 2, 3].map(() => ground.start(gatedName, 'later')));
  // Each has failed once and waits for its next try: nothing of it runs when it is cancelled.
  await ground.until(async () =>
    (await Promise.all(failing.map((runId) => ground.show(runId)))).every(
      ({ steps }) => steps[0]?.attempts[0]?.status === 'failed',
    ),
  );
  for (const runId of failing) {
    t.equal((await ground.ask('runs', 'cancel', runId)).code, 0);
  }
  const quick = await Promise.all([1, 2, 3].map(() => ground.start(gatedName, 'quick')));
  t.same(await ground.idle(60), []);
  for (const runId of quick) {
    t.equal((await ground.show(runId)).run.status, 'succeeded');
  }
  await ground.until(async () => (await ground.leases.workers()).every(({ runs }) => runs === 0));
});

t.test('who cannot keep package files leaves the runs to others, and says why', async (t) => {
  const { ground } = await openScene(t);
  const unfit = ground.serve('unfit');
  await unfit.ready;
  // Where its packages would be is something else.
  const packages = path.join(ground.root, 'unfit/packages');
  rmSync(packages, { recursive: true, force: true });
  writeFileSync(packages, 'no folder');
  const runs = await Promise.all([1, 2, 3, 4].map(() => ground.start(gatedName, 'quick')));
  await ground.until(() => /nothing is started for now/.test(unfit.said()));
  ground.serve('fit');
  t.same(await ground.idle(60), []);
  for (const runId of runs) {
    t.equal((await ground.show(runId)).run.status, 'succeeded');
  }
});

t.test('package files that were altered on one machine are fetched again', async (t) => {
  const { ground } = await openScene(t);
  ground.serve('machine');
  const first = await ground.start(gatedName, 'quick');
  t.same(await ground.idle(60), []);
  t.equal((await ground.show(first)).run.status, 'succeeded');
  const packages = path.join(ground.root, 'machine/packages');
  for (const lockDigest of readdirSync(packages)) {
    appendFileSync(path.join(packages, lockDigest, 'wait.sh'), '# altered\n');
  }
  const second = await ground.start(gatedName, 'quick');
  t.same(await ground.idle(60), []);
  t.equal((await ground.show(second)).run.status, 'succeeded');
});

t.test('a backlog of a workflow with a limit leaves room for others', async (t) => {
  const { ground, gated } = await openScene(t);
  const backlog = await Promise.all(Array.from({ length: 24 }, () => ground.start(gatedName, 'single-gate')));
  const quick = await Promise.all([1, 2, 3].map(() => ground.start(gatedName, 'quick')));
  ground.serve('one', { concurrency: 2 });
  ground.serve('two', { concurrency: 2 });
  await ground.until(async () =>
    (await Promise.all(quick.map((runId) => ground.show(runId)))).every(({ run }) => run.status === 'succeeded'),
  );
  t.equal(gated.pids().length, 1, 'of the others one runs');
  for (const _runId of backlog) {
    gated.release();
  }
  t.same(await ground.idle(120), []);
  t.equal(kindsOf(gated).filter((kind) => kind === 'end').length, backlog.length);
});

t.test('what a cancel that was recorded elsewhere left running is ended where it runs', async (t) => {
  const { ground, gated } = await openScene(t);
  const stopped = ground.serve('one');
  const runId = await ground.start(gatedName, 'plain');
  await ground.until(() => gated.pids().length === 1);
  stopped.process.kill('SIGSTOP');
  await ground.cancel(runId);
  ground.serve('two');
  await ground.until(async () => (await ground.show(runId)).run.status === 'cancelled');
  const [pid] = gated.pids();
  t.ok(existsSync(`/proc/${pid}`));
  stopped.process.kill('SIGCONT');
  await ground.until(() => !existsSync(`/proc/${pid}`));
  t.same(kindsOf(gated), ['begin']);
});

t.test('who serves until nothing runs, and who waits for a run, outlast a lost connection', async (t) => {
  const { ground, gated } = await openScene(t);
  const way = await openProxy(ground.databases.server);
  t.teardown(() => way.close());
  const url = way.urlOf(ground.database, ground.databases.server.superuser);
  const waiting = ground.spawn('caller', {
    url,
    words: ['--text', 'workflow', 'start', `${gatedName}/plain`, '--wait'],
  });
  await ground.until(async () => (await ground.idle(0)).length === 1);
  const serving = ground.spawn('machine', { url, words: ['serve', '--until-idle', '--lease', '2'] });
  await ground.until(() => gated.pids().length === 1);
  way.refuse(true);
  way.cutAll();
  gated.release();
  await ground.until(() => kindsOf(gated).includes('end'));
  way.refuse(false);
  t.equal((await waiting.called).code, 0);
  const served = await serving.called;
  t.equal(served.code, 0, served.err);
  t.same(kindsOf(gated), ['begin', 'end', 'after']);
});

t.test('output is shown on the machine that has it', async (t) => {
  const { ground, gated } = await openScene(t);
  ground.serve('one', { words: ['--keep-output', 'always'] });
  const runId = await ground.start(gatedName, 'speaking');
  t.same(await ground.idle(60), []);
  const here = await ground.spawn('one', { words: ['--text', 'runs', 'logs', runId, 'say'] }).called;
  t.match(here, { code: 0, out: /^hello$/m });
  const elsewhere = await ground.spawn('two', { words: ['--text', 'runs', 'logs', runId, 'say'] }).called;
  t.match(elsewhere, { code: 0, err: /on another machine/ });
  t.equal(gated.pids().length, 0);
});

t.test('a URL that is none is the caller’s mistake, and is not repeated', async (t) => {
  const { ground } = await openScene(t);
  for (const url of ['postgres://u:ge#heim@h/db', 'postgres://h:99999/db', 'postgres://u:geheim@h/db?sslcert=/none']) {
    const { code, out, err } = await ground.spawn('caller', { url, words: ['--text', 'runs', 'list'] }).called;
    t.equal(code, 2, err);
    t.notMatch(`${out}${err}`, /heim/);
    t.match(err, /%23/);
  }
});

t.test('a timeout that began on one machine has as much left on another, however long that is up', async (t) => {
  const { ground } = await openScene(t);
  // Begun in this boot; of another one this machine's uptime would say that it is over.
  const started = await ground.ask('workflow', 'start', `${gatedName}/patient`);
  const { runId } = JSON.parse(started.out) as { readonly runId: string };
  ground.serve('machine', { words: ['--boot-id', 'another'] });
  t.same(await ground.idle(60), []);
  t.equal((await ground.show(runId)).run.status, 'succeeded');
});

t.test('a run whose time was over before anybody had it times out, and nothing of it starts', async (t) => {
  const { ground, gated } = await openScene(t);
  const runId = await ground.start(gatedName, 'hasty');
  await ground.until(async () => (await ground.leases.time()) > (await ground.show(runId)).run.createdAtMs + 1_000);
  ground.serve('one');
  await ground.until(async () => (await ground.show(runId)).run.status !== 'running');
  t.equal((await ground.show(runId)).run.status, 'timed_out');
  t.same(gated.lines(), []);
});
