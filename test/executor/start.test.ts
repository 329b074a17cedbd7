// One exclusive creation decides whether a command ever runs: raced here between the launcher's child and a withdrawal.
import { chmodSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { limits } from '../../src/core/limits.ts';
import { realClock } from '../../src/runtime/ports.ts';
import { type SimulatedTime, simulateTime } from './simulated-time.ts';
import { exitedCode, openStand, type Stand, testEachShell, withStand } from './stand.ts';
import { turn, until } from './until.ts';

const bootId = realClock().observe().bootId;

testEachShell('a start that was withdrawn before it runs nothing, and says so', async (t, stand) => {
  const marker = path.join(stand.runDirectory, 'marker');
  stand.executor.prepare('at-1');
  t.equal(stand.executor.withdraw('at-1'), 'withdrawn');
  t.equal(stand.executor.withdraw('at-1'), 'withdrawn', 'again: the same answer');
  const argv = ['/usr/bin/touch', marker];
  stand.executor.start({ attemptId: 'at-1', argv, env: {}, cwd: '/', nice: null, limits: null, user: null });
  t.same(await stand.endOf('at-1'), { kind: 'withdrawn' });
  t.notOk(existsSync(marker));
  t.same(stand.executor.inspect('at-1', bootId), { kind: 'withdrawn' });
});

testEachShell('a start that was taken cannot be withdrawn any more', async (t, stand) => {
  const { attemptId, end } = await stand.run({ argv: ['/bin/true'] });
  t.equal(exitedCode(end), 0);
  t.equal(stand.executor.withdraw(attemptId), 'taken');
});

testEachShell(
  'withdrawal and start race: exactly one wins, and TERM after a lost race is never lost',
  async (t, stand) => {
    const outcomes = { withdrawn: 0, taken: 0 };
    for (let attempt = 0; attempt < 120; attempt += 1) {
      const marker = path.join(stand.runDirectory, `marker-${attempt}`);
      const attemptId = stand.start({ argv: ['/bin/sh', '-c', `echo >'${marker}'; exec /bin/sleep 600`] });
      await turn(attempt * 25);
      const outcome = stand.executor.withdraw(attemptId);
      if (outcome === 'taken') {
        stand.executor.stop(attemptId, { graceMs: 600_000 });
      }
      const end = await stand.endOf(attemptId);
      if (outcome === 'withdrawn') {
        outcomes.withdrawn += 1;
        t.same(end, { kind: 'withdrawn' });
        t.notOk(existsSync(marker), 'no command ran');
      } else {
        outcomes.taken += 1;
        t.equal(outcome, 'taken');
        t.match(end, { kind: 'exited', exitCode: 143, signal: 'SIGTERM', isForced: false });
      }
      stand.executor.release(attemptId);
    }
    t.comment(JSON.stringify(outcomes));
    t.ok(outcomes.withdrawn > 0, 'some were withdrawn');
  },
);

t.test('without a directory nothing is decided', (t) =>
  withStand(t, { time: simulateTime() }, async (t, stand) => {
    t.equal(stand.executor.withdraw('at-none'), 'absent');
    t.same(stand.executor.inspect('at-none', bootId), { kind: 'absent' });
  }),
);

t.test('a prepared start that nobody has launched is free, and withdrawn for good', (t) =>
  withStand(t, { time: simulateTime() }, async (t, stand) => {
    stand.executor.prepare('at-1');
    t.same(stand.executor.inspect('at-1', bootId), { kind: 'free' });
    t.equal(stand.executor.withdraw('at-1'), 'withdrawn');
    t.same(stand.executor.inspect('at-1', bootId), { kind: 'withdrawn' });
  }),
);

t.test('a foreign link in place of `taken` is no withdrawal', (t) =>
  withStand(t, { time: simulateTime() }, async (t, stand) => {
    mkdirSync(stand.directoryOf('at-1'));
    symlinkSync('elsewhere', path.join(stand.directoryOf('at-1'), 'taken'));
    t.equal(stand.executor.withdraw('at-1'), 'taken');
  }),
);

t.test('a launcher of an earlier version is replaced as a file, not written over', async (t) => {
  const runDirectory = path.join(t.testdir(), 'run');
  mkdirSync(runDirectory);
  writeFileSync(path.join(runDirectory, 'launcher.sh'), 'exit 1\n');
  const stand = openStand(t, { runDirectory });
  t.equal(exitedCode((await stand.run({ argv: ['/bin/true'] })).end), 0);
  await stand.close();
});

/** A launcher that stands still before it comes to the start. */
async function withStuckLauncher(
  t: Test,
  body: (attemptId: string, stand: Stand, time: SimulatedTime) => Promise<void>,
) {
  const toolsPath = t.testdir({ mkfifo: '#!/bin/sh\nexec sleep 600\n' });
  chmodSync(path.join(toolsPath, 'mkfifo'), 0o755);
  const time = simulateTime();
  const options = { time, toolsPath: `${toolsPath}:/usr/bin:/bin`, runDirectory: path.join(toolsPath, 'run') };
  await withStand(t, options, async (_, stand) => {
    const attemptId = stand.start({ argv: ['/bin/true'] });
    await until(() => existsSync(path.join(stand.directoryOf(attemptId), 'count')));
    await body(attemptId, stand, time);
    time.advance(limits.killEscalationMs);
    t.same(await stand.endOf(attemptId), { kind: 'withdrawn' });
  });
}

t.test('a withdrawn launcher that stands still is ended, and is withdrawn all the same', (t) =>
  withStuckLauncher(t, async (attemptId, stand, time) => {
    t.equal(stand.executor.withdraw(attemptId), 'withdrawn');
    time.advance(limits.outputDrainMsMax);
    t.same(stand.executor.running(), [attemptId]);
  }),
);

t.test('a stop before the command has taken its start is a withdrawal', (t) =>
  withStuckLauncher(t, async (attemptId, stand, time) => {
    stand.executor.stop(attemptId, { graceMs: 1_000 });
    t.same(stand.executor.inspect(attemptId, bootId), { kind: 'withdrawn' });
    time.advance(1_000);
    t.same(stand.executor.running(), [attemptId]);
  }),
);
