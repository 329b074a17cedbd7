// What has to go wrong, each judged by the very check of its gate. Last, because it spoils the ground.
import type { Fresh } from './after.ts';
import { admitRun, type Drill, planRun } from './drill.ts';
import { controls } from './gates.ts';
import { findLost, findOtherReceipts, type KnownRun, readSnapshot } from './ledger.ts';
import { pauseReplay, resumeReplay } from './replication.ts';
import { compareTables } from './tables.ts';

export async function spoil(drill: Drill, [one, other]: Fresh): Promise<void> {
  const { next } = drill.ground;
  await next.alter('synchronous_standby_names', '');
  await standStill(drill, one);
  await alterReceipt(drill, other);
  await loseTail(drill, one);
  drill.log('controls have gone wrong as they have to');
}

type Runtime = Fresh[number];

async function standStill(drill: Drill, runtime: Runtime): Promise<void> {
  const { old, next } = drill.ground;
  await pauseReplay(old);
  await admitRun(runtime, planRun(drill, 'chain'));
  const { differences } = await compareTables(next, old);
  drill.board.at(controls.stale).take(differences);
  await resumeReplay(old);
}

async function alterReceipt(drill: Drill, runtime: Runtime): Promise<void> {
  const run = planRun(drill, 'chain');
  await admitRun(runtime, run);
  const session = await drill.ground.openSession(drill.ground.next);
  // The triggers that keep a ledger as it is are out of force for a superuser who says so.
  await session.query('SET session_replication_role = replica');
  await session.query(
    `UPDATE ql3.plugin_package_workflow_admissions
     SET receipt = jsonb_set(receipt, '{admittedAtMs}', to_jsonb((receipt ->> 'admittedAtMs')::bigint + 1))
     WHERE run_id = $1`,
    [run.plan.runId],
  );
  drill.board.at(controls.altered).take(await findOtherReceipts(runtime, [run]));
}

const tailLength = 3;

/** Nothing is waited for: what is acknowledged after the cut is on one disk alone, and goes down with it. */
async function loseTail(drill: Drill, runtime: Runtime): Promise<void> {
  const { old, next, toNext } = drill.ground;
  toNext.cut();
  const tail: KnownRun[] = [];
  for (let count = 0; count < tailLength; count += 1) {
    const run = planRun(drill, 'chain');
    await admitRun(runtime, run);
    run.before = await readSnapshot(runtime, run.plan.runId);
    tail.push(run);
  }
  await next.crash();
  await old.value('SELECT pg_promote(true, 60)');
  await old.alter('synchronous_standby_names', '');
  const found = drill.board.at(controls.lost);
  found.take(await findLost(await drill.ground.startRuntime(old), tail));
  found.figure('acknowledged', tailLength);
}
