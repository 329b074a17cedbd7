// What is started when: limits of the profile and of workflows, first in first out; what is due; holding back.
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { EdgeError } from '../../src/core/errors.ts';
import { limits } from '../../src/core/limits.ts';
import type { Turn } from '../../src/store/store.ts';
import { assertSound, attemptDirectories, attemptsOf, createScene, rowsOf, type Scene } from './scene.ts';
import { openSimulated, type Simulated } from './simulated.ts';

const manifest = {
  tasks: {
    work: { run: ['/bin/true'] },
    retried: {
      run: ['/bin/true'],
      retry: { limit: 2, backoff: '5s', factor: 2, max: '1m', on: ['failed', 'timed_out'] },
    },
    command: { run: ['/bin/true'] },
  },
  workflows: {
    main: { steps: { one: { task: 'work' } } },
    wide: { concurrency: 2, steps: { a: { task: 'work' }, b: { task: 'work' }, c: { task: 'work' } } },
    narrow: { concurrency: 1, steps: { one: { task: 'work' } } },
    retried: { steps: { one: { task: 'retried' } } },
    timed: { timeout: '10s', steps: { one: { task: 'work' }, two: { task: 'work', needs: ['one'] } } },
    command: { steps: { one: { task: 'command' } } },
  },
};

/** A millisecond after whatever was started before. */
async function start({ runtime, time }: Simulated, workflowId: string): Promise<string> {
  time.advance(1);
  const request = { packageName: 'scene', workflowId, idempotencyKey: null, requestedBy: 'test' };
  const outcome = await runtime.start(request);
  if (outcome.kind !== 'created') {
    throw new TypeError(outcome.kind);
  }
  return outcome.receipt.runId;
}

async function statusOf({ store }: Simulated, runId: string): Promise<string> {
  return (await rowsOf(store, runId)).run.status;
}

function testOn(name: string, body: (t: Test, scene: Scene) => Promise<void>): void {
  t.test(name, async (t) => {
    const scene = createScene(t);
    await scene.install(manifest);
    await body(t, scene);
  });
}

const runsOf = ({ calls }: Simulated) => calls.map(({ runId }) => runId);

testOn('at most as many commands as the profile allows, the oldest run first', async (t, scene) => {
  const engine = await openSimulated(t, scene, { concurrencyMax: 2 });
  const runIds = [];
  for (let count = 0; count < 5; count += 1) {
    runIds.push(await start(engine, 'main'));
  }
  await engine.settled();
  t.same(runsOf(engine), runIds.slice(0, 2));
  for (let ended = 0; ended < 5; ended += 1) {
    engine.calls[ended]!.end();
    await engine.called(Math.min(5, ended + 3));
    t.same(runsOf(engine), runIds.slice(0, ended + 3));
  }
  await engine.runtime.idle();
  for (const runId of runIds) {
    t.equal(await statusOf(engine, runId), 'succeeded');
  }
});

testOn('a workflow has at most its own number of commands, counted over all its runs', async (t, scene) => {
  const engine = await openSimulated(t, scene);
  const first = await start(engine, 'wide');
  const second = await start(engine, 'wide');
  await engine.settled();
  t.same(
    engine.calls.map(({ runId, stepKey }) => [runId, stepKey]),
    [
      [first, 'a'],
      [first, 'b'],
    ],
  );
  engine.calls[0]!.end();
  await engine.called(3);
  await engine.settled();
  t.same(
    engine.calls.map(({ stepKey }) => stepKey),
    ['a', 'b', 'c'],
    'the rest of the first run comes first',
  );
  engine.calls[1]!.end();
  await engine.called(4);
  t.match(engine.calls[3], { runId: second, stepKey: 'a' });
  for (let index = 2; index < 6; index += 1) {
    await engine.called(index + 1);
    engine.calls[index]!.end();
  }
  await engine.runtime.idle();
  t.same([await statusOf(engine, first), await statusOf(engine, second)], ['succeeded', 'succeeded']);
});

testOn('a full workflow keeps no other waiting, and is not looked through in every turn', async (t, scene) => {
  const engine = await openSimulated(t, scene);
  const narrow = [];
  for (let count = 0; count < 100; count += 1) {
    narrow.push(await start(engine, 'narrow'));
  }
  const reads = countReads(engine);
  const healthy = await start(engine, 'main');
  await engine.called(2);
  t.same(runsOf(engine), [narrow[0], healthy]);
  t.ok(reads.count <= 4, `${reads.count} steps were read whole for 100 that wait`);
  engine.calls[0]!.end();
  await engine.called(3);
  t.equal(engine.calls[2]!.runId, narrow[1]);
});

/** Counts how many steps are read whole by operations of `closing`. */
function countReads({ runtime }: Simulated): { count: number } {
  const counted = { count: 0 };
  const closing = runtime.attempts.closing.bind(runtime.attempts);
  runtime.attempts.closing = (turn: Turn) =>
    closing({
      ...turn,
      operate: (operation) => {
        counted.count += 'context' in operation.load() ? 1 : 0;
        return turn.operate(operation);
      },
    });
  return counted;
}

testOn('a failing run, a retried one and healthy ones go on beside each other', async (t, scene) => {
  const engine = await openSimulated(t, scene, { handlers: ['scene/work', 'scene/retried'] });
  const failing = await start(engine, 'main');
  const retried = await start(engine, 'retried');
  const healthy = await start(engine, 'main');
  await engine.called(3);
  engine.calls[0]!.end(new RangeError('mine'));
  engine.calls[1]!.end(new RangeError('mine'));
  engine.calls[2]!.end();
  await engine.settled();
  t.same(
    [await statusOf(engine, failing), await statusOf(engine, retried), await statusOf(engine, healthy)],
    ['failed', 'running', 'succeeded'],
  );
});

testOn('a retry waits for its back-off by the monotonic clock, and the limit is of commands', async (t, scene) => {
  const engine = await openSimulated(t, scene, { handlers: ['scene/retried'] });
  const runId = await start(engine, 'retried');
  for (const [tries, backoffMs] of [
    [1, 5_000],
    [2, 10_000],
  ] as const) {
    await engine.called(tries);
    engine.calls[tries - 1]!.end(new RangeError('mine'));
    await engine.settled();
    t.equal(engine.time.entriesCount(), 1, 'one alarm, for what is due');
    engine.time.advance(backoffMs - 1);
    await engine.settled();
    t.equal(engine.calls.length, tries, 'not earlier');
    engine.time.advance(1);
  }
  await engine.called(3);
  t.same(
    engine.calls.map(({ attemptNumber }) => attemptNumber),
    [1, 2, 3],
  );
  engine.calls[2]!.end(new RangeError('mine'));
  await engine.settled();
  t.equal(await statusOf(engine, runId), 'failed');
  engine.time.advance(3_600_000);
  await engine.settled();
  t.equal(engine.calls.length, 3);
  await assertSound(t, engine.store, runId);
});

testOn('steps that are not due are not read whole in every turn', async (t, scene) => {
  const engine = await openSimulated(t, scene, { handlers: ['scene/work', 'scene/retried'] });
  await start(engine, 'retried');
  await engine.called(1);
  engine.calls[0]!.end(new RangeError('mine'));
  await engine.settled();
  const reads = countReads(engine);
  await start(engine, 'main');
  await engine.called(2);
  t.equal(reads.count, 2, 'claim and barrier of the new one');
});

testOn('a run is held to its timeout; what had not started takes its end', async (t, scene) => {
  const engine = await openSimulated(t, scene);
  const runId = await start(engine, 'timed');
  await engine.called(1);
  engine.time.advance(9_999);
  await engine.settled();
  t.equal(await statusOf(engine, runId), 'running');
  engine.time.advance(1);
  await engine.settled();
  t.equal(engine.calls[0]!.signal.aborted, true);
  engine.calls[0]!.end();
  await engine.settled();
  const { run, steps } = await rowsOf(engine.store, runId);
  t.match(run, { status: 'timed_out', cancelReason: 'timeout' });
  t.same([...steps.values()].map(({ status }) => status).sort(), ['cancelled', 'timed_out']);
});

testOn(
  'nothing is claimed while there is no place for an attempt; it is said once and tried again',
  async (t, scene) => {
    let isFull = true;
    const engine = await openSimulated(t, scene, {
      handlers: [],
      executor: (executor) => ({
        prepare(attemptId) {
          if (isFull) {
            throw new EdgeError('full', 'cannot make the directory', { hint: 'free some space in the run directory' });
          }
          executor.prepare(attemptId);
        },
      }),
      begin: (launch, runtime) => runtime.attempts.ended(launch.attemptId, { kind: 'returned', errorSummary: null }),
    });
    const runId = await start(engine, 'command');
    await engine.settled();
    for (const delayMs of [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]) {
      engine.time.advance(delayMs - 1);
      await engine.settled();
      engine.time.advance(1);
      await engine.settled();
    }
    t.same([...(await rowsOf(engine.store, runId)).attempts], [], 'no attempt was used up');
    t.match(engine.lines, [/^nothing is started for now, and tried again: full: cannot make the directory/]);
    isFull = false;
    engine.time.advance(60_000);
    await engine.settled();
    t.equal(await statusOf(engine, runId), 'succeeded');
    await assertSound(t, engine.store, runId);
  },
);

testOn('a handler needs no place in the run directory', async (t, scene) => {
  const engine = await openSimulated(t, scene);
  const runId = await start(engine, 'main');
  await engine.called(1);
  t.same(attemptDirectories(scene), []);
  engine.calls[0]!.end();
  await engine.settled();
  t.equal(await statusOf(engine, runId), 'succeeded');
});

testOn('a start that failed for want of space uses up no retry, and others wait with it', async (t, scene) => {
  let fails = 2;
  const engine = await openSimulated(t, scene, {
    handlers: [],
    begin(launch, runtime) {
      fails -= 1;
      const failure = { kind: 'spawn-failed', errorCode: 'run_directory_full', errorSummary: 'it is full' } as const;
      if (fails >= 0) {
        runtime.report(launch.attemptId, failure);
      } else {
        runtime.report(launch.attemptId, { kind: 'lost', isForced: false, errorSummary: 'ended' });
      }
    },
  });
  const runId = await start(engine, 'command');
  await engine.settled();
  const other = await start(engine, 'command');
  await engine.settled();
  t.equal((await rowsOf(engine.store, other)).attempts.size, 0, 'nothing else is tried meanwhile');
  engine.time.advance(1_000);
  await engine.settled();
  engine.time.advance(2_000);
  await engine.settled();
  const attempts = await attemptsOf(engine.store, runId);
  t.match(attempts[0], { status: 'lost', errorCode: 'start_withdrawn', errorSummary: 'no command ran; it is full' });
  t.equal(await statusOf(engine, runId), 'failed');
  t.match(engine.lines, [/nothing is started for now/, /commands are started again/]);
});

testOn('what is held back is tried again, also when a commit of unknown outcome came between', async (t, scene) => {
  let [fails, isDoubtful] = [1, false];
  const engine = await openSimulated(t, scene, {
    handlers: [],
    isDoubtful() {
      const now = isDoubtful;
      isDoubtful = false;
      return now;
    },
    begin(launch, runtime) {
      fails -= 1;
      const failure = { kind: 'spawn-failed', errorCode: 'run_directory_full', errorSummary: 'it is full' } as const;
      const lost = { kind: 'lost', isForced: false, errorSummary: 'ended' } as const;
      runtime.report(launch.attemptId, fails >= 0 ? failure : lost);
    },
  });
  const runId = await start(engine, 'command');
  await engine.settled();
  isDoubtful = true;
  await t.rejects(start(engine, 'command'), { code: 'unknown-outcome' });
  await engine.settled();
  t.equal(isDoubtful, false, 'its outcome was not known');
  t.equal(await statusOf(engine, runId), 'running');
  engine.time.advance(60_000);
  await engine.settled();
  t.equal(await statusOf(engine, runId), 'failed', 'a second command of it ran');
});

testOn('a full disk at a start undoes the start alone: what the turn was for is done', async (t, scene) => {
  const engine = await openSimulated(t, scene, { handlers: ['scene/work'] });
  const runId = await start(engine, 'timed');
  await engine.called(1);
  const closing = engine.runtime.attempts.closing.bind(engine.runtime.attempts);
  let isFull = true;
  engine.runtime.attempts.closing = (turn: Turn) => {
    closing({
      ...turn,
      operate: (operation) => {
        if (isFull && operation.name === 'start-attempt') {
          throw new EdgeError('full', 'cannot carry out start-attempt', { hint: 'free some space' });
        }
        return turn.operate(operation);
      },
    });
  };
  engine.calls[0]!.end();
  await engine.settled();
  const { steps, attempts } = await rowsOf(engine.store, runId);
  t.same([...steps.values()].map(({ status }) => status).sort(), ['ready', 'succeeded']);
  t.equal(attempts.size, 1, 'and nothing is left claimed');
  isFull = false;
  engine.time.advance(limits.unstartedBackoffMsMin);
  await engine.called(2);
  engine.calls[1]!.end();
  await engine.settled();
  t.equal(await statusOf(engine, runId), 'succeeded');
  t.match(engine.lines, [/^nothing is started for now.*full: cannot carry out/, /^commands are started again/]);
});

testOn('nothing of a run begins behind its timeout, also while the disk takes no word of it', async (t, scene) => {
  const engine = await openSimulated(t, scene);
  const runId = await start(engine, 'timed');
  await engine.called(1);
  await engine.settled();
  const submit = engine.store.submit.bind(engine.store);
  let isFull = true;
  engine.store.submit = (operation) =>
    isFull && operation.name === 'cancel'
      ? Promise.reject(new EdgeError('full', 'cannot carry out cancel', { hint: 'free some space' }))
      : submit(operation);
  engine.time.advance(10_000);
  await engine.settled();
  t.match(engine.lines, [/its timeout could not be recorded yet: full/]);
  engine.calls[0]!.end();
  await engine.settled();
  const { steps } = await rowsOf(engine.store, runId);
  t.same([...steps.values()].map(({ status }) => status).sort(), ['ready', 'succeeded']);
  t.equal(engine.calls.length, 1);
  isFull = false;
  engine.time.advance(limits.redeliveryMs);
  await engine.settled();
  t.equal(await statusOf(engine, runId), 'timed_out');
  t.equal(engine.calls.length, 1, 'the second step never ran');
});

testOn('a run directory that is no directory any more is not the end of anything', async (t, scene) => {
  const engine = await openSimulated(t, scene, {
    handlers: [],
    begin: (launch, runtime) => runtime.attempts.ended(launch.attemptId, { kind: 'returned', errorSummary: null }),
  });
  rmSync(join(scene.run, 'attempts'), { recursive: true });
  writeFileSync(join(scene.run, 'attempts'), '');
  const runId = await start(engine, 'command');
  await engine.settled();
  t.match(engine.lines, [/nothing is started for now.*unavailable: cannot make the directory/]);
  rmSync(join(scene.run, 'attempts'));
  const { mkdirSync } = await import('node:fs');
  mkdirSync(join(scene.run, 'attempts'));
  engine.time.advance(1_000);
  await engine.settled();
  t.equal(await statusOf(engine, runId), 'succeeded');
});
