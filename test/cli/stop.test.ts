import { spawn } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import {
  ask,
  call,
  createSite,
  newestRun,
  printed,
  type Running,
  type Site,
  start,
  waits,
  writeSteps,
} from './program.ts';

async function serveBusy(t: Test, site: Site, ...options: readonly string[]): Promise<Running> {
  const serving = start(t, site, ['serve', ...options]);
  await printed(serving, 'serves');
  await call(t, site, 'package', 'install', writeSteps(site, 'demo', { a: { shell: waits } }));
  const { runId } = await ask<{ runId: string }>(t, site, 'workflow', 'start', 'demo/main');
  const following = start(t, site, ['runs', 'events', runId, '--follow']);
  await printed(following, 'attempt.started');
  following.process.kill('SIGKILL');
  await following.ended;
  return serving;
}

t.test('stop ends the daemon with what runs, and answers when the directory is free', async (t) => {
  const site = createSite(t);
  const serving = await serveBusy(t, site);
  const { code, out } = await call(t, site, 'stop');
  t.equal(code, 0);
  t.match(out, new RegExp(`^stopped process ${serving.process.pid} \\(serve\\) in \\S+\n$`));
  t.notOk(existsSync(join(site.data, 'holder.json')));
  const { code: servedCode, out: served, err: log } = await serving.ended;
  t.equal(servedCode, 0);
  t.match(served, /^qinglong-edge \S+ \(process \d+\) serves /);
  t.match(log, /demo\/main\) failed/);
  t.match(log, /^\S+ \S+ ends as `stop` asks: stops 1 command that runs$/m);
  // The log is read by somebody who is somewhere else.
  t.match(log, new RegExp(`see \`\\S+ /\\S+/main\\.ts --data ${site.data} runs show `));
  t.match(await newestRun(t, site), {
    run: { status: 'failed' },
    steps: [{ status: 'failed', attempts: [{ status: 'lost', errorCode: 'shutdown' }] }],
  });
});

t.test('stop without a daemon says so and is done', async (t) => {
  const site = createSite(t);
  t.match(await call(t, site, 'stop'), { code: 3, err: /there is no data directory/ }, 'a mistyped directory is told');
  await call(t, site, 'package', 'install', writeSteps(site, 'demo', { a: { shell: 'true' } }));
  t.match(await call(t, site, 'stop'), { code: 0, out: `nobody holds ${site.data}: there is no daemon to stop\n` });
  t.same(await ask(t, site, 'stop'), { outcome: 'not-running' });
});

t.test('two stops at once both succeed', async (t) => {
  const site = createSite(t);
  const serving = await serveBusy(t, site);
  const both = await Promise.all([call(t, site, 'stop'), call(t, site, 'stop')]);
  t.same(
    both.map(({ code }) => code),
    [0, 0],
    both.map(({ err }) => err).join(''),
  );
  t.equal((await serving.ended).code, 0);
});

t.test('stop --on-stop detach leaves what runs to whoever holds the directory next', async (t) => {
  const site = createSite(t);
  const serving = await serveBusy(t, site);
  const { code, out } = await call(t, site, 'stop', '--on-stop', 'detach');
  t.equal(code, 0);
  t.match(out, '; commands that run go on, and whoever holds the directory next takes them over\n');
  t.equal((await serving.ended).code, 0);
  t.match(await newestRun(t, site), {
    run: { status: 'running' },
    steps: [{ attempts: [{ status: /^(starting|running)$/ }] }],
  });
  const { run } = await newestRun(t, site);
  t.equal((await call(t, site, 'runs', 'cancel', run.id)).code, 0);
});

t.test('a daemon that was started to detach does so at stop and at SIGTERM alike', async (t) => {
  for (const how of ['stop', 'SIGTERM'] as const) {
    const site = createSite(t);
    const serving = await serveBusy(t, site, '--on-stop', 'detach');
    if (how === 'stop') {
      t.match(await ask(t, site, 'stop'), { outcome: 'stopped', onStop: 'detach', pid: serving.process.pid });
    } else {
      serving.process.kill('SIGTERM');
    }
    t.equal((await serving.ended).code, 0);
    const { run } = await newestRun(t, site);
    t.equal(run.status, 'running', how);
    t.equal((await call(t, site, 'runs', 'cancel', run.id)).code, 0);
  }
});

t.test('SIGQUIT ends a daemon at once and stops nothing', async (t) => {
  const site = createSite(t);
  const serving = await serveBusy(t, site);
  serving.process.kill('SIGQUIT');
  const left = /^\S+ \S+ ends at SIGQUIT: leaves 1 command that runs to whoever holds the directory next$/m;
  t.match(await serving.ended, { code: 0, signal: null, err: left });
  const { run } = await newestRun(t, site);
  t.equal(run.status, 'running');
  t.equal((await call(t, site, 'runs', 'cancel', run.id)).code, 0);
});

t.test('a daemon without a terminal cannot lose it: SIGHUP changes nothing', async (t) => {
  const site = createSite(t);
  const serving = await serveBusy(t, site);
  serving.process.kill('SIGHUP');
  t.match(await ask(t, site, 'status'), { holder: { pid: serving.process.pid, phase: 'open' } });
  t.equal((await call(t, site, 'stop')).code, 0);
  t.equal((await serving.ended).code, 0);
});

t.test('a run in the foreground is not stopped so, and how to end it is told', async (t) => {
  const site = createSite(t);
  const running = start(t, site, ['run', writeSteps(site, 'demo', { a: { shell: waits } })]);
  await printed(running, 'running (attempt 1)');
  const { code, err } = await call(t, site, 'stop');
  t.equal(code, 3);
  const { pid } = running.process;
  t.match(err, `qinglong-edge: not-allowed: process ${pid} (run) holds the directory for a run in the foreground`);
  t.match(err, `; to cancel that run: kill -INT ${pid}\n`);
  running.process.kill('SIGINT');
  t.equal((await running.ended).code, 130);
});

t.test('a daemon whose socket is gone is ended by a signal, and that is said', async (t) => {
  for (const gone of ['sock', '.'] as const) {
    const site = createSite(t);
    const serving = start(t, site, ['serve']);
    await printed(serving, 'serves');
    rmSync(join(site.run, gone), { recursive: true });
    const { code, out, err } = await call(t, site, 'stop', ...(gone === '.' ? ['--on-stop', 'detach'] : []));
    t.equal(code, 0, err);
    const { pid } = serving.process;
    t.match(err, `process ${pid} cannot be reached at ${join(site.run, 'sock')}: it was sent a SIGTERM instead`);
    t.equal(err.includes('--on-stop cannot be handed over so: its own setting decides'), gone === '.');
    t.match(out, new RegExp(`^stopped process ${pid} \\(serve\\) in \\S+\n$`));
    t.match(await serving.ended, { code: 0, signal: null });
  }
});

t.test('whoever is named as the holder, but does not hold the lock, is never sent a signal', async (t) => {
  const site = createSite(t);
  const serving = start(t, site, ['serve']);
  await printed(serving, 'serves');
  const file = join(site.data, 'holder.json');
  const holder = JSON.parse(readFileSync(file, 'utf8')) as object;
  const stranger = spawn('sleep', ['60'], { stdio: 'ignore' });
  t.teardown(() => stranger.kill('SIGKILL'));
  const ended = new Promise((resolve) => stranger.once('exit', (_code, signal) => resolve(signal)));
  writeFileSync(file, JSON.stringify({ ...holder, pid: stranger.pid }));
  rmSync(join(site.run, 'sock'));
  // What it waits at the end is five seconds more than this.
  const config = join(site.data, 'config.json');
  const made = JSON.parse(readFileSync(config, 'utf8')) as object;
  writeFileSync(config, JSON.stringify({ ...made, stopLimit: '1s' }));
  const { code, err } = await call(t, site, 'stop');
  t.equal(code, 4);
  t.match(err, `and it cannot be told whether by process ${stranger.pid}, as it says; end the process that has `);
  t.notMatch(err, 'kill -9');
  serving.process.kill('SIGTERM');
  t.equal((await serving.ended).code, 0);
  stranger.kill('SIGKILL');
  t.equal(await ended, 'SIGKILL', 'no other signal came before');
});

t.test('a run in the foreground whose socket is gone is not stopped either', async (t) => {
  const site = createSite(t);
  const running = start(t, site, ['run', writeSteps(site, 'demo', { a: { shell: waits } })]);
  await printed(running, 'running (attempt 1)');
  rmSync(join(site.run, 'sock'));
  const { code, err } = await call(t, site, 'stop');
  t.equal(code, 3);
  t.match(err, `to cancel that run: kill -INT ${running.process.pid}`);
  running.process.kill('SIGINT');
  t.equal((await running.ended).code, 130);
});
