// Work under a lease: it is carried out while the lease is held, and afterwards nothing of it is written.
import t, { type Test } from 'tap';
import { isEdgeError } from '../../../src/core/errors.ts';
import { advance } from '../../../src/protocol/advance.ts';
import { complete } from '../../../src/protocol/attempt.ts';
import { cancel } from '../../../src/protocol/cancel.ts';
import { type Operation, operation } from '../../../src/protocol/protocol.ts';
import { setAsideRun } from '../../../src/protocol/set-aside.ts';
import { isLeaseOver, type Lease } from '../../../src/store/leases.ts';
import { toEdgeError } from '../../../src/store/postgres/failure.ts';
import { attemptAdmission, beginStep, exitZero, rowsOf, stepOf } from '../../contract/world.ts';
import { fingerprintOf } from './fingerprint.ts';
import { openLeaseScene, openTestLeases, until } from './lease-scene.ts';
import { openServer } from './scene.ts';

const databases = await openServer(t);

/** One run whose first step has a command, held by worker `holder`. */
async function openHeld(t: Test) {
  const scene = await openLeaseScene(t, databases);
  const [runId] = (await scene.startRuns(1)) as [string];
  const attempt = await beginStep(scene, runId, 'one');
  const { id: laterId } = await stepOf(scene, runId, 'two');
  await scene.leases.register('holder', 'here');
  const [lease] = (await scene.leases.claim('holder', 1)) as [Lease];
  const operations: Readonly<Record<string, Operation>> = {
    advance: operation(advance, { runId }),
    // Each of these makes others follow.
    complete: operation(complete, { ...attempt, facts: exitZero }),
    cancel: operation(cancel, { runId, reason: 'user', requestedBy: 'tester' }),
    'admit-attempt': attemptAdmission({ runId, stepRunId: laterId }),
    'set-aside': operation(setAsideRun, { runId, code: 'damaged', summary: 'bad' }),
  };
  const settled: string[] = [];
  scene.store.attach({ committed: (each) => settled.push(...each.map(({ operation: { name } }) => name)) });
  /** Everything that is stored, but for the leases themselves. */
  const look = () => fingerprintOf(databases, scene.database, ['workers', 'run_leases']);
  return { ...scene, runId, lease, operations, settled, look };
}

type Held = Awaited<ReturnType<typeof openHeld>>;

async function refuseAll(t: Test, held: Held, lease: Lease): Promise<void> {
  const before = await held.look();
  for (const [name, each] of Object.entries(held.operations)) {
    const error: unknown = await held.store.submitUnder(each, lease).then(
      () => null,
      (reason: unknown) => reason,
    );
    t.ok(isEdgeError(error) && error.code === 'unavailable', `${name}: ${error}`);
    t.ok(isLeaseOver(error), name);
  }
  t.same(await held.look(), before);
  t.same(held.settled, [], 'and nobody is told that anything was');
  t.same(held.failures, []);
}

t.test('what is submitted under a lease that is held is carried out, with what follows it', async (t) => {
  const { store, lease, operations, settled, runId, ...scene } = await openHeld(t);
  t.match(await store.submitUnder(operations['complete']!, lease), { kind: 'completed' });
  t.ok(settled.length > 1, `${settled}`);
  t.equal(settled[0], 'complete');
  t.match((await rowsOf({ ...scene, store }, runId)).run, { status: 'running' });
  t.equal((await stepOf({ ...scene, store }, runId, 'one')).status, 'succeeded');
  t.equal((await stepOf({ ...scene, store }, runId, 'two')).status, 'ready', 'the follower is durable');
});

t.test('a token that is older is refused, also when the same worker has a newer one', async (t) => {
  const held = await openHeld(t);
  await held.endHold('holder');
  await held.expire('holder');
  await held.leases.register('next', 'here');
  t.match(await held.leases.claim('next', 1), [{ token: 2 }]);
  await refuseAll(t, held, { ...held.lease, workerId: 'next' });
  await refuseAll(t, held, held.lease);
});

t.test('a token that is newer than any is refused', async (t) => {
  const held = await openHeld(t);
  await refuseAll(t, held, { ...held.lease, token: held.lease.token + 1 });
});

t.test('another worker is refused, one that lives and one that was never there', async (t) => {
  const held = await openHeld(t);
  await held.leases.register('other', 'there');
  await refuseAll(t, held, { ...held.lease, workerId: 'other' });
  await refuseAll(t, held, { ...held.lease, workerId: 'unknown' });
});

t.test('a worker whose time is over is refused before anybody has claimed its runs', async (t) => {
  const held = await openHeld(t);
  await held.expire('holder');
  await refuseAll(t, held, held.lease);
});

t.test('a worker that has resigned is refused', async (t) => {
  const held = await openHeld(t);
  await held.leases.resign('holder');
  await refuseAll(t, held, held.lease);
});

t.test('a lease that was dropped is refused', async (t) => {
  const held = await openHeld(t);
  await held.leases.drop(held.lease);
  await refuseAll(t, held, held.lease);
});

t.test('the lease of one run is none of another', async (t) => {
  const held = await openHeld(t);
  const [otherId] = (await held.startRuns(1)) as [string];
  held.settled.length = 0;
  await refuseAll(t, held, { ...held.lease, runId: otherId });
});

t.test('a worker whose hold is over and who lives goes on', async (t) => {
  const held = await openHeld(t);
  await held.endHold('holder');
  t.match(await held.store.submitUnder(held.operations['cancel']!, held.lease), { kind: 'requested' });
});

t.test('what is tried again proves its lease again', async (t) => {
  const held = await openHeld(t);
  const session = await held.openSession();
  await session.query('BEGIN');
  await session.query('UPDATE ql3.runs SET record = record WHERE run_id = $1', [held.runId]);
  const before = await held.look();
  const submitted = held.store.submitUnder(held.operations['cancel']!, held.lease);
  const refused = t.rejects(submitted, { code: 'unavailable', cause: { code: 'QL003' } });
  // It has proved its lease, and waits for the run.
  await until(held.isWaiting);
  await held.expire('holder');
  await session.query('COMMIT');
  await refused;
  t.same(await held.look(), before);
});

t.test('who has taken a run over sees everything that was written under the lease before', async (t) => {
  const held = await openHeld(t);
  const claimer = openTestLeases(t, held.url);
  await held.store.submitUnder(held.operations['complete']!, held.lease);
  await held.leases.resign('holder');
  await claimer.register('next', 'there');
  const [lease] = (await claimer.claim('next', 1)) as [Lease];
  t.match(await held.store.submitUnder(held.operations['complete']!, lease), { kind: 'settled' });
  t.match(await held.store.submitUnder(held.operations['admit-attempt']!, lease), { kind: 'claimed' });
});

t.test('only what says that a lease is over is taken for that, not a refused change of history', async (t) => {
  const held = await openHeld(t);
  const session = await held.openSession();
  const errorOf = (sql: string): Promise<unknown> =>
    session.query(sql).then(
      () => null,
      (error: unknown) => toEdgeError(error, 'try it'),
    );
  t.equal(isLeaseOver(await errorOf("SELECT ql3.check_lease('unknown', 'nobody', 1)")), true);
  const changed = await errorOf('UPDATE ql3.run_events SET record = record');
  t.match(changed, { code: 'internal', message: /never changed/ });
  t.equal(isLeaseOver(changed), false);
});
