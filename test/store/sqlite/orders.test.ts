// Every order of what may happen to an attempt, on SQLite, in both kinds of journal.
import { deepEqual } from 'node:assert/strict';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { realAlarm, realClock, realIds } from '../../../src/runtime/ports.ts';
import { openSqliteStore } from '../../../src/sqlite.ts';
import { ordersContract } from '../../contract/orders.ts';
import { createTestClock } from '../../contract/world.ts';

for (const profile of ['edge', 'standalone'] as const) {
  t.test(profile, async (t) => {
    const root = t.testdir({});
    let count = 0;
    const openWorld = async (t: Test) => {
      count += 1;
      const clock = createTestClock();
      const failures: unknown[] = [];
      const store = openSqliteStore({
        data: join(root, `${count}`),
        profile,
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
    for (const { name, run } of ordersContract) {
      t.test(name, (t) => run(t, openWorld));
    }
  });
}
