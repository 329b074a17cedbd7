// The order in which a runtime ends: commands, whoever still waits for an answer, durable state.
import t from 'tap';
import { createScene, rowsOf } from './scene.ts';
import { openSimulated } from './simulated.ts';

t.test('commands are stopped while the last answers leave, and the database stays until they have', async (t) => {
  const scene = createScene(t);
  await scene.install({
    tasks: { work: { run: ['/bin/true'] } },
    workflows: { main: { steps: { one: { task: 'work' } } } },
  });
  const runId = await scene.admit();
  const engine = await openSimulated(t, scene);
  await engine.called(1);
  const answered = Promise.withResolvers<void>();
  const closing = engine.runtime.close('stop', answered.promise);
  await engine.settled();
  const [call] = engine.calls;
  t.ok(call?.signal.aborted, 'it is told at once');
  call?.end();
  await engine.settled();
  t.match([...(await rowsOf(engine.store, runId)).attempts.values()], [{ finishedAtMs: Number }]);
  answered.resolve();
  await closing;
  await t.rejects(rowsOf(engine.store, runId), { code: 'unavailable' });
});
