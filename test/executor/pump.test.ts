// A pump that is killed or stopped, whole or in part: the command's exit code is kept, and the counts claim no more
// than they know.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { limits } from '../../src/core/limits.ts';
import { readIdentity } from '../../src/executor/attempt-files.ts';
import { findTool } from '../../src/executor/launcher-tools.ts';
import { listSession, type ProcessRow, readProcess, signalProcess } from '../../src/executor/session.ts';
import { readOutput } from './collected.ts';
import { makeGate } from './gate.ts';
import { simulateTime } from './simulated-time.ts';
import { openStand, type Stand, testEachShell, withStand } from './stand.ts';
import { until } from './until.ts';

const halfBytes = 1_000_000;
const line = '0123456789abcde\n';

function pumpOf(stand: Stand, attemptId: string): ProcessRow {
  return readProcess(readIdentity(stand.directoryOf(attemptId), attemptId)!.pumpPid)!;
}

/** The pump's dd, or whatever it has forked at this moment. */
function toolOf(stand: Stand, attemptId: string): ProcessRow | null {
  const { pid } = pumpOf(stand, attemptId);
  const tools = listSession(stand.sessionOf(attemptId)).filter((row) => row.parentPid === pid && !row.isZombie);
  return tools.find((row) => readName(row.pid) === 'dd') ?? null;
}

function readName(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'latin1').trim();
  } catch {
    return '';
  }
}

async function stopRow(row: ProcessRow): Promise<void> {
  signalProcess(row, 'SIGSTOP');
  await until(() => readProcess(row.pid)?.isStopped === true);
}

/** A command that has written half of its output, and whose other half waits for the gate. */
async function startHalf(stand: Stand) {
  const gate = path.join(stand.runDirectory, 'gate');
  execFileSync('mkfifo', [gate]);
  const half = `yes 0123456789abcde | head -c ${halfBytes}`;
  const attemptId = stand.start({ argv: ['/bin/sh', '-c', `${half}; read x <'${gate}'; ${half}; exit 3`] });
  const written = () => readOutput(stand.directoryOf(attemptId), attemptId, { offset: 0, bytesMax: 1 }).totalBytes;
  let dd: ProcessRow | null = null;
  await until(() => {
    dd = written() === halfBytes ? toolOf(stand, attemptId) : null;
    return dd !== null;
  });
  return { attemptId, dd: dd!, open: () => writeFileSync(gate, 'go\n') };
}

testEachShell('a dd that is killed keeps what it had, and the rest is counted', async (t, stand) => {
  const { attemptId, dd, open } = await startHalf(stand);
  signalProcess(dd, 'SIGKILL');
  // Just woken by the first bytes, it would take them along.
  await until(() => readProcess(dd.pid)?.startTicks !== dd.startTicks || readProcess(dd.pid)?.isZombie === true);
  open();
  const end = await stand.endOf(attemptId);
  t.match(end, { kind: 'exited', exitCode: 3, signal: null, note: 'its output may be incomplete' });
  t.match(end, { outputBytes: 2 * halfBytes, outputTruncated: true });
  const { head, thrownBytes } = stand.collect(attemptId);
  t.equal(thrownBytes, halfBytes);
  t.equal(head.toString(), line.repeat(10_000).slice(0, head.length));
});

testEachShell('a dd that is stopped holds the command up, and nothing is lost when it goes on', async (t, stand) => {
  const { attemptId, dd, open } = await startHalf(stand);
  await stopRow(dd);
  open();
  signalProcess(dd, 'SIGCONT');
  t.match(await stand.endOf(attemptId), { kind: 'exited', exitCode: 3, outputBytes: 2 * halfBytes, note: null });
});

testEachShell('a pump that is killed with its dd ends the command by SIGPIPE', async (t, stand) => {
  const attemptId = stand.start({ argv: ['/bin/sh', '-c', 'while echo more; do :; done; exit 9'] });
  const directory = stand.directoryOf(attemptId);
  await until(() => readOutput(directory, attemptId, { offset: 0, bytesMax: 1 }).totalBytes > 0);
  const pump = pumpOf(stand, attemptId);
  await stopRow(pump);
  for (const row of listSession(pump.sessionId).filter(
    ({ pid, parentPid }) => pid === pump.pid || parentPid === pump.pid,
  )) {
    signalProcess(row, 'SIGKILL');
  }
  const end = await stand.endOf(attemptId);
  t.match(end, { kind: 'exited', exitCode: 141, isPerhapsSignal: true, outputTruncated: true, note: /incomplete/ });
});

/** Ends the command while somebody stands still, whom the look after half the drain wakes. */
async function endWhile(t: Test, stop: (stand: Stand, attemptId: string) => Promise<void>): Promise<void> {
  const time = simulateTime();
  await withStand(t, { time }, async (t, stand) => {
    const gate = makeGate(stand, 'exit 4');
    const attemptId = stand.start({ argv: ['/bin/sh', '-c', gate.script] });
    const directory = stand.directoryOf(attemptId);
    await until(() => readOutput(directory, attemptId, { offset: 0, bytesMax: 1 }).totalBytes > 0);
    await stop(stand, attemptId);
    gate.open();
    await until(() => time.entriesCount() > 0);
    t.same(stand.executor.running(), [attemptId]);
    time.advance(limits.outputDrainMsMax / 2);
    const end = await stand.endOf(attemptId);
    t.match(end, { kind: 'exited', exitCode: 4, outputTruncated: false, note: null });
    t.equal(stand.collect(attemptId).head.toString(), 'before\nafter go\n');
  });
}

t.test('a pump that stands still when the command ends is woken, and brings all of it', (t) =>
  endWhile(t, async (stand, attemptId) => stopRow(pumpOf(stand, attemptId))),
);

t.test('a dd that stands still when the command ends is woken, and brings all of it', (t) =>
  endWhile(t, async (stand, attemptId) => stopRow(toolOf(stand, attemptId)!)),
);

t.test('a dd that stops before it has read anything is woken too', async (t) => {
  const folder = t.testdir();
  const dd = findTool('dd', '/usr/bin:/bin');
  writeFileSync(path.join(folder, 'dd'), `#!/bin/sh\nmkdir '${folder}/once' && kill -STOP $$\nexec ${dd} "$@"\n`, {
    mode: 0o755,
  });
  const time = simulateTime();
  const stand = openStand(t, { time, toolsPath: `${folder}:/usr/bin:/bin`, runDirectory: path.join(folder, 'run') });
  const attemptId = stand.start({ argv: ['/bin/echo', 'all of it'] });
  await until(() => time.entriesCount() > 0);
  await until(() => listSession(stand.sessionOf(attemptId)).some(({ isStopped }) => isStopped));
  time.advance(limits.outputDrainMsMax / 2);
  t.match(await stand.endOf(attemptId), { kind: 'exited', exitCode: 0, outputBytes: 10, note: null });
  await stand.close();
});

t.test('a usual attempt takes four forks: mkfifo, the pump, its one dd, and the command', async (t) => {
  const folder = t.testdir();
  const log = path.join(folder, 'log');
  for (const name of ['mkfifo', 'dd', 'wc', 'env', 'nice']) {
    const real = findTool(name, '/usr/bin:/bin');
    writeFileSync(path.join(folder, name), `#!/bin/sh\necho ${name} $PPID >>'${log}'\nexec ${real} "$@"\n`, {
      mode: 0o755,
    });
  }
  await withStand(t, { toolsPath: folder, runDirectory: path.join(folder, 'run') }, async (t, stand) => {
    const { end, attemptId } = await stand.run({ argv: ['/bin/sh', '-c', 'echo one; echo two; exit 3'] });
    t.match(end, { kind: 'exited', exitCode: 3, outputBytes: 8, note: null });
    const { pid, pumpPid } = readIdentity(stand.directoryOf(attemptId), attemptId)!;
    t.equal(readFileSync(log, 'latin1'), `mkfifo ${pid}\ndd ${pumpPid}\n`);
  });
});
