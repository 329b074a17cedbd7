// Systems that lack a tool of the launcher: a command runs all the same where it can, exactly, and what is missing is
// said.
import { existsSync, mkdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { limits } from '../../src/core/limits.ts';
import { readIdentity, readTakenState } from '../../src/executor/attempt-files.ts';
import { findLauncherTools, findTool } from '../../src/executor/launcher-tools.ts';
import { listSession } from '../../src/executor/session.ts';
import { realClock } from '../../src/runtime/ports.ts';
import { makeGate } from './gate.ts';
import { lookAgain, type SimulatedTime, simulateTime } from './simulated-time.ts';
import { exitedCode, openStand, type Shell, type Stand, shells, withStand } from './stand.ts';
import { until } from './until.ts';

const { bootId } = realClock().observe();
const names = ['mkfifo', 'dd', 'wc', 'env', 'nice'];

/** A search path with all tools but one. */
function toolsWithout(folder: string, missing: string): string {
  const tools = path.join(folder, 'tools');
  mkdirSync(tools, { recursive: true });
  for (const name of names.filter((tool) => tool !== missing)) {
    symlinkSync(findTool(name, '/usr/bin:/bin')!, path.join(tools, name));
  }
  return tools;
}

function testWithout(name: string, missing: string, body: (t: Test, stand: Stand) => Promise<void>): void {
  for (const shell of shells) {
    t.test(`${name}: ${missing} (${shell.name})`, { skip: shell.skip }, (t) => {
      const folder = t.testdir();
      const options = { shell, toolsPath: toolsWithout(folder, missing), runDirectory: path.join(folder, 'run') };
      return withStand(t, options, body);
    });
  }
}

for (const missing of ['mkfifo', 'dd', 'wc']) {
  testWithout(
    'without what a pump is made of, a command runs, and its output is thrown away',
    missing,
    async (t, stand) => {
      const script = 'echo one; echo two >/dev/stdout; head -c 300000 /dev/zero; exit 5';
      const { end, attemptId } = await stand.run({ argv: ['/bin/sh', '-c', script] });
      t.match(end, {
        kind: 'exited',
        exitCode: 5,
        signal: null,

        outputBytes: 0,
        outputTruncated: true,
      });
      t.match(end, { note: /its output was not kept: this system lacks mkfifo, dd or wc/ });
      t.same(findLauncherTools(path.join(stand.runDirectory, '../tools')).missingForOutput, [missing]);
      t.equal(readIdentity(stand.directoryOf(attemptId), attemptId)?.pumpPid, 0);
      const signal = await stand.run({ argv: ['/bin/sh', '-c', 'kill -TERM $$'] });
      t.match(signal.end, { kind: 'exited', signal: 'SIGTERM' });
    },
  );
}

testWithout('without it only what needs it does not run', 'env', async (t, stand) => {
  const marker = path.join(stand.runDirectory, 'marker');
  const { end } = await stand.run({ argv: ['/usr/bin/touch', marker], env: { IFS: ':' } });
  t.match(end, { kind: 'spawn-failed', errorCode: 'tool_missing', errorSummary: /no `env` in .*this command needs/ });
  t.notOk(existsSync(marker));
  t.equal(exitedCode((await stand.run({ argv: ['/bin/true'] })).end), 0);
});

testWithout('without it only what needs it does not run', 'nice', async (t, stand) => {
  const nice = await stand.run({ argv: ['/bin/true'], nice: 5 });
  t.match(nice.end, {
    kind: 'spawn-failed',
    errorCode: 'tool_missing',
    errorSummary: /no `nice` in .*this command needs/,
  });
  t.equal(exitedCode((await stand.run({ argv: ['/bin/true'] })).end), 0);
});

/** Another process's launcher without FIFOs, as its successor finds it: nothing but looking tells its end. */
async function adoptWithoutPump(
  t: Test,
  shell: Shell,
  body: (stand: Stand, gate: { open(): void }, time: SimulatedTime) => Promise<void>,
) {
  const folder = t.testdir();
  const options = { shell, toolsPath: toolsWithout(folder, 'mkfifo'), runDirectory: path.join(folder, 'run') };
  const earlier = openStand(t, options);
  const gate = makeGate(earlier, 'exit 6');
  earlier.start({ attemptId: 'at-1', argv: ['/bin/sh', '-c', gate.script] });
  await until(() => readTakenState(earlier.directoryOf('at-1')) === 'taken');
  earlier.executor.close();
  const time = simulateTime();
  await withStand(t, { ...options, time }, async (_, stand) => {
    t.same(stand.executor.inspect('at-1', bootId), { kind: 'running' });
    stand.executor.adopt('at-1');
    await body(stand, gate, time);
  });
}

for (const shell of shells) {
  t.test(`without FIFOs an adopted command is looked for until its end (${shell.name})`, { skip: shell.skip }, (t) =>
    adoptWithoutPump(t, shell, async (stand, gate, time) => {
      const session = stand.sessionOf('at-1');
      for (const delayMs of [1_000, 2_000, 4_000]) {
        time.advance(delayMs - 1);
        t.equal(time.entriesCount(), 1, `not before ${delayMs} ms`);
        time.advance(1);
        t.same(stand.executor.running(), ['at-1']);
      }
      gate.open();
      await until(() => listSession(session).every(({ isZombie }) => isZombie));
      time.advance(limits.orphanLookMsMax);
      lookAgain(time);
      t.match(await stand.endOf('at-1'), { kind: 'exited', exitCode: 6, note: /not kept/ });
    }),
  );

  t.test(`without FIFOs an adopted command is stopped (${shell.name})`, { skip: shell.skip }, (t) =>
    adoptWithoutPump(t, shell, async (stand, _, time) => {
      const session = stand.sessionOf('at-1');
      stand.executor.stop('at-1', { graceMs: 600_000 });
      await until(() => listSession(session).every(({ isZombie }) => isZombie));
      lookAgain(time);
      t.match(await stand.endOf('at-1'), { kind: 'exited', exitCode: 143, signal: 'SIGTERM', isForced: false });
    }),
  );
}
