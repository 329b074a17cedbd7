// What has to go wrong, each judged by the very check of its gate. Late, because it spoils the ground.
import type { Fresh } from './after.ts';
import { bringBack } from './comeback.ts';
import { admitRun, type Drill, planRun } from './drill.ts';
import { controls, gates } from './gates.ts';
import { findLost, findOtherReceipts, type KnownRun, readSnapshot } from './ledger.ts';
import { pauseReplay, promote, resumeReplay } from './replication.ts';
import type { RuntimeProcess } from './runtime-process.ts';
import { compareTables } from './tables.ts';

export async function spoil(drill: Drill, [one, other]: Fresh): Promise<void> {
  await standStill(drill, one);
  await alterReceipt(drill, other);
}

async function standStill(drill: Drill, runtime: RuntimeProcess): Promise<void> {
  const { old, next } = drill.ground;
  await next.alter('synchronous_standby_names', '');
  await pauseReplay(old);
  await admitRun(runtime, planRun(drill, 'chain'));
  const { differences } = await compareTables(next, old);
  drill.board.at(controls.stale).take(differences);
  await resumeReplay(old);
  await next.alter('synchronous_standby_names', old.name);
}

async function alterReceipt(drill: Drill, runtime: RuntimeProcess): Promise<void> {
  const run = planRun(drill, 'chain');
  await admitRun(runtime, run);
  const session = await drill.ground.openSession(drill.ground.next);
  // The triggers that keep a ledger as it is are out of force for a superuser who says so.
  await session.query('SET session_replication_role = replica');
  const add = (ms: number) =>
    session.query(
      `UPDATE ql3.plugin_package_workflow_admissions
       SET receipt = jsonb_set(receipt, '{admittedAtMs}', to_jsonb((receipt ->> 'admittedAtMs')::bigint + $2))
       WHERE run_id = $1`,
      [run.plan.runId, ms],
    );
  await add(1);
  drill.board.at(controls.altered).take(await findOtherReceipts(runtime, [run]));
  await add(-1);
  // It was the altered number, and nothing else, that the check told.
  drill.board.at(gates.receipts).take(await findOtherReceipts(runtime, [run]));
}

const tailLength = 3;

/** Nothing is waited for: what is acknowledged after the cut is on one disk alone, and goes down with it. */
export async function loseTail(drill: Drill): Promise<void> {
  const { old, next, toOld, startRuntime } = drill.ground;
  await bringBack(next, { primary: old, link: toOld });
  await old.alter('synchronous_standby_names', '');
  const runtime = await startRuntime(old);
  toOld.cut();
  const tail: KnownRun[] = [];
  for (let count = 0; count < tailLength; count += 1) {
    const run = planRun(drill, 'chain');
    await admitRun(runtime, run);
    run.before = await readSnapshot(runtime, run.plan.runId);
    tail.push(run);
  }
  await old.crash();
  await promote(next);
  const found = drill.board.at(controls.lost);
  found.take(await findLost(await startRuntime(next), tail));
  found.figure('acknowledged', tailLength);
}
