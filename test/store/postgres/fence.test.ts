// A quarantine waits for what is under way, and what comes after it waits for the quarantine: nothing starts from its
// commit on.
import pg from 'pg';
import t from 'tap';
import { startAttempt } from '../../../src/protocol/attempt.ts';
import { operation } from '../../../src/protocol/protocol.ts';
import {
  attemptAdmission,
  installRevision,
  packageHead,
  quarantinePackage,
  rowsOf,
  sampleRevision,
  startMain,
  startRun,
  stepOf,
} from '../../contract/world.ts';
import { createDatabase, openScene, openServer } from './scene.ts';

const databases = await openServer(t);

async function openWaiting(t: Parameters<typeof openScene>[0]) {
  const database = await createDatabase(t, databases);
  const scene = await openScene(t, databases.urlOf(database));
  await installRevision(scene, sampleRevision({ steps: { one: [] } }));
  const runId = await startRun(scene);
  const { id: stepRunId } = await stepOf(scene, runId, 'one');
  const claimed = await scene.store.submit(attemptAdmission({ runId, stepRunId }));
  const attemptId = claimed.kind === 'claimed' ? claimed.attemptId : '';
  const other = new pg.Client({ connectionString: databases.urlOf(database) });
  other.on('error', () => {});
  await other.connect();
  t.teardown(() => other.end());
  /** Asks the server until somebody waits, for the fence unless it is told otherwise. */
  const untilSomebodyWaits = async (lock = "relation = 'ql3.fence'::regclass") => {
    const sql = `SELECT count(*) AS count FROM pg_locks WHERE ${lock} AND NOT granted`;
    for (let count = '0'; count === '0'; count = (await other.query(sql)).rows[0].count) {}
  };
  const barrier = () => scene.store.submit(operation(startAttempt, { runId, stepRunId, attemptId }));
  return { ...scene, runId, other, barrier, untilSomebodyWaits };
}

t.test('a quarantine is committed after all that did not know of it', async (t) => {
  const scene = await openWaiting(t);
  await scene.other.query('BEGIN; LOCK TABLE ql3.fence IN ACCESS SHARE MODE');
  let isAnswered = false;
  const quarantined = quarantinePackage(scene).then((outcome) => {
    isAnswered = true;
    return outcome;
  });
  await scene.untilSomebodyWaits();
  t.equal(isAnswered, false);
  const started = startMain(scene);
  await scene.other.query('COMMIT');
  t.match(await quarantined, { kind: 'quarantined' });
  // It came in behind the quarantine, and waits behind it.
  t.match(await started, { kind: 'not-allowed', code: 'quarantined' });
  t.match((await rowsOf(scene, scene.runId)).run, { status: 'cancelled', cancelReason: 'policy' });
  t.same(scene.failures, []);
});

t.test('a start barrier that had to wait for a quarantine knows of it', async (t) => {
  const scene = await openWaiting(t);
  const { target } = (await packageHead(scene)).installation;
  const { projectId, packageName, installationId, lockDigest } = target;
  const record = { projectId, packageName, installationId, lockDigest, reason: 'bad', atMs: 1 };
  await scene.other.query('BEGIN; LOCK TABLE ql3.fence IN ACCESS EXCLUSIVE MODE');
  await scene.other.query('INSERT INTO ql3.package_quarantines (record) VALUES ($1)', [JSON.stringify(record)]);
  const started = scene.barrier();
  await scene.untilSomebodyWaits();
  await scene.other.query('COMMIT');
  t.match(await started, { kind: 'refused', reason: 'quarantined' });
});

t.test('a run that is admitted while a quarantine waits is cancelled by it', async (t) => {
  const scene = await openWaiting(t);
  const key = { planId: '00000000-0000-7000-8000-000000000001', projectId: 'local', idempotencyKey: 'taken' };
  // Whoever admits with that key waits for this one's end, behind the open fence.
  await scene.other.query('BEGIN');
  await scene.other.query('INSERT INTO ql3.admission_keys (record) VALUES ($1)', [
    JSON.stringify({ ...key, expiresAtMs: 1 }),
  ]);
  const started = startMain(scene, 'taken');
  await scene.untilSomebodyWaits("locktype = 'transactionid'");
  const quarantined = quarantinePackage(scene);
  await scene.untilSomebodyWaits();
  await scene.other.query('ROLLBACK');
  t.match(await quarantined, { kind: 'quarantined' });
  const outcome = await started;
  t.equal(outcome.kind, 'created');
  const { run } = await rowsOf(scene, 'receipt' in outcome ? outcome.receipt.runId : '');
  t.match(run, { status: 'cancelled', cancelReason: 'policy' });
});

t.test('a quarantine under load is carried out, and every run of its package ends', async (t) => {
  const scene = await openWaiting(t);
  const runIds = [scene.runId];
  const load = Promise.all(
    Array.from({ length: 40 }, async () => {
      const outcome = await startMain(scene);
      if (outcome.kind === 'created') {
        const { runId } = outcome.receipt;
        runIds.push(runId);
        const { id: stepRunId } = await stepOf(scene, runId, 'one');
        await scene.store.submit(attemptAdmission({ runId, stepRunId }));
      }
    }),
  );
  t.match(await quarantinePackage(scene), { kind: 'quarantined' });
  await load;
  for (const runId of runIds) {
    t.match((await rowsOf(scene, runId)).run, { status: 'cancelled' }, runId);
  }
  t.match(await startMain(scene), { kind: 'not-allowed', code: 'quarantined' });
  t.same(scene.failures, []);
});
