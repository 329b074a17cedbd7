// A claim meets what happens at the same moment: a renewal, a transaction under the old lease, other claims.
import t from 'tap';
import { advance } from '../../../src/protocol/advance.ts';
import { cancel } from '../../../src/protocol/cancel.ts';
import { operation } from '../../../src/protocol/protocol.ts';
import { isLeaseOver, type Lease } from '../../../src/store/leases.ts';
import { beginStep, rowsOf } from '../../contract/world.ts';
import { leaseMs, openLeaseScene, openTestLeases, until } from './lease-scene.ts';
import { openServer } from './scene.ts';

// A deadlock is ended soon: some of these tests make one.
const databases = await openServer(t, { deadlock_timeout: '20ms' });

/** Worker `old` holds the only run, and only its own time is left. */
async function openHeld(t: Parameters<typeof openLeaseScene>[0]) {
  const scene = await openLeaseScene(t, databases);
  const [runId] = (await scene.startRuns(1)) as [string];
  await scene.leases.register('old', 'here');
  await scene.leases.register('new', 'there');
  const [lease] = (await scene.leases.claim('old', 1)) as [Lease];
  await scene.endHold('old');
  return { ...scene, runId, lease, claimer: openTestLeases(t, scene.url) };
}

/** How far ahead the end of a worker is set: over already, about now, and surely not yet. */
const aheadMs = [0, 0.5, 1, 2, 3, 5, 8, 12, 20, 60_000] as const;
const setExpirySql = `UPDATE ql3.workers
  SET expires_at = clock_timestamp() + $2::float * interval '1 millisecond' WHERE worker_id = $1`;

const checkSql = 'SELECT ql3.check_lease($1, $2, $3)';

t.test('a renewal that has begun in time is waited for by a claim, and counts', async (t) => {
  const { claimer, leases, isWaiting, openSession, query, runId } = await openHeld(t);
  const session = await openSession();
  await query(`UPDATE ql3.workers SET expires_at = clock_timestamp() + interval '100 milliseconds'`);
  const far = `clock_timestamp() + ${leaseMs} * interval '1 millisecond'`;
  const { rowCount } = await session
    .query(
      `BEGIN; UPDATE ql3.workers SET expires_at = ${far} WHERE worker_id = 'old' AND expires_at > clock_timestamp()`,
    )
    .then((results) => [results].flat().at(-1)!);
  t.equal(rowCount, 1);
  await until(async () => (await query('SELECT FROM ql3.workers WHERE expires_at < clock_timestamp()')).length === 2);
  let claimed: readonly Lease[] | null = null;
  const claiming = claimer.claim('new', 64).then((answer) => {
    claimed = answer;
  });
  await until(async () => claimed !== null || (await isWaiting()));
  await session.query('COMMIT');
  await claiming;
  t.same(claimed, []);
  t.match(await leases.find(runId), { isHeld: true, workerId: 'old' });
});

t.test('a renewal behind a claim that is under way answers false', async (t) => {
  const { claimer, isWaiting, openSession, query, runId, lease, leases, expire } = await openHeld(t);
  const session = await openSession();
  // The claim has come as far as the lease, which a transaction that began in time still holds.
  await session.query('BEGIN');
  await session.query(checkSql, [runId, 'old', lease.token]);
  await expire('old');
  const claiming = claimer.claim('new', 64);
  await until(isWaiting);
  const waitingSql = `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE ql3.workers%'`;
  // As a renewal does that has looked at the time before it was over.
  const behind = await openSession();
  let isAnswered = false;
  const renewing = behind.query(
    `UPDATE ql3.workers SET expires_at = 'infinity'
     WHERE worker_id = 'old' AND (expires_at > clock_timestamp() OR xmin::text = $1)`,
    [(await query(`SELECT xmin::text AS seen FROM ql3.workers WHERE worker_id = 'old'`))[0]!['seen']],
  );
  void renewing.finally(() => {
    isAnswered = true;
  });
  await until(async () => isAnswered || (await query(waitingSql)).length > 0);
  await session.query('COMMIT');
  t.match(await claiming, [{ runId, workerId: 'new', token: 2 }]);
  t.equal((await renewing).rowCount, 0, 'it looks again at what the claim has left');
  t.equal(await leases.renew('old'), false);
});

t.test('of a renewal and a claim at the same moment never both succeed', async (t) => {
  const scene = await openLeaseScene(t, databases);
  await scene.startRuns(1);
  const claimer = openTestLeases(t, scene.url);
  const session = await scene.openSession();
  const counts = { renewed: 0, claimed: 0, both: 0 };
  await scene.leases.register('worker-0', 'here');
  await scene.leases.claim('worker-0', 1);
  for (let round = 0, holder = 0; round < 200; round += 1) {
    const next = `worker-${round + 1}`;
    await claimer.register(next, 'here');
    await scene.endHold(`worker-${holder}`);
    await session.query(setExpirySql, [`worker-${holder}`, aheadMs[round % aheadMs.length]]);
    const [isRenewed, claimed] = await Promise.all([scene.leases.renew(`worker-${holder}`), claimer.claim(next, 1)]);
    counts.renewed += isRenewed ? 1 : 0;
    counts.claimed += claimed.length;
    counts.both += isRenewed && claimed.length > 0 ? 1 : 0;
    if (claimed.length > 0) {
      holder = round + 1;
    } else if (!isRenewed) {
      // Over, and the claim was too early to see that.
      t.same((await claimer.claim(next, 1)).length, 1);
      holder = round + 1;
    }
  }
  t.equal(counts.both, 0);
  t.ok(counts.renewed > 0 && counts.claimed > 0, `both happen: ${JSON.stringify(counts)}`);
});

t.test('a run is passed by while a transaction under its old lease is under way', async (t) => {
  const { claimer, openSession, runId, lease, expire } = await openHeld(t);
  const session = await openSession();
  await session.query('BEGIN');
  await session.query(checkSql, [runId, 'old', lease.token]);
  await session.query('SELECT FROM ql3.runs WHERE run_id = $1 FOR UPDATE', [runId]);
  await expire('old');
  t.same(await claimer.claim('new', 64), []);
  await session.query('COMMIT');
  t.match(await claimer.claim('new', 64), [{ runId, token: 2 }]);
});

t.test('a transaction that has only proved its lease yet is waited for', async (t) => {
  const { claimer, isWaiting, openSession, runId, lease, expire } = await openHeld(t);
  const session = await openSession();
  await session.query('BEGIN');
  await session.query(checkSql, [runId, 'old', lease.token]);
  await expire('old');
  let isAnswered = false;
  const claiming = claimer.claim('new', 64).finally(() => {
    isAnswered = true;
  });
  await until(async () => isAnswered || (await isWaiting()));
  t.equal(isAnswered, false);
  await session.query('COMMIT');
  t.match(await claiming, [{ runId, token: 2 }]);
  await t.rejects(session.query(checkSql, [runId, 'old', lease.token]), { code: 'QL003' });
});

t.test('what a transaction under the old lease has ended is not claimed behind it', async (t) => {
  const { claimer, isWaiting, openSession, runId, lease, expire, query } = await openHeld(t);
  const session = await openSession();
  await session.query('BEGIN');
  await session.query(checkSql, [runId, 'old', lease.token]);
  await session.query(
    `UPDATE ql3.runs SET record = record || '{"status": "succeeded", "finishedAtMs": 1}' WHERE run_id = $1`,
    [runId],
  );
  await expire('old');
  t.same(await claimer.claim('new', 64), []);
  await session.query('COMMIT');
  t.same(await claimer.claim('new', 64), []);
  t.equal(await isWaiting(), false);
  t.match(await query('SELECT worker_id FROM ql3.run_leases'), [{ worker_id: 'old' }]);
});

t.test('a deadlock of a claim with a transaction under the old lease is the end of one of them', async (t) => {
  const { claimer, isWaiting, openSession, runId, lease, expire, leases } = await openHeld(t);
  const session = await openSession();
  await session.query('BEGIN');
  await session.query(checkSql, [runId, 'old', lease.token]);
  await expire('old');
  const claiming = claimer.claim('new', 64).catch((error: { code: string }) => error.code);
  await until(isWaiting);
  const locked = await session
    .query('SELECT FROM ql3.runs WHERE run_id = $1 FOR UPDATE', [runId])
    .then(() => true)
    .catch(({ code }: { code: string }) => code !== '40P01');
  await session.query('ROLLBACK');
  const claimed = await claiming;
  if (locked) {
    t.equal(claimed, 'busy');
    t.match(await claimer.claim('new', 64), [{ runId, token: 2 }], 'and the next one is carried out');
  } else {
    t.match(claimed, [{ runId, token: 2 }]);
  }
  t.match(await leases.find(runId), { isHeld: true, workerId: 'new' });
});

t.test(
  'whatever comes of an operation while its run is claimed, it happened under its lease or not at all',
  async (t) => {
    const scene = await openLeaseScene(t, databases);
    const claimer = openTestLeases(t, scene.url);
    const counts = { written: 0, refused: 0, claimed: 0 };
    await scene.leases.register('new', 'here');
    for (let round = 0; round < 60; round += 1) {
      const [runId] = (await scene.startRuns(1)) as [string];
      await scene.store.submit(operation(advance, { runId }));
      await beginStep(scene, runId, 'one');
      const workerId = `old-${round}`;
      await scene.leases.register(workerId, 'here');
      const lease = (await scene.leases.claim(workerId, 64)).find((each) => each.runId === runId)!;
      await scene.endHold(workerId);
      const aheadUs = (round % 10) * 500;
      await scene.query(
        `UPDATE ql3.workers SET expires_at = clock_timestamp() + ${aheadUs} * interval '1 microsecond'
       WHERE worker_id = '${workerId}'`,
      );
      const cancelling = operation(cancel, { runId, reason: 'user', requestedBy: 'tester' });
      const [written, claimed] = await Promise.allSettled([
        scene.store.submitUnder(cancelling, lease),
        claimer.claim('new', 64),
      ]);
      const { run } = await rowsOf(scene, runId);
      if (written.status === 'fulfilled') {
        counts.written += 1;
        t.not(run.cancelReason, null);
      } else {
        counts.refused += 1;
        t.ok(isLeaseOver(written.reason), `${written.reason}`);
        t.equal(run.cancelReason, null);
      }
      if (claimed.status === 'fulfilled') {
        counts.claimed += claimed.value.length;
      } else {
        t.match(claimed.reason, { code: 'busy' });
      }
    }
    t.ok(counts.written > 0 && counts.refused > 0 && counts.claimed > 0, JSON.stringify(counts));
    t.same(scene.failures, []);
  },
);
