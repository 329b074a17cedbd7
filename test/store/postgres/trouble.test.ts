// What becomes of an operation when its session, its server or others are in the way; and that nothing of that ends the
// process.
import pg from 'pg';
import t from 'tap';
import { read } from '../../../src/protocol/reads.ts';
import {
  admitPlan,
  cancelRun,
  installRevision,
  makePlan,
  rowsOf,
  sampleRevision,
  startMain,
  startRun,
} from '../../contract/world.ts';
import { openProxy } from './proxy.ts';
import { createDatabase, openScene, openServer } from './scene.ts';

const databases = await openServer(t);
const { server } = databases;

async function openBehindProxy(t: Parameters<typeof openScene>[0], connectionsMax = 1) {
  const proxy = await openProxy(server);
  t.teardown(() => proxy.close());
  const database = await createDatabase(t, databases);
  const doubts: string[] = [];
  const scene = await openScene(t, proxy.urlOf(database, server.superuser), { connectionsMax });
  scene.store.attach({ committed: () => {}, doubted: () => doubts.push('doubted') });
  return { ...scene, proxy, database, doubts };
}

t.test('a session that is lost before COMMIT: it did not happen, and is told as that', async (t) => {
  const scene = await openBehindProxy(t);
  await installRevision(scene);
  const plan = await makePlan(scene);
  scene.proxy.cutNext('before-commit');
  // The store has sent it, and cannot know that it never arrived.
  await t.rejects(admitPlan(scene, plan), { code: 'unknown-outcome' });
  t.equal(await scene.store.read(read('admission', { planId: plan.planId })), null);
  t.match(await admitPlan(scene, plan), { kind: 'created' });
  t.same(scene.doubts, ['doubted']);
});

t.test('a COMMIT whose answer is lost is an unknown outcome, and is not tried again', async (t) => {
  const scene = await openBehindProxy(t);
  await installRevision(scene);
  const plan = await makePlan(scene);
  scene.proxy.cutNext('after-commit');
  await t.rejects(admitPlan(scene, plan), { code: 'unknown-outcome' });
  const replayed = await admitPlan(scene, plan);
  t.match(replayed, { kind: 'existing' }, 'it had happened, once');
  scene.proxy.cutNext('after-commit');
  await t.rejects(startMain(scene, 'nightly'), { code: 'unknown-outcome' });
  t.match(await startMain(scene, 'nightly'), { kind: 'existing' });
  t.same(await scene.store.read(read('runCounts', {})), { runningCount: 2, setAsideCount: 0 });
});

t.test('sessions that are lost at rest are replaced, and nobody hears of it', async (t) => {
  const scene = await openBehindProxy(t, 3);
  await installRevision(scene);
  await Promise.all([startRun(scene), startRun(scene), startRun(scene)]);
  scene.proxy.cutAll();
  // The sockets tell of their end in later turns of the loop; a look that comes before is told that, or is answered.
  const told = await scene.store.read(read('runCounts', {})).catch(({ code }: { code: string }) => code);
  t.ok(told === 'unavailable' || typeof told === 'object');
  await Promise.allSettled([1, 2, 3].map(() => scene.store.read(read('runCounts', {}))));
  t.match(await scene.store.read(read('runCounts', {})), { runningCount: 3 });
  t.same(scene.failures, []);
});

t.test('a server that refuses is told to all who wait, and works again when it does', async (t) => {
  const scene = await openBehindProxy(t, 2);
  await installRevision(scene);
  scene.proxy.refuse(true);
  scene.proxy.cutAll();
  const settled = await Promise.allSettled(Array.from({ length: 8 }, () => startMain(scene)));
  t.ok(settled.every(({ status }) => status === 'rejected'));
  for (const each of settled) {
    t.match(each, { reason: { code: 'unavailable' } });
  }
  scene.proxy.refuse(false);
  t.match(await startMain(scene), { kind: 'created' });
});

t.test('sessions that the server ends: by an operator at rest, and in the middle of work', async (t) => {
  const scene = await openBehindProxy(t, 2);
  await installRevision(scene);
  const runId = await startRun(scene);
  const endAll = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE application_name = 'qinglong-edge' AND datname = current_database()`;
  for (let round = 0; round < 5; round += 1) {
    const work = Promise.allSettled(Array.from({ length: 6 }, () => startMain(scene)));
    await databases.query(scene.database, endAll);
    for (const { status, reason } of (await work) as PromiseRejectedResult[]) {
      t.ok(status !== 'rejected' || /^(unavailable|unknown-outcome)$/.test(reason.code), `${reason?.stack}`);
    }
  }
  await Promise.allSettled([1, 2].map(() => scene.store.read(read('runCounts', {}))));
  t.match((await rowsOf(scene, runId)).run, { status: 'running' });
});

t.test('whoever holds a run for too long is told, and the work is done when it is free', async (t) => {
  const scene = await openBehindProxy(t, 2);
  await installRevision(scene);
  const runId = await startRun(scene);
  const other = new pg.Client({ connectionString: databases.urlOf(scene.database) });
  other.on('error', () => {});
  await other.connect();
  t.teardown(() => other.end());
  // lock_timeout is 55P03: a conflict, which is tried again until 5 s are over.
  await other.query(`BEGIN; SELECT FROM ql3.runs WHERE run_id = '${runId}' FOR UPDATE`);
  await t.rejects(cancelRun(scene, runId), { code: 'busy' });
  const waiting = cancelRun(scene, runId);
  await other.query('COMMIT');
  t.match(await waiting, { kind: 'requested' });
});

t.test('a run that another writes meanwhile is decided on again, from what it is then', async (t) => {
  const database = await createDatabase(t, databases);
  const [first, second] = [
    await openScene(t, databases.urlOf(database)),
    await openScene(t, databases.urlOf(database)),
  ] as const;
  await installRevision(first, sampleRevision());
  for (let round = 0; round < 10; round += 1) {
    const runId = await startRun(first);
    const outcomes = await Promise.all([cancelRun(first, runId), cancelRun(second, runId), cancelRun(first, runId)]);
    t.equal(outcomes.filter(({ kind }) => kind === 'requested').length, 1);
    t.match((await rowsOf(first, runId)).run, { status: 'cancelled' });
  }
});

t.test('a store is closed without its server, and one that cannot be opened leaves nothing', async (t) => {
  const proxy = await openProxy(server);
  const database = await createDatabase(t, databases);
  const { store } = await openScene(t, proxy.urlOf(database, server.superuser));
  proxy.cutAll();
  proxy.refuse(true);
  await store.close();
  await t.rejects(openScene(t, proxy.urlOf(database, server.superuser)), { code: 'unavailable' });
  await proxy.close();
  await t.rejects(openScene(t, proxy.urlOf(database, server.superuser)), { code: 'unavailable' });
  await t.rejects(openScene(t, databases.urlOf('no_such_database')), { code: 'unavailable' });
});
