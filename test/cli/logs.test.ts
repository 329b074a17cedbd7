// `runs logs` of runs that are over, or stand still: what is shown, which part of it, and why there is nothing.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ask, call, createSite, newestRun, printed, type Site, start, type Task, writeSteps } from './program.ts';

type Logs = {
  readonly attempts: readonly {
    readonly stepKey: string;
    readonly source: string | null;
    readonly reason: string | null;
    readonly text: string | null;
    readonly offset: number;
    readonly nextOffset: number;
    readonly missing: readonly { readonly offset: number; readonly bytes: number }[];
  }[];
};

/** Runs one package to its end, and gives the way to its logs. */
async function runSteps(t: Test, steps: Readonly<Record<string, Task>>, ...options: readonly string[]) {
  const site = createSite(t);
  await call(t, site, 'run', writeSteps(site, 'demo', steps), ...options);
  const { run } = await newestRun(t, site);
  const logs = (...args: readonly string[]) => call(t, site, 'runs', 'logs', run.id, ...args);
  return { site, runId: run.id, logs };
}

function artifacts(site: Site): string[] {
  return readdirSync(join(site.data, 'artifacts'));
}

t.test(
  'what was kept is shown neutralized, raw bytes only when asked for, and where there is nothing, why',
  async (t) => {
    const { site, runId, logs } = await runSteps(t, {
      good: { shell: 'echo fine' },
      noisy: { shell: "printf 'one\\n\\033[31mtwo\\nthree'; exit 1" },
      silent: { shell: 'exit 1' },
      after: { shell: 'echo never', needs: ['silent'] },
    });
    t.equal((await logs('noisy')).out, 'one\n\\x1b[31mtwo\nthree\n');
    t.equal((await logs('noisy', '--raw')).out, 'one\n\x1b[31mtwo\nthree');
    t.equal((await logs('noisy', '--tail', '1')).out, 'three\n');
    t.match(await logs('good'), {
      code: 0,
      out: '',
      err: /its output \(5 bytes\) was not kept: keepOutput is failures\n$/,
    });
    t.match((await logs('silent')).err, 'it wrote nothing');
    t.match(
      (await logs()).out,
      /^== good \(attempt 1, succeeded\): .*\n== noisy \(attempt 1, failed\)\none\n.*\nthree\n== silent/,
    );
    t.match(await logs('nosuch'), { code: 3, err: /has no step nosuch/ });
    t.match(await logs('after'), { code: 3, err: /step after .* has not been attempted/ });
    t.match(await logs('noisy', '--attempt', '2'), { code: 3, err: /has 1 attempts, not 2/ });
    t.match(await ask(t, site, 'runs', 'logs', runId, 'noisy'), {
      runId,
      attempts: [{ stepKey: 'noisy', source: 'kept', reason: null, text: 'one\n\x1b[31mtwo\nthree', nextOffset: 18 }],
    });
    const { attempts } = await ask<Logs>(t, site, 'runs', 'logs', runId);
    t.same(
      attempts.map(({ stepKey, text }) => [stepKey, text]),
      [
        ['good', null],
        ['noisy', 'one\n\x1b[31mtwo\nthree'],
        ['silent', null],
      ],
    );
  },
);

t.test('options that exclude each other are refused, all at once', async (t) => {
  const site = createSite(t);
  const refused = await call(
    t,
    site,
    'runs',
    'logs',
    'some-run',
    '--tail',
    '1',
    '--all',
    '--offset',
    '3',
    '--attempt',
    '1',
  );
  t.equal(refused.code, 2);
  t.match(refused.err, '--attempt needs STEP');
  t.match(refused.err, '--offset needs STEP');
  t.match(refused.err, '--tail cannot be given together with --all');
  const raw = await call(t, site, 'runs', 'logs', 'some-run', '--raw', '--follow');
  t.match(raw, { code: 2, err: /--raw needs STEP together with --follow/ });
  t.match(await call(t, site, 'runs', 'logs', 'r', 's', '--follow', '--bytes', '3'), { code: 2 });
});

t.test('an output is paged by offset: every page says where it lies and how to go on', async (t) => {
  const { site, runId, logs } = await runSteps(t, { a: { shell: 'printf %s "你好世界 and more"; exit 1' } });
  let [shown, offset] = ['', 0];
  for (let total = 1; offset < total; ) {
    const page = await logs('a', '--offset', `${offset}`, '--bytes', '5');
    const place = /bytes (\d+) to (\d+) of (\d+)(; go on with --offset (\d+))?\n$/.exec(page.err)!;
    shown += page.out.replace(/\n$/, '');
    t.equal(Number(place[1]), offset);
    total = Number(place[3]);
    t.equal(place[5], Number(place[2]) < total ? place[2] : undefined);
    offset = Number(place[2]);
  }
  t.equal(shown, '你好世界 and more');
  t.equal((await logs('a', '--bytes', '4')).out, 'more\n');
  t.equal((await logs('a', '--raw', '--offset', '1', '--bytes', '3')).out, Buffer.from([0xbd, 0xa0, 0xe5]).toString());
  const { attempts } = await ask<Logs>(t, site, 'runs', 'logs', runId, 'a', '--offset', '3', '--bytes', '7');
  t.match(attempts, [{ text: '好世', offset: 3, nextOffset: 9 }]);
});

t.test('of a long output the first and last part are shown, and what is missing where it is missing', async (t) => {
  const shell = 'echo first; yes 0123456789 | head -c 2200000; echo last; exit 1';
  const { site, runId, logs } = await runSteps(t, { a: { shell } }, '--output-bytes-max', '64k');
  const { out, err } = await logs('a');
  t.match(out, /^first\n0123456789\n/);
  t.match(out, /0123456789\nlast\n$/);
  const bytes = Number(/\n\[(\d+) bytes left out\]\n/.exec(out)?.[1]);
  t.match(err, 'only a part of its 2200011 bytes was kept');
  const raw = await logs('a', '--raw');
  t.equal(raw.out.length + bytes, 2_200_011, 'the count is true');
  t.match(raw.err, new RegExp(`: ${bytes} bytes left out, at byte 32768\n`));
  t.notMatch(raw.out, 'left out');
  const { attempts } = await ask<Logs>(t, site, 'runs', 'logs', runId);
  t.equal(attempts[0]?.text, raw.out);
  t.match(attempts[0]?.missing, [{ offset: 32_768, bytes }]);
  const tail = await logs('a', '--tail', '3');
  t.match(tail.out, /^0123456789\n\d*\nlast\n$/);
});

t.test('the policy and the quota decide what is there later, and are named where it is not', async (t) => {
  const steps = { a: { shell: 'echo good' }, b: { shell: 'echo bad; exit 1' } };
  const always = await runSteps(t, steps, '--keep-output', 'always');
  t.equal((await always.logs('a')).out, 'good\n');
  const never = await runSteps(t, steps, '--keep-output', 'never');
  const file = join(never.site.data, 'config.json');
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), keepOutput: 'never' }));
  t.match((await never.logs('b')).err, /its output \(4 bytes\) was not kept: keepOutput is never\n$/);
  const small = ['--output-quota', '8k', '--output-bytes-max', '8k'];
  const shell = 'head -c 6000 /dev/zero | tr "\\0" x; exit 1';
  const full = await runSteps(t, { a: { shell }, b: { shell } }, ...small);
  const gone = await full.logs('a');
  const there = await full.logs('b');
  t.same([gone.out.length, there.out.length].sort(), [0, 6001], 'the first to end went');
  t.match(
    `${gone.err}${there.err}`,
    /\(6000 bytes\) is not there: not kept when it ended, or gone since: the oldest goes/,
  );
});

t.test('output that could not be kept is said with the attempt, and holds nothing up', async (t) => {
  const site = createSite(t);
  const directory = writeSteps(site, 'demo', { a: { shell: 'echo bad; exit 3' }, b: { shell: 'echo bad; exit 4' } });
  await call(t, site, 'package', 'install', directory);
  writeFileSync(join(site.data, 'artifacts'), 'in the way');
  const { code, err, out } = await call(t, site, 'run', directory);
  t.equal(code, 1);
  t.match(out, /exit code 3; its output could not be kept: E[A-Z]+/);
  t.equal(err.split('output cannot be kept').length, 2, 'told once');
  const { run } = await newestRun(t, site);
  t.match((await call(t, site, 'runs', 'logs', run.id, 'a')).err, /: its output could not be kept: E[A-Z]+/);
  t.match((await call(t, site, 'runs', 'show', run.id)).out, 'its output could not be kept');
  rmSync(join(site.data, 'artifacts'));
  await call(t, site, 'run', directory);
  t.equal((await call(t, site, 'runs', 'logs', (await newestRun(t, site)).run.id, 'a')).out, 'bad\n');
});

t.test('a successful attempt makes no file, a silent failure neither', async (t) => {
  const { site } = await runSteps(t, { a: { shell: 'echo good' }, b: { shell: 'exit 1' } });
  t.notOk(readdirSync(site.data).includes('artifacts'));
  const failed = await runSteps(t, { a: { shell: 'echo bad; exit 1' } });
  t.equal(artifacts(failed.site).length, 1);
});

t.test('what was stopped is kept whatever its exit code says', async (t) => {
  const shell = 'trap "echo bye; exit 0" TERM; echo hi; i=0; while [ $i -lt 200 ]; do sleep 0.1; i=$((i+1)); done';
  const { logs, site, runId } = await runSteps(t, { a: { shell, more: 'timeout: 400ms' } });
  t.match(await ask(t, site, 'runs', 'show', runId), {
    steps: [{ status: 'timed_out', attempts: [{ status: 'timed_out', exitCode: 0 }] }],
  });
  t.match((await logs('a')).out, /^hi\n(Terminated\n)?bye\n$/);
});

t.test('every attempt of a step keeps its own output, the 63rd too', async (t) => {
  const retry = 'retry: { limit: 62, backoff: 1ms, factor: 1 }';
  const { logs, site, runId } = await runSteps(t, { a: { shell: 'echo try $QL_ATTEMPT_NUMBER; exit 1', more: retry } });
  const { steps } = await ask<{ steps: readonly { attempts: readonly object[] }[] }>(t, site, 'runs', 'show', runId);
  t.equal(steps[0]?.attempts.length, 63);
  t.equal(artifacts(site).length, 63);
  t.equal((await logs('a')).out, 'try 63\n');
  t.equal((await logs('a', '--attempt', '1')).out, 'try 1\n');
  t.equal((await logs('a', '--attempt', '40')).out, 'try 40\n');
});

t.test('what a command has written so far is shown while it runs, and that it wrote nothing yet', async (t) => {
  const site = createSite(t);
  const wait = 'i=0; while [ $i -lt 300 ]; do sleep 0.1; i=$((i+1)); done';
  const steps = { a: { shell: `printf 'so far \\344\\275'; ${wait}` }, b: { shell: wait } };
  const running = start(t, site, ['--profile', 'standalone', 'run', writeSteps(site, 'demo', steps)]);
  await printed(running, 'running (attempt 1)');
  const { run } = await newestRun(t, site);
  const follower = start(t, site, ['runs', 'logs', run.id, 'a', '--follow']);
  await printed(follower, 'so far');
  t.match(await call(t, site, 'runs', 'logs', run.id, 'a'), { code: 0, out: 'so far \n' });
  t.match(
    (await call(t, site, 'runs', 'logs', run.id, 'b')).err,
    /b \(attempt 1, (starting|running)\): nothing so far/,
  );
  running.process.kill('SIGINT');
  t.equal((await running.ended).code, 130);
  t.match(await follower.ended, { code: 0, out: 'so far \ufffd\n', err: /^a \(attempt 1, cancelled\): stopped: / });
  t.equal((await call(t, site, 'runs', 'logs', run.id, 'a')).out, 'so far \ufffd\n');
});
