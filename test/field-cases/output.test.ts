// Field cases: output. What commands write is bounded, counted and exact, whatever they write and however slowly; it is
// opened at its end, and shown as text wherever it is shown.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, statSync, watch, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { AttemptInspection } from '../../src/runtime/inspection.ts';
import { bundleFile, cli, createSite, printed, type Running, type Site, startCli } from '../product/product.ts';
import {
  ask,
  commandsOf,
  type Environment,
  follow,
  install,
  kill,
  killCommands,
  makeGate,
  packageOf,
  profiles,
  serve,
  startRun,
  stop,
  type Task,
  wrote,
} from './scene.ts';

type Steps = Readonly<Record<string, Task & { readonly needs?: readonly string[] }>>;

const keepAll: Environment = { QINGLONG_EDGE_KEEP_OUTPUT: 'always' };

type LoggedAttempt = { readonly text: string | null; readonly missing: readonly { readonly bytes: number }[] };

async function logsOf(t: Test, site: Site, runId: string, step: string): Promise<LoggedAttempt> {
  const { attempts } = await ask<{ attempts: readonly LoggedAttempt[] }>(t, site, ['runs', 'logs', runId, step]);
  return attempts[0]!;
}

/** A daemon with one package, and one run of it that has ended. */
async function runSteps(t: Test, profile: string, steps: Steps, env: Environment = {}) {
  const site = createSite(t);
  await install(t, site, profile, packageOf(site, steps));
  const daemon = await serve(t, site, env);
  const runId = await startRun(t, site);
  const shown = await follow(t, site, runId);
  const attemptOf = (key: string): AttemptInspection =>
    shown.steps.find(({ stepKey }) => stepKey === key)!.attempts.at(-1)!;
  return { site, daemon, runId, attemptOf };
}

/** From /proc, in bytes. */
function memoryOf(running: Running, field: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${running.process.pid}/status`, 'latin1');
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) * 1024;
}

const megabyte = 1024 * 1024;

for (const profile of profiles) {
  t.test(`C003: ${profile}, the output of a command that leaves something running is whole`, async (t) => {
    const run = ['sh', '-c', 'sleep 30 & echo done'];
    const { site, daemon, runId, attemptOf } = await runSteps(t, profile, { a: { run } }, keepAll);
    t.match(attemptOf('a'), { status: 'succeeded', exitCode: 0, outputBytes: 5, outputTruncated: false });
    t.equal((await cli(t, site, 'runs', 'logs', runId, 'a')).out, 'done\n');
    t.same(commandsOf(site), []);
    await stop(t, daemon);
  });

  t.test(`C019: ${profile}, output without end is bounded and counted, and costs the runtime no memory`, async (t) => {
    const site = createSite(t);
    const steps = {
      a: { shell: 'echo warm; exit 1' },
      b: { shell: 'head -c 40000000 /dev/zero | tr "\\0" x; exit 7' },
      c: { shell: 'timeout 1 yes' },
    };
    for (const [name, step] of Object.entries(steps)) {
      await install(t, site, profile, packageOf(site, { [name]: step }, { name }));
    }
    const daemon = await serve(t, site);
    await follow(t, site, await startRun(t, site, 'a/main'));
    // What the kernel remembers as the most begins anew.
    writeFileSync(`/proc/${daemon.process.pid}/clear_refs`, '5');
    const before = memoryOf(daemon, 'VmRSS');
    const boundBytes = profile === 'edge' ? 256 * 1024 : 4 * megabyte;
    for (const [name, code] of [
      ['b', 7],
      ['c', 124],
    ] as const) {
      const runId = await startRun(t, site, `${name}/main`);
      const { steps } = await follow(t, site, runId);
      const attempt = steps[0]!.attempts[0]!;
      t.match(attempt, { status: 'failed', exitCode: code, outputTruncated: true });
      const total = attempt.outputBytes ?? 0;
      t.ok(name === 'b' ? total === 40_000_000 : total > boundBytes, `${total} bytes`);
      const { text, missing } = await logsOf(t, site, runId, name);
      t.ok(text!.length <= boundBytes && text!.length > 0.9 * boundBytes, `${text!.length} are kept`);
      t.equal(text!.length + missing.reduce((sum, { bytes }) => sum + bytes, 0), total, 'every byte is counted');
    }
    const grown = memoryOf(daemon, 'VmHWM') - before;
    t.ok(grown < 20 * megabyte, `${grown} bytes more than before`);
    t.ok(bytesIn(join(site.data, 'artifacts')) <= 3 * boundBytes);
    await stop(t, daemon);
  });
}

function bytesIn(directory: string): number {
  return readdirSync(directory).reduce((sum, name) => sum + statSync(join(directory, name)).size, 0);
}

t.test('C020: no character is torn, in many writes, in single bytes, while it is written or afterwards', async (t) => {
  const site = createSite(t);
  const many = 'i=0; while [ $i -lt 5000 ]; do printf 你你你你你你你你你你; i=$((i+1)); done; exit 1';
  const bytes = ['\\344', '\\270', '\\226', '\\347', '\\225', '\\214'].map((byte) => `printf '${byte}'; sleep 0.02`);
  const slow = `read x <"$ROOT/gate"; ${bytes.join('; ')}; exit 1`;
  await install(t, site, 'standalone', packageOf(site, { many: { shell: many }, slow: { shell: slow } }));
  const gate = makeGate(t, site);
  const daemon = await serve(t, site);
  const runId = await startRun(t, site);
  const follower = startCli(t, site, ['runs', 'logs', runId, 'slow', '--follow']);
  const watcher = startCli(t, site, ['runs', 'logs', runId, '--follow', '--json']);
  gate.open();
  t.equal((await follower.ended).out, '世界\n');
  const watched = (await watcher.ended).out;
  t.notMatch(watched, '\ufffd');
  const written = watched
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { stepKey: string; text?: string });
  const textOf = (key: string) => written.map(({ stepKey, text }) => (stepKey === key ? (text ?? '') : '')).join('');
  t.same([textOf('many') === '你'.repeat(50_000), textOf('slow')], [true, '世界']);
  t.ok((await cli(t, site, 'runs', 'logs', runId, 'many')).out === `${'你'.repeat(50_000)}\n`);
  t.equal((await cli(t, site, 'runs', 'logs', runId, 'slow')).out, '世界\n');
  await stop(t, daemon);
});

type Cost = { readonly readBytes: number; readonly peakBytes: number };

/** What a command line costs: read bytes by the kernel's count, and memory at its most. */
async function measure(site: Site, args: readonly string[]): Promise<Cost> {
  const preload = join(site.root, 'cost.cjs');
  const report = join(site.root, 'cost.json');
  writeFileSync(
    preload,
    `process.on('exit', () => { const fs = require('node:fs');
      const readBytes = Number(/^rchar: (\\d+)/m.exec(fs.readFileSync('/proc/self/io', 'latin1'))[1]);
      const peakBytes = process.resourceUsage().maxRSS * 1024;
      fs.writeFileSync(${JSON.stringify(report)}, JSON.stringify({ readBytes, peakBytes })); });`,
  );
  const child = spawn(
    process.execPath,
    ['-r', preload, bundleFile, '--data', site.data, '--run-dir', site.run, ...args],
    {
      stdio: 'ignore',
      env: { PATH: process.env['PATH'] },
    },
  );
  await once(child, 'close');
  return JSON.parse(readFileSync(report, 'utf8')) as Cost;
}

t.test('C022: 50 MB open at their end, by reading the end alone, and any page by reading a page', async (t) => {
  const site = createSite(t);
  const shell = 'yes "$(printf %099d 7)" | head -c 50000000; exit 1';
  await install(t, site, 'standalone', packageOf(site, { long: { shell }, short: { shell: 'echo short; exit 1' } }));
  const daemon = await serve(t, site, { QINGLONG_EDGE_OUTPUT_BYTES_MAX: '64m' });
  const runId = await startRun(t, site);
  const { steps } = await follow(t, site, runId);
  t.match(steps[0]?.attempts[0], { outputBytes: 50_000_000, outputTruncated: false });
  const logs = (...args: readonly string[]) => ['runs', 'logs', runId, ...args];
  const short = await measure(site, logs('short', '--all'));
  for (const args of [
    ['--tail', '200'],
    ['--bytes', '65536'],
    ['--offset', '25000000', '--bytes', '65536'],
  ]) {
    const { readBytes } = await measure(site, logs('long', ...args));
    t.ok(readBytes - short.readBytes < 400_000, `${args}: ${readBytes - short.readBytes} bytes were read`);
  }
  for (const args of [['--raw'], ['--all'], ['--json']]) {
    const { readBytes, peakBytes } = await measure(site, logs('long', ...args));
    t.ok(readBytes - short.readBytes > 49_900_000, `all of it was read: ${readBytes - short.readBytes}`);
    t.ok(peakBytes - short.peakBytes < 20 * megabyte, `${args}: ${peakBytes - short.peakBytes} bytes of memory more`);
  }
  t.equal((await cli(t, site, ...logs('long', '--tail', '2'))).out, `${'7'.padStart(99, '0')}\n`.repeat(2));
  await stop(t, daemon);
});

// What a terminal obeys or is deceived by, and what a browser would: none of it may come through as it is.
const markup = '<script>alert(1)</script><img src=x onerror=alert(1)>';
const hostile = `\x1b[2J\x1b]0;title\x07\x9b31m\x08\x08\u202egnp.exe\u2066\u2028${markup}`;
const unsafe = /[\p{Cc}\u200e\u200f\u2028-\u202e\u2066-\u2069]/u;

t.test(
  'C024: names and output are shown as text everywhere, never obeyed, and nothing of them is hidden',
  async (t) => {
    const site = createSite(t);
    const title = '<img src=x onerror=alert(1)> \u202egnp.exe';
    const shell = `printf '%s\\n' "$HOSTILE"; echo '<script>alert(1)</script>'; exit 3`;
    const task = { title, shell, env: { HOSTILE: hostile } };
    const directory = packageOf(
      site,
      { 'a-step': task, b: { shell: 'true', needs: ['a-step'] } },
      { workflow: { title } },
    );
    await install(t, site, 'edge', directory);
    const run = await cli(t, site, 'run', directory);
    const runId = (await ask<{ runs: readonly { id: string }[] }>(t, site, ['runs', 'list'])).runs[0]!.id;
    const missing = await cli(t, site, 'package', 'show', hostile);
    const answers = [run, missing];
    for (const args of [
      ['package', 'list'],
      ['package', 'show', 'case'],
      ['workflow', 'list'],
      ['workflow', 'plan', 'case/main'],
      ['runs', 'list'],
      ['runs', 'show', runId],
      ['runs', 'events', runId],
      ['runs', 'events', runId, '--verbose'],
      ['runs', 'logs', runId],
      ['runs', 'logs', runId, 'a-step', '--follow'],
      ['runs', 'logs', runId, '--follow'],
      ['status'],
      ['doctor'],
      ['verify'],
    ]) {
      for (const more of [[], ['--json']]) {
        answers.push(await cli(t, site, ...args, ...more));
      }
    }
    for (const { out, err } of answers) {
      for (const text of [out, err]) {
        t.notMatch(text.replaceAll(/[\n\t]/g, ''), unsafe);
      }
    }
    t.match(run.out, '<script>alert(1)</script>');
    const shown = (await cli(t, site, 'runs', 'logs', runId, 'a-step')).out;
    const escaped = '\\x1b[2J\\x1b]0;title\\x07\\x9b31m\\x08\\x08\\u202egnp.exe\\u2066\\u2028';
    t.equal(shown, `${escaped}<script>alert(1)</script><img src=x onerror=alert(1)>\n<script>alert(1)</script>\n`);
    t.match((await cli(t, site, 'package', 'show', 'case')).out, '<img src=x onerror=alert(1)> \\u202egnp.exe');
    const { text } = await logsOf(t, site, runId, 'a-step');
    t.equal(text, `${hostile}\n<script>alert(1)</script>\n`, 'JSON means the same');
    const raw = startCli(t, site, ['runs', 'logs', runId, 'a-step', '--raw']);
    t.equal((await raw.ended).out, `${hostile}\n<script>alert(1)</script>\n`, 'and raw is exact');
  },
);

t.test('an attempt that is lost keeps what was found of its output, also after another boot', async (t) => {
  for (const env of [{}, { QINGLONG_EDGE_BOOT_ID: 'another-boot' }]) {
    const site = createSite(t);
    await install(t, site, 'edge', packageOf(site, { a: { shell: 'echo begun; echo >"$ROOT/trace"; exec sleep 60' } }));
    const first = await serve(t, site);
    const runId = await startRun(t, site);
    await wrote(site, 'trace');
    // What is still in the pipe dies with its reader.
    const following = startCli(t, site, ['runs', 'logs', runId, 'a', '--follow']);
    await printed(following, 'begun');
    await kill(following);
    await kill(first);
    await killCommands(site);
    const second = await serve(t, site, env);
    const { steps } = await follow(t, site, runId);
    t.match(steps[0]?.attempts, [{ status: 'lost', exitCode: null }]);
    t.equal((await cli(t, site, 'runs', 'logs', runId, 'a')).out, 'begun\n');
    await stop(t, second);
  }
});

t.test('a start removes what is kept of attempts that nobody knows, and halves of files', async (t) => {
  const site = createSite(t);
  await install(t, site, 'edge', packageOf(site, { a: { shell: 'echo bad; exit 1' } }));
  const first = await serve(t, site);
  const runId = await startRun(t, site);
  await follow(t, site, runId);
  await stop(t, first);
  const artifacts = join(site.data, 'artifacts');
  const [file = ''] = readdirSync(artifacts);
  for (const name of [`${file}.partial`, file.replace(runId, 'some-run'), file.replace(/^at_\w{4}/, 'at_0000')]) {
    writeFileSync(join(artifacts, name), 'left');
  }
  const second = await serve(t, site);
  await new Promise<void>((resolve) => {
    const watcher = watch(artifacts, () => look());
    const look = () => {
      if (readdirSync(artifacts).length === 1) {
        watcher.close();
        resolve();
      }
    };
    look();
  });
  t.same(readdirSync(artifacts), [file]);
  t.equal((await cli(t, site, 'runs', 'logs', runId, 'a')).out, 'bad\n');
  await stop(t, second);
});

const hasStrace = spawnSync('strace', ['-V']).status === 0;

t.test(
  'output is on the disk before its completion is',
  { skip: !hasStrace && 'strace is not installed' },
  async (t) => {
    const site = createSite(t);
    const directory = packageOf(site, { a: { shell: 'echo bad; exit 1' } });
    const trace = join(site.root, 'calls');
    const calls = ['-y', '-o', trace, '-e', 'trace=fsync,fdatasync,rename,renameat,renameat2'];
    const args = [...calls, process.execPath, bundleFile, '--data', site.data, '--run-dir', site.run, 'run', directory];
    spawnSync('strace', args, { env: { PATH: process.env['PATH'] } });
    const lines = readFileSync(trace, 'utf8').split('\n');
    const at = (pattern: RegExp) => lines.findIndex((line) => pattern.test(line));
    const order = [
      /sync\(\d+<[^>]*\.out\.partial>\)/,
      /rename.*\.out\.partial.*\.out"/,
      /sync\(\d+<[^>]*artifacts>\)/,
    ].map(at);
    t.ok(
      order.every((line, index) => line >= 0 && line > (order[index - 1] ?? -1)),
      `${order}`,
    );
    t.ok(
      lines.slice(order[2]).some((line) => /sync\(\d+<[^>]*qinglong\.db/.test(line)),
      'the commit comes after it',
    );
  },
);
