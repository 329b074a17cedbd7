// Followers of events: any number of them, let go at any moment, told of every event of their run once and in order.
import t, { type Test } from 'tap';
import { limits } from '../../src/core/limits.ts';
import { operation } from '../../src/protocol/protocol.ts';
import { setAsideRun } from '../../src/protocol/set-aside.ts';
import { createScene, type Scene } from './scene.ts';
import { openSimulated, type Simulated } from './simulated.ts';

const manifest = {
  tasks: { work: { run: ['/bin/true'] } },
  workflows: { main: { steps: { one: { task: 'work' }, two: { task: 'work', needs: ['one'] } } } },
};

function testOn(name: string, body: (t: Test, engine: Simulated, scene: Scene) => Promise<void>): void {
  t.test(name, async (t) => {
    const scene = createScene(t);
    await scene.install(manifest);
    await body(t, await openSimulated(t, scene), scene);
  });
}

async function start({ runtime }: Simulated): Promise<string> {
  const request = { packageName: 'scene', workflowId: 'main', idempotencyKey: null, requestedBy: 'test' };
  const outcome = await runtime.start(request);
  return outcome.kind === 'created' ? outcome.receipt.runId : outcome.kind;
}

async function finish(engine: Simulated): Promise<void> {
  for (const count of [1, 2]) {
    await engine.called(count);
    engine.calls[count - 1]!.end();
  }
}

async function sequencesOf({ runtime }: Simulated, runId: string, after = 0): Promise<readonly number[]> {
  const sequences: number[] = [];
  for await (const { sequence } of runtime.follow(runId, after)) {
    sequences.push(sequence);
  }
  return sequences;
}

testOn('three times as many followers as the inbox has places are all told everything', async (t, engine) => {
  const runId = await start(engine);
  const count = 3 * limits.operationsPendingMax;
  const followed = Array.from({ length: count }, () => sequencesOf(engine, runId));
  await finish(engine);
  const [first, ...others] = await Promise.all(followed);
  t.same(
    first,
    Array.from({ length: 11 }, (_, index) => index + 1),
  );
  t.ok(others.every((sequences) => sequences.join() === first?.join()));
});

testOn('a follower that waits can be let go at once', async (t, engine) => {
  const runId = await start(engine);
  await engine.called(1);
  const events = engine.runtime.follow(runId);
  for (let count = 0; count < 5; count += 1) {
    await events.next();
  }
  const waiting = events.next();
  t.same(await events.return?.(), { done: true, value: undefined });
  t.same(await waiting, { done: true, value: undefined });
  t.same(await events.next(), { done: true, value: undefined });
});

testOn('a follower is woken by its own run alone, and misses nothing', async (t, engine) => {
  const [first, second] = [await start(engine), await start(engine)];
  let reads = 0;
  const read = engine.store.read.bind(engine.store);
  Object.assign(engine.store, {
    read(request: Parameters<typeof read>[0]) {
      reads += request.name === 'events' && 'runId' in request.args && request.args.runId === second ? 1 : 0;
      return read(request);
    },
  });
  const told = sequencesOf(engine, second);
  await engine.called(2);
  await engine.settled();
  const readsBefore = reads;
  engine.calls.find(({ runId }) => runId === first)!.end();
  await engine.called(3);
  engine.calls[2]!.end();
  await engine.settled();
  t.equal(reads, readsBefore);
  engine.calls.find(({ runId }) => runId === second)!.end();
  await engine.called(4);
  engine.calls[3]!.end();
  t.equal((await told).length, 11);
});

testOn('from any sequence on, also behind the end', async (t, engine) => {
  const runId = await start(engine);
  await finish(engine);
  t.same(await sequencesOf(engine, runId, 9), [10, 11]);
  t.same(await sequencesOf(engine, runId, 11), []);
  t.same(await sequencesOf(engine, runId, 99), []);
});

testOn('it ends where the run is set aside', async (t, engine) => {
  const runId = await start(engine);
  const told = sequencesOf(engine, runId);
  await engine.called(1);
  await engine.settled();
  await engine.store.submit(operation(setAsideRun, { runId, code: 'damaged', summary: 'test' }));
  t.equal((await told).length, 5);
});

testOn('a run that does not exist, and wrong arguments, are refused', async (t, engine) => {
  await t.rejects(sequencesOf(engine, 'run-unknown'), { code: 'not-found' });
  await t.rejects(sequencesOf(engine, '', 0), { code: 'invalid' });
  await t.rejects(sequencesOf(engine, 'run', -1), { code: 'invalid' });
});

testOn('the end of the runtime is no end of the run', async (t, engine) => {
  const runId = await start(engine);
  const told = sequencesOf(engine, runId);
  await engine.called(1);
  await engine.settled();
  const refused = t.rejects(told, { code: 'unavailable' });
  await engine.runtime.close('detach');
  await refused;
});
