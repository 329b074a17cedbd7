// Stops, leftovers and what escapes: whoever is left of a session is found, ended and said; nobody else is signalled.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { limits } from '../../src/core/limits.ts';
import { readTaken } from '../../src/executor/attempt-files.ts';
import { listSession, readProcess, signalGroup, signalProcess } from '../../src/executor/session.ts';
import { realClock } from '../../src/runtime/ports.ts';
import { readOutput } from './collected.ts';
import { makeGate } from './gate.ts';
import { lookAgain, simulateTime } from './simulated-time.ts';
import { exitedCode, type Stand, testEachShell, withStand } from './stand.ts';
import { until } from './until.ts';

function readStat(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch {
    return '';
  }
}

/** Waits for a line of the command, by the event loop and the command's own output. */
async function outputLine(stand: Stand, attemptId: string, pattern: RegExp): Promise<RegExpExecArray> {
  let found: RegExpExecArray | null = null;
  await until(() => {
    const { bytes } = readOutput(stand.directoryOf(attemptId), attemptId, { offset: 0, bytesMax: 65_536 });
    found = pattern.exec(bytes.toString());
    return found !== null;
  });
  return found!;
}

testEachShell('TERM reaches the whole group, and a command that obeys it is not forced', async (t, stand) => {
  const script = 'sleep 600 & sh -c "sleep 600; true" & echo ready; wait';
  const attemptId = stand.start({ argv: ['/bin/sh', '-c', script] });
  await outputLine(stand, attemptId, /ready/);
  t.equal(stand.executor.withdraw(attemptId), 'taken');
  stand.executor.stop(attemptId, { graceMs: 600_000 });
  const end = await stand.endOf(attemptId);
  t.match(end, { kind: 'exited', exitCode: 143, signal: 'SIGTERM', isForced: false, leftoversCount: 0, note: null });
  t.same(
    listSession(stand.sessionOf(attemptId)).filter((row) => !row.isZombie && row.parentPid !== 1),
    [],
  );
});

testEachShell('a command may end in its own way on TERM, and its last words are kept', async (t, stand) => {
  const script = 'trap "echo bye; exit 7" TERM; echo ready; while :; do :; done';
  const attemptId = stand.start({ argv: ['/bin/sh', '-c', script] });
  await outputLine(stand, attemptId, /ready/);
  stand.executor.stop(attemptId, { graceMs: 600_000 });
  t.match(await stand.endOf(attemptId), { kind: 'exited', exitCode: 7, signal: null, isForced: false });
  t.equal(stand.collect(attemptId).head.toString(), 'ready\nbye\n');
});

testEachShell('a command that is stopped a second time is not told again', async (t, stand) => {
  const gate = makeGate(stand, 'exit $n');
  const trapped = `n=0; trap 'n=$((n + 1)); echo "term $n"' TERM; echo ready; until [ $n -gt 0 ]; do :; done`;
  const attemptId = stand.start({ argv: ['/bin/sh', '-c', `${trapped}; ${gate.script}`] });
  await outputLine(stand, attemptId, /ready/);
  stand.executor.stop(attemptId, { graceMs: 600_000 });
  await outputLine(stand, attemptId, /term 1/);
  stand.executor.stop(attemptId, { graceMs: 600_000 });
  gate.open();
  t.match(await stand.endOf(attemptId), { kind: 'exited', exitCode: 1, isForced: false });
});

testEachShell('a process that a shell is just forking does not escape the stop', async (t, stand) => {
  // A shell with a trap forks without end: again and again a child has its handler, and forgets the signal at the exec.
  const script = 'trap "exit 7" TERM; echo ready; while :; do /bin/true; sleep 600 & done';
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const attemptId = stand.start({ argv: ['/bin/sh', '-c', script] });
    await outputLine(stand, attemptId, /ready/);
    stand.executor.stop(attemptId, { graceMs: 600_000 });
    t.match(await stand.endOf(attemptId), { kind: 'exited', exitCode: 7, isForced: false });
  }
});

testEachShell('C001 every process of the group is gone before a stop is over', async (t, stand) => {
  const attemptId = stand.start({ argv: ['/bin/sh', '-c', 'sleep 60 & echo ready; sh -c "sleep 60; echo late"'] });
  await outputLine(stand, attemptId, /ready/);
  stand.executor.stop(attemptId, { graceMs: 10_000 });
  await stand.endOf(attemptId);
  t.equal(stand.collect(attemptId).totalBytes, 'ready\n'.length, 'no line after it');
});

testEachShell(
  'C003 a command’s end is the attempt’s end; what it left in its session is ended and said',
  async (t, stand) => {
    const { end, output, attemptId } = await stand.run({ argv: ['/bin/sh', '-c', 'sleep 30 & echo done'] });
    t.match(end, { kind: 'exited', exitCode: 0, leftoversCount: 1, isForced: false, outputTruncated: false });
    t.match(end, { note: '1 of its processes outlived it and were ended' });
    t.equal(output, 'done\n');
    t.same(stand.executor.running(), []);
    t.ok(stand.sessionOf(attemptId) > 1);
  },
);

testEachShell('C004 a command that ignores TERM is killed after its grace, and that is said', async (t, stand) => {
  const script = 'trap "" TERM INT; echo ready; while :; do sleep 600; done';
  const attemptId = stand.start({ argv: ['/bin/sh', '-c', script] });
  await outputLine(stand, attemptId, /ready/);
  stand.executor.stop(attemptId, { graceMs: 50 });
  t.match(await stand.endOf(attemptId), { kind: 'exited', exitCode: 137, signal: 'SIGKILL', isForced: true });
  t.equal(stand.collect(attemptId).head.toString(), 'ready\n');
});

testEachShell('a command that was stopped is woken by a stop, and obeys it in its own way', async (t, stand) => {
  const script = 'trap "echo bye; exit 7" TERM; echo ready; kill -STOP $$';
  const attemptId = stand.start({ argv: ['/bin/sh', '-c', script] });
  await until(() => / T /.test(readStat(readTaken(stand.directoryOf(attemptId), attemptId)?.pid ?? 0)));
  stand.executor.stop(attemptId, { graceMs: 600_000 });
  t.match(await stand.endOf(attemptId), { kind: 'exited', exitCode: 7, isForced: false });
  t.equal(stand.collect(attemptId).head.toString(), 'ready\nbye\n');
});

testEachShell('a group that stops itself, launcher and pump and all, ends with a true receipt', async (t, stand) => {
  const attemptId = stand.start({ argv: ['/bin/sh', '-c', 'echo ready; kill -STOP 0'] });
  await until(() => / T /.test(readStat(stand.sessionOf(attemptId))));
  stand.executor.stop(attemptId, { graceMs: 600_000 });
  const end = await stand.endOf(attemptId);
  t.match(end, { kind: 'exited', exitCode: 143, signal: 'SIGTERM', isForced: false, outputTruncated: false });
});

t.test('a group that stops itself again and again is killed, and its launcher records that', async (t) => {
  const time = simulateTime();
  await withStand(t, { time }, async (t, stand) => {
    const script = 'trap "kill -STOP 0" TERM CONT; kill -STOP 0; while :; do :; done';
    const attemptId = stand.start({ argv: ['/bin/sh', '-c', script] });
    const isStopped = () => / T /.test(readStat(stand.sessionOf(attemptId)));
    await until(isStopped);
    stand.executor.stop(attemptId, { graceMs: 1_000 });
    time.advance(1_000);
    // The command may have stopped its launcher once more before it was dead: a later look wakes it.
    while (stand.executor.running().length > 0) {
      await until(() => isStopped() || stand.executor.running().length === 0);
      time.advanceToNext();
    }
    t.match(await stand.endOf(attemptId), { kind: 'exited', exitCode: 137, signal: 'SIGKILL', isForced: true });
  });
});

t.test('a launcher that stands still while its command ends is woken when the attempt is stopped', (t) =>
  withStand(t, { time: simulateTime() }, async (t, stand) => {
    const gate = makeGate(stand, 'exit 9');
    const attemptId = stand.start({ argv: ['/bin/sh', '-c', gate.script] });
    await outputLine(stand, attemptId, /before/);
    const launcher = readProcess(stand.sessionOf(attemptId))!;
    const commandPid = readTaken(stand.directoryOf(attemptId), attemptId)!.pid!;
    signalProcess(launcher, 'SIGSTOP');
    await until(() => readProcess(launcher.pid)?.isStopped === true);
    gate.open();
    await until(() => readProcess(commandPid)?.isZombie === true);
    t.same(stand.executor.running(), [attemptId], 'nobody tells that it has ended');
    stand.executor.stop(attemptId, { graceMs: 600_000 });
    t.match(await stand.endOf(attemptId), { kind: 'exited', exitCode: 9, signal: null, isForced: false });
  }),
);

testEachShell('a member in a process group of its own is stopped too', async (t, stand) => {
  const attemptId = stand.start({ argv: ['/bin/sh', '-c', 'timeout 600 sleep 600 & echo ready; wait'] });
  await outputLine(stand, attemptId, /ready/);
  stand.executor.stop(attemptId, { graceMs: 600_000 });
  t.match(await stand.endOf(attemptId), { kind: 'exited', isForced: false });
});

testEachShell('a command that signals its own group does not take its launcher with it', async (t, stand) => {
  for (const name of ['TERM', 'INT', 'HUP', 'QUIT', 'USR1', 'USR2', 'ALRM']) {
    const script = `trap "echo got" ${name}; kill -${name} 0; exit 5`;
    const { end, output } = await stand.run({ argv: ['/bin/sh', '-c', script] });
    t.equal(exitedCode(end), 5, name);
    t.equal(output, 'got\n');
  }
});

t.test('a grandchild that escaped and holds the pipe ends neither the output nor the attempt', async (t) => {
  const time = simulateTime();
  await withStand(t, { time }, async (t, stand) => {
    const script = 'setsid sh -c "echo escaped \\$\\$; exec sleep 600" & echo done';
    const attemptId = stand.start({ argv: ['/bin/sh', '-c', script] });
    const escaped = Number((await outputLine(stand, attemptId, /escaped ([0-9]+)/))[1]);
    // The launcher's end is an event; from then on only the drain is waited for.
    await until(() => time.entriesCount() > 0);
    t.same(stand.executor.running(), [attemptId], 'the drain is not over');
    time.advance(limits.outputDrainMsMax);
    const end = await stand.endOf(attemptId);
    t.match(end, { kind: 'exited', exitCode: 0, leftoversCount: 0, note: 'its output may be incomplete' });
    t.match(stand.collect(attemptId), { isExact: false });
    const row = readProcess(escaped);
    t.ok(row !== null && !row.isZombie, 'what escaped is left alone, and never claimed to be gone');
    const left = [row!, ...listSession(stand.sessionOf(attemptId))];
    for (const member of left) {
      signalProcess(member, 'SIGKILL');
    }
    await until(() => left.every(({ pid }) => readProcess(pid)?.isZombie !== false));
  });
});

t.test('leftovers that ignore TERM are killed at the end of the drain', async (t) => {
  const time = simulateTime();
  await withStand(t, { time }, async (t, stand) => {
    const script = '(trap "" TERM; while :; do sleep 600; done) & echo done';
    const attemptId = stand.start({ argv: ['/bin/sh', '-c', script] });
    await until(() => time.entriesCount() > 0);
    const others = () => listSession(session).filter((row) => !row.isZombie && row.pid !== session);
    const session = stand.sessionOf(attemptId);
    time.advance(limits.outputDrainMsMax / 2);
    time.advance(limits.outputDrainMsMax / 2 - 1);
    t.same(stand.executor.running(), [attemptId], 'not before the drain is over');
    t.ok(others().length > 0);
    time.advance(1);
    await until(() => others().length === 0);
    lookAgain(time);
    t.match(await stand.endOf(attemptId), { kind: 'exited', exitCode: 0, isForced: true });
  });
});

t.test('C007 a stranger with the pid of a launcher, or with another boot, is never signalled', (t) =>
  withStand(t, {}, async (t, stand) => {
    const stranger = spawn('/bin/sleep', ['600'], { detached: true, stdio: 'ignore' });
    const ended = once(stranger, 'exit');
    const row = readProcess(stranger.pid!)!;
    const { bootId } = realClock().observe();
    for (const [attemptId, ticks, boot] of [
      ['at-ticks', row.startTicks - 1, bootId],
      ['at-boot', row.startTicks, 'another-boot'],
    ] as const) {
      const directory = stand.directoryOf(attemptId);
      mkdirSync(directory);
      writeFileSync(path.join(directory, 'taken'), `ql-taken-1 ${attemptId} ${row.pid} end\n`);
      writeFileSync(
        path.join(directory, 'identity'),
        `ql-identity-1 ${attemptId} ${row.pid} ${ticks} ${boot} 1.00 ${row.pid} end\n`,
      );
      t.match(stand.executor.inspect(attemptId, bootId), { kind: 'ended', end: { kind: 'lost' } });
      stand.executor.adopt(attemptId);
      stand.executor.stop(attemptId, { graceMs: 0 });
      t.match(await stand.endOf(attemptId), { kind: 'lost', isForced: false });
      writeFileSync(path.join(directory, 'identity'), '');
    }
    t.match(readProcess(row.pid), { startTicks: row.startTicks, isZombie: false });
    signalProcess(row, 'SIGKILL');
    await ended;
  }),
);

t.test('C006 pid 0, 1, −1 and the own group are never signalled, and one that is gone is no error', async (t) => {
  const own = readProcess(process.pid)!;
  t.throws(() => signalProcess(own, 'SIGCONT'), /only processes of an attempt/);
  t.throws(() => signalProcess({ ...own, pid: 0 }, 'SIGCONT'), /only processes/);
  t.throws(() => signalProcess({ ...own, pid: 1 }, 'SIGCONT'), /only processes/);
  t.throws(() => signalProcess({ ...own, pid: -1 }, 'SIGCONT'), /only processes/);
  t.throws(() => signalGroup(own, 'SIGCONT'), /own process group/);
  t.throws(() => signalGroup({ ...own, groupId: 1 }, 'SIGCONT'), /own process group/);
  t.throws(() => signalGroup({ ...own, groupId: 0 }, 'SIGCONT'), /own process group/);
  const child = spawn('/bin/true', { detached: true, stdio: 'ignore' });
  const row = readProcess(child.pid!)!;
  await once(child, 'exit');
  signalProcess(row, 'SIGTERM');
  signalGroup(row, 'SIGTERM');
  t.equal(readProcess(row.pid)?.startTicks === row.startTicks, false);
});

t.test('C006 stopping what is not running, or never started, is no error', (t) =>
  withStand(t, {}, async (t, stand) => {
    const { attemptId } = await stand.run({ argv: ['/bin/true'] });
    stand.executor.stop(attemptId, { graceMs: 0 });
    stand.executor.stop('at-none', { graceMs: 0 });
    const unstarted = stand.start({ argv: ['/none/such'] });
    stand.executor.stop(unstarted, { graceMs: 0 });
    t.match(await stand.endOf(unstarted), { kind: 'spawn-failed', errorCode: 'command_not_found' });
    t.same(stand.executor.running(), []);
  }),
);
