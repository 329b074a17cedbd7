// The contract suite on SQLite, in every durability mode that is offered.
import { deepEqual } from 'node:assert/strict';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { realAlarm, realClock, realIds } from '../../../src/runtime/ports.ts';
import { openSqliteStore } from '../../../src/sqlite.ts';
import { activityContract } from '../../contract/activity.ts';
import { admissionContract } from '../../contract/admission.ts';
import { executionContract } from '../../contract/execution.ts';
import { newsContract } from '../../contract/news.ts';
import { publisherContract } from '../../contract/publisher.ts';
import { retryContract } from '../../contract/retry.ts';
import { settingsContract } from '../../contract/settings.ts';
import { createTestClock } from '../../contract/world.ts';

for (const [profile, durability] of [
  ['edge', 'delete-extra'],
  ['edge', 'delete-full'],
  ['standalone', 'wal-full'],
] as const) {
  t.test(`${profile}, ${durability}`, async (t) => {
    let count = 0;
    const openWorld = async (t: Test) => {
      count += 1;
      const clock = createTestClock();
      const failures: unknown[] = [];
      const store = openSqliteStore({
        data: join(root, `${count}`),
        profile,
        durability,
        command: 'test',
        socket: null,
        clock,
        alarm: realAlarm(realClock()),
        ids: realIds(clock),
        trustedFromMs: 0,
        report: { failed: (_operation, error) => failures.push(error), closedForGood: (error) => failures.push(error) },
      });
      t.teardown(async () => {
        await store.close();
        deepEqual(failures, [], 'nothing failed behind the answers');
      });
      store.attach({ closing: () => {}, committed: () => {} });
      return { clock, store };
    };
    const root = t.testdir({});
    for (const { name, run } of [
      ...admissionContract,
      ...executionContract,
      ...newsContract,
      ...retryContract,
      ...activityContract,
      ...settingsContract,
      ...publisherContract,
    ]) {
      t.test(name, (t) => run(t, openWorld));
    }
  });
}
