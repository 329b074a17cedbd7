// A value of the environment may be a password: it reaches the command byte for byte, and nobody reads it in the
// arguments of any process, nor gets it whom it is not for.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { isShellVariable } from '../../src/core/manifest-rules.ts';
import { readTakenState } from '../../src/executor/attempt-files.ts';
import { findTool } from '../../src/executor/launcher-tools.ts';
import { listSession } from '../../src/executor/session.ts';
import { makeGate } from './gate.ts';
import { exitedCode, type Shell, type Stand, shells, testEachShell, withStand } from './stand.ts';
import { until } from './until.ts';

const secret = 'geheim-4711';
const skip = process.getuid?.() === 0 ? false : 'only root can run a command as another user';
const users = [null, ...(skip === false ? ['nobody'] : [])];

const values = {
  EMPTY: '',
  quotes: `it's "so" \`id\` $(id) $HOME \\ \\n`,
  LINES: 'one\ntwo\r\n\ttab\n',
  blanks: '  a  b ',
  GLOB: '* ? [a] ~ ~root',
  BYTES: Array.from({ length: 0x800 }, (_, index) => String.fromCodePoint(index + 1)).join(''),
  WIDE: '世界 \u{10000}\u{1f600}\ud7ff\uffff',
  EQUALS: '=a=b',
  dashes: '--',
};

// What dash, BusyBox ash and the launcher itself use, and a few that a loader or a tool would take notice of.
const usedNames = [
  ...['_', 'IFS', 'OPTIND', 'OPTARG', 'OPTERR', 'PPID', 'PWD', 'OLDPWD', 'LINENO', 'PS1', 'PS2', 'PS4', 'RANDOM'],
  ...['UID', 'EUID', 'SECONDS', 'EPOCHSECONDS', 'EPOCHREALTIME', 'SHLVL', 'HISTFILE', 'HISTSIZE', 'FUNCNAME'],
  ...['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'ENV', 'MAIL', 'MAILPATH', 'MAILCHECK', 'CDPATH', 'TERM', 'HOSTNAME'],
  ...['LANG', 'LC_ALL', 'LC_CTYPE', 'TZ', 'BASH_ENV', 'SHELLOPTS', 'GROUPS', 'COLUMNS', 'LINES', 'REPLY'],
  ...['attempt', 'home', 'pid', 'rest', 'mask', 'status', 'signals', 'page', 'segment_bytes', 'LD_LIBRARY_PATH'],
  ...['POSIXLY_CORRECT', 'FIGNORE', 'KSH_VERSION', 'ERRNO', 'EXINIT', 'FCEDIT', 'VISUAL', 'EDITOR', 'TMOUT'],
];

const sorted = (env: Readonly<Record<string, string>>) =>
  Object.entries(env)
    .map(([name, value]) => `${name}=${value}`)
    .sort();

async function environmentOf(stand: Stand, spec: { env: Record<string, string>; user: string | null; nice?: number }) {
  const { end, output } = await stand.run({ argv: ['/bin/cat', '/proc/self/environ'], nice: null, ...spec });
  return { code: exitedCode(end), variables: output.split('\0').slice(0, -1).sort() };
}

testEachShell(
  'every value arrives byte for byte, whoever the command is and whatever is on the way',
  async (t, stand) => {
    for (const user of users) {
      for (const nice of [null, 3]) {
        const env = { HOME: '/', USER: 'u', LOGNAME: 'l', ...values };
        const found = await environmentOf(stand, { env, user, ...(nice === null ? {} : { nice }) });
        t.same(found, { code: 0, variables: sorted(env) }, `as ${user}, nice ${nice}`);
      }
    }
  },
);

testEachShell('a variable may have any name, also one that a shell takes for its own', async (t, stand) => {
  for (const user of users) {
    const env = Object.fromEntries(
      [...usedNames, 'HOME', 'USER', 'LOGNAME'].map((name) => [name, `of ${name}: 'x'\n`]),
    );
    t.same(await environmentOf(stand, { env, user }), { code: 0, variables: sorted(env) }, `as ${user}`);
  }
  for (const name of usedNames) {
    const env = { [name]: '7 of it' };
    t.same(await environmentOf(stand, { env, user: null }), { code: 0, variables: sorted(env) }, name);
  }
});

testEachShell(
  'an environment of nothing is empty, and that of another user has what a login sets',
  async (t, stand) => {
    t.same(await environmentOf(stand, { env: {}, user: null }), { code: 0, variables: [] });
    t.same(await environmentOf(stand, { env: {}, user: null, nice: 2 }), { code: 0, variables: [] });
    if (skip === false) {
      const { variables } = await environmentOf(stand, { env: {}, user: 'nobody' });
      t.same(
        variables.map((variable) => variable.split('=', 1)[0]),
        ['HOME', 'LOGNAME', 'USER'],
      );
    }
  },
);

/** Tools that write down their arguments and environment, and then are what they stand for. */
function makeRecorders(folder: string): { readonly toolsPath: string; records(): string } {
  const toolsPath = path.join(folder, 'tools');
  const log = path.join(folder, 'records');
  mkdirSync(toolsPath);
  writeFileSync(log, '');
  for (const name of ['mkfifo', 'dd', 'wc', 'env', 'nice', 'setpriv']) {
    const real = findTool(name, '/usr/bin:/bin');
    if (real !== null) {
      const text = `#!/bin/sh\n/bin/cat /proc/$$/cmdline /proc/$$/environ >>'${log}'\nexec ${real} "$@"\n`;
      writeFileSync(path.join(toolsPath, name), text, { mode: 0o755 });
    }
  }
  return { toolsPath, records: () => readFileSync(log, 'latin1') };
}

function testRecorded(name: string, body: (t: Test, stand: Stand, records: () => string) => Promise<void>): void {
  for (const shell of shells) {
    t.test(`${name} (${shell.name})`, { skip: shell.skip }, async (t) => {
      const folder = t.testdir();
      const { toolsPath, records } = makeRecorders(folder);
      const options: { shell: Shell; toolsPath: string; runDirectory: string } = {
        shell,
        toolsPath,
        runDirectory: path.join(folder, 'run'),
      };
      await withStand(t, options, (t, stand) => body(t, stand, records));
    });
  }
}

const isRecorded = (records: string, tool: string) => records.includes(`/tools/${tool}\0`);

testRecorded('no tool is given a value, as an argument or in its environment', async (t, stand, records) => {
  for (const user of users) {
    for (const nice of [null, 3]) {
      const env = { PATH: '/usr/bin:/bin', TOKEN: secret, LD_PRELOAD: `/none/${secret}`, QL_ATTEMPT_ID: 'at-1' };
      const { output } = await stand.run({ argv: ['/bin/cat', '/proc/self/cmdline'], env, user, nice });
      t.ok(output.endsWith('/bin/cat\0/proc/self/cmdline\0'), output);
    }
  }
  t.ok(isRecorded(records(), 'nice'), 'the recorders were asked');
  t.equal(isRecorded(records(), 'setpriv'), skip === false);
  t.notOk(isRecorded(records(), 'env'), 'not needed');
  t.notOk(records().includes(secret));
  await stand.run({ argv: ['/bin/true'], env: { IFS: 'seen', TOKEN: secret } });
  t.ok(isRecorded(records(), 'env') && records().includes('IFS=seen'), 'what a shell takes for its own goes this way');
  t.notOk(records().includes(`env\0TOKEN=`) || records().includes(`seen\0TOKEN=`), 'and nothing else');
});

testEachShell('while it runs, no process of its session has a value in its arguments', async (t, stand) => {
  const gate = makeGate(stand, 'exit 0');
  const env = { PATH: '/usr/bin:/bin', TOKEN: secret };
  const attemptId = stand.start({ argv: ['/bin/sh', '-c', gate.script], env });
  await until(() => readTakenState(stand.directoryOf(attemptId)) === 'taken');
  const rows = listSession(stand.sessionOf(attemptId));
  t.ok(rows.length >= 3);
  for (const { pid } of rows) {
    t.notMatch(readFileSync(`/proc/${pid}/cmdline`, 'latin1'), secret);
  }
  gate.open();
  t.equal(exitedCode(await stand.endOf(attemptId)), 0);
});

/** A service manager may have allowed core files. */
function allowCores(shell: Shell): Shell {
  const script = 'ulimit -S -c "$(ulimit -H -c)"; exec "$@"';
  return { ...shell, command: ['/bin/sh', '-c', script, 'sh', ...shell.command] };
}

async function expectNoCore(t: Test, stand: Stand): Promise<void> {
  const hard = /^Max core file size\s+\S+\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1];
  const cwd = path.join(stand.runDirectory, 'work');
  mkdirSync(cwd);
  const limits = { memoryBytes: null, cpuMs: null, files: 64 };
  for (const spec of [{}, { limits }, { nice: 1 }]) {
    const { output } = await stand.run({ argv: ['/bin/sh', '-c', 'ulimit -S -c; ulimit -H -c'], ...spec });
    t.equal(output, `0\n${hard}\n`);
  }
  const { end } = await stand.run({ argv: ['/bin/sh', '-c', 'kill -SEGV $$'], cwd });
  t.match(end, { kind: 'exited', signal: 'SIGSEGV' });
  t.same(readdirSync(cwd), []);
}

for (const shell of shells) {
  t.test(`no core file is written; a command may lift that again (${shell.name})`, { skip: shell.skip }, (t) =>
    withStand(t, { shell: allowCores(shell) }, expectNoCore),
  );
}

t.test('what a shell takes for its own is known', async (t) => {
  for (const name of [
    '_',
    'IFS',
    'OPTIND',
    'PPID',
    'PWD',
    'OLDPWD',
    'PS1',
    'RANDOM',
    'UID',
    'SECONDS',
    'BASH_VERSINFO',
  ]) {
    t.ok(isShellVariable(name), name);
  }
  for (const name of ['TOKEN', 'PATH', 'HOME', 'MAIL', 'PWD_OF_IT', 'MY_IFS', 'PS5', '__', 'PSK', 'UIDS', 'LANG']) {
    t.notOk(isShellVariable(name), name);
  }
});
