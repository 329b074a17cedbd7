// Several admissions in one transaction: each ends up as it would alone, and what one of them meets is its own.
import t, { type Test } from 'tap';
import { start } from '../../../src/protocol/admit.ts';
import { operation } from '../../../src/protocol/protocol.ts';
import { read } from '../../../src/protocol/reads.ts';
import { verifyRun } from '../../../src/runtime/verification.ts';
import {
  admitPlan,
  installRevision,
  makePlan,
  moveLifecycle,
  packageName,
  projectId,
  reseal,
  sampleRevision,
  startMain,
} from '../../contract/world.ts';
import { openProxy } from './proxy.ts';
import { createDatabase, openScene, openServer } from './scene.ts';

const databases = await openServer(t);
const count = 40;

async function openInstalled(t: Test) {
  const database = await createDatabase(t, databases);
  const scene = await openScene(t, databases.urlOf(database));
  await installRevision(scene, sampleRevision({ steps: { a: [], b: ['a'] } }));
  return { ...scene, database };
}

type Scene = Awaited<ReturnType<typeof openInstalled>>;

const startAll = (scene: Pick<Scene, 'store' | 'clock'>, keys: readonly (string | null)[]) =>
  Promise.all(keys.map((key) => startMain(scene, key)));

const none = Array.from({ length: count }, () => null);

const runIdOf = (outcome: Awaited<ReturnType<typeof startMain>>) => ('receipt' in outcome ? outcome.receipt.runId : '');

t.test('admissions at once cost less than a round trip each, and each run has all of its evidence', async (t) => {
  const scene = await openInstalled(t);
  const told: string[] = [];
  scene.store.attach({ committed: (settled) => told.push(...settled.map(({ operation: { name } }) => name)) });
  const before = scene.store.roundTrips;
  const outcomes = await startAll(scene, none);
  t.ok(scene.store.roundTrips - before < count / 2, `${scene.store.roundTrips - before} round trips`);
  t.equal(new Set(outcomes.map(runIdOf)).size, count);
  t.strictSame(
    told,
    Array.from({ length: count }, () => 'start'),
    'and all is told once',
  );
  for (const outcome of outcomes) {
    t.equal(outcome.kind, 'created');
    const runId = runIdOf(outcome);
    const evidence = await scene.store.read(read('admissionOfRun', { runId }));
    t.match(evidence, { receipt: 'receipt' in outcome ? outcome.receipt : null });
    t.strictSame((await verifyRun(scene.store, runId)).differences, []);
  }
});

t.test('of those with one key one is created, in one process and in two', async (t) => {
  const scene = await openInstalled(t);
  const other = await openScene(t, databases.urlOf(scene.database), { testClock: scene.clock });
  const keys = Array.from({ length: count }, (_, index) => `key-${index % (count / 4)}`);
  const outcomes = (await Promise.all([startAll(scene, keys), startAll(other, keys)])).flat();
  const runsOf = new Map<string, Set<string>>();
  for (const [index, outcome] of outcomes.entries()) {
    const key = keys[index % count]!;
    runsOf.set(key, (runsOf.get(key) ?? new Set()).add(runIdOf(outcome)));
  }
  t.strictSame(
    [...runsOf.values()].map((runs) => runs.size),
    Array.from({ length: count / 4 }, () => 1),
  );
  t.equal(outcomes.filter(({ kind }) => kind === 'created').length, count / 4);
  t.equal(outcomes.filter(({ kind }) => kind === 'existing').length, 2 * count - count / 4);
  t.match(await scene.store.read(read('runCounts', {})), { runningCount: count / 4 });
});

t.test('plans at once: the same twice, another with its run, and one that was changed on the way', async (t) => {
  const scene = await openInstalled(t);
  const plans = await Promise.all(['1', '2', '3'].map((suffix) => makePlan(scene, suffix)));
  const [first, second, third] = plans as [(typeof plans)[0], (typeof plans)[0], (typeof plans)[0]];
  const thief = reseal(third, { runId: first.runId });
  const outcomes = await Promise.all([first, second, first, thief].map((plan) => admitPlan(scene, plan)));
  t.strictSame(
    outcomes.map(({ kind }) => kind),
    ['created', 'created', 'existing', 'conflict'],
  );
});

t.test('one that is refused keeps none of the others from being created', async (t) => {
  const scene = await openInstalled(t);
  const unknown = { projectId, packageName, workflowId: 'unknown', idempotencyKey: null, requestedBy: 'a test' };
  const foreign = { ...unknown, packageName: 'absent', workflowId: 'main' };
  const outcomes = await Promise.all([
    startMain(scene),
    scene.store.submit(operation(start, unknown)),
    scene.store.submit(operation(start, foreign)),
    startMain(scene),
  ]);
  t.strictSame(
    outcomes.map(({ kind }) => kind),
    ['created', 'not-found', 'not-found', 'created'],
  );
  await moveLifecycle(scene, 'disabled');
  t.strictSame(
    (await startAll(scene, none)).map(({ kind }) => kind),
    none.map(() => 'not-allowed'),
  );
});

t.test('damaged evidence of the package is told to each of them, and nothing is written', async (t) => {
  const scene = await openInstalled(t);
  await databases.query(
    scene.database,
    `ALTER TABLE ql3.automation_publications DISABLE TRIGGER ALL;
    UPDATE ql3.automation_publications SET record = jsonb_set(record, '{publishedAtMs}', '1')`,
  );
  const settled = await Promise.allSettled(none.map(() => startMain(scene)));
  t.strictSame(
    settled.map((each) => each.status === 'rejected' && each.reason.code),
    none.map(() => 'damaged'),
  );
  t.match(await scene.store.read(read('runCounts', {})), { runningCount: 0 });
});

for (const [cut, kind] of [
  ['before-commit', 'created'],
  ['after-commit', 'existing'],
] as const) {
  t.test(`a session that is lost ${cut}: each is an unknown outcome, and all of them happened or none`, async (t) => {
    const proxy = await openProxy(databases.server);
    t.teardown(() => proxy.close());
    const { database } = await openInstalled(t);
    const scene = await openScene(t, proxy.urlOf(database, databases.server.superuser));
    const doubts: string[] = [];
    scene.store.attach({ committed: () => {}, doubted: () => doubts.push('doubted') });
    const keys = Array.from({ length: 8 }, (_, index) => `key-${index}`);
    proxy.cutNext(cut);
    const settled = await Promise.allSettled(keys.map((key) => startMain(scene, key)));
    t.strictSame(
      settled.map((each) => each.status === 'rejected' && each.reason.code),
      keys.map(() => 'unknown-outcome'),
    );
    t.strictSame(doubts, ['doubted']);
    t.strictSame(
      (await startAll(scene, keys)).map((outcome) => outcome.kind),
      keys.map(() => kind),
    );
    t.match(await scene.store.read(read('runCounts', {})), { runningCount: keys.length });
  });
}
