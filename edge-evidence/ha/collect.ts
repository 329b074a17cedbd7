// One failover from its beginning to its end, and what was found at each gate.
import { createRequire } from 'node:module';
import { EvidenceError } from '../operation.ts';
import type { Part } from '../report.ts';
import { judgeAfter } from './after.ts';
import { closeLedger, workBefore } from './before.ts';
import { comeBack, startAlone } from './comeback.ts';
import { loseTail, spoil } from './controls.ts';
import type { Drill, Head } from './drill.ts';
import { failOver, prepareDoubts } from './failover.ts';
import { type Ground, type GroundOptions, withGround } from './ground.ts';
import { openLedger } from './ledger.ts';
import { failUnderLoad } from './load.ts';
import { drillRevision, packageName, projectId } from './package.ts';
import { Scoreboard } from './scoreboard.ts';

export type FailoverOptions = GroundOptions & {
  readonly runCount: number;
  readonly log: (line: string) => void;
};

const limits = [
  'everything is on one machine: a lost network is a socket that is closed, a lost machine processes that are killed',
  'commands of tasks are not run: their ends are given, and what is shown are the records',
  'fencing is what the drill does itself; in a cluster something has to keep every client away from the old primary',
  'a read waits for no standby: an old primary that can be reached shows what it never acknowledged (shownCutOff)',
];

/** Never rejects because of the product: what it does wrong is in the scenarios. Leaves nothing behind. */
export async function collectFailover(options: FailoverOptions): Promise<Part> {
  const board = new Scoreboard();
  const parameters: Record<string, string | number> = { runs: options.runCount };
  let stoppedBy: string | null = null;
  try {
    await withGround(options, async (ground) => {
      const { programs, clonedBy } = ground;
      Object.assign(parameters, { postgres: programs.version, clonedBy });
      const rejoinedBy = await drillOn(ground, board, options);
      Object.assign(parameters, { rejoinedBy });
    });
  } catch (error) {
    stoppedBy = (error as Error).message || `${error}`;
    options.log(`stopped: ${(error as Error).stack}`);
  }
  return { kind: 'failover', parameters, scenarios: board.scenarios(stoppedBy), limits };
}

async function drillOn(ground: Ground, board: Scoreboard, options: FailoverOptions): Promise<string> {
  const drill = await prepare(ground, board, options);
  await workBefore(drill);
  const doubts = await prepareDoubts(drill);
  await closeLedger(drill);
  await failOver(drill, doubts);
  const fresh = [await ground.startRuntime(ground.next), await ground.startRuntime(ground.next)] as const;
  await judgeAfter(drill, fresh, doubts);
  await startAlone(drill, doubts);
  const rejoinedBy = await comeBack(drill, fresh);
  await spoil(drill, fresh);
  await failUnderLoad(drill, fresh);
  await loseTail(drill);
  return rejoinedBy;
}

type Migration = { migratePostgres(options: { readonly url: string }): Promise<readonly string[]> };

async function prepare(ground: Ground, board: Scoreboard, options: FailoverOptions): Promise<Drill> {
  const { old, next, programs, clonedBy } = ground;
  const { bundle, runCount, log } = options;
  log(`PostgreSQL ${programs.version}, standby by ${clonedBy}`);
  await (createRequire(import.meta.url)(bundle) as Migration).migratePostgres({ url: old.url });
  await old.ask('CREATE TABLE drill_probe (name text PRIMARY KEY)');
  const first = await ground.startRuntime(old);
  const installation = { projectId, revision: drillRevision(), files: [], signature: null, allowUnsigned: true };
  await first.submit('install', installation);
  const head = await first.read<Head | null>('package', { projectId, packageName });
  if (head === null) {
    throw new EvidenceError('the package of the drill is not installed');
  }
  const watch = await ground.openSession(next);
  return { ground, board, ledger: openLedger(), runCount, log, first, head, watch };
}
