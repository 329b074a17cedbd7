// What each login may do: a runtime starts and carries on runs and reads no trust; nobody changes history.
import t from 'tap';
import { migratePostgres } from '../../../src/postgres.ts';
import { admit } from '../../../src/protocol/admit.ts';
import { advance } from '../../../src/protocol/advance.ts';
import { cancel } from '../../../src/protocol/cancel.ts';
import { operation } from '../../../src/protocol/protocol.ts';
import { addPublisher } from '../../../src/protocol/publisher.ts';
import { read } from '../../../src/protocol/reads.ts';
import {
  finishStep,
  installRevision,
  makePlan,
  quarantinePackage,
  rowsOf,
  sampleRevision,
  startRun,
} from '../../contract/world.ts';
import { openTestLeases } from './lease-scene.ts';
import { createDatabase, openScene, openServer } from './scene.ts';

const databases = await openServer(t);
await databases.query(
  'postgres',
  `CREATE ROLE runner LOGIN IN ROLE ql3_runtime; CREATE ROLE manager LOGIN IN ROLE ql3_manager;
   CREATE ROLE stranger LOGIN`,
);
const database = await createDatabase(t, databases);
const manager = await openScene(t, databases.urlOf(database, 'manager'));
const runner = await openScene(t, databases.urlOf(database, 'runner'), { testClock: manager.clock });
await installRevision(manager, sampleRevision({ steps: { one: [] } }));
const ended = await startRun(runner);
await finishStep(runner, ended, 'one');

/** Runs a statement as a login; answers its SQLSTATE, or null where it was carried out. */
async function attempt(user: string, sql: string): Promise<string | null> {
  try {
    await databases.query(database, `SET SESSION AUTHORIZATION ${user}; BEGIN; ${sql}; ROLLBACK`);
    return null;
  } catch (error) {
    return (error as { code: string }).code;
  }
}

const denied = '42501';
const unchangeable = 'QL002';
const leaseOver = 'QL003';

t.test('a runtime starts and ends runs that a manager has installed', async (t) => {
  t.match((await rowsOf(runner, ended)).run, { status: 'succeeded' });
  t.same(runner.failures, []);
});

t.test('a runtime reads neither trust nor quarantines, but what they forbid', async (t) => {
  for (const table of ['publishers', 'package_quarantines', 'retention_gate']) {
    t.equal(await attempt('runner', `SELECT FROM ql3.${table}`), denied, table);
  }
  await t.rejects(runner.store.read(read('publishers', {})), { code: 'unavailable', hint: /ql3_manager/ });
  t.equal(await attempt('runner', "SELECT ql3.condemnation('a', 'b', 'c', repeat('d', 64))"), null);
});

t.test('a runtime changes and removes nothing of a ledger', async (t) => {
  const ledgers = [
    'run_events',
    'plugin_package_workflow_admissions',
    'plugin_package_workflow_admission_steps',
    'admission_keys',
    'automation_publications',
    'package_lifecycle_events',
    'package_installations',
    'materialized_revisions',
    'package_files',
    'migrations',
    'capabilities',
  ];
  for (const table of ledgers) {
    t.equal(await attempt('runner', `DELETE FROM ql3.${table}`), denied, `DELETE FROM ${table}`);
    t.equal(await attempt('runner', `TRUNCATE ql3.${table} CASCADE`), denied, `TRUNCATE ${table}`);
  }
  for (const table of ledgers.filter((name) => name !== 'migrations' && name !== 'capabilities')) {
    const column =
      table === 'plugin_package_workflow_admissions' ? 'plan' : table === 'package_files' ? 'files' : 'record';
    t.equal(await attempt('runner', `UPDATE ql3.${table} SET ${column} = '{}'`), denied, `UPDATE ${table}`);
  }
  for (const table of ['runs', 'step_runs', 'run_attempts']) {
    t.equal(await attempt('runner', `DELETE FROM ql3.${table}`), denied, `DELETE FROM ${table}`);
  }
  for (const table of ['package_installations', 'package_lifecycle_events', 'automation_publications']) {
    t.equal(await attempt('runner', `INSERT INTO ql3.${table} (record) VALUES ('{}')`), denied, `INSERT ${table}`);
  }
  for (const statement of [
    'CREATE TABLE ql3.own (a int)',
    'DROP TRIGGER run_events_stay ON ql3.run_events',
    'SET ROLE ql3_owner',
    'SET ROLE ql3_manager',
    'ALTER FUNCTION ql3.prune OWNER TO runner',
  ]) {
    t.equal(await attempt('runner', statement), denied, statement);
  }
});

t.test('a runtime cannot install, trust or quarantine', async (t) => {
  const refused = { code: 'unavailable', hint: /ql3_manager/ };
  await t.rejects(installRevision(runner, sampleRevision({ lock: 'b' })), refused);
  const publicKey = 'ab'.repeat(32);
  await t.rejects(runner.store.submit(operation(addPublisher, { publicKey })), refused);
  await t.rejects(quarantinePackage(runner), refused);
});

const digest = 'ab'.repeat(32);
const contents = [{ path: 'scripts/work.sh', bytes: Buffer.from('echo up') }];

t.test('a runtime holds leases, works under them, and lets them go', async (t) => {
  const runId = await startRun(runner);
  const leases = openTestLeases(t, databases.urlOf(database, 'runner'));
  await leases.register('worker', 'here');
  t.equal(await leases.renew('worker'), true);
  const [lease] = await leases.claim('worker', 1);
  t.match(lease, { runId, token: 1 });
  t.same(await leases.toHalt('worker'), []);
  await leases.noteHalted(lease!);
  t.match(await leases.find(runId), { isHeld: true, hasHalted: true });
  t.equal((await runner.store.submitUnder(operation(advance, { runId }), lease!)).runId, runId);
  await leases.notify('work');
  await leases.drop(lease!);
  await leases.resign('worker');
  await runner.store.submit(operation(cancel, { runId, reason: 'user', requestedBy: 'tester' }));
});

t.test('a runtime reads the bytes of packages and changes none; a manager puts them and changes none', async (t) => {
  const ofRunner = openTestLeases(t, databases.urlOf(database, 'runner'));
  const ofManager = openTestLeases(t, databases.urlOf(database, 'manager'));
  const refused = { code: 'unavailable', hint: /ql3_manager/ };
  await t.rejects(ofRunner.putContents(digest, contents), refused);
  await ofManager.putContents(digest, contents);
  t.same(await ofRunner.getContents(digest, 'scripts/work.sh'), contents[0]!.bytes);
  await t.rejects(ofRunner.putContents(digest, contents), refused, 'also the same');
  for (const user of ['runner', 'manager']) {
    t.equal(await attempt(user, "UPDATE ql3.package_contents SET bytes = 'other'"), denied, user);
    t.equal(await attempt(user, 'TRUNCATE ql3.package_contents'), denied, user);
  }
  t.equal(await attempt('runner', 'DELETE FROM ql3.package_contents'), denied);
  t.equal(await attempt('runner', `INSERT INTO ql3.package_contents VALUES ('\\x${digest}', 'more', 0, '')`), denied);
  t.equal(await attempt('manager', `INSERT INTO ql3.package_contents VALUES ('\\x${digest}', 'more', 0, '')`), null);
  t.same(await ofRunner.getContents(digest, 'scripts/work.sh'), contents[0]!.bytes);
});

t.test('a login without a role sees neither workers nor leases nor bytes, and proves none', async (t) => {
  for (const table of ['workers', 'run_leases', 'package_contents']) {
    t.equal(await attempt('stranger', `SELECT FROM ql3.${table}`), denied, table);
    t.equal(await attempt('runner', `TRUNCATE ql3.${table}`), denied, table);
    t.equal(await attempt('runner', `SELECT FROM ql3.${table}`), null, table);
  }
  t.equal(await attempt('stranger', "SELECT ql3.check_lease('a', 'b', 1)"), denied);
  t.equal(await attempt('runner', "SELECT ql3.check_lease('a', 'b', 1)"), leaseOver);
});

t.test('not even the owner changes history', async (t) => {
  for (const table of ['run_events', 'plugin_package_workflow_admission_steps', 'automation_publications']) {
    t.equal(await attempt('postgres', `UPDATE ql3.${table} SET record = record`), unchangeable, `UPDATE ${table}`);
    t.equal(await attempt('postgres', `DELETE FROM ql3.${table}`), unchangeable, `DELETE FROM ${table}`);
  }
});

t.test('a login without the role is told so before anything else', async (t) => {
  await t.rejects(openScene(t, databases.urlOf(database, 'stranger')), {
    code: 'unavailable',
    hint: /grant this login ql3_runtime/,
  });
});

t.test('a login that may not migrate is told who may', async (t) => {
  const fresh = 'fresh_for_runner';
  await databases.query('postgres', `CREATE DATABASE ${fresh}`);
  t.teardown(() => databases.drop(fresh));
  await t.rejects(migratePostgres({ url: databases.urlOf(fresh, 'runner') }), {
    code: 'unavailable',
    message: /^cannot migrate the database: /,
    hint: /may make roles and schemas/,
  });
});

t.test('a runtime prunes whole runs that have ended, and no other; their plans are remembered', async (t) => {
  const plan = await makePlan(runner, 'pruned');
  await runner.store.submit(operation(admit, { plan, requestedBy: 'tester' }));
  const prune = (runIds: string) =>
    databases.query(database, `SET SESSION AUTHORIZATION runner; SELECT ql3.prune('${runIds}') AS count`);
  t.same(await prune(`{${plan.runId}}`), [{ count: 0 }], 'it is running');
  await finishStep(runner, plan.runId, 'one');
  t.same(await prune(`{${plan.runId},unknown}`), [{ count: 1 }]);
  t.equal(await runner.store.read(read('wholeRun', { runId: plan.runId })), null);
  t.same(await runner.store.read(read('events', { runId: plan.runId, after: 0, limit: 64 })), []);
  t.match(await runner.store.submit(operation(admit, { plan, requestedBy: 'tester' })), {
    kind: 'existing-pruned',
    runId: plan.runId,
  });
  t.equal((await rowsOf(runner, ended)).run.status, 'succeeded', 'others stay');
});
