// Several runs carried on in one transaction: each ends up as it would alone, and what one of them meets is its own.
import t, { type Test } from 'tap';
import { openLeases } from '../../../src/postgres.ts';
import { complete } from '../../../src/protocol/attempt.ts';
import { operation } from '../../../src/protocol/protocol.ts';
import { realAlarm, realClock } from '../../../src/runtime/ports.ts';
import { verifyRun } from '../../../src/runtime/verification.ts';
import { isLeaseOver, type Lease } from '../../../src/store/leases.ts';
import { beginStep, exitZero, installRevision, rowsOf, sampleRevision, startRun } from '../../contract/world.ts';
import { createDatabase, openScene, openServer } from './scene.ts';

const databases = await openServer(t);
const runsCount = 12;

type Held = { readonly lease: Lease; readonly attempt: Awaited<ReturnType<typeof beginStep>> };

/** Runs that one worker holds, each with a step that has begun. */
async function openHeld(t: Test) {
  const database = await createDatabase(t, databases);
  const url = databases.urlOf(database);
  const scene = await openScene(t, url);
  const clock = realClock();
  const leases = openLeases({ url, leaseMs: 60_000, clock, alarm: realAlarm(clock) });
  t.teardown(() => leases.close());
  await installRevision(scene, sampleRevision({ steps: { a: [], b: ['a'] } }));
  await Promise.all(Array.from({ length: runsCount }, () => startRun(scene)));
  await leases.register('worker', 'a test');
  const held: Held[] = [];
  for (const lease of await leases.claim('worker', runsCount)) {
    held.push({ lease, attempt: await beginStep(scene, lease.runId, 'a') });
  }
  t.equal(held.length, runsCount);
  const end = ({ lease, attempt }: Held) =>
    scene.store.submitUnder(operation(complete, { ...attempt, facts: exitZero }), lease);
  return { ...scene, database, leases, held, endAll: () => Promise.allSettled(held.map(end)) };
}

t.test('ends of several runs at once cost less than a round trip each, and every run folds as it did', async (t) => {
  const scene = await openHeld(t);
  const told: string[] = [];
  scene.store.attach({ committed: (settled) => told.push(...settled.map(({ operation: { name } }) => name)) });
  const before = scene.store.roundTrips;
  const ends = await scene.endAll();
  t.ok(scene.store.roundTrips - before < runsCount, `${scene.store.roundTrips - before} round trips`);
  t.strictSame(
    ends.map((end) => end.status === 'fulfilled' && end.value.kind),
    ends.map(() => 'completed'),
  );
  t.strictSame(told.sort(), [...ends.map(() => 'advance'), ...ends.map(() => 'complete')], 'and all is told once');
  for (const { lease } of scene.held) {
    const { steps } = await rowsOf(scene, lease.runId);
    t.strictSame([...steps.values()].map(({ status }) => status).sort(), ['ready', 'succeeded']);
    t.strictSame((await verifyRun(scene.store, lease.runId)).differences, []);
  }
});

t.test('a damaged run keeps none of the others from their ends', async (t) => {
  const scene = await openHeld(t);
  const { runId } = scene.held[5]!.lease;
  await databases.query(
    scene.database,
    `UPDATE ql3.step_runs SET record = jsonb_set(record, '{attemptCount}', '7') WHERE run_id = '${runId}'`,
  );
  const ends = await scene.endAll();
  t.strictSame(
    ends.flatMap((end, index) => (end.status === 'rejected' ? [[index, end.reason.code]] : [])),
    [[5, 'damaged']],
  );
});

t.test('where the lease of one is over, nothing of it is written, and everything of the others', async (t) => {
  const scene = await openHeld(t);
  const gone = scene.held[3]!.lease;
  await scene.leases.drop(gone);
  const ends = await scene.endAll();
  t.strictSame(
    ends.flatMap((end, index) => (end.status === 'rejected' ? [[index, isLeaseOver(end.reason)]] : [])),
    [[3, true]],
  );
  const { steps } = await rowsOf(scene, gone.runId);
  t.strictSame([...steps.values()].map(({ status }) => status).sort(), ['pending', 'running']);
});
