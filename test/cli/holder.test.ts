import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ask, call, createSite, newestRun, printed, selfOf, start, waits, writeSteps } from './program.ts';

t.test('C045 a second serve is refused by name, and starts once the first was killed with SIGKILL', async (t) => {
  const site = createSite(t);
  const first = start(t, site, ['serve']);
  await printed(first, 'serves');
  const second = await call(t, site, 'serve');
  t.equal(second.code, 4);
  const { pid } = first.process;
  t.match(
    second.err,
    new RegExp(`^qinglong-edge: busy: .*process ${pid} \\(serve\\) since \\d{4}-\\d\\d-\\d\\d \\S{8}; `),
  );
  t.match(
    second.err,
    `other commands go through it by themselves; to hold the directory here, end it first: ${selfOf(site)} stop\n`,
  );
  first.process.kill('SIGKILL');
  await first.ended;
  const third = start(t, site, ['serve']);
  await printed(third, 'serves');
  t.match(third.stdout(), `(process ${third.process.pid}) serves ${site.data} `);
  third.process.kill('SIGTERM');
  t.equal((await third.ended).code, 0);
});

t.test('serve says when it is ready, and ends with 0', async (t) => {
  const site = createSite(t);
  const serving = start(t, site, ['serve']);
  await printed(serving, 'serves');
  t.match(
    serving.stdout(),
    `(process ${serving.process.pid}) serves ${site.data} (edge, delete-extra); socket ${site.run}/sock`,
  );
  serving.process.kill('SIGTERM');
  const { code, err } = await serving.ended;
  t.equal(code, 0);
  t.match(err, /^\S+ \S+ ends at SIGTERM: nothing runs\n$/);
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
  t.match(err, `\noutput is kept of failed steps only; while one runs: ${selfOf(site)} runs logs `);
  t.match(out, /\| bad\n/, 'what was kept of a failure');
  const running = start(t, site, ['run', writeSteps(site, 'other', { a: { shell: waits } })]);
  await printed(running, 'running (attempt 1)');
  running.process.kill('SIGINT');
  t.equal((await running.ended).code, 130);
});

t.test('settings that are given beside a daemon are told to be unused', async (t) => {
  const site = createSite(t);
  const serving = start(t, site, ['serve']);
  await printed(serving, 'serves');
  const directory = writeSteps(site, 'demo', { a: { shell: 'true' } });
  const { code, err } = await call(t, site, 'run', directory, '--concurrency', '3', '--on-stop', 'stop');
  t.equal(code, 0);
  const { pid } = serving.process;
  t.match(err, `--concurrency, --on-stop: not used, the settings are those of process ${pid} (serve)\n`);
  serving.process.kill('SIGTERM');
  t.equal((await serving.ended).code, 0);
});

t.test('serve says which runs end otherwise than they should, and with --verbose all', async (t) => {
  for (const isVerbose of [false, true]) {
    const site = createSite(t);
    const serving = start(t, site, ['serve', ...(isVerbose ? ['-v'] : [])]);
    await printed(serving, 'serves');
    await call(t, site, 'run', writeSteps(site, 'good', { a: { shell: 'true' } }));
    await call(t, site, 'run', writeSteps(site, 'bad', { a: { shell: 'exit 3' } }));
    await printed(serving, '(bad/main)');
    serving.process.kill('SIGTERM');
    const { err } = await serving.ended;
    t.match(err, /^\d{4}-\d\d-\d\d \S{8} run \S+ \(bad\/main\) failed: .+; see `.+ runs show \S+`$/m);
    t.equal(/run \S+ \(good\/main\) succeeded$/m.test(err), isVerbose, err);
  }
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

t.test('C040 the command of a holder killed with SIGKILL is taken over, and its true end is recorded', async (t) => {
  const wait = 'i=0; while [ ! -e "$ROOT/gate" ] && [ $i -lt 300 ]; do sleep 0.1; i=$((i + 1)); done';
  for (const [exitCode, status] of [
    [0, 'succeeded'],
    [7, 'failed'],
  ] as const) {
    const site = createSite(t);
    const shell = `echo begin >>"$ROOT/trace"; ${wait}; echo end >>"$ROOT/trace"; exit ${exitCode}`;
    const directory = writeSteps(site, 'demo', { a: { shell, more: `env: { ROOT: ${site.root} }` } });
    await call(t, site, 'package', 'install', directory);
    const first = start(t, site, ['serve']);
    await printed(first, 'serves');
    const { runId } = await ask<{ runId: string }>(t, site, 'workflow', 'start', 'demo/main');
    const following = start(t, site, ['runs', 'events', runId, '--follow']);
    await printed(following, 'attempt.started');
    first.process.kill('SIGKILL');
    await first.ended;
    const second = start(t, site, ['serve', '--until-idle']);
    await printed(second, 'serves');
    writeFileSync(join(site.root, 'gate'), '');
    t.equal((await second.ended).code, 0);
    const { run, steps } = await newestRun(t, site);
    t.match(steps[0], { attemptCount: 1, attempts: [{ exitCode, status }] });
    t.equal(run.status, status);
    t.equal(readFileSync(join(site.root, 'trace'), 'utf8'), 'begin\nend\n', 'it ran once, to its end');
    t.equal((await following.ended).code, 0);
  }
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

t.test('beside a daemon it is told what its own settings keep of the output', async (t) => {
  const told = {
    failures: /^output is kept of failed steps only; while one runs: .+ runs logs \S+ \[STEP\]$/m,
    always: /^what the steps write: .+ runs logs \S+ \[STEP\]$/m,
    never: /^output is not kept; while a step runs: .+ runs logs \S+ \[STEP\]$/m,
  } as const;
  for (const [policy, line] of Object.entries(told)) {
    const site = createSite(t);
    const serving = start(t, site, ['serve', '--keep-output', policy]);
    await printed(serving, 'serves');
    const { code, err } = await call(t, site, 'run', writeSteps(site, 'demo', { a: { shell: 'true' } }));
    t.equal(code, 0, err);
    t.match(err, line);
    t.equal((await call(t, site, 'stop')).code, 0);
    t.equal((await serving.ended).code, 0);
  }
});
