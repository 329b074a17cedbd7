// Launcher, pump and child, stopped and killed at every line of the launcher: the record is true each time, and nobody
// is left.
import { readProcess, signalProcess } from '../../src/executor/session.ts';
import { endOf, expectTrue, expectWhole, outputBytes, testEachPoint } from './points.ts';
import { turn, until } from './until.ts';

testEachPoint('a launcher that was only stopped for a while changes nothing', async (scene) => {
  signalProcess(scene.holder, 'SIGCONT');
  expectWhole(scene, await scene.stand.endOf(scene.attemptId));
});

testEachPoint(
  'a launcher that is killed at any line never hides a command that ran, nor leaves anybody',
  async (scene) => {
    const { t, stand, attemptId, holder, where } = scene;
    const launcher = readProcess(holder.sessionId);
    if (launcher !== null) {
      signalProcess(launcher, 'SIGKILL');
      // Its end is an event; who is held may be its child, before or after the start was taken.
      await until(() => readProcess(launcher.pid)?.startTicks !== launcher.startTicks);
    }
    await turn(5);
    if (stand.executor.running().includes(attemptId)) {
      signalProcess(holder, 'SIGCONT');
    }
    const end = await endOf(scene);
    expectTrue(scene, end);
    t.not(end.kind, 'withdrawn', where);
  },
);

testEachPoint('a pump or child that is killed at any line never makes a wrong record', async (scene) => {
  const { t, holder, where } = scene;
  signalProcess(holder, 'SIGKILL');
  const end = await endOf(scene);
  expectTrue(scene, end);
  if (end.kind === 'exited' && end.exitCode === 7) {
    t.ok(end.outputBytes === outputBytes || end.outputTruncated, `${where}: what is not all is called truncated`);
  }
});
