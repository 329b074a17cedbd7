import { existsSync } from 'node:fs';
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
  t.match(await serving.ended, { code: 0, err: /demo\/main\) failed/ });
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
  t.match(out, '; commands that run go on until somebody holds the directory\n');
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
  t.match(await serving.ended, { code: 0, signal: null });
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
