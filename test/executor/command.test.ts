// What a command gets, and what of its end is recorded: real commands under every shell that the launcher is for.
import { mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { AttemptEnd } from '../../src/executor/attempt-end.ts';
import { readTaken } from '../../src/executor/attempt-files.ts';
import { exitedCode, testEachShell } from './stand.ts';

const printArguments = 'process.stdout.write(require("fs").readFileSync("/proc/self/cmdline"))';
const oddWords = [
  '',
  ' ',
  'a b',
  "it's",
  '"double"',
  '$HOME `id` $(id) \\ \\n !',
  'line\nbreak\ttab\r',
  '世界 – 签到 copy',
  '-n',
  '--',
  '*',
  '~',
  'x=y',
  Array.from({ length: 255 }, (_, index) => String.fromCodePoint(index + 1)).join(''),
  '\u{10000}\u{1f600}\ud7ff\uffff',
];

function signalOf(end: AttemptEnd): string | null {
  return end.kind === 'exited' ? end.signal : end.kind;
}

testEachShell('the exit code is the command’s own', async (t, stand) => {
  for (const code of [0, 1, 2, 126, 127, 128, 129, 130, 137, 141, 143, 200, 255]) {
    const { end } = await stand.run({ argv: ['/bin/sh', '-c', `exit ${code}`] });
    t.match(end, {
      kind: 'exited',
      exitCode: code,
      signal: null,
      note: code === 130 || code === 141 ? String : null,
    });
    t.equal(end.kind === 'exited' && end.isPerhapsSignal, code === 130 || code === 141, `exit ${code}`);
  }
});

testEachShell('a signal is told apart from an exit code of 128 + n, but for SIGINT and SIGPIPE', async (t, stand) => {
  for (const name of ['HUP', 'QUIT', 'ILL', 'ABRT', 'KILL', 'USR1', 'SEGV', 'ALRM', 'TERM', 'XCPU', 'SYS']) {
    const { end } = await stand.run({ argv: ['/bin/sh', '-c', `ulimit -c 0; kill -${name} $$`] });
    t.equal(signalOf(end), `SIG${name}`);
  }
  for (const name of ['INT', 'PIPE']) {
    const { end } = await stand.run({ argv: ['/bin/sh', '-c', `kill -${name} $$`] });
    t.match(end, { kind: 'exited', signal: null, isPerhapsSignal: true, note: `perhaps ended by SIG${name}` });
  }
});

testEachShell('a script whose child died by a signal has that as its own exit code', async (t, stand) => {
  const { end } = await stand.run({ argv: ['/bin/sh', '-c', 'sh -c "kill -KILL \\$\\$"; exit $?'] });
  t.match(end, { kind: 'exited', exitCode: 137, signal: null, isPerhapsSignal: false });
});

testEachShell('arguments arrive byte for byte', async (t, stand) => {
  const { end, output } = await stand.run({ argv: [process.execPath, '-e', printArguments, '--', ...oddWords] });
  t.equal(exitedCode(end), 0);
  t.same(output.split('\0').slice(4, -1), oddWords);
});

testEachShell('the environment is exactly the given one', async (t, stand) => {
  const special = [
    'IFS',
    'PATH',
    'PWD',
    'OLDPWD',
    'OPTIND',
    'PS4',
    '_',
    'SHLVL',
    'HOME',
    'ENV',
    'LINENO',
    'PPID',
    'RANDOM',
  ];
  const env = {
    ...Object.fromEntries(special.map((name) => [name, `${name} is: 'this'\n`])),
    ...Object.fromEntries(oddWords.map((word, index) => [`word_${index}`, word])),
    attempt: 'A',
    home: 'B',
    status: 'C',
    directory: 'D',
    mask: 'E',
    LC_ALL: 'F',
  };
  const { end, output } = await stand.run({ argv: ['/bin/cat', '/proc/self/environ'], env });
  t.equal(exitedCode(end), 0);
  t.same(
    output.split('\0').slice(0, -1).sort(),
    Object.entries(env)
      .map(([name, value]) => `${name}=${value}`)
      .sort(),
  );
  const empty = await stand.run({ argv: ['/bin/cat', '/proc/self/environ'], env: {} });
  t.equal(empty.output, '');
});

testEachShell('C015 a variable of the largest size arrives, and one byte more is refused by name', async (t, stand) => {
  const argv = ['/usr/bin/wc', '-c', '/proc/self/environ'];
  const { end, output } = await stand.run({ argv, env: { A: 'x'.repeat(131_069) } });
  t.equal(exitedCode(end), 0);
  t.equal(output, '131072 /proc/self/environ\n');
  const more = await stand.run({ argv, env: { A: 'x'.repeat(131_070) } });
  t.match(more.end, { kind: 'spawn-failed', errorCode: 'argument_too_long', errorSummary: /variable A .*131071/ });
  const argument = await stand.run({ argv: ['/bin/sh', '-c', 'echo "${#1}"', 'sh', 'x'.repeat(131_071)] });
  t.equal(argument.output, '131071\n');
});

testEachShell('C009 C010 standard input is at its end, and nothing else is open', async (t, stand) => {
  const { output } = await stand.run({
    argv: ['/bin/sh', '-c', 'cat; read x || echo "got:$x"; echo out; echo err >&2; exec true'],
  });
  t.equal(output, 'got:\nout\nerr\n');
  // The test's own parents may have left descriptors open; the launcher's lie below its attempt's directory.
  const list = `for (const fd of fs.readdirSync('/proc/self/fd')) {
    try { console.log(fd, fs.readlinkSync('/proc/self/fd/' + fd)) } catch {}
  }`;
  const open = await stand.run({ argv: [process.execPath, '-e', list] });
  const own = open.output.split('\n').filter((line) => line.includes('/attempts/'));
  t.same(
    own.map((line) => line.split(' ', 1)[0]),
    ['1', '2'],
  );
  t.match(open.output, /^0 \/dev\/null$/m);
});

testEachShell('`echo >/dev/stdout` works: output is no socket', async (t, stand) => {
  const { end, output } = await stand.run({
    argv: ['/bin/sh', '-c', 'echo one >/dev/stdout; echo two >/dev/stderr'],
  });
  t.equal(exitedCode(end), 0);
  t.equal(output, 'one\ntwo\n');
});

testEachShell('signals have their defaults, and none is blocked', async (t, stand) => {
  const { output } = await stand.run({ argv: ['/bin/cat', '/proc/self/status'] });
  for (const field of ['SigBlk', 'SigIgn', 'SigCgt']) {
    t.match(output, new RegExp(`^${field}:\\t0+$`, 'm'));
  }
});

testEachShell('odd names of directory and program are used as they are', async (t, stand) => {
  const folder = path.join(stand.runDirectory, ` 小 工具 =$x 'a'\n-`);
  mkdirSync(folder);
  for (const name of ['签到 copy.py', 'a=b', '-x', "it's", '$(id)', 'new\nline']) {
    writeFileSync(path.join(folder, name), '#!/bin/sh\nprintf "%s|" "$0" "$PWD" "$@"\n', { mode: 0o755 });
    for (const program of [`./${name}`, path.join(folder, name)]) {
      const { end, output } = await stand.run({ argv: [program, 'one', 'two words'], cwd: folder });
      t.same(exitedCode(end), 0, JSON.stringify(end));
      t.same(output.split('|'), [program, folder, 'one', 'two words', '']);
    }
  }
});

testEachShell('the directory is the real one behind a link', async (t, stand) => {
  mkdirSync(path.join(stand.runDirectory, 'real'));
  symlinkSync('real', path.join(stand.runDirectory, 'link'));
  const { output } = await stand.run({ argv: ['/bin/pwd', '-P'], cwd: path.join(stand.runDirectory, 'link') });
  t.equal(output, `${path.join(stand.runDirectory, 'real')}\n`);
});

testEachShell(
  'a bare name is searched in the command’s own PATH, a text without #! is given to /bin/sh',
  async (t, stand) => {
    const tool = path.join(stand.runDirectory, 'my-tool');
    writeFileSync(tool, 'echo "shell text: $0 $1"\n', { mode: 0o755 });
    const { output } = await stand.run({ argv: ['my-tool', 'x'], env: { PATH: `/bin:${stand.runDirectory}` } });
    t.equal(output, `shell text: ${tool} x\n`);
  },
);

testEachShell('nice, limits and the runtime’s own umask hold', async (t, stand) => {
  const script = 'nice; ulimit -v; ulimit -t; ulimit -n; umask';
  const { output } = await stand.run({
    argv: ['/bin/sh', '-c', script],
    nice: 7,
    limits: { memoryBytes: 512 * 1024 * 1024, cpuMs: 1_500, files: 64 },
  });
  t.equal(output, `7\n524288\n2\n64\n${process.umask().toString(8).padStart(4, '0')}\n`);
});

testEachShell(
  'two processes of one session: the launcher leads it, and its files are its owner’s alone',
  async (t, stand) => {
    const { end, output, attemptId } = await stand.run({
      argv: ['/bin/sh', '-c', 'echo $$; cut -d" " -f5,6 /proc/$$/stat'],
    });
    const session = stand.sessionOf(attemptId);
    const commandPid = readTaken(stand.directoryOf(attemptId), attemptId)?.pid;
    t.equal(output, `${commandPid}\n${session} ${session}\n`, 'process group and session are the launcher’s');
    const directory = stand.directoryOf(attemptId);
    t.equal(statSync(directory).mode & 0o777, 0o700);
    for (const name of ['command', 'identity', 'taken', 'receipt', 'count', 'notes', 'out.0']) {
      t.equal(statSync(path.join(directory, name)).mode & 0o777, 0o600, name);
    }
    t.equal(statSync(path.join(stand.runDirectory, 'launcher.sh')).mode & 0o777, 0o700);
    t.notMatch(readFileSync(path.join(directory, 'identity'), 'utf8'), /QL_/);
    t.ok(end.kind === 'exited' && end.durationMs >= 0 && end.startedAtMs <= end.finishedAtMs);
    stand.executor.release(attemptId);
    t.notOk(stand.executor.stored().includes(attemptId), 'a released attempt leaves nothing');
  },
);
