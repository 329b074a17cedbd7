// The command line on a shared database: the commands that it has, and what is otherwise there than in a directory.
import t, { type Test } from 'tap';
import { commands } from '../../src/cli/commands.ts';
import { sharedLine } from '../../src/cli/shared-commands.ts';
import { type Gated, gatedName, writeGated } from './gated.ts';
import { type Called, Ground } from './ground.ts';

async function open(t: Test): Promise<{ readonly ground: Ground; readonly gated: Gated }> {
  const ground = await Ground.open();
  t.teardown(() => ground.close());
  const gated = writeGated(ground.root);
  t.teardown(() => gated.close());
  return { ground, gated };
}

function documentOf({ out }: Called): Record<string, unknown> {
  return JSON.parse(out) as Record<string, unknown>;
}

t.test('it has the same commands, but for those about one data directory', async (t) => {
  const names = sharedLine.commands.map(({ words }) => words.join(' '));
  t.equal(new Set(names).size, names.length);
  const missing = commands.map(({ words }) => words.join(' ')).filter((name) => !names.includes(name));
  t.same(missing.sort(), ['advance', 'doctor', 'package verify', 'stop']);
});

t.test('from a package to the end of its runs', async (t) => {
  const { ground, gated } = await open(t);
  t.match(documentOf(await ground.ask('status')), { runs: { running: 0, setAside: 0 }, runtimes: [] });
  t.match((await ground.ask('--text', 'status')).out, /runtimes +none: runs move only while one serves: .* serve/);
  t.equal((await ground.ask('package', 'install', gated.directory)).code, 0);
  const started = documentOf(await ground.ask('workflow', 'start', `${gatedName}/plain`, '--key', 'k'));
  const { runId } = started as { readonly runId: string };
  t.match(documentOf(await ground.ask('workflow', 'start', `${gatedName}/plain`, '--key', 'k')), {
    runId,
    outcome: 'existing',
  });
  ground.serve('machine');
  await ground.until(() => gated.pids().length === 1);
  t.match(documentOf(await ground.ask('status')), {
    runs: { running: 1 },
    runtimes: [{ runs: 1, described: /run-directory \S+ process \d+$/ }],
  });
  const followed = ground.ask('runs', 'events', runId, '--follow');
  gated.release();
  const events = (await followed).out.trim().split('\n');
  t.match(JSON.parse(events.at(-1)!), { type: 'workflow.succeeded' });
  t.match(documentOf(await ground.ask('runs', 'show', runId)), { run: { id: runId, status: 'succeeded' } });
  t.match(documentOf(await ground.ask('runs', 'list')), { runs: [{ id: runId }] });
  t.match(documentOf(await ground.ask('verify')), { isSound: true, runs: 1, integrity: null });
  t.match(documentOf(await ground.ask('verify', runId)), { isSound: true });
  gated.release();
  const retried = await ground.ask('--text', 'runs', 'retry', runId, '--wait');
  t.equal(retried.code, 0, retried.err);
  t.match(retried.out, /succeeded: gated\/plain/);
  t.match(documentOf(await ground.ask('verify')), { isSound: true, runs: 2 });
});

t.test('who waits for a run has its exit code; who is interrupted leaves it to the runtimes', async (t) => {
  const { ground, gated } = await open(t);
  await ground.ask('package', 'install', gated.directory);
  ground.serve('machine');
  const waiting = ground.ask('--text', 'workflow', 'start', `${gatedName}/plain`, '--wait');
  await ground.until(() => gated.pids().length === 1);
  process.kill(gated.pids()[0]!, 'SIGKILL');
  t.equal((await waiting).code, 1);
  const left = ground.start(gatedName, 'plain');
  await ground.until(() => gated.pids().length === 2);
  const watching = ground.spawn('caller', { words: ['run', gated.directory, '--workflow', 'again'] });
  await ground.until(() => gated.pids().length === 3);
  watching.process.kill('SIGQUIT');
  const called = await watching.called;
  t.equal(called.code, 131);
  t.match(called.err, /goes on; see `.* runs show/);
  gated.release();
  gated.release();
  t.same(await ground.idle(60), []);
  t.equal((await ground.show(await left)).run.status, 'succeeded');
});

t.test('a quarantine ends what runs of the package, wherever it runs', async (t) => {
  const { ground, gated } = await open(t);
  await ground.ask('package', 'install', gated.directory);
  ground.serve('machine');
  const runId = await ground.start(gatedName, 'plain');
  await ground.until(() => gated.pids().length === 1);
  t.equal((await ground.ask('package', 'quarantine', gatedName, '--reason', 'no longer')).code, 0);
  t.same(await ground.idle(60), []);
  t.equal((await ground.show(runId)).run.status, 'cancelled');
  t.match(await ground.ask('workflow', 'start', `${gatedName}/plain`), { code: 3, err: /quarantined/ });
});

t.test('a runtime until nothing runs ends by itself', async (t) => {
  const { ground, gated } = await open(t);
  await ground.ask('package', 'install', gated.directory);
  const runId = await ground.start(gatedName, 'plain');
  gated.release();
  const served = await ground.ask('serve', '--until-idle', '--lease', '5');
  t.equal(served.code, 0, served.err);
  t.match(JSON.parse(served.out), { type: 'ready', engine: /^PostgreSQL/, store: /^postgres:/ });
  t.equal((await ground.show(runId)).run.status, 'succeeded');
  t.same((await ground.leases.workers()).length, 0);
});

t.test(
  'without a database, or one that is not migrated, it says what to do; a password is never repeated',
  async (t) => {
    const { ground } = await open(t);
    t.match(await ground.ask('--text', '--without-store', 'runs', 'list'), {
      code: 2,
      err: /no database is named; give --store/,
    });
    t.equal((await ground.ask('--without-store', 'version')).code, 0);
    const empty = await ground.databases.createEmpty();
    const url = ground.databases.urlOf(empty).replace('postgres@', 'postgres:geheim@');
    const refused = await ground.spawn('caller', { url, words: ['--text', 'runs', 'list'] }).called;
    t.match(refused, { code: 4, err: /lacks pg-0044-baseline.*`migrate`/ });
    t.match(await ground.spawn('caller', { url, words: ['migrate'] }).called, { code: 0, out: /"applied":\["pg-0044/ });
    t.match(await ground.spawn('caller', { url, words: ['--text', 'migrate'] }).called, {
      code: 0,
      out: /is up to date/,
    });
    const answers = [
      await ground.spawn('caller', { url, words: ['--text', 'status'] }).called,
      await ground.spawn('caller', { url, words: ['--text', 'runs', 'list'] }).called,
      await ground.spawn('caller', { url, words: ['runs', 'show', 'x'] }).called,
      refused,
    ];
    for (const { out, err } of answers) {
      t.notMatch(`${out}${err}`, /geheim/);
    }
    t.match(answers[0]?.out, /--store postgres:\/\/… --data .* serve/);
  },
);
