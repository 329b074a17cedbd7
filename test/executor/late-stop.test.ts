// A stop that comes when the command has ended already: it hastens what is waited for, and never makes it longer.
import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { limits } from '../../src/core/limits.ts';
import { listSession } from '../../src/executor/session.ts';
import { type SimulatedTime, simulateTime } from './simulated-time.ts';
import { openStand, type Shell, type Stand, shells } from './stand.ts';
import { until } from './until.ts';

const graceMs = 600_000;
const stubborn = `(trap '' TERM; : >ready; while :; do sleep 600; done) & until [ -e ready ]; do :; done`;

/** Has ended by itself, and left somebody behind who takes no notice of TERM. */
async function withStubborn(
  t: Test,
  shell: Shell,
  script: string,
  body: (stand: Stand, attemptId: string, time: SimulatedTime) => Promise<void>,
): Promise<void> {
  const time = simulateTime();
  const stand = openStand(t, { shell, time });
  const cwd = path.join(stand.runDirectory, 'work');
  mkdirSync(cwd);
  const attemptId = stand.start({ argv: ['/bin/sh', '-c', `${stubborn}; ${script}`], cwd });
  await until(() => existsSync(path.join(cwd, 'ready')));
  await body(stand, attemptId, time);
  await stand.close();
}

for (const shell of shells) {
  t.test(`it does not lengthen the drain of what was left (${shell.name})`, { skip: shell.skip }, (t) =>
    withStubborn(t, shell, 'exit 5', async (stand, attemptId, time) => {
      await until(() => time.entriesCount() > 0);
      const session = stand.sessionOf(attemptId);
      stand.executor.stop(attemptId, { graceMs });
      time.advance(limits.outputDrainMsMax - 1);
      t.same(stand.executor.running(), [attemptId]);
      time.advance(1);
      await until(() => listSession(session).every(({ isZombie }) => isZombie));
      time.advance(limits.sessionLookMsMin);
      const end = await stand.endOf(attemptId);
      t.match(end, { kind: 'exited', exitCode: 5, signal: null, isForced: true, note: /of its processes outlived it/ });
    }),
  );

  t.test(`a short grace ends it sooner (${shell.name})`, { skip: shell.skip }, (t) =>
    withStubborn(t, shell, 'exit 5', async (stand, attemptId, time) => {
      await until(() => time.entriesCount() > 0);
      const session = stand.sessionOf(attemptId);
      stand.executor.stop(attemptId, { graceMs: 10 });
      time.advance(10);
      await until(() => listSession(session).every(({ isZombie }) => isZombie));
      time.advance(limits.sessionLookMsMin);
      t.match(await stand.endOf(attemptId), { kind: 'exited', exitCode: 5, isForced: true });
    }),
  );

  t.test(`who outlives a command that a stop has ended keeps all of the grace (${shell.name})`, (t) =>
    withStubborn(t, shell, 'exec sleep 600', async (stand, attemptId, time) => {
      const session = stand.sessionOf(attemptId);
      stand.executor.stop(attemptId, { graceMs });
      await until(() => listSession(session).every(({ pid, isZombie }) => pid !== session || isZombie));
      time.advance(limits.outputDrainMsMax * 2);
      t.same(stand.executor.running(), [attemptId], 'the drain is long over');
      time.advance(graceMs - limits.outputDrainMsMax * 2);
      await until(() => listSession(session).every(({ isZombie }) => isZombie));
      time.advance(limits.sessionLookMsMin);
      t.match(await stand.endOf(attemptId), { kind: 'exited', exitCode: 143, signal: 'SIGTERM', isForced: true });
    }),
  );
}
