// One exclusive creation decides whether a command ever runs: raced here between the launcher's child and a withdrawal.
import { chmodSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { withdrawUnwatched } from '../../src/executor/evidence.ts';
import { realClock } from '../../src/runtime/ports.ts';
import { simulateTime } from './simulated-time.ts';
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
    for (let attempt = 0; attempt < 40; attempt += 1) {
      const marker = path.join(stand.runDirectory, `marker-${attempt}`);
      const attemptId = stand.start({ argv: ['/bin/sh', '-c', `echo >'${marker}'; exec /bin/sleep 600`] });
      await turn(attempt * 75);
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

/** A launcher that stands still before it comes to the start. Time stands still as well: nothing here needs any. */
async function withStuckLauncher(t: Test, body: (attemptId: string, stand: Stand) => void) {
  const toolsPath = t.testdir({ mkfifo: '#!/bin/sh\nexec sleep 600\n' });
  chmodSync(path.join(toolsPath, 'mkfifo'), 0o755);
  const runDirectory = path.join(toolsPath, 'run');
  const options = { time: simulateTime(), toolsPath: `${toolsPath}:/usr/bin:/bin`, runDirectory };
  await withStand(t, options, async (_, stand) => {
    const attemptId = stand.start({ argv: ['/bin/true'] });
    await until(() => existsSync(path.join(stand.directoryOf(attemptId), 'count')));
    body(attemptId, stand);
    t.same(await stand.endOf(attemptId), { kind: 'withdrawn' });
  });
}

t.test('a withdrawn launcher that stands still is ended, and is withdrawn all the same', (t) =>
  withStuckLauncher(t, (attemptId, stand) => {
    t.equal(stand.executor.withdraw(attemptId), 'withdrawn');
    t.same(stand.executor.running(), [attemptId], 'not before it is gone');
  }),
);

t.test('a stop before the command has taken its start is a withdrawal', (t) =>
  withStuckLauncher(t, (attemptId, stand) => {
    stand.executor.stop(attemptId, { graceMs: 600_000 });
    t.same(stand.executor.inspect(attemptId, bootId), { kind: 'withdrawn' });
  }),
);

t.test('a withdrawal by a process that does not watch the attempt ends its launcher too', (t) =>
  withStuckLauncher(t, (attemptId, stand) => {
    t.equal(withdrawUnwatched(stand.directoryOf(attemptId)), 'withdrawn');
  }),
);
