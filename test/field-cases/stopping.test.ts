// Field cases: stopping and process trees. What a stop ends, what a command leaves, and whom no signal ever reaches.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { killProcess, readProcessEntry } from '../../edge-evidence/processes.ts';
import { bundleFile, cli, createSite, type Site } from '../product/product.ts';
import {
  commandsOf,
  follow,
  install,
  isAlive,
  killCommands,
  linesOf,
  packageOf,
  profiles,
  runPackage,
  serve,
  startRun,
  statesOf,
  stop,
  wrote,
} from './scene.ts';

/** Trees that a stop has to end as a whole. `ready` gets a line once the whole tree is there. */
const trees = {
  'a child and a grandchild that go on writing': `sleep 600 &
    sh -c 'sh -c "while :; do echo tick; sleep 0.02; done" & echo >>"$ROOT/ready"; wait' & wait`,
  'another program in the foreground': 'sleep 600 & echo >>"$ROOT/ready"; tail -f /dev/null; echo late',
  'a process group of its own': 'set -m; (echo >>"$ROOT/ready"; exec sleep 600) & wait',
  'a child that ignores TERM': `(trap '' TERM; echo >>"$ROOT/ready"; while :; do sleep 600; done) & wait`,
};

for (const profile of profiles) {
  for (const [what, shell] of Object.entries(trees)) {
    t.test(`C001: ${profile}, ${what}: all of it is gone before the run is cancelled`, async (t) => {
      const site = createSite(t);
      let livingAtEnd: readonly unknown[] | null = null;
      const directory = packageOf(site, { a: { shell, grace: '250ms' } });
      const { running, result } = runPackage(t, site, profile, directory, {
        onEvent({ type }) {
          if (type === 'attempt.cancelled') {
            livingAtEnd = commandsOf(site);
          }
        },
      });
      await wrote(site, 'ready');
      running.process.kill('SIGINT');
      const { run, steps, code } = await result();
      t.same(livingAtEnd, []);
      t.equal(code, 130);
      t.equal(run.status, 'cancelled');
      const logs = await cli(t, site, 'runs', 'logs', run.id, 'a', '--raw');
      t.equal(logs.out.length, steps[0]?.attempts[0]?.outputBytes, 'no line after it');
      t.notMatch(logs.out, 'late');
    });
  }
}

// What waits: the same started by a schedule, which cannot be given yet. Both end in the same protocol.
for (const profile of profiles) {
  for (const [whose, limits] of Object.entries({
    task: { task: { timeout: '250ms' }, workflow: {} },
    workflow: { task: {}, workflow: { timeout: '250ms' } },
  })) {
    t.test(`C002: ${profile}, the timeout of a ${whose} ends what a shell waits for, too`, async (t) => {
      const site = createSite(t);
      const shell = '(sleep 3; touch "$ROOT/m") & wait';
      const steps = { a: { shell, grace: '250ms', ...limits.task } };
      const directory = packageOf(site, steps, { workflow: limits.workflow });
      const shown = await runPackage(t, site, profile, directory).result();
      t.equal(shown.code, 124);
      t.same(statesOf(shown), { a: ['timed_out', 1] });
      t.equal(shown.run.status, 'timed_out');
      t.same(commandsOf(site), [], 'nobody is left who could touch m');
      t.notOk(existsSync(join(site.root, 'm')));
    });
  }
}

for (const profile of profiles) {
  t.test(`C003: ${profile}, what a command leaves running holds neither its attempt nor its slot`, async (t) => {
    const site = createSite(t);
    const steps = { a: { shell: 'sleep 30 & echo done' }, b: { shell: 'echo next >>"$ROOT/next"', needs: ['a'] } };
    const env = { QINGLONG_EDGE_KEEP_OUTPUT: 'always' };
    const { result, events } = runPackage(t, site, profile, packageOf(site, steps), { env });
    const shown = await result();
    t.same(statesOf(shown), { a: ['succeeded', 1], b: ['succeeded', 1] });
    t.same(linesOf(site, 'next'), ['next']);
    t.same(commandsOf(site), [], 'the leftover was ended');
    t.equal((await cli(t, site, 'runs', 'logs', shown.run.id, 'a')).out, 'done\n');
    t.match(JSON.stringify(events), '1 of its processes outlived it and were ended', 'and that is said');
  });
}

for (const profile of profiles) {
  t.test(
    `C004: ${profile}, a command that ignores TERM is killed after its grace, and the record says so`,
    async (t) => {
      const site = createSite(t);
      const shell = 'trap "" TERM INT; echo >>"$ROOT/ready"; while :; do sleep 1; done';
      const steps = { a: { shell, grace: '250ms' }, b: { shell: 'true', needs: ['a'] } };
      await install(t, site, profile, packageOf(site, steps));
      const daemon = await serve(t, site);
      const runId = await startRun(t, site);
      await wrote(site, 'ready');
      t.equal((await cli(t, site, 'runs', 'cancel', runId)).code, 0);
      const shown = await follow(t, site, runId);
      t.equal(shown.run.status, 'cancelled');
      t.same(statesOf(shown), { a: ['cancelled', 1], b: ['cancelled', 0] });
      const [attempt] = shown.steps[0]?.attempts ?? [];
      t.match(attempt, { status: 'cancelled', exitCode: 137, signal: 'SIGKILL', errorSummary: /KILL was needed/ });
      t.same(commandsOf(site), []);
      await stop(t, daemon);
    },
  );
}

/** A daemon in a process group of its own, which has one more member: whoever signals the group meets that one. */
async function serveInGroup(t: Test, site: Site) {
  const child = spawn('/bin/sh', ['-c', 'sleep 600 & echo "$!"; exec "$@" >&2', 'sh', ...serveWords(site)], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'], TZ: 'UTC' },
  });
  t.teardown(async () => {
    killProcess(canary!);
    child.kill('SIGKILL');
  });
  const [pid] = (await once(child.stdout, 'data')) as [Buffer];
  const canary = readProcessEntry(Number(`${pid}`));
  await once(child.stderr, 'data');
  return { child, canary: canary! };
}

function serveWords(site: Site): string[] {
  return [process.execPath, bundleFile, '--data', site.data, '--run-dir', site.run, 'serve'];
}

t.test('C006: a stop of what is gone already is quiet, and the daemon’s own group is never signalled', async (t) => {
  const site = createSite(t);
  const shell = 'echo >>"$ROOT/ready"; exec sleep 600';
  await install(t, site, 'standalone', packageOf(site, { a: { shell, grace: '250ms' } }));
  const { child, canary } = await serveInGroup(t, site);
  const gone = await startRun(t, site);
  await wrote(site, 'ready');
  await killCommands(site);
  const cancelled = await cli(t, site, 'runs', 'cancel', gone);
  t.ok(cancelled.code === 0 || cancelled.code === 3, 'cancelled, or lost before that');
  const shown = await follow(t, site, gone);
  t.match(shown.run.status, /^(cancelled|failed)$/);
  t.ok(isAlive(canary), 'the daemon’s group is unharmed');
  // The next one is stopped as usual.
  const runId = await startRun(t, site);
  await wrote(site, 'ready', 2);
  t.equal((await cli(t, site, 'runs', 'cancel', runId)).code, 0);
  t.equal((await follow(t, site, runId)).run.status, 'cancelled');
  t.ok(isAlive(canary));
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  t.same(await ended, [0, null]);
  t.ok(isAlive(canary));
});

t.test(
  'C006: a launcher that cannot be spawned is one failed attempt, and cancelling it is refused in words',
  async (t) => {
    const site = createSite(t);
    await install(t, site, 'edge', packageOf(site, { a: { shell: 'true' } }));
    const daemon = await serve(t, site, { QINGLONG_EDGE_SHELL: '/nowhere/sh' });
    const runId = await startRun(t, site);
    const shown = await follow(t, site, runId);
    t.same(statesOf(shown), { a: ['failed', 1] });
    t.match(shown.steps[0]?.attempts, [{ status: 'failed', exitCode: null, errorCode: 'launcher_unavailable' }]);
    const cancelled = await cli(t, site, 'runs', 'cancel', runId);
    t.equal(cancelled.code, 3);
    t.match(cancelled.err, /has ended already: failed; nothing was cancelled/);
    await stop(t, daemon);
  },
);

for (const profile of profiles) {
  t.test(`C009: ${profile}, a megabyte that nobody reads harms neither the program nor the outcome`, async (t) => {
    // A task has no input of its own: what a program is given stays with it, and a command's stdin is /dev/null.
    const site = createSite(t);
    const input = 'x'.repeat(1024 * 1024);
    const bytes = 'dd if=/dev/zero bs=65536 count=16 2>/dev/null';
    const steps = { a: { run: ['/bin/true'] }, b: { shell: 'exit 3' }, c: { shell: `${bytes}; exec 1>&-; exit 4` } };
    const shown = await runPackage(t, site, profile, packageOf(site, steps), { input }).result();
    t.equal(shown.code, 1);
    t.match(shown.steps, [
      { status: 'succeeded', attempts: [{ exitCode: 0 }] },
      { status: 'failed', attempts: [{ exitCode: 3 }] },
      { status: 'failed', attempts: [{ exitCode: 4, outputBytes: input.length }] },
    ]);
  });
}

/** Runs words on a terminal of their own; null where this machine has no `script` to make one. */
const terminalTool = ['/usr/bin/script', '/bin/script'].find((file) => existsSync(file)) ?? null;

for (const profile of profiles) {
  const skip = terminalTool === null ? 'this machine has no script(1)' : false;
  t.test(
    `C010: ${profile}, started from a terminal, a command that reads meets the end at once`,
    { skip },
    async (t) => {
      const site = createSite(t);
      const steps = {
        cat: { run: ['cat'] },
        read: { shell: 'read x; echo got:$x >>"$ROOT/got"' },
        // In a session of its own: not even by name does it reach the terminal that the program was started from.
        terminal: { shell: '(: </dev/tty) 2>/dev/null && exit 9; exit 0' },
      };
      const directory = packageOf(site, steps);
      const words = [process.execPath, bundleFile, '--data', site.data, '--run-dir', site.run, '--profile', profile];
      const line = [...words, 'run', directory].map((word) => `'${word}'`).join(' ');
      const child = spawn(terminalTool!, ['-qec', line, '/dev/null'], {
        cwd: site.root,
        // Somebody sits there and types nothing: its own input stays open until it has ended.
        stdio: ['pipe', 'pipe', 'inherit'],
        env: { PATH: process.env['PATH'], TZ: 'UTC', TERM: 'dumb' },
      });
      child.stdout.resume();
      const [code] = await once(child, 'exit');
      t.equal(code, 0);
      t.same(linesOf(site, 'got'), ['got:']);
    },
  );
}
