import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ask, call, createSite, printed, type Running, type Site, start, waits, writeSteps } from './program.ts';

type Status = {
  readonly isHeld: boolean;
  readonly holder: {
    readonly pid: number;
    readonly command: string;
    readonly version: string | null;
    readonly phase: string | null;
    readonly socket: string | null;
    readonly heldBack: string | null;
  } | null;
  readonly runs: { readonly running: number; readonly setAside: number };
  readonly attempts: readonly {
    readonly runId: string;
    readonly stepKey: string;
    readonly ordinal: number;
    readonly state: string;
    readonly pid: number | null;
    readonly elapsedMs: number | null;
  }[];
  readonly waiting: readonly {
    readonly runId: string;
    readonly stepKey: string;
    readonly waitsFor: string;
    readonly dueInMs: number | null;
  }[];
  readonly space: Readonly<Record<string, number>>;
  readonly settings: Readonly<Record<string, unknown>>;
};

async function serve(t: Test, site: Site, ...options: readonly string[]): Promise<Running> {
  const serving = start(t, site, ['serve', ...options]);
  await printed(serving, 'serves');
  return serving;
}

/** Starts a run and waits until its step has an attempt. */
async function startBusy(t: Test, site: Site, workflow: string): Promise<string> {
  const { runId } = await ask<{ runId: string }>(t, site, 'workflow', 'start', workflow);
  const following = start(t, site, ['runs', 'events', runId, '--follow']);
  await printed(following, 'attempt.started');
  following.process.kill('SIGKILL');
  await following.ended;
  return runId;
}

t.test('status names a data directory that is not there, and needs no daemon where one is', async (t) => {
  const site = createSite(t);
  t.match(await call(t, site, 'status'), { code: 3, err: /not-found: there is no data directory at/ });
  await call(t, site, 'package', 'install', writeSteps(site, 'demo', { a: { shell: waits } }));
  const { code, out } = await call(t, site, 'status');
  t.equal(code, 0);
  t.match(out, /^holder +nobody: runs move only while somebody holds the directory: .+ serve$/m);
  t.match(out, /^runs +0 running$/m);
  t.match(out, /^settings +concurrency 1, onStop stop, stopLimit 5s, .+ \(as a holder that is started here would/m);
  const { runId } = await ask<{ runId: string }>(t, site, 'workflow', 'start', 'demo/main');
  const status = await ask<Status>(t, site, 'status');
  t.match(status, { isHeld: false, holder: null, runs: { running: 1, setAside: 0 }, attempts: [] });
  t.match(status.waiting, [{ runId, stepKey: 'a', waitsFor: 'holder', dueInMs: null }]);
  t.ok(status.space['databaseBytes']! > 0 && status.space['packagesBytes']! > 0);
  t.match((await call(t, site, 'status')).out, /^\S+ +demo\/main +a +somebody who holds the directory$/m);
});

t.test('beside a daemon status shows who it is, what runs since when and as which process', async (t) => {
  const site = createSite(t);
  const serving = await serve(t, site, '--stop-limit', '7s');
  await call(t, site, 'package', 'install', writeSteps(site, 'demo', { a: { shell: waits } }));
  const runId = await startBusy(t, site, 'demo/main');
  const status = await ask<Status>(t, site, 'status');
  t.match(status.holder, { pid: serving.process.pid, command: 'serve', phase: 'open', socket: join(site.run, 'sock') });
  t.equal(status.holder?.version, (await ask<{ version: string }>(t, site, 'version')).version);
  t.equal(status.settings['stopLimit'], '7s', 'the settings in force are those of the daemon');
  const [attempt] = status.attempts;
  t.match(attempt, { runId, stepKey: 'a', ordinal: 1, state: 'running' });
  t.ok(attempt?.elapsedMs !== null && attempt!.elapsedMs >= 0);
  t.doesNotThrow(() => process.kill(attempt?.pid ?? 0, 0), 'that process lives');
  const { out } = await call(t, site, 'status');
  t.match(out, new RegExp(`^holder +process ${serving.process.pid} \\(serve\\) since .+, for .+; version `, 'm'));
  t.match(out, /^commands +1 running, of 1 at most$/m);
  t.match(out, new RegExp(`^\\S+ +demo/main +a +1 +running +\\S+ +${attempt?.pid}$`, 'm'));
  serving.process.kill('SIGTERM');
  t.equal((await serving.ended).code, 0);
});

t.test('waiting is visible: for a free slot, for the workflow, and for the time of a retry, in order', async (t) => {
  const site = createSite(t);
  const serving = await serve(t, site, '--concurrency', '2');
  const long = { shell: waits };
  const retry = { shell: 'exit 1', more: 'retry: { limit: 1, backoff: 1h }' };
  await call(t, site, 'package', 'install', writeSteps(site, 'again', { r: retry }));
  await call(t, site, 'package', 'install', writeSteps(site, 'alone', { a: long, b: long }, 'concurrency: 1'));
  await call(t, site, 'package', 'install', writeSteps(site, 'other', { x: long, y: long }));
  const again = await ask<{ runId: string }>(t, site, 'workflow', 'start', 'again/main');
  const following = start(t, site, ['runs', 'events', again.runId, '--follow']);
  await printed(following, 'attempt.failed');
  following.process.kill('SIGKILL');
  const alone = await startBusy(t, site, 'alone/main');
  const other = await startBusy(t, site, 'other/main');
  const { attempts, waiting } = await ask<Status>(t, site, 'status');
  t.match(
    attempts.map(({ runId, stepKey }) => [runId, stepKey]),
    [
      [alone, 'a'],
      [other, 'x'],
    ],
  );
  t.match(waiting, [
    { runId: again.runId, stepKey: 'r', waitsFor: 'due' },
    { runId: alone, stepKey: 'b', waitsFor: 'workflow' },
    { runId: other, stepKey: 'y', waitsFor: 'slot' },
  ]);
  t.ok(waiting[0]!.dueInMs! > 3_000_000);
  const { out } = await call(t, site, 'status');
  t.match(out, /again\/main +r +its next try in 59m\d\ds, at \d{4}-/);
  t.match(out, /alone\/main +b +its workflow, of which 1 may run at once\n/);
  t.match(out, /other\/main +y +a free slot, of 2\n/);
  serving.process.kill('SIGTERM');
  await serving.ended;
});

t.test('what a daemon left running is shown as running, with nobody who looks after it', async (t) => {
  const site = createSite(t);
  const serving = await serve(t, site);
  await call(t, site, 'package', 'install', writeSteps(site, 'demo', { a: { shell: waits } }));
  const runId = await startBusy(t, site, 'demo/main');
  serving.process.kill('SIGKILL');
  await serving.ended;
  const status = await ask<Status>(t, site, 'status');
  t.match(status, { isHeld: false, holder: null, attempts: [{ runId, state: 'running' }] });
  t.match((await call(t, site, 'status')).out, /demo\/main +a +1 +running, and nobody looks after it +\S+ +\d+$/m);
  t.equal((await call(t, site, 'runs', 'cancel', runId)).code, 0);
});

t.test('settings that cannot be read are told, and hide nothing else', async (t) => {
  const site = createSite(t);
  await call(t, site, 'package', 'install', writeSteps(site, 'demo', { a: { shell: 'true' } }));
  const config = join(site.data, 'config.json');
  const made = JSON.parse(readFileSync(config, 'utf8')) as object;
  writeFileSync(config, JSON.stringify({ ...made, concurrency: 'many' }));
  const { code, out } = await call(t, site, 'status');
  t.equal(code, 0);
  t.match(out, /^settings +cannot be read, so nothing can hold the directory: .+concurrency must be a whole number/m);
  const refused = await call(t, site, 'serve');
  t.equal(refused.code, 2);
  t.match(refused.err, `qinglong-edge: invalid: ${config}: concurrency must be a whole number from 1 to 256;`);
  writeFileSync(config, JSON.stringify({ ...made, concurency: 3 }));
  t.match(
    (await call(t, site, 'doctor')).out,
    /config\.json +warning +concurency is no setting; did you mean concurrency\?/,
  );
  t.equal((await call(t, site, 'serve', '--until-idle')).code, 0, 'what it does not know it leaves alone');
});

t.test('what is ready while the daemon holds starts back waits for that, and the reason is told', async (t) => {
  const site = createSite(t);
  const serving = start(t, site, ['serve']);
  await printed(serving, 'serves');
  await call(t, site, 'package', 'install', writeSteps(site, 'demo', { a: { shell: 'true' } }));
  const attempts = join(site.run, 'attempts');
  rmSync(attempts, { recursive: true });
  writeFileSync(attempts, '');
  await call(t, site, 'workflow', 'start', 'demo/main');
  await printed(serving, 'nothing is started for now');
  const { out } = await call(t, site, 'status');
  t.match(out, /^held back +nothing is started for now, and tried again: .*attempts/m);
  t.match(out, /demo\/main +a +commands to be started again \(held back\)$/m);
  t.match(await ask<Status>(t, site, 'status'), {
    holder: { heldBack: /attempts/ },
    waiting: [{ waitsFor: 'held-back' }],
  });
  rmSync(attempts);
  mkdirSync(attempts, { mode: 0o700 });
  await printed(serving, 'commands are started again');
  t.match(await ask<Status>(t, site, 'status'), { holder: { heldBack: null } });
  t.equal((await call(t, site, 'stop')).code, 0);
});
