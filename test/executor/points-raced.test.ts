// Withdrawal, stop and recovery at every line of the launcher: exactly one of them and the start wins, the record is
// true each time, and nobody is left.
import type { AttemptEnd } from '../../src/executor/attempt-end.ts';
import { withdrawStart } from '../../src/executor/evidence.ts';
import { signalProcess } from '../../src/executor/session.ts';
import { realClock } from '../../src/runtime/ports.ts';
import { driveUntil, endOf, expectTrue, expectWhole, isEmpty, type Scene, testEachPoint } from './points.ts';
import { openStand } from './stand.ts';

const { bootId } = realClock().observe();

/** What recovery does with an attempt whose barrier is durable. */
async function recover(scene: Scene): Promise<AttemptEnd> {
  const { stand, attemptId } = scene;
  const evidence = stand.executor.inspect(attemptId, bootId);
  if (evidence.kind === 'withdrawn') {
    return evidence;
  }
  if (evidence.kind === 'ended' && evidence.end.kind !== 'exited') {
    return evidence.end;
  }
  if (evidence.kind === 'free' && stand.executor.withdraw(attemptId) === 'withdrawn') {
    return { kind: 'withdrawn' };
  }
  stand.executor.adopt(attemptId);
  signalProcess(scene.holder, 'SIGCONT');
  return stand.endOf(attemptId);
}

testEachPoint('a start that is taken back at any line runs nothing; too late, it runs undisturbed', async (scene) => {
  const { t, stand, attemptId, holder, where, hasRun } = scene;
  const outcome = stand.executor.withdraw(attemptId);
  if (outcome === 'withdrawn') {
    t.same(await endOf(scene), { kind: 'withdrawn' }, where);
    t.notOk(hasRun(), where);
  } else {
    signalProcess(holder, 'SIGCONT');
    expectWhole(scene, await stand.endOf(attemptId));
  }
});

testEachPoint('the one exclusive creation decides alone: nobody has to be signalled', async (scene) => {
  const { t, stand, attemptId, holder, where, hasRun } = scene;
  const outcome = withdrawStart(stand.directoryOf(attemptId));
  signalProcess(holder, 'SIGCONT');
  const end = await stand.endOf(attemptId);
  if (outcome === 'withdrawn') {
    t.same(end, { kind: 'withdrawn' }, where);
    t.notOk(hasRun(), where);
  } else {
    expectWhole(scene, end);
  }
});

testEachPoint('a stop at any line ends the command by TERM, or keeps it from starting', async (scene) => {
  const { t, stand, attemptId, where } = scene;
  // Nobody continues who is held: a stop wakes whoever it needs.
  stand.executor.stop(attemptId, { graceMs: 2 ** 30 });
  const end = await endOf(scene);
  expectTrue(scene, end);
  if (end.kind !== 'withdrawn') {
    t.match(end, { kind: 'exited', isForced: false }, where);
    t.ok(end.kind === 'exited' && (end.exitCode === 143 || end.exitCode === 7), where);
  }
});

testEachPoint('a runtime that is gone at any line is followed by one that finds out what happened', async (scene) => {
  const { t, stand, time, holder, hasRun } = scene;
  stand.executor.close();
  const next = openStand(t, { runDirectory: stand.runDirectory, time, shell: stand.shell, segmentBytes: 8192 });
  const end = await recover({ ...scene, stand: next });
  expectTrue(scene, end);
  if (end.kind !== 'withdrawn') {
    t.match(end, { kind: 'exited', exitCode: 7 });
    t.ok(hasRun());
  }
  signalProcess(holder, 'SIGCONT');
  await driveUntil(time, () => isEmpty(holder.sessionId));
  await next.close();
});
