import { existsSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { RunInspection } from '../../src/runtime/inspection.ts';
import { ask, call, createSite, newestRun, printed, selfOf, start, waits, writeSteps } from './program.ts';

/** Fails until a file is there. */
function writeFlaky(site: { readonly root: string }): {
  readonly step: { readonly shell: string };
  readonly gate: string;
} {
  const gate = join(site.root, 'gate');
  return { step: { shell: `echo try; test -e ${gate}` }, gate };
}

t.test('a run is retried as a new run, and both show it', async (t) => {
  const site = createSite(t);
  const { step, gate } = writeFlaky(site);
  t.equal((await call(t, site, 'run', writeSteps(site, 'demo', { a: step }))).code, 1);
  const { run: old } = await newestRun(t, site);
  const retried = await ask<{ runId: string }>(t, site, 'runs', 'retry', old.id);
  t.match(retried, {
    outcome: 'created',
    retryOfRunId: old.id,
    generation: old.generation,
    retriedGeneration: old.generation,
  });
  t.same((await ask<RunInspection>(t, site, 'runs', 'show', old.id)).retriedByRunIds, [retried.runId]);
  t.equal((await ask<RunInspection>(t, site, 'runs', 'show', retried.runId)).run.retryOfRunId, old.id);
  t.match((await call(t, site, 'runs', 'show', old.id)).out, new RegExp(`^retried by +${retried.runId}$`, 'm'));
  t.match((await call(t, site, 'runs', 'show', retried.runId)).out, new RegExp(`^retry of +${old.id}$`, 'm'));
  const asked = await call(t, site, 'runs', 'retry', old.id);
  t.match(asked, {
    code: 0,
    out: /^\S+\n$/,
    err: `started; nobody holds the directory: ${selfOf(site)} serve --until-idle`,
  });
  t.notOk(existsSync(gate));
});

t.test('runs retry --wait follows the new run and ends as it does', async (t) => {
  const site = createSite(t);
  t.equal((await call(t, site, 'run', writeSteps(site, 'demo', { a: { shell: 'exit 4' } }))).code, 1);
  const { run: old } = await newestRun(t, site);
  const directory = writeSteps(site, 'demo', { a: { shell: 'echo better' } });
  t.equal((await call(t, site, 'package', 'install', directory)).code, 0);
  const { code, out, err } = await call(t, site, 'runs', 'retry', old.id.slice(0, 13), '--wait');
  t.equal(code, 0);
  t.match(out, /\nsucceeded: demo\/main, 1 step in /);
  t.match(err, 'the package was changed since: this run is of generation 2, the one that it retries was of 1\n');
  t.match((await newestRun(t, site)).run, { retryOfRunId: old.id, status: 'succeeded', generation: 2 });
});

t.test('the same key retries once, also through a daemon', async (t) => {
  const site = createSite(t);
  t.equal((await call(t, site, 'run', writeSteps(site, 'demo', { a: { shell: 'exit 4' } }))).code, 1);
  const { run: old } = await newestRun(t, site);
  const first = await ask<{ runId: string }>(t, site, 'runs', 'retry', old.id, '--key', 'again');
  const serving = start(t, site, ['serve']);
  await printed(serving, 'serves');
  const second = await ask<{ runId: string }>(t, site, 'runs', 'retry', old.id, '--key', 'again');
  t.match(second, { runId: first.runId, outcome: 'existing' });
  t.equal((await call(t, site, 'runs', 'retry', old.id, '--key', 'again', '--wait')).code, 1, 'and it has failed too');
  const other = await call(t, site, 'runs', 'retry', first.runId, '--key', 'again');
  t.match(other, { code: 3, err: /conflict: the idempotency key again led to run \S+, which does not retry/ });
  t.equal((await call(t, site, 'stop')).code, 0);
  t.equal((await serving.ended).code, 0);
});

t.test('what cannot be retried says why and what to do', async (t) => {
  const site = createSite(t);
  const serving = start(t, site, ['serve']);
  await printed(serving, 'serves');
  await call(t, site, 'package', 'install', writeSteps(site, 'demo', { a: { shell: waits } }));
  const { runId } = await ask<{ runId: string }>(t, site, 'workflow', 'start', 'demo/main');
  const running = await call(t, site, 'runs', 'retry', runId);
  t.equal(running.code, 3);
  t.match(running.err, new RegExp(`not-allowed: run ${runId} has not ended: .+cancel it first: .+ runs cancel `));
  t.equal((await call(t, site, 'runs', 'cancel', runId)).code, 0);
  const following = start(t, site, ['runs', 'events', runId, '--follow']);
  await following.ended;
  await call(t, site, 'package', 'disable', 'demo');
  t.match(await call(t, site, 'runs', 'retry', runId), {
    code: 3,
    err: /package demo is disabled; let it start again: .+ package enable demo/,
  });
  await call(t, site, 'package', 'uninstall', 'demo');
  t.match(await call(t, site, 'runs', 'retry', runId), {
    code: 3,
    err: /not-allowed: package demo is uninstalled|not installed/,
  });
  t.match(await call(t, site, 'runs', 'retry', 'unknown-run'), {
    code: 3,
    err: /not-found: no run has the id unknown-run/,
  });
  t.equal((await call(t, site, 'stop')).code, 0);
  await serving.ended;
});
