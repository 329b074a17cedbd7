import { spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t, { type Test } from 'tap';
import { shellEnvironment } from '../launcher-shell.ts';
import { call, createSite, newestRun, printed, type Site, selfOf, start, waits, writeSteps } from './program.ts';

/** Runs the command line with its standard output going to a device that has no room. */
async function callWithoutRoom(t: Test, site: Site, ...args: readonly string[]) {
  const file = resolve(import.meta.dirname, '../../src/cli/main.ts');
  const full = openSync('/dev/full', 'w');
  const child = spawn(process.execPath, [file, '--data', site.data, '--run-dir', site.run, ...args], {
    cwd: site.root,
    stdio: ['ignore', full, 'pipe'],
    env: { PATH: process.env['PATH'], TZ: 'UTC', ...shellEnvironment },
  });
  closeSync(full);
  t.teardown(() => child.kill('SIGKILL'));
  let err = '';
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  const code = await new Promise<number | null>((ended) => child.once('close', ended));
  return { code, err };
}

t.test('a run whose words cannot be written is carried to its end, and that is told', async (t) => {
  const site = createSite(t);
  const directory = writeSteps(site, 'demo', {
    a: { shell: 'true' },
    b: { shell: `touch ${site.root}/b`, needs: ['a'] },
  });
  const { code, err } = await callWithoutRoom(t, site, 'run', directory);
  t.equal(code, 4, 'no success to whoever was to read it');
  t.match(err, 'qinglong-edge: unavailable: cannot write the answer: ENOSPC\n');
  t.match(err, 'what follows is not shown; the run is carried to its end all the same\n');
  t.ok(existsSync(join(site.root, 'b')));
  t.equal((await newestRun(t, site)).run.status, 'succeeded');
});

t.test('a run that failed says so, also where nothing can be written', async (t) => {
  const site = createSite(t);
  const directory = writeSteps(site, 'demo', { a: { shell: 'exit 3' } });
  t.equal((await callWithoutRoom(t, site, 'run', directory, '--json')).code, 1);
  t.match(await callWithoutRoom(t, site, 'runs', 'list'), { code: 4, err: /cannot write the answer: ENOSPC\n$/ });
});

t.test('SIGQUIT leaves a run at once: what runs goes on, and how to carry it on is told', async (t) => {
  const site = createSite(t);
  const running = start(t, site, ['run', writeSteps(site, 'demo', { a: { shell: waits } })]);
  await printed(running, 'running (attempt 1)');
  running.process.kill('SIGQUIT');
  const { code, signal, err } = await running.ended;
  t.same([code, signal], [131, null], 'not that of a run that was cancelled');
  t.match(err, /run \S+ goes on, but nobody holds the directory now: what runs goes on, and nothing more starts\n/);
  t.match(err, `carry it to its end: ${selfOf(site)} serve --until-idle\n`);
  const { run } = await newestRun(t, site);
  t.equal(run.status, 'running');
  t.equal((await call(t, site, 'runs', 'cancel', run.id)).code, 0);
});

t.test('run --on-stop stop ends what runs when it is left', async (t) => {
  const site = createSite(t);
  const directory = writeSteps(site, 'demo', { a: { shell: waits } });
  const running = start(t, site, ['run', directory, '--on-stop', 'stop']);
  await printed(running, 'running (attempt 1)');
  running.process.kill('SIGQUIT');
  t.equal((await running.ended).code, 131);
  // The start is told before its command has begun: then it is taken back.
  const errorCode = /^(shutdown|start_withdrawn)$/;
  t.match(await newestRun(t, site), { steps: [{ attempts: [{ status: 'lost', errorCode }] }] });
});

t.test('a run goes on to its end when its terminal goes away', async (t) => {
  const site = createSite(t);
  const gate = join(site.root, 'gate');
  const steps = { a: { shell: `until test -e ${gate}; do sleep 0.05; done` }, b: { shell: 'true', needs: ['a'] } };
  const running = start(t, site, ['run', writeSteps(site, 'demo', steps)]);
  await printed(running, 'running (attempt 1)');
  running.process.kill('SIGHUP');
  running.process.kill('SIGHUP');
  writeFileSync(gate, '');
  t.equal((await running.ended).code, 0);
  t.equal((await newestRun(t, site)).run.status, 'succeeded');
});

t.test('what ended while a directory is taken over is logged once it is said who serves it', async (t) => {
  const site = createSite(t);
  const gate = join(site.root, 'gate');
  const shell = `until test -e ${gate}; do sleep 0.05; done; exit 3`;
  const running = start(t, site, ['run', writeSteps(site, 'demo', { a: { shell } })]);
  await printed(running, 'running (attempt 1)');
  running.process.kill('SIGKILL');
  await running.ended;
  writeFileSync(gate, '');
  const { run } = await newestRun(t, site);
  let left = true;
  while (left) {
    left = (await call(t, site, 'status')).out.includes(', and nobody looks after it');
  }
  const file = resolve(import.meta.dirname, '../../src/cli/main.ts');
  const log = openSync(join(site.root, 'log'), 'w');
  const args = [file, '--data', site.data, '--run-dir', site.run, 'serve', '--until-idle'];
  const env = { PATH: process.env['PATH'], TZ: 'UTC', ...shellEnvironment };
  const child = spawn(process.execPath, args, { cwd: site.root, stdio: ['ignore', log, log], env });
  closeSync(log);
  t.teardown(() => child.kill('SIGKILL'));
  t.equal(await new Promise((ended) => child.once('close', ended)), 0);
  const [first = '', ...others] = readFileSync(join(site.root, 'log'), 'utf8').split('\n');
  t.match(first, / serves .*; socket /);
  t.match(others[0], `run ${run.id.slice(0, 13)} (demo/main) failed: step a failed`);
  t.match(others[1], /ends as nothing can progress: nothing runs$/);
});
