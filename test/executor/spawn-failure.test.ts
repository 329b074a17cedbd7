// Starts that fail are ends like any other, each told apart and explained; no exception, no command, no second end.
import { spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import type { AttemptEnd } from '../../src/executor/attempt-end.ts';
import { createExecutor } from '../../src/executor/executor.ts';
import type { CommandSpec } from '../../src/executor/preparation.ts';
import { signalProcess } from '../../src/executor/session.ts';
import { realAlarm, realClock } from '../../src/runtime/ports.ts';
import { openHolds, pointOf } from './held-launcher.ts';
import { simulateTime } from './simulated-time.ts';
import { exitedCode, openStand, type Stand, testEachShell, withStand } from './stand.ts';

type Case = Partial<CommandSpec> & { readonly argv: readonly string[]; readonly code: string; readonly words: RegExp };

async function expectFailures(t: Test, stand: Stand, cases: readonly Case[]): Promise<void> {
  for (const { code, words, ...spec } of cases) {
    const { end, attemptId } = await stand.run(spec);
    t.match(
      end,
      { kind: 'spawn-failed', errorCode: code, errorSummary: words },
      JSON.stringify(spec.argv).slice(0, 80),
    );
    t.equal(stand.sessionOf(attemptId), 0, 'no launcher was started');
    t.same(stand.executor.running(), []);
  }
}

/** Files of every kind that cannot be executed, in a folder of the test. */
function makeFiles(folder: string): void {
  mkdirSync(path.join(folder, 'directory'), { recursive: true });
  spawnSync('mkfifo', ['-m', '755', path.join(folder, 'fifo')]);
  const program = (name: string, content: string | Buffer, mode = 0o755) =>
    writeFileSync(path.join(folder, name), content, { mode });
  program('crlf', '#!/bin/sh\r\necho hi\r\n');
  program('no-interpreter', '#!/opt/none/python3 -u\nprint(1)\n');
  program('interpreter-not-executable', `#!${folder}/plain\n`);
  program('empty-interpreter', '#!\n');
  program('plain', 'echo hi\n', 0o644);
  program('binary', Buffer.from([0x7f, 0x00, 0x01, 0x0a, 0x0b]));
  const elf = Buffer.alloc(120);
  elf.write('\x7fELF\x02\x01\x01', 'latin1');
  elf.writeUInt16LE(2, 16);
  elf.writeUInt16LE(0xbeef, 18);
  program('foreign', elf);
  // A program of this machine whose one program header names a loader that is not there, as with another C library.
  elf.writeUInt16LE(process.arch === 'arm64' ? 183 : 62, 18);
  elf.writeBigUInt64LE(64n, 32);
  elf.writeUInt16LE(56, 54);
  elf.writeUInt16LE(1, 56);
  const loader = Buffer.from('/lib/ld-none.so.1\0');
  const header = Buffer.alloc(56);
  header.writeUInt32LE(3, 0);
  header.writeBigUInt64LE(120n, 8);
  header.writeBigUInt64LE(BigInt(loader.length), 32);
  header.copy(elf, 64);
  program('other-libc', Buffer.concat([elf, loader]));
}

t.test('what is wrong with the program is told apart', (t) =>
  withStand(t, {}, async (t, stand) => {
    const cwd = path.join(stand.runDirectory, 'files');
    makeFiles(cwd);
    await expectFailures(t, stand, [
      {
        argv: ['none-such'],
        code: 'command_not_found',
        words: /no command `none-such` in PATH \(`\/usr\/bin:\/bin`\)/,
      },
      { argv: ['./none'], cwd, code: 'command_not_found', words: /`\.\/none` does not exist/ },
      { argv: ['/bin/sh/x'], code: 'command_not_found', words: /does not exist/ },
      { argv: ['./plain'], cwd, code: 'permission_denied', words: /`\.\/plain` may not be executed: chmod/ },
      { argv: ['plain'], env: { PATH: cwd }, code: 'permission_denied', words: /plain` may not be executed/ },
      { argv: ['./directory'], cwd, code: 'permission_denied', words: /is a directory/ },
      { argv: ['./fifo'], cwd, code: 'permission_denied', words: /`\.\/fifo` is no regular file/ },
      {
        argv: ['./crlf'],
        cwd,
        code: 'interpreter_not_found',
        words: /interpreter `\/bin\/sh\\r`: its lines end in CRLF/,
      },
      {
        argv: ['./no-interpreter'],
        cwd,
        code: 'interpreter_not_found',
        words: /`\/opt\/none\/python3`, which does not/,
      },
      { argv: ['./empty-interpreter'], cwd, code: 'interpreter_not_found', words: /does not exist/ },
      { argv: ['./interpreter-not-executable'], cwd, code: 'permission_denied', words: /which may not be executed/ },
      { argv: ['./binary'], cwd, code: 'exec_format', words: /neither a script nor a program/ },
      { argv: ['./foreign'], cwd, code: 'exec_format', words: /another processor \(ELF machine 48879\)/ },
      {
        argv: ['./other-libc'],
        cwd,
        code: 'interpreter_not_found',
        words: /loader `\/lib\/ld-none\.so\.1`.*C library/,
      },
    ]);
  }),
);

t.test('C011 a script with CRLF lines is one failure, settled once, that says so', (t) =>
  withStand(t, {}, async (t, stand) => {
    const cwd = stand.runDirectory;
    writeFileSync(path.join(cwd, 'crlf'), '#!/bin/sh\r\necho hi\r\n', { mode: 0o755 });
    // The stand sees to it that an end is reported once.
    const { end } = await stand.run({ argv: ['./crlf'], cwd });
    t.match(end, { kind: 'spawn-failed', errorCode: 'interpreter_not_found', errorSummary: /`\/bin\/sh\\r`.*CRLF/ });
  }),
);

t.test('C013 a directory that is gone is named, and the command is not blamed', (t) =>
  withStand(t, {}, async (t, stand) => {
    const cwd = path.join(stand.runDirectory, 'gone');
    const { end } = await stand.run({ argv: ['/bin/echo', 'x'], cwd });
    t.match(end, { kind: 'spawn-failed', errorCode: 'directory_not_found' });
    t.ok(end.kind === 'spawn-failed' && end.errorSummary.includes(cwd) && !end.errorSummary.includes('echo'));
  }),
);

testEachShell('a directory that goes after the look at it is told, and nothing runs', async (t, stand) => {
  const holds = openHolds(stand.runDirectory);
  holds.holdAt(stand.runDirectory, pointOf('. ./command'));
  const cwd = path.join(stand.runDirectory, 'going');
  mkdirSync(cwd);
  const attemptId = stand.start({ argv: ['/bin/echo', 'x'], cwd });
  const holder = await holds.next();
  rmdirSync(cwd);
  signalProcess(holder, 'SIGCONT');
  const end = await stand.endOf(attemptId);
  t.match(end, { kind: 'spawn-failed', errorCode: 'launcher_failed', errorSummary: /going/ });
  holds.close();
});

testEachShell('a program that is written to while it is started fails in its own output', async (t, stand) => {
  const program = path.join(stand.runDirectory, 'busy');
  writeFileSync(program, '#!/bin/sh\necho ran\n', { mode: 0o755 });
  const writer = openSync(program, 'r+');
  const { end, output } = await stand.run({ argv: [program] });
  closeSync(writer);
  // Some kernels execute it all the same.
  const isExecuted = exitedCode(end) === 0 && output === 'ran\n';
  t.ok(isExecuted || (exitedCode(end) === 126 && /busy/i.test(output)), `${JSON.stringify(end)} ${output}`);
  t.equal(exitedCode((await stand.run({ argv: [program] })).end), 0);
});

t.test('what is wrong with directory, arguments and environment is told apart', (t) =>
  withStand(t, {}, async (t, stand) => {
    const argv = ['/bin/true'];
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`V${index}`, 'x'.repeat(100_000)]));
    await expectFailures(t, stand, [
      { argv, cwd: '/none/such', code: 'directory_not_found', words: /directory `\/none\/such` does not exist/ },
      { argv, cwd: '/bin/sh', code: 'directory_not_found', words: /is not a directory/ },
      { argv: [], code: 'invalid_command', words: /empty/ },
      { argv: [''], code: 'invalid_command', words: /empty/ },
      { argv: ['/bin/echo', 'a\0b'], code: 'invalid_command', words: /NUL/ },
      { argv, env: { 'A-B': '' }, code: 'invalid_environment', words: /`A-B` is no name/ },
      { argv, env: { A: 'x\0' }, code: 'invalid_environment', words: /value of A has a NUL/ },
      {
        argv,
        env: { A: 'x'.repeat(131_070) },
        code: 'argument_too_long',
        words: /variable A takes 131072 bytes.* 131071/,
      },
      { argv: ['/bin/echo', '你'.repeat(50_000)], code: 'argument_too_long', words: /argument 1 takes 150000 bytes/ },
      { argv, env: { ...many, BIG: 'x'.repeat(100_001) }, code: 'argument_too_long', words: /largest is .* BIG$/ },
      { argv: [`/${'\u001b[31m'}none`], code: 'command_not_found', words: /`\/\\u001b\[31mnone`/ },
    ]);
    const long = await stand.run({ argv: [`/none/${'签'.repeat(3_000)}`] });
    t.ok(long.end.kind === 'spawn-failed' && Buffer.byteLength(long.end.errorSummary) <= 2048, 'a summary is bounded');
  }),
);

testEachShell('a limit that cannot be set keeps the command from starting', async (t, stand) => {
  const limits = { memoryBytes: null, cpuMs: null, files: 2 ** 40 };
  const { end, attemptId } = await stand.run({ argv: ['/bin/sh', '-c', 'echo ran'], limits });
  t.match(end, { kind: 'spawn-failed', errorCode: 'launcher_failed', errorSummary: /not started: .*limit/ });
  t.same(stand.executor.inspect(attemptId, realClock().observe().bootId), { kind: 'withdrawn' }, 'and it never will');
});

t.test('a launcher’s shell that is missing is a failed start', async (t) => {
  const runDirectory = path.join(t.testdir(), 'run');
  const clock = realClock();
  const end = await new Promise<AttemptEnd>((resolve) => {
    const executor = createExecutor({
      runDirectory,
      clock,
      alarm: realAlarm(clock),
      segmentBytes: 8192,
      outputBytesMax: 8192,
      shell: ['/none/sh'],
      onEnd: (_, end) => resolve(end),
    });
    executor.prepare('at-1');
    executor.start({ attemptId: 'at-1', argv: ['/bin/true'], env: {}, cwd: '/', nice: null, limits: null, user: null });
  });
  t.match(end, {
    kind: 'spawn-failed',
    errorCode: 'launcher_unavailable',
    errorSummary: /\/none\/sh could not be started/,
  });
});

t.test('the attempt’s directory is made once, and its failure is an operating error', async (t) => {
  const stand = openStand(t, { time: simulateTime() });
  stand.executor.prepare('at-1');
  stand.executor.prepare('at-1');
  writeFileSync(path.join(stand.directoryOf('at-1'), 'identity'), '');
  t.throws(() => stand.executor.prepare('at-1'), { code: 'unavailable' });
  t.throws(() => stand.executor.prepare('../at-1'), /portable id/);
  await stand.close();
});
