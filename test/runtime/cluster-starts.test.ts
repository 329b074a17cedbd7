// Starting what is ready where several share a database: which slot a start takes, and what goes in one transaction.
import t, { type Test } from 'tap';
import type { Alarm, Clock } from '../../src/core/ports.ts';
import { complete } from '../../src/protocol/attempt.ts';
import { operation } from '../../src/protocol/protocol.ts';
import { read } from '../../src/protocol/reads.ts';
import { ClusterStarts } from '../../src/runtime/cluster-starts.ts';
import { LeasedStore } from '../../src/runtime/leased-store.ts';
import { realClock } from '../../src/runtime/ports.ts';
import type { Settled, Turn } from '../../src/store/store.ts';
import {
  beginStep,
  exitZero,
  installRevision,
  rowsOf,
  sampleRevision,
  startRun,
  statusesOf,
} from '../contract/world.ts';
import { openTestLeases } from '../store/postgres/lease-scene.ts';
import { createDatabase, openScene, openServer } from '../store/postgres/scene.ts';

const databases = await openServer(t);
const noTurn = {} as Turn;

/** Alarms that ring when the test says so. */
function createAlarms(clock: Clock) {
  const alarms = new Set<{ readonly atMs: number; readonly call: () => void }>();
  const alarm: Alarm = {
    set(atMs, call) {
      const each = { atMs, call };
      alarms.add(each);
      return () => void alarms.delete(each);
    },
  };
  /** Rings what is due within so much time, once. */
  const ring = (withinMs: number) => {
    for (const each of [...alarms].filter(({ atMs }) => atMs <= clock.observe().uptimeMs + withinMs)) {
      alarms.delete(each);
      each.call();
    }
  };
  return { alarm, ring };
}

type Held = { readonly runs: number; readonly slots: number; readonly concurrency?: number | null };

/** A worker of so many runs and slots; its first start tells it whether the workflow has a limit. */
async function openHeld(t: Test, { runs, slots, concurrency = null }: Held) {
  const url = databases.urlOf(await createDatabase(t, databases));
  const scene = await openScene(t, url);
  await installRevision(scene, sampleRevision({ steps: { a: [], b: ['a'], c: ['a'] }, workflow: { concurrency } }));
  const leases = openTestLeases(t, url);
  await leases.register('worker', 'a test');
  const clock = realClock();
  const told: (readonly string[])[] = [];
  const left: string[] = [];
  const { alarm, ring } = createAlarms(clock);
  let onSettled = () => {};
  const store = new LeasedStore({
    ...{ shared: scene.store, clock, hook: (hooks) => hooks !== null && scene.store.attach(hooks) },
    ...{ onEnded: () => {}, onNews: () => {}, onLost: () => t.fail('no lease is lost') },
    onTouched: (runId) => starts.touch(runId),
    carryOn: (submitted, runId) => starts.carryOn(submitted, runId),
  });
  const starts: ClusterStarts = new ClusterStarts({
    ...{ store, clock, alarm, shared: store, runDirectory: '/nowhere' },
    handlerNames: ['sample/work'],
    concurrencyMax: slots,
    executor: { prepare: () => t.fail('handlers have no place of their own') },
    isRunOver: () => false,
    log: (line) => t.fail(line),
    bringPackage: async () => null,
    hasPackage: (runId) => store.held.has(runId),
    isHeld: (runId) => store.held.has(runId),
    giveUp: () => {},
    leaveToOthers: (runId) => left.push(runId),
    onGone: () => {},
    onHeldBack: () => {},
    onResumed: () => {},
  });
  store.attach({
    closing: () => {},
    committed(settled: readonly Settled[]) {
      told.push(settled.map(({ operation: { name } }) => name));
      onSettled();
    },
  });
  store.believe(Number.POSITIVE_INFINITY);
  starts.open();
  t.teardown(() => starts.close());
  const take = async (count: number) => {
    await Promise.all(Array.from({ length: count }, () => startRun(scene)));
    const claimed = await leases.claim('worker', count);
    for (const lease of claimed) {
      store.take(lease);
    }
    return claimed.map(({ runId }) => runId);
  };
  /** Resolves when so many transactions have been told of since now. */
  const transactions = (count: number) => {
    told.length = 0;
    return new Promise<void>((resolve) => {
      onSettled = () => told.length === count && resolve();
    });
  };
  const [first] = (await take(1)) as [string];
  const begun = transactions(1);
  starts.touch(first);
  await begun;
  t.same(told, [['admit-attempt', 'start-attempt']]);
  return { ...scene, starts, leased: store, told, left, ring, transactions, runIds: await take(runs) };
}

t.test('ends of several runs in one transaction: each is followed by the start that takes its slot', async (t) => {
  const scene = await openHeld(t, { runs: 12, slots: 13 });
  const { starts, leased, runIds, told } = scene;
  const begun = await Promise.all(runIds.map((runId) => beginStep(scene, runId, 'a')));
  starts.fill(
    noTurn,
    Array.from({ length: 13 }, () => 'sample/main'),
  );
  told.length = 0;
  await Promise.all(begun.map((attempt) => leased.submit(operation(complete, { ...attempt, facts: exitZero }))));
  const [settled = []] = told;
  t.same(
    ['complete', 'advance', 'admit-attempt', 'start-attempt'].map(
      (name) => settled.filter((told) => told === name).length,
    ),
    [12, 12, 12, 12],
    'all in the first transaction',
  );
  for (const runId of runIds) {
    t.same(await statusesOf(scene, runId), { run: 'running', a: 'succeeded', b: 'running', c: 'ready' });
  }
});

t.test('a run that only lacks a slot is moved on and started in one transaction when there is one', async (t) => {
  const scene = await openHeld(t, { runs: 1, slots: 1 });
  const { starts, leased, runIds, told } = scene;
  const [runId] = runIds as [string];
  starts.fill(noTurn, ['sample/main']);
  const rows = await rowsOf(scene, runId);
  t.equal(starts.takeUp(rows), true);
  t.equal(starts.isStarting(runId), false);
  t.same(await statusesOf(scene, runId), { run: 'running', a: 'ready', b: 'pending', c: 'pending' }, 'no slot');
  const started = scene.transactions(1);
  starts.fill(noTurn, []);
  t.equal(starts.isStarting(runId), true, 'from now on it must not be given up');
  await started;
  t.same(told, [['advance', 'admit-attempt', 'start-attempt']]);
  t.same(await statusesOf(scene, runId), { run: 'running', a: 'running', b: 'pending', c: 'pending' });
  const { attempts } = await rowsOf(scene, runId);
  t.equal(starts.takeUp({ ...rows, attempts }), false, 'where something runs, it is moved on at once');
  leased.release(runId);
  t.equal(starts.takeUp(rows), false, 'and where its package is not here');
});

t.test('several steps and one slot: the others wait, and nothing turns in a circle', async (t) => {
  const scene = await openHeld(t, { runs: 1, slots: 1 });
  const { starts, leased, runIds, told } = scene;
  const [runId] = runIds as [string];
  const attempt = await beginStep(scene, runId, 'a');
  starts.fill(noTurn, ['sample/main']);
  told.length = 0;
  await leased.submit(operation(complete, { ...attempt, facts: exitZero }));
  t.same(told, [['complete', 'advance', 'admit-attempt', 'start-attempt']]);
  t.same(await statusesOf(scene, runId), { run: 'running', a: 'succeeded', b: 'running', c: 'ready' });
  // The one that was started takes its place among those that run, and then leaves it.
  starts.fill(noTurn, ['sample/main']);
  const started = scene.transactions(1);
  starts.fill(noTurn, []);
  await started;
  t.same(told, [['advance', 'admit-attempt', 'start-attempt']]);
  t.same(await statusesOf(scene, runId), { run: 'running', a: 'succeeded', b: 'running', c: 'running' });
  await scene.store.read(read('runCounts', {}));
  t.equal(told.length, 1, 'nothing else was written');
});

t.test('a run that finds no slot for a second is left to others; one that finds one is not', async (t) => {
  const scene = await openHeld(t, { runs: 2, slots: 1 });
  const { starts, runIds, left } = scene;
  const [runId, other] = runIds as [string, string];
  starts.fill(noTurn, ['sample/main']);
  for (const each of runIds) {
    t.equal(starts.takeUp(await rowsOf(scene, each)), true);
  }
  t.equal(starts.spare, -2);
  scene.ring(100);
  t.same(left, []);
  const started = scene.transactions(1);
  starts.fill(noTurn, []);
  await started;
  starts.fill(noTurn, ['sample/main']);
  scene.ring(1_000);
  t.same(left, [other]);
  scene.ring(1_000);
  t.same(left, [other, other], 'as long as it is not taken away');
  starts.forget(other);
  scene.ring(60_000);
  t.same(left, [other, other]);
  t.match(await statusesOf(scene, runId), { a: 'running' });
});

t.test('a run of a workflow that is full is looked at from time to time, and not without end', async (t) => {
  const scene = await openHeld(t, { runs: 1, slots: 4, concurrency: 1 });
  const { starts, runIds, told } = scene;
  const refused = scene.transactions(1);
  starts.touch(runIds[0]!);
  await refused;
  for (let turn = 0; turn < 8; turn += 1) {
    await scene.store.read(read('runCounts', {}));
  }
  t.same(told, [['admit-attempt']]);
  t.same(starts.full, ['sample/main']);
  const again = scene.transactions(1);
  scene.ring(500);
  await again;
  t.same(told, [['admit-attempt']]);
});
