// A process that escaped and holds the output: its attempt ends all the same, and the pump with it.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Test } from 'tap';
import { limits } from '../../src/core/limits.ts';
import { readIdentity, readReceipt } from '../../src/executor/attempt-files.ts';
import { listSession, type ProcessRow, readProcess, signalProcess } from '../../src/executor/session.ts';
import { realClock } from '../../src/runtime/ports.ts';
import { type SimulatedTime, simulateTime } from './simulated-time.ts';
import { openStand, type Stand, testEachShell } from './stand.ts';
import { until } from './until.ts';

const { bootId } = realClock().observe();
const isGone = (pid: number) => readProcess(pid)?.isZombie ?? true;

type Held = {
  readonly held: Stand;
  readonly time: SimulatedTime;
  readonly attemptId: string;
  /** Waits until it may write something. */
  readonly escaped: ProcessRow;
  readonly isPumpGone: () => boolean;
};

/** A command that has ended by itself; the pump ends in the body, and then the escaped one when it writes. */
async function withEscaped(t: Test, stand: Stand, body: (scene: Held) => Promise<void>): Promise<void> {
  const time = simulateTime();
  const held = openStand(t, { shell: stand.shell, time, runDirectory: path.join(stand.runDirectory, 'held') });
  const folder = path.join(stand.runDirectory, 'escaped');
  mkdirSync(folder);
  const waiting = 'echo $$ >pid.new; mv pid.new pid; until [ -e go ]; do sleep 0.01; done; /bin/echo late && : >wrote';
  const script = `setsid /bin/sh -c '${waiting}' & until [ -e pid ]; do sleep 0.01; done; echo done`;
  const attemptId = held.start({ argv: ['/bin/sh', '-c', script], cwd: folder });
  const directory = held.directoryOf(attemptId);
  await until(() => readReceipt(directory, attemptId) !== null && time.entriesCount() > 0);
  const escaped = readProcess(Number(readFileSync(path.join(folder, 'pid'), 'latin1')))!;
  const { pid, pumpPid } = readIdentity(directory, attemptId)!;
  t.notOk(isGone(pumpPid), 'it is held');
  const isPumpGone = () => listSession(pid).every(({ isZombie }) => isZombie);
  await body({ held, time, attemptId, escaped, isPumpGone });
  await until(isPumpGone);
  t.notOk(isGone(escaped.pid), 'the escaped one is left alone');
  writeFileSync(path.join(folder, 'go'), '');
  await until(() => isGone(escaped.pid));
  t.notOk(existsSync(path.join(folder, 'wrote')), 'it got SIGPIPE');
  await held.close();
}

testEachShell('a pump that is held ends with the attempt, though nobody has stopped it', (t, stand) =>
  withEscaped(t, stand, async ({ held, time, attemptId }) => {
    time.advance(limits.outputDrainMsMax / 2);
    time.advance(limits.outputDrainMsMax / 2 - 1);
    t.same(held.executor.running(), [attemptId], 'not before the drain is over');
    time.advance(1);
    const end = await held.endOf(attemptId);
    t.match(end, { kind: 'exited', exitCode: 0, leftoversCount: 0, isForced: false, note: /may be incomplete/ });
    t.equal(held.collect(attemptId).head.toString(), 'done\n');
  }),
);

testEachShell('a pump whose launcher was killed ends with the attempt too', async (t, stand) => {
  const time = simulateTime();
  const held = openStand(t, { shell: stand.shell, time, runDirectory: path.join(stand.runDirectory, 'held') });
  const pidFile = path.join(stand.runDirectory, 'pid');
  const script = `exec setsid /bin/sh -c 'echo $$ >${pidFile}.new; mv ${pidFile}.new ${pidFile}; exec sleep 600'`;
  const attemptId = held.start({ argv: ['/bin/sh', '-c', script] });
  await until(() => existsSync(pidFile));
  const escaped = readProcess(Number(readFileSync(pidFile, 'latin1')))!;
  const launcher = readProcess(held.sessionOf(attemptId))!;
  signalProcess(launcher, 'SIGKILL');
  await until(() => time.entriesCount() > 0);
  time.advance(limits.outputDrainMsMax / 2);
  time.advance(limits.outputDrainMsMax / 2);
  t.match(await held.endOf(attemptId), { kind: 'lost' });
  await until(() => listSession(launcher.pid).every(({ isZombie }) => isZombie));
  signalProcess(escaped, 'SIGKILL');
  await until(() => isGone(escaped.pid));
  await held.close();
});

testEachShell('a pump that nobody watches ends when its attempt is released', (t, stand) =>
  withEscaped(t, stand, async ({ held, attemptId, isPumpGone }) => {
    held.executor.close();
    const next = openStand(t, { runDirectory: held.runDirectory, shell: stand.shell });
    t.match(next.executor.inspect(attemptId, bootId), { kind: 'ended', end: { exitCode: 0 } });
    t.notOk(isPumpGone(), 'looking at it ends nothing');
    next.executor.release(attemptId);
    await until(isPumpGone);
    await next.close();
  }),
);
