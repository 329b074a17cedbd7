// The stores that the contract holds for, each as a way to open a small world on a new database of its own.
import { deepEqual } from 'node:assert/strict';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { Ids } from '../../src/core/ports.ts';
import { openPostgresStore } from '../../src/postgres.ts';
import { realAlarm, realClock, realIds } from '../../src/runtime/ports.ts';
import { openSqliteStore } from '../../src/sqlite.ts';
import { openDatabases } from '../store/postgres/databases.ts';
import { createTestClock, type World } from './world.ts';

export type StoreKind = {
  readonly name: string;
  /** Of all orders of what may happen to an attempt, each so-many-eth: commits of a server take ten times as long. */
  readonly ordersStep: number;
  /** Makes what worlds share, for as long as the ground is there, and returns how one of them is opened. */
  readonly prepare: (ground: Ground) => Promise<OpenWorld>;
};

/** What a test is to those who open something in it; a program that is no test can be one too. */
export type Ground = Pick<Test, 'teardown'> & { testdir(tree: Record<never, never>): string };

export type OpenWorld = (ground: Pick<Ground, 'teardown'>, options?: { readonly ids: Ids }) => Promise<World>;

type Profile = readonly ['edge', 'delete-extra' | 'delete-full'] | readonly ['standalone', 'wal-full'];

function sqlite([profile, durability]: Profile): StoreKind {
  return {
    name: `SQLite ${profile}, ${durability}`,
    ordersStep: 1,
    async prepare(t) {
      const root = t.testdir({});
      let count = 0;
      return async (t, options) => {
        count += 1;
        const { clock, ids, report } = createSurroundings(t, options);
        const store = openSqliteStore({
          ...{ data: join(root, `${count}`), profile, durability, command: 'test', socket: null },
          ...{ clock, alarm: realAlarm(realClock()), ids, trustedFromMs: 0, report },
        });
        t.teardown(() => store.close());
        store.attach({ closing: () => {}, committed: () => {} });
        return { clock, store };
      };
    },
  };
}

export const postgres: StoreKind = {
  name: 'PostgreSQL',
  ordersStep: process.env['QL_TEST_ORDERS'] === 'all' ? 1 : 7,
  async prepare(t) {
    const databases = await openDatabases();
    t.teardown(() => databases.close());
    return async (t, options) => {
      const { clock, ids, report } = createSurroundings(t, options);
      const database = await databases.create();
      t.teardown(() => databases.drop(database));
      const store = await openPostgresStore({
        ...{ url: databases.urlOf(database), observe: () => clock.observe() },
        ...{ clock: realClock(), alarm: realAlarm(realClock()), ids, trustedFromMs: 0, report },
      });
      t.teardown(() => store.close());
      return { clock, store };
    };
  },
};

function createSurroundings(t: Pick<Ground, 'teardown'>, options: { readonly ids: Ids } | undefined) {
  const failures: unknown[] = [];
  t.teardown(() => deepEqual(failures, [], 'nothing failed behind the answers'));
  const failed = (...[, error]: readonly unknown[]) => failures.push(error);
  const clock = createTestClock();
  return { clock, ids: options?.ids ?? realIds(clock), report: { failed, closedForGood: failed } };
}

export const edge = sqlite(['edge', 'delete-extra']);
const standalone = sqlite(['standalone', 'wal-full']);

export const stores: readonly StoreKind[] = [edge, sqlite(['edge', 'delete-full']), standalone, postgres];

/** One for each kind of journal, and the other database. */
export const storesOfEachKind: readonly StoreKind[] = [edge, standalone, postgres];
