// Contract: news of a run that has ended. Run against every store.
import type { Test } from 'tap';
import { arrangeRows, compareRecords, foldHistory } from '../../edge-evidence/fold.ts';
import { newsTypes } from '../../src/core/events.ts';
import { limits } from '../../src/core/limits.ts';
import { type NewsType, recordNews } from '../../src/protocol/news.ts';
import { operation } from '../../src/protocol/protocol.ts';
import { read } from '../../src/protocol/reads.ts';
import { verifyRun } from '../../src/runtime/verification.ts';
import {
  beginStep,
  type ContractCase,
  cancelRun,
  endAttempt,
  exitZero,
  finishStep,
  installRevision,
  rowsOf,
  sampleRevision,
  startRun,
  type World,
} from './world.ts';

/** History folds to the present, by the product's fold and by the one that shares no code with it. */
export async function assertBothFolds(t: Test, world: World, runId: string): Promise<void> {
  t.same((await verifyRun(world.store, runId)).differences, []);
  const rows = await rowsOf(world, runId);
  const events = [];
  for (let after = 0; after < rows.run.version; after += limits.pageMax) {
    events.push(...(await world.store.read(read('events', { runId, after, limit: limits.pageMax }))));
  }
  t.same(compareRecords(foldHistory(events), arrangeRows(rows)), []);
}

async function record({ store }: World, runId: string, attemptId: string, type: NewsType, version: number) {
  const input = { runId, attemptId, type, version, summary: `seen of ${attemptId}` };
  return (await store.submit(operation(recordNews, input))).kind;
}

export const newsContract: readonly ContractCase[] = [
  {
    name: 'a fact that is found after the end of a run is told once, however often it is found',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision({ steps: { one: [] } }));
      const runId = await startRun(world);
      const { attemptId } = await beginStep(world, runId, 'one');
      const { version } = (await rowsOf(world, runId)).run;
      const type = 'workflow.late_receipt_found';
      t.equal(await record(world, runId, attemptId, type, version), 'running', 'before its end it has none');
      await endAttempt(world, { runId, stepRunId: (await stepIdOf(world, runId))!, attemptId }, lost);
      const before = (await rowsOf(world, runId)).run;
      t.equal(before.status, 'failed');
      t.equal(await record(world, runId, attemptId, type, version), 'recorded');
      t.equal(await record(world, runId, attemptId, type, version), 'existing', 'found again with the old version');
      t.equal(await record(world, runId, attemptId, type, before.version + 1), 'existing', 'and with the new one');
      t.equal(await record(world, runId, attemptId, 'workflow.leftover_found', before.version), 'recorded');
      t.equal(await record(world, runId, 'at-unknown', type, version), 'not-found');
      t.equal(await record(world, 'run-unknown', attemptId, type, version), 'not-found');
      const { run } = await rowsOf(world, runId);
      const changing = { version: 0, eventSequence: 0, updatedAtMs: 0, historyDigest: '', digest: '' };
      t.same({ ...run, ...changing }, { ...before, ...changing }, 'nothing but the version and the chain');
      t.equal(run.version, before.version + 2);
      t.match(await cancelRun(world, runId), { kind: 'settled', status: 'failed' });
      await assertBothFolds(t, world, runId);
    },
  },
  {
    name: 'a run has at most eight news, and the ninth changes nothing',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision({ steps: { a: [], b: [], c: [] } }));
      const runId = await startRun(world);
      for (const step of ['a', 'b', 'c']) {
        await finishStep(world, runId, step, exitZero);
      }
      const { run, attempts } = await rowsOf(world, runId);
      t.equal(run.status, 'succeeded');
      const facts = [...attempts.keys()].flatMap((id) => newsTypes.map((type) => [id, type as NewsType] as const));
      const kinds = [];
      for (const [attemptId, type] of facts) {
        kinds.push(await record(world, runId, attemptId, type, run.version));
      }
      t.same(kinds, [...Array.from({ length: limits.newsPerRunMax }, () => 'recorded'), 'full']);
      t.equal((await rowsOf(world, runId)).run.version, run.version + limits.newsPerRunMax);
      t.equal(await record(world, runId, facts[0]![0], facts[0]![1], run.version), 'existing');
      await assertBothFolds(t, world, runId);
    },
  },
];

const lost = { kind: 'lost', errorSummary: null } as const;

async function stepIdOf(world: World, runId: string): Promise<string | undefined> {
  return [...(await rowsOf(world, runId)).steps.keys()][0];
}
