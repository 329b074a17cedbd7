// The old primary again: first by mistake, alone, as if nothing had happened; then as a standby of the new one.
import type { Fresh } from './after.ts';
import { type RejoinMethod, rejoin } from './clone.ts';
import { admitRun, type Drill, planRun, versionOf } from './drill.ts';
import { countShown, type Doubt, writeProbe } from './failover.ts';
import { controls, gates } from './gates.ts';
import { admissionOf } from './ledger.ts';
import type { Link } from './link.ts';
import { sessionNames, untilSynchronous, untilWaiting } from './replication.ts';
import type { Server } from './server.ts';
import { compareTables } from './tables.ts';

/** Somebody starts it again without having asked, and the old runtime, which heard of nothing, is still there. */
export async function startAlone(drill: Drill, doubts: readonly Doubt[]): Promise<void> {
  const { board, first } = drill;
  const { old } = drill.ground;
  const fenced = board.at(gates.fenced);
  await old.start();
  const probe = await writeProbe(drill, 'alone');
  const pending = first.give(admissionOf(unknownPlan(drill)));
  await untilWaiting(old, sessionNames.product, 1);
  fenced.expect(probe.isOpen(), 'a write is acknowledged by an old primary that was started again alone');
  fenced.expect(pending.now() === null, 'an admission is acknowledged by an old primary that was started again alone');
  fenced.figure('shownAlone', await countShown(drill, doubts));
  const had = await old.ask("SELECT FROM drill_probe WHERE name = 'cut off'");
  board.at(gates.forgotten).expect(had.length === 1, 'the old primary has nothing that nobody else has');
  // Without synchronous standbys it is not fenced any more: what waited is acknowledged.
  await old.alter('synchronous_standby_names', '');
  const [write, admission] = [await probe.ended, await pending.answer];
  board
    .at(controls.unfenced)
    .take([
      ...(write === 'acknowledged' ? ['a write is acknowledged by an old primary'] : []),
      ...('outcome' in admission ? ['an admission is acknowledged by an old primary'] : []),
    ]);
  await old.crash();
  await first.kill();
}

/** Not in the ledger: nobody may ever know of it. */
function unknownPlan(drill: Drill) {
  const { plan } = planRun(drill, 'chain');
  drill.ledger.runs.delete(plan.runId);
  return plan;
}

/** Makes a server that is down the synchronous standby of another, reached through a link. */
export async function bringBack(
  lost: Server,
  { primary, link }: { readonly primary: Server; readonly link: Link },
): Promise<RejoinMethod> {
  link.heal();
  const method = await rejoin(primary, lost);
  lost.follow(link.host, { synchronous_commit: 'remote_apply', synchronous_standby_names: primary.name });
  await lost.start();
  await primary.alter('synchronous_standby_names', lost.name);
  await untilSynchronous(primary, lost);
  return method;
}

/** Brings it back, and compares it with the new primary. */
export async function comeBack(drill: Drill, [one]: Fresh): Promise<string> {
  const { board, log } = drill;
  const { old, next, toNext } = drill.ground;
  const rejoined = board.at(gates.rejoined);
  const beganMs = performance.now();
  const method = await bringBack(old, { primary: next, link: toNext });
  rejoined.figure('rejoinMs', performance.now() - beganMs);
  const [receiver] = await old.ask<{ status: string; received_tli: number }>(
    'SELECT status, received_tli FROM pg_stat_wal_receiver',
  );
  rejoined.expect(receiver?.status === 'streaming', `it is not streaming but ${receiver?.status}`);
  rejoined.expect(receiver?.received_tli === 2, `it receives timeline ${receiver?.received_tli}`);
  rejoined.expect((await old.value('SELECT pg_is_in_recovery()')) === 'true', 'it is no standby');
  const session = await drill.ground.openSession(old);
  const run = planRun(drill, 'chain');
  await admitRun(one, run);
  rejoined.expect((await versionOf(session, run.plan.runId)) > 0, 'what is acknowledged now is not applied on it');
  await one.order({ verb: 'carryOn', isBackwards: false });
  const { tables, rows, differences } = await compareTables(next, old);
  board.at(gates.equal).take(differences);
  board.at(gates.equal).figure('tables', tables);
  board.at(gates.equal).figure('rows', rows);
  const left = await session.query("SELECT name FROM drill_probe WHERE name IN ('cut off', 'alone')");
  board
    .at(gates.forgotten)
    .expect(left.rows.length === 0, `it still has ${left.rows.length} rows that nobody else has`);
  log(`the old primary is back by ${method}: ${rows} rows of ${tables} tables are the same`);
  return method;
}
