// The stores that the contract holds for, each as a way to open a small world on a new database of its own.
import { deepEqual } from 'node:assert/strict';
import { join } from 'node:path';
import type { Test } from 'tap';
import { openPostgresStore } from '../../src/postgres.ts';
import { realAlarm, realClock, realIds } from '../../src/runtime/ports.ts';
import { openSqliteStore } from '../../src/sqlite.ts';
import { openDatabases } from '../store/postgres/databases.ts';
import { createTestClock, type World } from './world.ts';

export type StoreKind = {
  readonly name: string;
  /** Of all orders of what may happen to an attempt, each so-many-eth: commits of a server take ten times as long. */
  readonly ordersStep: number;
  /** Makes what worlds share, for as long as `t` takes, and returns how one of them is opened. */
  readonly prepare: (t: Test) => Promise<(t: Test) => Promise<World>>;
};

type Profile = readonly ['edge', 'delete-extra' | 'delete-full'] | readonly ['standalone', 'wal-full'];

function sqlite([profile, durability]: Profile): StoreKind {
  return {
    name: `SQLite ${profile}, ${durability}`,
    ordersStep: 1,
    async prepare(t) {
      const root = t.testdir({});
      let count = 0;
      return async (t) => {
        count += 1;
        const { clock, report } = createSurroundings(t);
        const store = openSqliteStore({
          ...{ data: join(root, `${count}`), profile, durability, command: 'test', socket: null },
          ...{ clock, alarm: realAlarm(realClock()), ids: realIds(clock), trustedFromMs: 0, report },
        });
        t.teardown(() => store.close());
        store.attach({ closing: () => {}, committed: () => {} });
        return { clock, store };
      };
    },
  };
}

const postgres: StoreKind = {
  name: 'PostgreSQL',
  ordersStep: process.env['QL_TEST_ORDERS'] === 'all' ? 1 : 7,
  async prepare(t) {
    const databases = await openDatabases();
    t.teardown(() => databases.close());
    return async (t) => {
      const { clock, report } = createSurroundings(t);
      const database = await databases.create();
      t.teardown(() => databases.drop(database));
      const store = await openPostgresStore({
        ...{ url: databases.urlOf(database), observe: () => clock.observe() },
        ...{ clock: realClock(), alarm: realAlarm(realClock()), ids: realIds(clock), trustedFromMs: 0, report },
      });
      t.teardown(() => store.close());
      return { clock, store };
    };
  },
};

function createSurroundings(t: Test) {
  const failures: unknown[] = [];
  t.teardown(() => deepEqual(failures, [], 'nothing failed behind the answers'));
  const failed = (...[, error]: readonly unknown[]) => failures.push(error);
  return { clock: createTestClock(), report: { failed, closedForGood: failed } };
}

const edge = sqlite(['edge', 'delete-extra']);
const standalone = sqlite(['standalone', 'wal-full']);

export const stores: readonly StoreKind[] = [edge, sqlite(['edge', 'delete-full']), standalone, postgres];

/** One for each kind of journal, and the other database. */
export const storesOfEachKind: readonly StoreKind[] = [edge, standalone, postgres];
