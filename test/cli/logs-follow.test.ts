// `runs logs --follow`: what commands write, while they write it, in order and to the end, whoever carries the run on.

import { spawnSync } from 'node:child_process';
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ask, call, createSite, printed, type Running, type Site, start, type Task, writeSteps } from './program.ts';

/** A FIFO that a command reads a line from; the test writes it. */
function makeGate(t: Test, site: Site) {
  const file = join(site.root, 'gate');
  spawnSync('mkfifo', [file]);
  const descriptor = openSync(file, constants.O_RDWR | constants.O_NONBLOCK);
  t.teardown(() => closeSync(descriptor));
  return { wait: `read x <'${file}'`, open: () => void writeSync(descriptor, 'go\n') };
}

async function startRun(t: Test, site: Site, steps: Readonly<Record<string, Task>>): Promise<string> {
  const install = ['--profile', 'standalone', 'package', 'install', writeSteps(site, 'demo', steps)];
  t.equal((await call(t, site, ...install)).code, 0);
  return (await ask<{ runId: string }>(t, site, 'workflow', 'start', 'demo/main')).runId;
}

async function serve(t: Test, site: Site, ...options: readonly string[]): Promise<Running> {
  const running = start(t, site, ['serve', ...options]);
  await printed(running, ' serves ');
  return running;
}

t.test('a follower that is there first sees every attempt of every step, and ends with the run', async (t) => {
  const site = createSite(t);
  const runId = await startRun(t, site, {
    a: { shell: 'echo quick' },
    b: {
      shell: 'echo try $QL_ATTEMPT_NUMBER; printf "no line end"; exit 1',
      more: 'retry: { limit: 1, backoff: 1ms }',
      needs: ['a'],
    },
    c: { shell: 'echo never', needs: ['b'] },
  });
  const follower = start(t, site, ['runs', 'logs', runId, '--follow']);
  await printed(follower, 'nobody holds the directory');
  // A command may be over before anybody looks.
  await serve(t, site, '--keep-output', 'always');
  const { code, out, err } = await follower.ended;
  t.equal(code, 0, err);
  t.equal(
    out.replaceAll(/ (succeeded|failed|running)\)$/gm, ')'),
    [
      '== a (attempt 1,)',
      'quick',
      '== b (attempt 1,)',
      'try 1',
      'no line end',
      '== b (attempt 2,)',
      'try 2',
      'no line end',
      '',
    ].join('\n'),
  );
  t.match(err, /\nb \(attempt 1, failed\): exit code 1\nb \(attempt 2, failed\): exit code 1\n$/);
});

t.test('one step is followed byte for byte, until it has ended, though the run goes on', async (t) => {
  const site = createSite(t);
  const { wait, open } = makeGate(t, site);
  const runId = await startRun(t, site, {
    a: { shell: `printf '\\033[2Jone\\r'; ${wait}; printf 'two\\0'; exit 0` },
    b: { shell: `sleep 60`, needs: ['a'] },
  });
  await serve(t, site);
  const follower = start(t, site, ['runs', 'logs', runId, 'a', '--follow', '--raw']);
  await printed(follower, 'one');
  t.equal(follower.stdout(), '\x1b[2Jone\r');
  open();
  const { code, out } = await follower.ended;
  t.same([code, out], [0, '\x1b[2Jone\rtwo\0']);
  t.equal((await call(t, site, 'runs', 'cancel', runId)).code, 0);
});

t.test('C020 one byte at a time, characters arrive whole, each as soon as it is', async (t) => {
  const site = createSite(t);
  const { wait, open } = makeGate(t, site);
  const bytes = ['\\344', '\\270', '\\226', '\\347', '\\225', '\\214'];
  const runId = await startRun(t, site, { a: { shell: bytes.map((byte) => `printf '${byte}'; ${wait}`).join('; ') } });
  await serve(t, site);
  const follower = start(t, site, ['runs', 'logs', runId, 'a', '--follow', '--json']);
  type Line = { readonly type: string; readonly text?: string; readonly nextOffset?: number };
  for (const character of ['世', '界']) {
    open();
    open();
    await printed(follower, character);
    open();
  }
  const { out } = await follower.ended;
  const lines = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);
  t.match(lines, [
    { type: 'begin', stepKey: 'a', attempt: 1, source: 'live', offset: 0 },
    { type: 'output', text: '世', nextOffset: 3 },
    { type: 'output', text: '界', nextOffset: 6 },
    { type: 'end', status: 'succeeded', outputBytes: 6, outputTruncated: false, nextOffset: 6 },
  ]);
});

t.test('what was dropped before it was read is counted where it is missing; nothing comes twice', async (t) => {
  const site = createSite(t);
  const { wait, open } = makeGate(t, site);
  // Three segments of 2 MiB hold the first part and the last; the follower comes when all of it has been written.
  const shell = `seq -f %07.0f 0 8 9999992; echo ready >&2; ${wait}; echo end; exit 1`;
  const runId = await startRun(t, site, { a: { shell } });
  await serve(t, site);
  const ready = start(t, site, ['runs', 'logs', runId, 'a', '--follow', '--tail', '1']);
  await printed(ready, 'ready');
  const follower = start(t, site, ['runs', 'logs', runId, 'a', '--follow']);
  await printed(follower, 'ready');
  open();
  const { out } = await follower.ended;
  t.match((await ready.ended).out, /ready\nend\n$/);
  const [head = '', bytes = '', tail = ''] = out.split(/\[(\d+) bytes left out\]\n/);
  t.equal(out.split('left out').length, 2);
  t.match(tail, /\nready\nend\n$/);
  t.equal(Buffer.byteLength(head) + Number(bytes) + Buffer.byteLength(tail), 10_000_000 + 'ready\nend\n'.length);
  const numbers = [...out.matchAll(/^(\d{7})$/gm)].map(([, digits]) => Number(digits));
  t.ok(
    numbers.every((number, index) => index === 0 || number > numbers[index - 1]!),
    'in order',
  );
});

t.test('whole lines of commands that write at the same time stand below the name of whose they are', async (t) => {
  const site = createSite(t);
  const { wait, open } = makeGate(t, site);
  const shell = (name: string) => `printf ${name}1; ${wait}; echo ${name}2; exit 0`;
  const runId = await startRun(t, site, { a: { shell: shell('a') }, b: { shell: shell('b') } });
  await serve(t, site);
  const follower = start(t, site, ['runs', 'logs', runId, '--follow']);
  await printed(follower, '1');
  open();
  open();
  const { out } = await follower.ended;
  const lines = out.trimEnd().split('\n');
  const owners = lines.map((_line, index) => lines.slice(0, index + 1).findLast((line) => line.startsWith('== '))?.[3]);
  lines.forEach((line, index) => {
    t.ok(line.startsWith('== ') || line[0] === owners[index], `${owners[index]}: ${line}`);
  });
  t.same(lines.filter((line) => /^[ab]1/.test(line)).sort().length >= 2, true, out);
});

t.test('of two runs at the same time only the one that is asked for is shown', async (t) => {
  const site = createSite(t);
  const { wait, open } = makeGate(t, site);
  const shell = `echo "mine is $QL_RUN_ID"; ${wait}; echo "end of $QL_RUN_ID"; exit 1`;
  const first = await startRun(t, site, { a: { shell } });
  const { runId: second } = await ask<{ runId: string }>(t, site, 'workflow', 'start', 'demo/main');
  await serve(t, site);
  const followers = [first, second].map((runId) => start(t, site, ['runs', 'logs', runId, '--follow', '--raw', 'a']));
  await Promise.all(followers.map((follower) => printed(follower, 'mine is')));
  open();
  open();
  const outs = (await Promise.all(followers.map(({ ended }) => ended))).map(({ out }) => out);
  t.same(
    outs,
    [first, second].map((runId) => `mine is ${runId}\nend of ${runId}\n`),
  );
});

t.test('an interrupt leaves the follower, and neither its run nor a line half written', async (t) => {
  const site = createSite(t);
  const { wait, open } = makeGate(t, site);
  const runId = await startRun(t, site, { a: { shell: `printf begun; ${wait}; echo; exit 0` } });
  const daemon = await serve(t, site);
  const follower = start(t, site, ['runs', 'logs', runId, '--follow']);
  await printed(follower, 'begun');
  follower.process.kill('SIGINT');
  t.match(await follower.ended, { code: 130, signal: null, out: /\nbegun\n$/, err: /^run \S+ goes on\n$/ });
  open();
  const shown = await call(t, site, 'runs', 'events', runId, '--follow');
  t.match(shown.out, 'workflow.succeeded');
  daemon.process.kill('SIGTERM');
  t.equal((await daemon.ended).code, 0);
});

t.test('a reader that goes away ends the follower', async (t) => {
  const site = createSite(t);
  const { wait, open } = makeGate(t, site);
  const runId = await startRun(t, site, { a: { shell: `echo one; ${wait}; echo two; exit 0` } });
  await serve(t, site);
  const follower = start(t, site, ['runs', 'logs', runId, '--follow']);
  await printed(follower, 'one');
  follower.process.stdout?.destroy();
  open();
  t.equal((await follower.ended).code, 0);
});

t.test('a run that is over is shown as without following, and a step that never began is refused', async (t) => {
  const site = createSite(t);
  const runId = await startRun(t, site, { a: { shell: 'echo bad; exit 1' }, b: { shell: 'true', needs: ['a'] } });
  t.equal((await call(t, site, 'serve', '--until-idle')).code, 0);
  t.equal((await call(t, site, 'runs', 'logs', runId, 'a', '--follow')).out, 'bad\n');
  t.equal((await call(t, site, 'runs', 'logs', runId, '--follow')).out, '== a (attempt 1, failed)\nbad\n');
  t.match(await call(t, site, 'runs', 'logs', runId, 'b', '--follow'), { code: 3, err: /has not been attempted/ });
});

t.test(
  'a command that outlives its runtime is followed while nobody holds the directory, and when somebody does again',
  async (t) => {
    const site = createSite(t);
    const { wait, open } = makeGate(t, site);
    const runId = await startRun(t, site, { a: { shell: `echo one; ${wait}; echo two; ${wait}; echo three; exit 4` } });
    const daemon = await serve(t, site);
    const follower = start(t, site, ['runs', 'logs', runId, 'a', '--follow']);
    await printed(follower, 'one');
    daemon.process.kill('SIGKILL');
    await daemon.ended;
    open();
    await printed(follower, 'two');
    await serve(t, site);
    open();
    t.match(await follower.ended, {
      code: 0,
      out: 'one\ntwo\nthree\n',
      err: /a \(attempt 1, failed\): exit code 4\n$/,
    });
    t.equal((await call(t, site, 'runs', 'logs', runId, 'a')).out, 'one\ntwo\nthree\n', 'kept after the recovery');
  },
);
