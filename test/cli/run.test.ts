import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { RunInspection } from '../../src/runtime/inspection.ts';
import { ask, call, createSite, newestRun, printed, selfOf, start, waits, writeSteps } from './program.ts';

t.test('run shows one line an event, what each step wrote, and the result', async (t) => {
  const site = createSite(t);
  const steps = { a: { shell: 'echo one; echo two' }, b: { shell: 'true', needs: ['a'] } };
  const { code, out, err } = await call(t, site, 'run', writeSteps(site, 'demo', steps));
  t.equal(code, 0, err);
  const lines = out.split('\n').map((line) => line.replace(/^\d\d:\d\d:\d\d /, ''));
  t.match(lines[0], /^run {2}\S+ admitted: demo\/main$/);
  t.same([lines[1], lines[3], lines[4]], ['a    running (attempt 1)', '         | one', '         | two']);
  t.match(lines[2], /^a {4}succeeded after \d+ms$/);
  t.match(lines.at(-2), /^succeeded: demo\/main, 2 steps in \S+ {2}run \S+$/);
  t.match(err, /^installed demo 1\.0\.0 as generation 1 \(1 file, \d+ B\)\n$/);
});

t.test('the same bytes are installed once, other bytes again', async (t) => {
  const site = createSite(t);
  const directory = writeSteps(site, 'demo', { a: { shell: 'true' } });
  t.match((await call(t, site, 'run', directory)).err, 'as generation 1');
  t.equal((await call(t, site, 'run', directory)).err, '');
  t.match((await call(t, site, 'run', writeSteps(site, 'demo', { a: { shell: 'echo' } }))).err, 'as generation 2');
});

t.test('a failed run ends with 1 and says why, what was written, and what to do next', async (t) => {
  const site = createSite(t);
  const steps = { a: { shell: 'echo doing; echo bad >&2; exit 3' }, b: { shell: 'true', needs: ['a'] } };
  const { code, out } = await call(t, site, 'run', writeSteps(site, 'demo', steps));
  t.equal(code, 1);
  t.match(out, /\| doing\n +\| bad\n/);
  t.match(out, /\nfailed: demo\/main, 2 steps \(1 failed, 1 skipped\) in /);
  t.equal(out.split('exit code 3').length, 2, 'why is told once');
  const next = /its output: (.+) runs logs (\S+) a\n/.exec(out);
  t.equal(next?.[1], selfOf(site));
  t.match(next?.[2], /^[0-9a-f]{8}-[0-9a-f]{4}$/);
  t.equal((await call(t, site, 'runs', 'logs', next![2]!, 'a')).out, 'doing\nbad\n');
});

t.test('output that there is not is not offered', async (t) => {
  const site = createSite(t);
  const { code, out } = await call(t, site, 'run', writeSteps(site, 'demo', { a: { shell: 'exit 3' } }));
  t.equal(code, 1);
  t.notMatch(out, 'its output');
  t.match(out, `everything: ${selfOf(site)} runs show `);
});

t.test('a run that times out ends with 124', async (t) => {
  const site = createSite(t);
  const directory = writeSteps(site, 'demo', { a: { shell: waits } }, 'timeout: 300ms');
  t.equal((await call(t, site, 'run', directory)).code, 124);
});

t.test('with --json there is one object an event, and the inspection as result', async (t) => {
  const site = createSite(t);
  const { code, out } = await call(t, site, 'run', writeSteps(site, 'demo', { a: { shell: 'echo x' } }), '--json');
  t.equal(code, 0);
  const objects = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { type: string; sequence?: number });
  const result = objects.pop() as RunInspection & { type: string };
  t.same(
    objects.map(({ sequence }) => sequence),
    objects.map((_, index) => index + 1),
  );
  t.match(objects[0], { type: 'workflow.admitted', mutationId: null });
  t.match(objects[1], { type: 'step.created', mutationId: /^mu_/ });
  t.match(result, { type: 'result', schema: 'qinglong/run-inspection@v1', run: { status: 'succeeded' } });
  const { type: _type, ...inspection } = result;
  t.same(await ask(t, site, 'runs', 'show', result.run.id), inspection);
});

t.test('an interrupt cancels the run and waits for its end', async (t) => {
  const site = createSite(t);
  const running = start(t, site, ['run', writeSteps(site, 'demo', { a: { shell: waits } })]);
  await printed(running, 'running (attempt 1)');
  running.process.kill('SIGINT');
  const { code, out, err } = await running.ended;
  t.equal(code, 130);
  t.match(err, 'cancelling: waiting for what runs to stop');
  t.match(out, /\ncancelled: demo\/main, 1 step \(1 cancelled\) in /);
  t.match((await newestRun(t, site)).run, { status: 'cancelled', cancelReason: 'user' });
});

t.test('a second interrupt leaves the run, and whoever holds the directory next ends it', async (t) => {
  const site = createSite(t);
  const stubborn = "trap '' TERM; echo here; i=0; while [ $i -lt 100 ]; do sleep 0.1; i=$((i + 1)); done";
  const directory = writeSteps(site, 'demo', { a: { shell: stubborn, more: 'grace: 2s' } });
  const running = start(t, site, ['run', directory]);
  await printed(running, 'running (attempt 1)');
  running.process.kill('SIGINT');
  await printed(running, 'cancelling');
  running.process.kill('SIGINT');
  const { code, err } = await running.ended;
  t.equal(code, 131);
  t.match(err, /\nrun \S+ is being cancelled, but nobody holds the directory now: a command .* is not killed\n/);
  t.match(err, `\ncarry it to its end: ${selfOf(site)} serve --until-idle\n`);
  t.equal((await newestRun(t, site)).run.status, 'running');
  t.equal((await call(t, site, 'serve', '--until-idle')).code, 0);
  t.equal((await newestRun(t, site)).run.status, 'cancelled');
});

t.test('a run that ends says that others of its directory do not go on without it', async (t) => {
  const site = createSite(t);
  // With room for more than one command at a time.
  const install = ['--profile', 'standalone', 'package', 'install'];
  t.equal((await call(t, site, ...install, writeSteps(site, 'other', { a: { shell: waits } }))).code, 0);
  const other = await ask<{ runId: string }>(t, site, 'workflow', 'start', 'other/main');
  const directory = writeSteps(site, 'demo', { a: { shell: 'true' } });
  const { code, err } = await call(t, site, 'run', directory);
  t.equal(code, 0);
  t.match(
    err,
    `\nother runs of this directory that are not finished: 1; carry on: ${selfOf(site)} serve --until-idle\n`,
  );
  t.equal((await call(t, site, 'run', directory, '--json')).err, '');
  t.equal((await call(t, site, 'runs', 'cancel', other.runId)).code, 0);
  t.equal((await call(t, site, 'run', directory)).err, '');
});

t.test('a long answer reaches its reader whole', async (t) => {
  const site = createSite(t);
  const shell = 'dd if=/dev/zero bs=1024 count=250 2>/dev/null | tr "\\0" x; exit 1';
  await call(t, site, 'run', writeSteps(site, 'demo', { a: { shell } }));
  const { run } = await newestRun(t, site);
  t.equal((await call(t, site, 'runs', 'logs', run.id, 'a', '--raw')).out.length, 250 * 1024);
});

t.test('a reader that goes away does not stop the run', async (t) => {
  const site = createSite(t);
  const running = start(t, site, [
    'run',
    writeSteps(site, 'demo', {
      a: { shell: 'echo x; echo done >"$HERE"', more: `env: { HERE: ${join(site.root, 'here')} }` },
    }),
  ]);
  running.process.stdout!.destroy();
  t.equal((await running.ended).code, 0);
  t.equal(readFileSync(join(site.root, 'here'), 'utf8'), 'done\n');
});

t.test('the same key leads to the same run, whatever was installed in between', async (t) => {
  const site = createSite(t);
  const first = await call(t, site, 'run', writeSteps(site, 'demo', { a: { shell: 'exit 1' } }), '--key', 'k');
  const again = await call(t, site, 'run', writeSteps(site, 'demo', { a: { shell: 'true' } }), '--key', 'k');
  t.same([first.code, again.code], [1, 1]);
  t.match(again.err, /the key k led to run \S+ already/);
  const { runs } = await ask<{ runs: readonly object[] }>(t, site, 'runs', 'list');
  t.equal(runs.length, 1);
});

t.test('a quarantined package is refused', async (t) => {
  const site = createSite(t);
  const directory = writeSteps(site, 'demo', { a: { shell: 'true' } });
  await call(t, site, 'run', directory);
  t.equal((await call(t, site, 'package', 'quarantine', 'demo', '--reason', 'because')).code, 0);
  const { code, err } = await call(t, site, 'run', directory);
  t.equal(code, 3);
  t.match(err, /^qinglong-edge: not-allowed: .*quarantined/);
});

t.test('a run that waits for others says once what it waits for, where lines are printed', async (t) => {
  const site = createSite(t);
  const serving = start(t, site, ['serve']);
  await printed(serving, 'serves');
  await call(t, site, 'package', 'install', writeSteps(site, 'first', { a: { shell: waits } }));
  const { runId } = await ask<{ runId: string }>(t, site, 'workflow', 'start', 'first/main');
  const gate = start(t, site, ['runs', 'events', runId, '--follow']);
  await printed(gate, 'attempt.started');
  const running = start(t, site, ['run', writeSteps(site, 'second', { b: { shell: 'true' } })]);
  await printed(running, 'waits for');
  t.equal((await call(t, site, 'runs', 'cancel', runId)).code, 0);
  const { code, err } = await running.ended;
  t.equal(code, 0);
  t.same(err.match(/step b waits for a free slot, of 1\n/g)?.length, 1);
  await gate.ended;
  t.equal((await call(t, site, 'stop')).code, 0);
});
