// Evidence that somebody has altered behind the store's back is told as damage, by the run that it is of, and never
// repaired; other runs go on.
import t from 'tap';
import { read } from '../../../src/protocol/reads.ts';
import { verifyRun } from '../../../src/runtime/verification.ts';
import {
  admitPlan,
  advanceRun,
  beginStep,
  finishStep,
  installRevision,
  makePlan,
  packageHead,
  rowsOf,
  sampleRevision,
  startMain,
  startRun,
} from '../../contract/world.ts';
import { createDatabase, openScene, openServer } from './scene.ts';

const databases = await openServer(t);

/** A world with the run of a plan whose first step has ended, and an alteration of its rows; told by a fresh store. */
async function openDamaged(t: Parameters<typeof createDatabase>[0], damage: string) {
  const database = await createDatabase(t, databases);
  const url = databases.urlOf(database);
  const scene = await openScene(t, url);
  await installRevision(scene, sampleRevision());
  const plan = await makePlan(scene);
  await admitPlan(scene, plan);
  await finishStep(scene, plan.runId, 'one');
  await beginStep(scene, plan.runId, 'two');
  // As a superuser can: with all triggers off.
  await databases.query(database, `SET session_replication_role = replica; ${damage}`);
  const fresh = await openScene(t, url, { testClock: scene.clock });
  return { ...fresh, plan };
}

const altered = (table: string, path: string, value: string, where = 'true') =>
  `UPDATE ql3.${table} SET record = jsonb_set(record, '{${path}}', '${value}') WHERE ${where}`;

t.test('a record that differs from its digest stops its run', async (t) => {
  for (const damage of [
    altered('runs', 'requestedBy', '"somebody"'),
    altered('runs', 'extra', '1'),
    "UPDATE ql3.runs SET record = record - 'triggerId'",
    altered('step_runs', 'attemptCount', '3', "step_key = 'one'"),
    altered('run_attempts', 'executionDigest', `"${'e'.repeat(64)}"`),
    "DELETE FROM ql3.step_runs WHERE step_key = 'one'",
    'DELETE FROM ql3.run_attempts WHERE number = 2',
  ]) {
    const scene = await openDamaged(t, damage);
    const { runId } = scene.plan;
    await t.rejects(advanceRun(scene, runId), { code: 'damaged', message: new RegExp(runId) }, damage);
    await t.rejects(rowsOf(scene, runId), { code: 'damaged' }, damage);
    t.match(await startMain(scene), { kind: 'created' }, 'another run');
  }
});

t.test('altered evidence of an admission is damage, whoever asks', async (t) => {
  for (const damage of [
    `UPDATE ql3.plugin_package_workflow_admissions SET plan = jsonb_set(plan, '{plannedAtMs}', '1')`,
    `UPDATE ql3.plugin_package_workflow_admissions SET receipt = jsonb_set(receipt, '{admittedAtMs}', '1')`,
    'DELETE FROM ql3.plugin_package_workflow_admissions',
    "DELETE FROM ql3.plugin_package_workflow_admission_steps WHERE step_key = 'one'",
    altered('plugin_package_workflow_admission_steps', 'needs', '[]', "step_key = 'two'"),
    altered('admission_keys', 'receiptDigest', `"${'f'.repeat(64)}"`),
    'DELETE FROM ql3.run_events WHERE sequence = 2',
    altered('run_events', 'payload,requestedBy', '"somebody"', 'sequence = 1'),
    altered('run_events', 'createdAtMs', '1', 'sequence = 1'),
  ]) {
    const scene = await openDamaged(t, damage);
    await t.rejects(admitPlan(scene, scene.plan), { code: 'damaged' }, damage);
    const { differences } = await verifyRun(scene.store, scene.plan.runId);
    t.ok(differences.length > 0, `verify: ${damage}`);
  }
});

t.test('an altered history is found by verifying it', async (t) => {
  for (const damage of [
    altered('run_events', 'payload,exitCode', '1', "type = 'attempt.succeeded'"),
    'DELETE FROM ql3.run_events WHERE sequence = (SELECT max(sequence) FROM ql3.run_events)',
  ]) {
    const scene = await openDamaged(t, damage);
    const { differences } = await verifyRun(scene.store, scene.plan.runId);
    t.ok(differences.length > 0, damage);
  }
});

t.test('an altered package is damage before anything of it starts', async (t) => {
  for (const damage of [
    altered('materialized_revisions', 'tasks,0,argv', '["/bin/false"]'),
    'DELETE FROM ql3.materialized_revisions',
    altered('package_installations', 'target,lockDigest', `"${'c'.repeat(64)}"`),
    altered('automation_publications', 'publishedAtMs', '1'),
    altered('package_lifecycle_events', 'reason', '"none"'),
    'DELETE FROM ql3.package_lifecycle_events',
    `UPDATE ql3.automation_publication_heads SET publication_digest = sha256('')`,
  ]) {
    const scene = await openDamaged(t, damage);
    await t.rejects(packageHead(scene), { code: 'damaged' }, damage);
    await t.rejects(startMain(scene), { code: 'damaged' }, damage);
  }
});

t.test('a run whose row is gone is found by what it left running', async (t) => {
  const scene = await openDamaged(t, 'DELETE FROM ql3.runs');
  const strays = await scene.store.read(read('strayRuns', { limit: 64 }));
  t.match(strays, [{ runId: scene.plan.runId, trouble: /runs is missing/ }]);
  await t.rejects(admitPlan(scene, scene.plan), { code: 'damaged' });
});

t.test('a damaged run is listed beside the others', async (t) => {
  const scene = await openDamaged(t, altered('runs', 'requestedBy', '"somebody"'));
  const sound = await startRun(scene);
  const listed = await scene.store.read(
    read('runs', { limit: 64, beforeRunId: null, status: null, packageName: null }),
  );
  t.match(listed, [
    { runId: sound, run: { status: 'running' } },
    { runId: scene.plan.runId, run: null },
  ]);
});
