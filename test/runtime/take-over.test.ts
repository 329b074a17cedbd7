// After a commit of which nobody could say whether it happened: what is durable counts, not what was told.
import { existsSync } from 'node:fs';
import t, { type Test } from 'tap';
import { limits } from '../../src/core/limits.ts';
import { read } from '../../src/protocol/reads.ts';
import { assertSound, attemptDirectories, attemptsOf, createScene, rowsOf, type Scene } from './scene.ts';
import { openSimulated, type Simulated, type SimulatedOptions } from './simulated.ts';

const manifest = {
  tasks: { work: { run: ['/bin/true'] }, command: { run: ['/bin/true'] } },
  workflows: {
    main: { steps: { one: { task: 'work' }, two: { task: 'work', needs: ['one'] } } },
    command: { steps: { one: { task: 'command' } } },
    timed: { timeout: '10s', steps: { one: { task: 'work' } } },
  },
};

type Doubts = { isNext: boolean; count: number };

function testOn(
  name: string,
  body: (t: Test, engine: Simulated, place: { scene: Scene; doubts: Doubts }) => Promise<void>,
  options: SimulatedOptions = {},
) {
  t.test(name, async (t) => {
    const scene = createScene(t);
    await scene.install(manifest);
    const doubts: Doubts = { isNext: false, count: 0 };
    const isDoubtful = () => {
      const { isNext } = doubts;
      doubts.isNext = false;
      doubts.count += isNext ? 1 : 0;
      return isNext;
    };
    await body(t, await openSimulated(t, scene, { ...options, isDoubtful }), { scene, doubts });
    t.ok(doubts.count > 0);
  });
}

/** The answer may be that nobody knows; the run is there all the same. */
async function start({ runtime, store }: Simulated, workflowId: string): Promise<string> {
  const request = { packageName: 'scene', workflowId, idempotencyKey: null, requestedBy: 'test' };
  await runtime.start(request).catch((error: unknown) => t.match(error, { code: 'unknown-outcome' }));
  const { runIds } = await store.read(read('runningRuns', { limit: 1, after: null }));
  return runIds[0] ?? '';
}

testOn(
  'a start that was never begun is taken back and made again, with no retry used up',
  async (t, engine, { doubts, scene }) => {
    doubts.isNext = true;
    const runId = await start(engine, 'command');
    await engine.settled();
    await engine.settled();
    t.match(engine.lines, [/the storage failed in a commit/]);
    const [attempt] = await attemptsOf(engine.store, runId);
    t.match(attempt, { status: 'lost', errorCode: 'start_withdrawn' });
    t.notOk(existsSync(scene.directoryOf(attempt!.id)));
    engine.time.advance(1_000);
    await engine.settled();
    t.same(
      (await attemptsOf(engine.store, runId)).map(({ status }) => status),
      ['lost', 'lost'],
      'it was begun',
    );
    t.equal((await rowsOf(engine.store, runId)).run.status, 'failed');
    t.same(attemptDirectories(scene), []);
    await assertSound(t, engine.store, runId);
  },
  {
    handlers: [],
    begin: (launch, runtime) =>
      runtime.report(launch.attemptId, { kind: 'lost', isForced: false, errorSummary: 'begun' }),
  },
);

testOn('a cancel that nobody was told of stops what runs', async (t, engine, { doubts }) => {
  const runId = await start(engine, 'main');
  await engine.called(1);
  doubts.isNext = true;
  await t.rejects(engine.runtime.cancel({ runId, requestedBy: 'test' }), { code: 'unknown-outcome' });
  await engine.settled();
  t.equal(engine.calls[0]!.signal.aborted, true);
  engine.calls[0]!.end();
  await engine.settled();
  t.equal((await rowsOf(engine.store, runId)).run.status, 'cancelled');
  t.equal(engine.calls.length, 1, 'nothing of it starts');
  await assertSound(t, engine.store, runId);
});

testOn('a task timeout that nobody was told of stops what runs', async (t, engine, { doubts }) => {
  const runId = await start(engine, 'main');
  await engine.called(1);
  doubts.isNext = true;
  engine.time.advance(3_600_000);
  await engine.settled();
  t.equal(engine.calls[0]!.signal.aborted, true);
  engine.calls[0]!.end();
  await engine.settled();
  t.match(await attemptsOf(engine.store, runId), [{ status: 'timed_out', errorCode: 'task_timed_out' }]);
});

testOn('a run that was created unseen is held to its timeout', async (t, engine, { doubts }) => {
  doubts.isNext = true;
  const runId = await start(engine, 'timed');
  await engine.settled();
  // Its start was not begun either: a handler of which nobody knows is lost.
  t.equal((await rowsOf(engine.store, runId)).run.status, 'failed');
});

testOn('an end that is durable is not waited for any more', async (t, engine, { doubts }) => {
  const runId = await start(engine, 'main');
  await engine.called(1);
  doubts.isNext = true;
  engine.calls[0]!.end();
  await engine.settled();
  await engine.settled();
  const { run, attempts } = await rowsOf(engine.store, runId);
  t.same(
    [...attempts.values()].map(({ status }) => status),
    ['succeeded', 'lost'],
    'the next one was begun by nobody',
  );
  t.equal(run.status, 'failed');
  engine.time.advance(limits.redeliveryMs);
  await engine.settled();
  t.same(engine.runtime.attempts.ids(), []);
  await assertSound(t, engine.store, runId);
});
