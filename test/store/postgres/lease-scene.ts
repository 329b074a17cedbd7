// What the tests of leases share: a store, leases of several workers, and the time of the database moved in its tables.
import pg from 'pg';
import type { Test } from 'tap';
import { type Leases, openLeases } from '../../../src/postgres.ts';
import { realAlarm, realClock } from '../../../src/runtime/ports.ts';
import { installRevision, sampleRevision, startRun } from '../../contract/world.ts';
import type { TestDatabases } from './databases.ts';
import { createDatabase, openScene } from './scene.ts';

/** Longer than any test: what is over was made over by a test. */
export const leaseMs = 600_000;

const clock = realClock();
const alarm = realAlarm(clock);

/** Looks from time to time until something that surely happens has happened. */
export async function until(hasHappened: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await hasHappened())) {
    await new Promise<void>((wake) => alarm.set(clock.observe().uptimeMs + 5, wake));
  }
}

/** Opens leases on a session of their own, as a process does. */
export function openTestLeases(t: Pick<Test, 'teardown'>, url: string): Leases {
  const leases = openLeases({ url, leaseMs, clock, alarm });
  t.teardown(() => leases.close());
  return leases;
}

export type LeaseScene = Awaited<ReturnType<typeof openLeaseScene>>;

/** A database with one package, whose runs have the steps `one` and `two`. */
export async function openLeaseScene(t: Pick<Test, 'teardown'>, databases: TestDatabases) {
  const database = await createDatabase(t, databases);
  const url = databases.urlOf(database);
  const scene = await openScene(t, url);
  await installRevision(scene, sampleRevision());
  const leases = openTestLeases(t, url);
  const query = (sql: string) => databases.query(database, sql);
  const where = (workerId: string) => `WHERE worker_id = '${workerId}'`;
  return {
    ...scene,
    database,
    url,
    leases,
    query,
    /** Starts runs, one after the other; resolves with their ids. */
    async startRuns(count: number): Promise<string[]> {
      const runIds: string[] = [];
      for (let index = 0; index < count; index += 1) {
        scene.clock.advance(1);
        runIds.push(await startRun(scene));
      }
      return runIds;
    },
    /** The worker has not said in time that it lives. */
    async expire(workerId: string): Promise<void> {
      await query(`UPDATE ql3.workers SET expires_at = now() - interval '1 second' ${where(workerId)}`);
    },
    /** The worker has lived for a lease. */
    async settle(workerId: string): Promise<void> {
      await query(`UPDATE ql3.workers SET registered_at = now() - interval '1 hour' ${where(workerId)}`);
    },
    /** What is claimed is held for a while whatever is known of its worker: that while is over. */
    async endHold(workerId: string): Promise<void> {
      await query(`UPDATE ql3.run_leases SET held_until = now() - interval '1 second' ${where(workerId)}`);
    },
    /** One session more, in which a transaction can stay open. */
    async openSession(): Promise<pg.Client> {
      const client = new pg.Client({ connectionString: url });
      client.on('error', () => {});
      await client.connect();
      t.teardown(() => client.end());
      return client;
    },
    /** Whether any session waits for a lock that another holds. */
    async isWaiting(): Promise<boolean> {
      return (await query('SELECT FROM pg_locks WHERE NOT granted')).length > 0;
    },
  };
}
