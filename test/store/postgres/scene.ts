// What the tests of the PostgreSQL store share: a store on a database of its own, in the contract's small world.
import type { Test } from 'tap';
import { openPostgresStore, type PostgresStore, type PostgresStoreOptions } from '../../../src/postgres.ts';
import { realAlarm, realClock, realIds } from '../../../src/runtime/ports.ts';
import { createTestClock, type TestClock } from '../../contract/world.ts';
import { openDatabases, type TestDatabases } from './databases.ts';

export type Scene = { readonly clock: TestClock; readonly store: PostgresStore; readonly failures: readonly unknown[] };

/** One server for a whole test file. */
export async function openServer(t: Pick<Test, 'teardown'>, settings?: Readonly<Record<string, string>>) {
  const databases = await openDatabases(settings);
  t.teardown(() => databases.close());
  return databases;
}

export async function createDatabase(t: Pick<Test, 'teardown'>, databases: TestDatabases): Promise<string> {
  const database = await databases.create();
  t.teardown(() => databases.drop(database));
  return database;
}

/** Opens a store whose decisions are made at the time of a clock that the test moves. */
export async function openScene(
  t: Pick<Test, 'teardown'>,
  url: string,
  options: Partial<PostgresStoreOptions> & { readonly testClock?: TestClock } = {},
): Promise<Scene> {
  const { testClock: clock = createTestClock(), ...others } = options;
  const failures: unknown[] = [];
  const store = await openPostgresStore({
    url,
    clock: realClock(),
    alarm: realAlarm(realClock()),
    ids: realIds(realClock()),
    trustedFromMs: 0,
    report: { failed: (_operation, error) => failures.push(error) },
    observe: () => clock.observe(),
    ...others,
  });
  t.teardown(() => store.close());
  return { clock, store, failures };
}
