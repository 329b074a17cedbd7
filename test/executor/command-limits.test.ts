// What a task limits: each limit holds, and hitting it is told as what it is.
import t from 'tap';
import { exitedCode, testEachShell, withStand } from './stand.ts';

const none = { memoryBytes: null, cpuMs: null, files: null };
const spin = 'while :; do :; done';

testEachShell('a command at its limit of CPU time is ended by SIGXCPU, which says so', async (t, stand) => {
  const { end } = await stand.run({
    argv: ['/bin/sh', '-c', `ulimit -c 0; ${spin}`],
    limits: { ...none, cpuMs: 1_000 },
  });
  t.match(end, { kind: 'exited', exitCode: 152, signal: 'SIGXCPU', isForced: false });
});

t.test('one that takes no notice of that has a second more, and is killed by the kernel', (t) =>
  withStand(t, {}, async (t, stand) => {
    const { end } = await stand.run({
      argv: ['/bin/sh', '-c', `trap '' XCPU; ${spin}`],
      limits: { ...none, cpuMs: 1 },
    });
    t.match(end, { kind: 'exited', exitCode: 137, signal: 'SIGKILL', isForced: false });
  }),
);

testEachShell('a command at its limit of memory is refused more, and fails in its own words', async (t, stand) => {
  const argv = ['/usr/bin/env', 'LC_ALL=C', 'dd', 'if=/dev/zero', 'of=/dev/null', 'bs=300M', 'count=1'];
  const free = await stand.run({ argv });
  t.equal(exitedCode(free.end), 0);
  const { end, output } = await stand.run({ argv, limits: { ...none, memoryBytes: 64 * 1024 * 1024 } });
  t.match(end, { kind: 'exited', exitCode: 1, signal: null });
  t.match(output, /memory exhausted/);
});

testEachShell('a command at its limit of open files is refused more', async (t, stand) => {
  const script = `
    const open = () => fs.openSync('/dev/null', 'r');
    try { for (;;) open(); } catch (error) { console.log(error.code, open.name); process.exitCode = 5; }`;
  const { end, output } = await stand.run({ argv: [process.execPath, '-e', script], limits: { ...none, files: 64 } });
  t.match(end, { kind: 'exited', exitCode: 5, note: null });
  t.equal(output, 'EMFILE open\n');
});

testEachShell('limits concern the command alone: its launcher and pump work on', async (t, stand) => {
  const limits = { memoryBytes: 8 * 1024 * 1024, cpuMs: 1_000, files: 16 };
  const { end } = await stand.run({ argv: ['/bin/sh', '-c', 'yes | head -c 3000000; exit 3'], limits });
  t.match(end, { kind: 'exited', exitCode: 3, outputBytes: 3_000_000, note: null });
});
