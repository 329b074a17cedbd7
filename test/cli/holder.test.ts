import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ask, call, createSite, newestRun, printed, type Running, start, waits, writeSteps } from './program.ts';

t.test('serve says when it is ready, refuses a second one by name, and ends with 0', async (t) => {
  const site = createSite(t);
  const serving = start(t, site, ['serve']);
  await printed(serving, 'serves');
  t.match(
    serving.stdout(),
    `(process ${serving.process.pid}) serves ${site.data} (edge, delete-extra); socket ${site.run}/sock`,
  );
  const second = await call(t, site, 'serve');
  t.equal(second.code, 4);
  t.match(second.err, new RegExp(`^qinglong-edge: busy: .*process ${serving.process.pid} \\(serve\\) since `));
  serving.process.kill('SIGTERM');
  const { code, err } = await serving.ended;
  t.same([code, err], [0, '']);
});

t.test('commands beside a serve go through it, and take effect at once', async (t) => {
  const site = createSite(t);
  const serving = start(t, site, ['serve']);
  await printed(serving, 'serves');
  t.equal((await call(t, site, 'package', 'install', writeSteps(site, 'demo', { a: { shell: waits } }))).code, 0);
  const started = await ask<{ runId: string }>(t, site, 'workflow', 'start', 'demo/main');
  const following = start(t, site, ['runs', 'events', started.runId, '--follow']);
  await printed(following, 'attempt.started');
  t.match(await call(t, site, 'runs', 'logs', started.runId, 'a'), { code: 0, out: /^(waiting\n)?$/ });
  t.match((await call(t, site, 'doctor')).out, new RegExp(`holder +ok +process ${serving.process.pid} \\(serve\\)`));
  t.equal((await call(t, site, 'runs', 'cancel', started.runId)).code, 0);
  const { code, out } = await following.ended;
  t.equal(code, 0);
  t.match(out, /workflow\.cancelled/);
  t.equal((await newestRun(t, site)).run.status, 'cancelled');
  serving.process.kill('SIGTERM');
  t.equal((await serving.ended).code, 0);
});

t.test('run beside a serve is carried on by it, and ends as its run does', async (t) => {
  const site = createSite(t);
  const serving = start(t, site, ['serve']);
  await printed(serving, 'serves');
  const { code, out, err } = await call(t, site, 'run', writeSteps(site, 'demo', { a: { shell: 'echo bad; exit 3' } }));
  t.equal(code, 1);
  t.match(err, `carried on by process ${serving.process.pid} (serve)`);
  t.match(out, /\| bad\n/, 'what was kept of a failure');
  const running = start(t, site, ['run', writeSteps(site, 'other', { a: { shell: waits } })]);
  await printed(running, 'running (attempt 1)');
  running.process.kill('SIGINT');
  t.equal((await running.ended).code, 130);
});

t.test('a foreground run is reached by other commands, and by a second run', async (t) => {
  const site = createSite(t);
  const first = start(t, site, ['--profile', 'standalone', 'run', writeSteps(site, 'demo', { a: { shell: waits } })]);
  await printed(first, 'running (attempt 1)');
  const second = await call(t, site, 'run', writeSteps(site, 'other', { a: { shell: 'true' } }));
  t.equal(second.code, 0, second.err);
  t.match(second.err, `carried on by process ${first.process.pid} (run)`);
  const { runs } = await ask<{ runs: readonly { id: string; status: string }[] }>(t, site, 'runs', 'list');
  const running = runs.find(({ status }) => status === 'running')!;
  t.equal((await call(t, site, 'runs', 'cancel', running.id.slice(0, 18))).code, 0);
  t.equal((await first.ended).code, 130);
});

t.test('a serve killed with SIGKILL leaves the directory free, and the next one takes its runs over', async (t) => {
  const site = createSite(t);
  const gate = join(site.root, 'gate');
  const wait = 'i=0; while [ ! -e "$GATE" ] && [ $i -lt 300 ]; do sleep 0.1; i=$((i + 1)); done';
  const shell = `echo here; ${wait}; test -e "$GATE"`;
  const directory = writeSteps(site, 'demo', { a: { shell, more: `env: { GATE: ${gate} }` } });
  const running: Running = start(t, site, ['run', directory]);
  await printed(running, 'running (attempt 1)');
  running.process.kill('SIGKILL');
  await running.ended;
  const serving = start(t, site, ['serve', '--until-idle']);
  await printed(serving, 'serves');
  writeFileSync(gate, '');
  t.equal((await serving.ended).code, 0);
  const { run, steps } = await newestRun(t, site);
  t.equal(run.status, 'succeeded');
  t.equal(steps[0]?.attemptCount, 1);
});

t.test('without a holder, cancelling ends what still runs before it answers', async (t) => {
  const site = createSite(t);
  const running = start(t, site, ['run', writeSteps(site, 'demo', { a: { shell: waits } })]);
  await printed(running, 'running (attempt 1)');
  running.process.kill('SIGKILL');
  await running.ended;
  const { run } = await newestRun(t, site);
  t.equal(run.status, 'running');
  const { code, out } = await call(t, site, 'runs', 'cancel', run.id);
  t.equal(code, 0);
  t.equal(out, `${run.id} cancelled\n`);
  const again = await call(t, site, 'runs', 'cancel', run.id);
  t.equal(again.code, 0, 'cancelled is what was asked for');
});

t.test('commands that come at the same time wait for one another', async (t) => {
  const site = createSite(t);
  await call(t, site, 'package', 'install', writeSteps(site, 'demo', { a: { shell: 'true' } }));
  const all = await Promise.all(
    ['1', '2', '3'].map((key) => call(t, site, 'workflow', 'start', 'demo/main', '--key', key)),
  );
  t.same(
    all.map(({ code }) => code),
    [0, 0, 0],
    all.map(({ err }) => err).join(''),
  );
});
