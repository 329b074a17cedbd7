// What outlives the process that started it: found, adopted, or proven gone, by a later process, never guessed.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { limits } from '../../src/core/limits.ts';
import { readIdentity, readReceipt, readTakenState } from '../../src/executor/attempt-files.ts';
import { type ProcessRow, readProcess, signalProcess, viewSession } from '../../src/executor/session.ts';
import { realClock } from '../../src/runtime/ports.ts';
import { makeGate } from './gate.ts';
import { lookAgain, simulateTime } from './simulated-time.ts';
import { type Stand, testEachShell, withStand } from './stand.ts';
import { turn, until } from './until.ts';

const { bootId } = realClock().observe();
const starterFile = path.join(import.meta.dirname, 'starter.ts');

/** The children of this process. */
function listChildren(): ProcessRow[] {
  const rows = readdirSync('/proc').flatMap((name) => (/^[0-9]+$/.test(name) ? [readProcess(Number(name))] : []));
  return rows.filter((row) => row !== null).filter((row) => row.parentPid === process.pid && !row.isZombie);
}

function startOther(stand: Stand, script: string, env: Record<string, string> = {}) {
  const specification = { shell: stand.shell.command, argv: ['/bin/sh', '-c', script] };
  return spawn(process.execPath, [starterFile, stand.runDirectory, 'at-1', JSON.stringify(specification)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env,
  });
}

/** Starts an attempt from another process, and kills that process alone when the command has taken its start. */
async function startAndKill(stand: Stand, script: string): Promise<void> {
  const starter = startOther(stand, script);
  const ended = once(starter, 'exit');
  await once(starter.stdout, 'data');
  process.kill(starter.pid!, 'SIGKILL');
  await ended;
}

function launcherOf(stand: Stand, attemptId: string): ProcessRow {
  return readProcess(stand.sessionOf(attemptId))!;
}

function othersOf(stand: Stand, attemptId: string): ProcessRow[] {
  const identity = readIdentity(stand.directoryOf(attemptId), attemptId)!;
  return viewSession({
    attemptId,
    launcherMark: '',
    identity,
    bootId,
    commandPid: null,
    launcherEndUptimeMs: null,
    seen: new Set(),
  }).others.slice();
}

testEachShell(
  'a command outlives the SIGKILL of its runtime, and the next one gets its true result',
  async (t, stand) => {
    const gate = makeGate(stand, 'exit 42');
    await startAndKill(stand, gate.script);
    t.same(stand.executor.inspect('at-1', bootId), { kind: 'running' });
    stand.executor.adopt('at-1');
    t.same(stand.executor.running(), ['at-1']);
    gate.open();
    t.match(await stand.endOf('at-1'), {
      kind: 'exited',
      exitCode: 42,
      signal: null,
      outputTruncated: false,
      note: null,
    });
    t.equal(stand.collect('at-1').head.toString(), 'before\nafter go\n');
  },
);

testEachShell('an end that nobody watched is read from the receipt, at once or by adoption', async (t, stand) => {
  const gate = makeGate(stand, 'exit 7');
  await startAndKill(stand, gate.script);
  gate.open();
  await until(() => readReceipt(stand.directoryOf('at-1'), 'at-1') !== null);
  t.match(stand.executor.inspect('at-1', bootId), { kind: 'ended', end: { kind: 'exited', exitCode: 7 } });
  t.match(stand.executor.inspect('at-1', 'an-earlier-boot'), { kind: 'ended', end: { kind: 'exited', exitCode: 7 } });
  stand.executor.adopt('at-1');
  t.match(await stand.endOf('at-1'), { kind: 'exited', exitCode: 7, outputBytes: 16, outputTruncated: false });
});

testEachShell('an adopted command is stopped like an own one', async (t, stand) => {
  await startAndKill(stand, 'sleep 600 & sleep 600');
  stand.executor.adopt('at-1');
  stand.executor.stop('at-1', { graceMs: 600_000 });
  t.match(await stand.endOf('at-1'), { kind: 'exited', exitCode: 143, signal: 'SIGTERM', isForced: false });
});

testEachShell('`close` ends nothing and keeps nothing alive', async (t, stand) => {
  const gate = makeGate(stand, 'exit 4');
  const starter = startOther(stand, gate.script, { DETACH: 'yes' });
  t.same(await once(starter, 'exit'), [0, null], 'it ends while its command runs');
  t.same(stand.executor.inspect('at-1', bootId), { kind: 'running' });
  stand.executor.adopt('at-1');
  gate.open();
  t.match(await stand.endOf('at-1'), { kind: 'exited', exitCode: 4 });
});

t.test('a command without its launcher is watched until nobody is left, and is lost', async (t) => {
  const time = simulateTime();
  await withStand(t, { time }, async (t, stand) => {
    const gate = makeGate(stand, 'exit 3');
    const attemptId = stand.start({ argv: ['/bin/sh', '-c', gate.script] });
    await until(() => readTakenState(stand.directoryOf(attemptId)) === 'taken');
    t.equal(time.entriesCount(), 0, 'no timer while nothing ends');
    signalProcess(launcherOf(stand, attemptId), 'SIGKILL');
    await until(() => time.entriesCount() > 0);
    t.same(stand.executor.inspect(attemptId, bootId), { kind: 'running' });
    time.advance(limits.orphanLookMsMin);
    t.same(stand.executor.running(), [attemptId]);
    gate.open();
    // All of its session, not its first process alone: one look at a straggler would double the time to the next.
    await until(() => othersOf(stand, attemptId).length === 0);
    time.advance(2 * limits.orphanLookMsMin);
    lookAgain(time);
    t.match(await stand.endOf(attemptId), { kind: 'lost', isForced: false, errorSummary: /without a receipt/ });
    t.match(stand.executor.inspect(attemptId, bootId), { kind: 'ended', end: { kind: 'lost' } });
    t.equal(stand.collect(attemptId).head.toString(), 'before\nafter go\n', 'its output is kept');
  });
});

testEachShell('a command without its launcher is stopped', async (t, stand) => {
  await startAndKill(stand, 'sleep 600; true');
  signalProcess(launcherOf(stand, 'at-1'), 'SIGKILL');
  t.same(stand.executor.inspect('at-1', bootId), { kind: 'running' });
  stand.executor.adopt('at-1');
  t.same(stand.executor.running(), ['at-1']);
  stand.executor.stop('at-1', { graceMs: 600_000 });
  t.match(await stand.endOf('at-1'), { kind: 'lost', isForced: false });
  t.same(othersOf(stand, 'at-1'), []);
});

t.test('a launcher that dies before the start was taken has run nothing, and none ever will', async (t) => {
  const toolsPath = t.testdir({ mkfifo: '#!/bin/sh\nkill -KILL $PPID\n' });
  chmodSync(path.join(toolsPath, 'mkfifo'), 0o755);
  const options = { toolsPath: `${toolsPath}:/usr/bin:/bin`, runDirectory: path.join(toolsPath, 'run') };
  await withStand(t, options, async (t, stand) => {
    const { end, attemptId } = await stand.run({ argv: ['/bin/true'] });
    t.match(end, { kind: 'spawn-failed', errorCode: 'launcher_failed', errorSummary: /SIGKILL/ });
    t.same(stand.executor.inspect(attemptId, bootId), { kind: 'withdrawn' });
  });
});

testEachShell('a launcher that is killed at any moment never hides a command that ran', async (t, stand) => {
  for (let attempt = 0; attempt < 40; attempt += 1) {
    const marker = path.join(stand.runDirectory, `marker-${attempt}`);
    const attemptId = stand.start({ argv: ['/usr/bin/touch', marker] });
    await turn(attempt * 50);
    for (const launcher of listChildren().filter((row) => row.sessionId === row.pid)) {
      signalProcess(launcher, 'SIGKILL');
    }
    const end = await stand.endOf(attemptId);
    t.notOk(end.kind === 'spawn-failed' && existsSync(marker), `${attempt}: ${end.kind}`);
    t.notOk(end.kind === 'exited' && !existsSync(marker), `${attempt}: ${end.kind}`);
  }
});

type Files = Readonly<Record<string, string>>;

/** A directory as a launcher of a process that is surely gone has left it. */
function writeAttempt(stand: Stand, attemptId: string, files: Files): void {
  const directory = stand.directoryOf(attemptId);
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory);
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(path.join(directory, name), text);
  }
}

t.test('evidence is judged as the table of recovery says', (t) =>
  withStand(t, { time: simulateTime() }, async (t, stand) => {
    const identity = `ql-identity-1 at-1 4194303 1 ${bootId} 1.00 4194302 end\n`;
    const taken = 'ql-taken-1 at-1 4194301 end\n';
    const lost = { kind: 'ended', end: { kind: 'lost' } };
    const cases: readonly [string, Files, string, object][] = [
      ['nothing but the directory', {}, bootId, { kind: 'free' }],
      ['a launcher that did not come to the start', { identity }, bootId, { kind: 'free' }],
      ['the same in an earlier boot', { identity }, 'earlier', lost],
      ['taken, and nobody lives', { identity, taken }, bootId, lost],
      ['taken in an earlier boot', { taken }, 'earlier', lost],
      ['taken, and no identity', { taken }, bootId, { kind: 'undecidable', why: /identity is missing/ }],
      ['a torn identity', { taken, identity: identity.slice(0, -5) }, bootId, { kind: 'undecidable' }],
      [
        'another attempt’s identity',
        { taken, identity: identity.replace('at-1', 'at-2') },
        bootId,
        { kind: 'undecidable' },
      ],
      ['an identity of an earlier boot', { taken, identity: identity.replace(bootId, 'earlier') }, bootId, lost],
    ];
    for (const [name, files, startBootId, expected] of cases) {
      writeAttempt(stand, 'at-1', files);
      t.match(stand.executor.inspect('at-1', startBootId), expected, name);
    }
    rmSync(stand.directoryOf('at-1'), { recursive: true });
  }),
);

t.test('a receipt of wrong shape, or for another attempt, is none', (t) =>
  withStand(t, { time: simulateTime() }, async (t, stand) => {
    const files = { identity: `ql-identity-1 at-1 4194303 1 ${bootId} 1.00 4194302 end\n`, taken: 'x' };
    const receipt = 'ql-receipt-1 at-1 0 12.34 end\n';
    const wrong = [
      '',
      ' '.repeat(4095),
      receipt.slice(0, -1),
      receipt.replace(' end', ''),
      receipt.replace('at-1', 'at-2'),
      receipt.replace(' 0 ', ' 256 '),
      receipt.replace(' 0 ', ' -1 '),
      receipt.replace(' 0 ', ' '),
      receipt.replace(' 0 ', ' 0 0 '),
      receipt.replace('12.34', '12'),
      receipt.replace('12.34', 'x'),
      receipt.replace('receipt-1', 'receipt-2'),
      `x${receipt}`,
    ];
    for (const text of wrong) {
      writeAttempt(stand, 'at-1', { ...files, receipt: text });
      t.match(stand.executor.inspect('at-1', bootId), { kind: 'ended', end: { kind: 'lost' } }, JSON.stringify(text));
    }
    writeAttempt(stand, 'at-1', { ...files, receipt });
    t.match(stand.executor.inspect('at-1', bootId), {
      kind: 'ended',
      end: { kind: 'exited', exitCode: 0, durationMs: 11_340 },
    });
    // A command of the same user can put anything in its place: nothing blocks, nothing is believed.
    rmSync(path.join(stand.directoryOf('at-1'), 'receipt'));
    execFileSync('mkfifo', [path.join(stand.directoryOf('at-1'), 'receipt')]);
    t.match(stand.executor.inspect('at-1', bootId), { kind: 'ended', end: { kind: 'lost' } });
    rmSync(stand.directoryOf('at-1'), { recursive: true });
  }),
);
