// A command that has ended keeps its own end, whatever is asked for while its output and what it left running are still
// waited for.
import { readReceipt } from '../../src/executor/attempt-files.ts';
import { shells } from '../executor/stand.ts';
import { until } from '../executor/until.ts';
import { assertSound, attemptDirectories, attemptsOf, eventsOf, type Scene, startRun, testOnCopies } from './scene.ts';

// What it leaves holds the pipe of its output: the attempt is not over for a second, the command is.
const leaving = (status: number) => ({
  shell: `sleep 600 & exit ${status}`,
  timeout: '10m',
  retry: { limit: 1, backoff: '10ms', on: ['lost', 'timed_out'] },
});
const manifest = {
  tasks: { succeeds: leaving(0), fails: leaving(7) },
  workflows: { succeeds: { steps: { a: { task: 'succeeds' } } }, fails: { steps: { a: { task: 'fails' } } } },
};

/** Resolves with the one attempt that runs when its command has ended. */
async function endedAttempt(scene: Scene): Promise<string> {
  const hasReceipt = (id: string) => readReceipt(scene.directoryOf(id), id) !== null;
  await until(() => attemptDirectories(scene).some(hasReceipt));
  return attemptDirectories(scene).find(hasReceipt)!;
}

for (const shell of shells) {
  testOnCopies(
    shell.name,
    { manifest, scripts: {}, profile: 'edge', shell },
    {
      async 'a stop of the runtime does not make a success lost'(t, scene) {
        const engine = await scene.open();
        const runId = await startRun(engine, 'succeeds');
        await endedAttempt(scene);
        await engine.close('stop');
        await scene.withStore(async (store) => {
          t.match(await attemptsOf(store, runId), [{ status: 'succeeded', exitCode: 0, errorCode: null }]);
          const types = (await eventsOf(store, runId)).map(({ type }) => type);
          t.notOk(types.includes('workflow.attempt_stop_requested'));
          await assertSound(t, store, runId);
        });
      },

      async 'nor a failure, and neither does its timeout'(t, scene) {
        const engine = await scene.open();
        const runId = await startRun(engine, 'fails');
        engine.runtime.attempts.requestStop(await endedAttempt(scene), 'timeout');
        await engine.close('stop');
        const attempts = await scene.withStore((store) => attemptsOf(store, runId));
        t.match(attempts, [{ status: 'failed', exitCode: 7, errorCode: 'exit_code', stopReason: null }]);
        t.equal(attempts.length, 1);
      },
    },
  );
}
