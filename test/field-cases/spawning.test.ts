// Field cases: spawning scripts. A start that must fail is one failed attempt that says why; what can start gets its
// words, names and environment byte for byte.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { RunInspection } from '../../src/runtime/inspection.ts';
import { cli, createSite, type Site, startCli, writePackage } from '../product/product.ts';
import {
  ask,
  follow,
  install,
  linesOf,
  packageOf,
  profiles,
  runPackage,
  serve,
  startRun,
  statesOf,
  stop,
} from './scene.ts';

/** The one installed copy of a package, where the commands run. */
function installedCopy(site: Site): string {
  const [digest = ''] = readdirSync(join(site.data, 'packages'));
  return join(site.data, 'packages', digest);
}

function attemptsOf({ steps }: RunInspection, stepKey = 'a') {
  return steps.find((step) => step.stepKey === stepKey)!.attempts;
}

/** Runs what is installed, to its end. */
async function runInstalled(t: Test, site: Site): Promise<RunInspection> {
  const ended = await cli(t, site, 'workflow', 'start', 'case/main', '--wait', '--json');
  t.equal(ended.err, '');
  return JSON.parse(ended.out.trim().split('\n').at(-1)!);
}

for (const profile of profiles) {
  t.test(`C011: ${profile}, a script with CRLF is one failed attempt a try, which names its interpreter`, async (t) => {
    const site = createSite(t);
    const retry = { limit: 1, backoff: '10ms' };
    const files = { 'scripts/hi.sh': '#!/bin/sh\r\necho hi\r\n' };
    const directory = packageOf(site, { a: { run: ['./scripts/hi.sh'], retry } }, { files });
    const { result, events } = runPackage(t, site, profile, directory);
    const shown = await result();
    t.equal(shown.code, 1);
    t.same(statesOf(shown), { a: ['failed', 2] });
    t.equal(attemptsOf(shown).length, 2, 'settled once, retried once');
    for (const attempt of attemptsOf(shown)) {
      t.match(attempt, { status: 'failed', exitCode: null, signal: null, errorCode: 'interpreter_not_found' });
      t.match(attempt.errorSummary, /\/bin\/sh\\r.*CRLF/);
    }
    t.equal(events.filter(({ type }) => type === 'attempt.failed').length, 2, 'one end for each attempt');
  });
}

type Obstacle = {
  readonly make: (program: string) => void;
  readonly code: string;
  readonly says: RegExp;
  readonly name?: string;
};

/** Programs of the device, outside of any package, of which none can be started: each made in its own way. */
const obstacles: Readonly<Record<string, Obstacle>> = {
  'a missing program': { make: () => {}, code: 'command_not_found', says: /\/program.* does not exist/ },
  'a program that may not be executed': {
    make: (program) => writeFileSync(program, '#!/bin/sh\n', { mode: 0o644 }),
    code: 'permission_denied',
    says: /\/program.* may not be executed/,
  },
  'a directory in place of a program': {
    make: (program) => mkdirSync(program),
    code: 'permission_denied',
    says: /is a directory/,
  },
  'an interpreter that there is not': {
    make: (program) => writeFileSync(program, '#!/usr/bin/no-such-shell\n', { mode: 0o755 }),
    code: 'interpreter_not_found',
    says: /no-such-shell.* does not exist/,
  },
  'a program for another processor': {
    make(program) {
      const elf = Buffer.alloc(64);
      elf.writeUInt32BE(0x7f454c46, 0);
      elf.set([2, 1, 1], 4);
      elf.writeUInt16LE(0xfeed, 18);
      writeFileSync(program, elf, { mode: 0o755 });
    },
    code: 'exec_format',
    says: /another processor/,
  },
  'a link that leads to itself': {
    make: (program) => symlinkSync('program', program),
    code: 'command_not_found',
    says: /\/program/,
  },
  'a command that PATH does not have': {
    make: () => {},
    code: 'command_not_found',
    says: /no command .*no-such-command.* in PATH/,
    name: 'no-such-command',
  },
};

for (const [what, { make, code, says, name }] of Object.entries(obstacles)) {
  t.test(`C011: ${what} is told apart and explained, and harms no other step`, async (t) => {
    const site = createSite(t);
    const program = join(site.root, 'program');
    make(program);
    const steps = { a: { run: [name ?? program] }, b: { shell: 'true' } };
    const shown = await runPackage(t, site, 'standalone', packageOf(site, steps)).result();
    t.same(statesOf(shown), { a: ['failed', 1], b: ['succeeded', 1] });
    t.match(attemptsOf(shown), [{ status: 'failed', exitCode: null, errorCode: code, errorSummary: says }]);
  });
}

const directoryIsGone = /^(directory_not_found|package_altered)$/;

// A working directory is part of a package: that it is gone is met by whoever looks first, with its name.
for (const profile of profiles) {
  for (const how of ['removed', 'replaced by a file']) {
    t.test(`C013: ${profile}, a working directory that was ${how} is named in the message`, async (t) => {
      const site = createSite(t);
      const files = { 'work/here/file': '' };
      await install(t, site, profile, packageOf(site, { a: { run: ['/bin/echo', 'x'], cwd: 'work/here' } }, { files }));
      const directory = join(installedCopy(site), 'work/here');
      rmSync(directory, { recursive: true });
      if (how !== 'removed') {
        writeFileSync(directory, '');
      }
      const shown = await runInstalled(t, site);
      t.same(statesOf(shown), { a: ['failed', 1] });
      t.match(attemptsOf(shown), [{ errorCode: directoryIsGone, exitCode: null }]);
      t.match(attemptsOf(shown)[0]?.errorSummary, 'work/here');
      t.notMatch(attemptsOf(shown)[0]?.errorSummary, '/bin/echo', 'the command is not blamed');
    });
  }
}

t.test('C013: the whole package gone from under a daemon fails its own run alone', async (t) => {
  const site = createSite(t);
  await install(t, site, 'edge', packageOf(site, { a: { run: ['/bin/echo', 'x'] } }));
  const daemon = await serve(t, site);
  const copy = installedCopy(site);
  renameSync(copy, `${copy}.away`);
  const failed = await follow(t, site, await startRun(t, site));
  t.match(attemptsOf(failed), [{ errorCode: directoryIsGone, exitCode: null }]);
  renameSync(`${copy}.away`, copy);
  t.equal((await follow(t, site, await startRun(t, site))).run.status, 'succeeded', 'the daemon goes on');
  await stop(t, daemon);
});

/** Bytes of a value so that `A=value` and its NUL are exactly what Linux takes for one string. */
const longestValue = 131_072 - 'A='.length - 1;

for (const profile of profiles) {
  t.test(`C015: ${profile}, the longest environment entry reaches the command; one byte more is refused`, async (t) => {
    const site = createSite(t);
    const shell = 'echo "${#A}" >>"$ROOT/length"';
    const packageWith = (bytes: number) => packageOf(site, { a: { shell, env: { A: 'x'.repeat(bytes) } } });
    const shown = await runPackage(t, site, profile, packageWith(longestValue)).result();
    t.equal(shown.run.status, 'succeeded');
    t.same(linesOf(site, 'length'), [`${longestValue}`]);
    const refused = await cli(t, site, 'package', 'install', packageWith(longestValue + 1));
    t.equal(refused.code, 2);
    t.match(refused.err, /tasks\.a\.env\.A/);
    t.match(refused.err, /131071/, 'the limit is named');
    t.equal((await runInstalled(t, site)).run.status, 'succeeded', 'what was installed before still works');
  });
}

t.test('C015: a value set on the device is refused where it is too long, else it reaches the command', async (t) => {
  const site = createSite(t);
  const env = { A: { setting: 'A', default: 'short' } };
  await install(t, site, 'edge', packageOf(site, { a: { shell: 'echo "${#A}" >>"$ROOT/length"', env } }));
  const set = (bytes: number) =>
    startCli(t, site, ['settings', 'set', 'case', 'A', '-'], { input: 'x'.repeat(bytes) }).ended;
  t.equal((await runInstalled(t, site)).run.status, 'succeeded');
  const tooLong = await set(longestValue + 1);
  t.equal(tooLong.code, 2, tooLong.err);
  t.match(tooLong.err, /131071/);
  const longest = await set(longestValue);
  t.equal(longest.code, 0, longest.err);
  t.equal((await runInstalled(t, site)).run.status, 'succeeded');
  t.same(linesOf(site, 'length'), ['5', `${longestValue}`]);
});

t.test('C015: more than the kernel takes in all fails its own task, names the limit, and starts nothing', async (t) => {
  const site = createSite(t);
  // Each string is short enough; together they are more than a quarter of any stack.
  const env = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`V${index}`, 'x'.repeat(120_000)]));
  const directory = packageOf(site, { a: { shell: 'echo >>"$ROOT/ran"', env }, b: { shell: 'true' } });
  const installed = await cli(t, site, '--profile', 'standalone', 'package', 'install', directory);
  if (installed.code === 0) {
    const shown = await runInstalled(t, site);
    t.same(statesOf(shown), { a: ['failed', 1], b: ['succeeded', 1] });
    t.match(attemptsOf(shown), [
      { exitCode: null, errorCode: /^arguments?_too_long$/, errorSummary: /[0-9]{6,} are possible/ },
    ]);
  } else {
    t.equal(installed.code, 2, 'or it is refused before');
    t.match(installed.err, /at most [0-9]+/);
  }
  t.same(linesOf(site, 'ran'), []);
});

const title = '小 工具';
const oddScript = 'scripts/签到 copy.py';

function writeOddPackage(site: Site): string {
  return writePackage(join(site.root, '目录 with blanks'), {
    'qinglong.yaml': `schema: qinglong/package@v1
name: odd
version: 1.0.0
title: "${title} & <b>'\\"$HOME\\"'"
tasks:
  a:
    title: ${title}
    run: ['./${oddScript}', '签 到', '', '-n', "it's", '*', '$HOME', '\\']
    env: { ROOT: '${site.root}', NAME: '世界  two blanks ' }
workflows:
  main: { title: ${title}, steps: { a: { task: a, title: ${title} } } }
`,
    [oddScript]: '#!/bin/sh\nprintf "%s\\n" "$0" "$#" "$@" "[$NAME]" >"$ROOT/words"\nprintf "%s\\n" "$NAME"\nexit 3\n',
  });
}

for (const profile of profiles) {
  t.test(
    `C017: ${profile}, names with blanks and other scripts work everywhere, and are shown as they are`,
    async (t) => {
      // What waits: the page.
      const site = createSite(t);
      const directory = writeOddPackage(site);
      const checked = await cli(t, site, 'package', 'check', directory);
      t.equal(checked.code, 0, checked.err);
      await install(t, site, profile, directory);
      const ended = await cli(t, site, 'workflow', 'start', 'odd/main', '--wait');
      t.equal(ended.code, 1, ended.err);
      t.match(ended.out, '世界  two blanks ');
      const words = readFileSync(join(site.root, 'words'), 'utf8').split('\n');
      t.match(words[0], oddScript);
      t.same(words.slice(1), ['7', '签 到', '', '-n', "it's", '*', '$HOME', '\\', '[世界  two blanks ]', '']);
      const shown = await cli(t, site, 'package', 'show', 'odd');
      t.match(shown.out, title);
      t.match(shown.out, oddScript);
      t.match(shown.out, `& <b>'"$HOME"'`);
      const asJson = await ask<object>(t, site, ['package', 'show', 'odd']);
      t.match(JSON.stringify(asJson), title);
      const [{ id = '' } = {}] = (await ask<{ runs: { id: string }[] }>(t, site, ['runs', 'list'])).runs;
      t.equal((await cli(t, site, 'runs', 'logs', id, 'a', '--raw')).out, '世界  two blanks \n');
      t.match((await cli(t, site, 'runs', 'logs', id, 'a')).out, '世界');
    },
  );
}
