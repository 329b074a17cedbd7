// A command of another user: it is that user in everything, cannot touch its own record, and is looked after like any
// other.
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { limits } from '../../src/core/limits.ts';
import { readReceipt, readTaken, readTakenState } from '../../src/executor/attempt-files.ts';
import { findTool } from '../../src/executor/launcher-tools.ts';
import { readProcess } from '../../src/executor/session.ts';
import { findUser, readUserFiles } from '../../src/executor/user.ts';
import { readOutput } from './collected.ts';
import { lookAgain, simulateTime } from './simulated-time.ts';
import { exitedCode, type Stand, shells, testEachShell, withStand } from './stand.ts';
import { until } from './until.ts';

const user = 'nobody';
const nobody = findUser(user, readUserFiles());
const skip =
  process.getuid?.() !== 0
    ? 'only root can run a command as another user'
    : nobody?.name === null
      ? 'this machine has no user nobody'
      : false;
const busybox = shells[1]!;

/** A search path with the launcher's tools, and for changing the user only what is named here. */
function toolsWith(folder: string, tools: Readonly<Record<string, string>>): string {
  mkdirSync(folder, { recursive: true });
  const basics = ['mkfifo', 'dd', 'wc', 'env', 'nice'].map((name) => [name, findTool(name, '/usr/bin:/bin')!]);
  for (const [name, target] of [...basics, ...Object.entries(tools)]) {
    symlinkSync(target!, path.join(folder, name!));
  }
  return folder;
}

function testUser(name: string, body: (t: Test, stand: Stand) => Promise<void>): void {
  // The run directory of a stand lies in the project, which another user may not come to: it does not have to.
  testEachShell(name, body, { skip });
}

const whoAmI = 'id -u; id -g; id -G; echo $HOME $USER $LOGNAME; echo out >/dev/stdout; echo err >/dev/stderr';

function expectNobody(t: Test, output: string): void {
  const { uid, gid, groupIds, home } = nobody!;
  t.equal(output, `${uid}\n${gid}\n${groupIds.join(' ')}\n${home} ${user} ${user}\nout\nerr\n`);
}

testUser('it has the numbers, groups, HOME, USER and LOGNAME of its user, and its output', async (t, stand) => {
  const { end, output } = await stand.run({ argv: ['/bin/sh', '-c', whoAmI], user });
  t.match(end, { kind: 'exited', exitCode: 0, note: null });
  expectNobody(t, output);
  const own = await stand.run({
    argv: ['/bin/sh', '-c', 'echo $HOME $USER $LOGNAME'],
    user,
    env: { PATH: '/usr/bin:/bin', HOME: '/tmp', USER: 'else' },
  });
  t.equal(own.output, `/tmp else ${user}\n`, 'what the task sets itself counts');
});

testUser('a number is a user too, with or without a name', async (t, stand) => {
  const named = await stand.run({ argv: ['/bin/sh', '-c', whoAmI], user: `${nobody!.uid}` });
  expectNobody(t, named.output);
  const bare = await stand.run({ argv: ['/bin/sh', '-c', 'id -u; id -g; id -G; echo $HOME $USER'], user: '54321' });
  t.equal(bare.output, '54321\n65534\n65534\n/ 54321\n');
});

testUser(
  'its process is the launcher’s child, in its session and group, with nothing of root left',
  async (t, stand) => {
    const { end, output, attemptId } = await stand.run({
      argv: ['/bin/cat', '/proc/self/stat', '/proc/self/status'],
      user,
    });
    t.equal(exitedCode(end), 0);
    const session = stand.sessionOf(attemptId);
    const pid = readTaken(stand.directoryOf(attemptId), attemptId)?.pid;
    t.ok(output.startsWith(`${pid} (cat) R ${session} ${session} ${session} `), output.slice(0, 80));
    for (const field of ['SigBlk', 'SigIgn', 'SigCgt', 'CapPrm', 'CapEff', 'CapAmb']) {
      t.match(output, new RegExp(`^${field}:\\t0+$`, 'm'));
    }
  },
);

testUser('it can neither read nor change the record of its own attempt, nor touch its launcher', async (t, stand) => {
  const attemptId = 'at-forger';
  const directory = stand.directoryOf(attemptId);
  const forgery = `ql-receipt-1 ${attemptId} 0 1.00 end`;
  const script = `
    launcher=$(cut -d" " -f4 /proc/$$/stat)
    for name in '' command identity taken receipt count notes out.0 alive output; do
      cat '${directory}'/$name && echo read; echo '${forgery}' >'${directory}'/$name && echo written
      cat /proc/$launcher/cwd/$name && echo read; echo '${forgery}' >/proc/$launcher/cwd/$name && echo written
    done
    rm -rf '${directory}' && echo removed; mv '${directory}' /tmp && echo moved
    for signal in TERM KILL STOP; do kill -$signal $launcher && echo signalled; done
    cat /proc/$launcher/environ && echo read; cat /proc/$$/fd/1 </dev/null && echo read
    ls /proc/$launcher/fd && echo listed
    exit 3`;
  const { end, output } = await stand.run({ attemptId, argv: ['/bin/sh', '-c', `(${script}) 2>/dev/null`], user });
  t.match(end, { kind: 'exited', exitCode: 3, signal: null });
  t.equal(output, '');
  t.ok(existsSync(path.join(directory, 'receipt')));
});

testUser('arguments and environment are the given ones, byte for byte', async (t, stand) => {
  const words = ['', ' ', "it's", '$HOME `id`', 'line\nbreak', '世界', '-n', '--', '-i', 'x=y', '*', '\u0001\u007f'];
  const printed = await stand.run({ argv: ['/usr/bin/printf', '%s|', ...words], user });
  t.equal(printed.output, words.map((word) => `${word}|`).join(''));
  const env = { PATH: '/usr/bin:/bin', USER: 'u', LOGNAME: 'l', HOME: '/', IFS: "a'b\n", word: ' $x ' };
  const { output } = await stand.run({ argv: ['/bin/cat', '/proc/self/environ'], env, user });
  const given = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  t.same(output.split('\0').slice(0, -1).sort(), given.sort());
});

testUser(
  'nice and limits are set before the user is changed, so that root’s own may be asked for',
  async (t, stand) => {
    const { output } = await stand.run({
      argv: ['/bin/sh', '-c', 'nice; ulimit -v; ulimit -t; ulimit -n; umask; id -u'],
      user,
      nice: -3,
      limits: { memoryBytes: 512 * 1024 * 1024, cpuMs: 1_500, files: 64 },
    });
    t.equal(output, `-3\n524288\n2\n64\n${process.umask().toString(8).padStart(4, '0')}\n${nobody!.uid}\n`);
  },
);

testUser('a signal that ended it is told, and a stop reaches it', async (t, stand) => {
  const { end } = await stand.run({ argv: ['/bin/sh', '-c', 'kill -USR1 $$'], user });
  t.match(end, { kind: 'exited', exitCode: 138, signal: 'SIGUSR1' });
  const attemptId = stand.start({ argv: ['/bin/sh', '-c', 'sleep 600 & sleep 600'], user });
  await until(() => readTakenState(stand.directoryOf(attemptId)) === 'taken');
  stand.executor.stop(attemptId, { graceMs: 600_000 });
  t.match(await stand.endOf(attemptId), { kind: 'exited', exitCode: 143, signal: 'SIGTERM', isForced: false });
});

t.test('what it leaves behind is ended, though it is another user’s', { skip }, (t) => {
  const time = simulateTime();
  return withStand(t, { time }, async (t, stand) => {
    const attemptId = stand.start({ argv: ['/bin/sh', '-c', 'sleep 600 & echo $!'], user });
    const output = () => readOutput(stand.directoryOf(attemptId), attemptId, { offset: 0, bytesMax: 100 }).bytes;
    await until(() => time.entriesCount() > 0 && output().includes('\n'));
    const pid = Number(output());
    t.equal(readProcess(pid)?.sessionId, stand.sessionOf(attemptId));
    time.advance(limits.outputDrainMsMax / 2);
    await until(() => readProcess(pid)?.isZombie ?? true);
    lookAgain(time);
    t.match(await stand.endOf(attemptId), { kind: 'exited', exitCode: 0, leftoversCount: 1, isForced: false });
  });
});

for (const [name, target] of [
  ['setpriv', findTool('setpriv', '/usr/bin:/bin')],
  ['start-stop-daemon', busybox.skip === false ? busybox.command[0]! : null],
  ['su', busybox.skip === false ? busybox.command[0]! : null],
] as const) {
  const skipTool = skip || (target === null ? `this machine has no ${name} for it` : false);
  t.test(`${name} alone is enough`, { skip: skipTool }, async (t) => {
    const folder = t.testdir();
    const toolsPath = toolsWith(path.join(folder, 'tools'), { [name]: target! });
    await withStand(t, { toolsPath, runDirectory: path.join(folder, 'run') }, async (t, stand) => {
      const { end, output } = await stand.run({ argv: ['/bin/sh', '-c', `${whoAmI}; exit 4`, "it's"], user, nice: 3 });
      t.match(end, { kind: 'exited', exitCode: 4, note: null });
      expectNobody(t, output);
      const odd = ['', '-i', '--', '$x', "'", 'a\nb', 'x=y'];
      const words = await stand.run({ argv: ['/bin/sh', '-c', 'printf "%s|" "$@"', 'sh', ...odd], user });
      t.equal(words.output, `${odd.join('|')}|`);
    });
  });
}

t.test(
  'without a tool that can, it is refused before anything runs, and that says what to install',
  { skip },
  async (t) => {
    const folder = t.testdir();
    const marker = path.join(folder, 'marker');
    const argv = ['/usr/bin/touch', marker];
    const cases: [string, Record<string, string>, string, RegExp][] = [
      ['none', {}, 'user_tool_missing', /nothing here can run a command as `nobody`: install setpriv/],
      ['idle', { setpriv: '/bin/true' }, 'user_tool_failed', /setpriv: status 0; install setpriv/],
      ['failing', { setpriv: '/bin/false' }, 'user_tool_failed', /setpriv: status 1; install/],
      // Runs the command as who it is.
      ['no-user', { 'start-stop-daemon': '/usr/bin/env' }, 'user_tool_failed', /start-stop-daemon: .*; install/],
    ];
    for (const [name, tools, errorCode, errorSummary] of cases) {
      const toolsPath = toolsWith(path.join(folder, name), tools);
      await withStand(t, { toolsPath, runDirectory: path.join(folder, `run-${name}`) }, async (t, stand) => {
        const { end, attemptId } = await stand.run({ argv, user });
        t.match(end, { kind: 'spawn-failed', errorCode, errorSummary }, name);
        t.equal(stand.sessionOf(attemptId), 0, 'no launcher was started');
      });
    }
    t.notOk(existsSync(marker));
  },
);

t.test('a tool that leaves another process than it should is not taken', { skip }, async (t) => {
  const folder = t.testdir({ stayer: '#!/bin/sh\n/bin/sh -c "exec setpriv.real $*"; exit $?\n' });
  const real = findTool('setpriv', '/usr/bin:/bin');
  const stays = '#!/bin/sh\n"${0%/*}/real" "$@"\n';
  const ignores = '#!/bin/sh\ntrap "" INT\nexec "${0%/*}/real" "$@"\n';
  for (const [name, text, words] of [
    ['stays', stays, /leaves the command with Pid: [0-9]+/],
    ['ignores', ignores, /leaves the command with SigIgn: 0+2/],
  ] as const) {
    const toolsPath = toolsWith(path.join(folder, name), { real: real ?? '/bin/false' });
    writeFileSync(path.join(toolsPath, 'setpriv'), text, { mode: 0o755 });
    await withStand(t, { toolsPath, runDirectory: path.join(folder, `run-${name}`) }, async (t, stand) => {
      const { end } = await stand.run({ argv: ['/bin/true'], user });
      t.match(end, { kind: 'spawn-failed', errorCode: 'user_tool_failed', errorSummary: words });
    });
  }
});

t.test('a user that is none is refused by name', (t) =>
  withStand(t, {}, async (t, stand) => {
    const { end } = await stand.run({ argv: ['/bin/true'], user: 'none-such' });
    t.match(end, { kind: 'spawn-failed', errorCode: 'user_unknown', errorSummary: /no user `none-such`/ });
  }),
);

t.test('its own user needs no tool', async (t) => {
  const folder = t.testdir();
  const toolsPath = toolsWith(path.join(folder, 'tools'), {});
  await withStand(t, { toolsPath, runDirectory: path.join(folder, 'run') }, async (t, stand) => {
    const { end, output } = await stand.run({ argv: ['/usr/bin/id', '-u'], user: `${process.getuid?.()}` });
    t.match(end, { kind: 'exited', exitCode: 0 });
    t.equal(output, `${process.getuid?.()}\n`);
  });
});

type Modes = { readonly above: number; readonly own: number; readonly file: number };

/** A package as it is installed, below directories of its owner with these modes. */
function makePackage(t: Test, { above, own, file }: Modes): string {
  const data = mkdtempSync(path.join(os.tmpdir(), 'data-'));
  t.teardown(() => rmSync(data, { recursive: true }));
  const directory = path.join(data, 'packages', 'lock');
  mkdirSync(directory, { recursive: true });
  writeFileSync(path.join(directory, 'note.txt'), 'note\n');
  writeFileSync(path.join(directory, 'run.sh'), '#!/bin/sh\ncat note.txt && cat "$1/note.txt"\n');
  chmodSync(path.join(directory, 'note.txt'), file);
  chmodSync(path.join(directory, 'run.sh'), file | ((file & 0o444) >> 2));
  chmodSync(directory, own);
  chmodSync(path.dirname(directory), above);
  chmodSync(data, above);
  return directory;
}

t.test('what of its package another user can come to', { skip }, (t) =>
  withStand(t, {}, async (t, stand) => {
    const run = async (modes: Modes) => {
      const cwd = makePackage(t, modes);
      const { end, output } = await stand.run({ argv: ['./run.sh', cwd], cwd, user });
      return { end, output: output.replaceAll(cwd, 'DIR') };
    };
    const open = await run({ above: 0o711, own: 0o755, file: 0o644 });
    t.match(open.end, { exitCode: 0, note: null }, 'open, below what may be passed through: everything');
    t.equal(open.output, 'note\nnote\n');
    const relative = await run({ above: 0o700, own: 0o755, file: 0o644 });
    t.match(relative.end, { exitCode: 1 }, 'open, below what is private: by names relative to its directory alone');
    t.match(relative.output, /^note\ncat: .*DIR.*Permission denied\n$/);
    for (const modes of [
      { above: 0o711, own: 0o700, file: 0o644 },
      { above: 0o711, own: 0o755, file: 0o600 },
    ]) {
      const closed = await run(modes);
      t.match(closed.end, { exitCode: 126, note: 'perhaps user nobody may not read or execute it' });
      t.match(closed.output, /run\.sh.*Permission denied/);
    }
  }),
);

t.test('the hint at its user is there for whoever adopts it', { skip }, async (t) => {
  const runDirectory = path.join(t.testdir(), 'run');
  await withStand(t, { runDirectory }, async (t, stand) => {
    const attemptId = stand.start({ argv: ['/bin/sh', '-c', 'exit 127'], user });
    const directory = stand.directoryOf(attemptId);
    stand.executor.close();
    await until(() => readReceipt(directory, attemptId) !== null);
    await withStand(t, { runDirectory }, async (t, next) => {
      next.executor.adopt(attemptId);
      t.match(await next.endOf(attemptId), { exitCode: 127, note: 'perhaps user nobody may not read or execute it' });
    });
  });
});
