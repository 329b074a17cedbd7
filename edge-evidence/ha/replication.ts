// What the servers say of their replication, and what they are told about it.
import type { Server } from './server.ts';
import { waitFor } from './waiting.ts';

/** How the product names its sessions, and how the drill its own. */
export const sessionNames = { product: 'qinglong-edge', own: 'drill' } as const;
type SessionName = (typeof sessionNames)[keyof typeof sessionNames];

/** Sessions whose COMMIT is on the primary's disk and waits for the standby. */
export async function waitingSessions(server: Server, name: SessionName): Promise<readonly number[]> {
  const rows = await server.ask<{ pid: number }>(
    "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = $1 ORDER BY pid",
    [name],
  );
  return rows.map(({ pid }) => pid);
}

/** Resolves when that many commits wait. */
export function untilWaiting(server: Server, name: SessionName, count: number): Promise<readonly number[]> {
  return waitFor(`${count} commits of ${name} that wait at server ${server.name}`, async () => {
    const pids = await waitingSessions(server, name);
    return pids.length === count ? pids : null;
  });
}

/** The standby receives, but nothing becomes visible on it; resolves when that is so. */
export async function pauseReplay(standby: Server): Promise<void> {
  await standby.ask('SELECT pg_wal_replay_pause()');
  await waitFor(`the pause of server ${standby.name}`, async () => {
    return (await standby.value('SELECT pg_get_wal_replay_pause_state()')) === 'paused' ? true : null;
  });
}

export async function resumeReplay(standby: Server): Promise<void> {
  await standby.ask('SELECT pg_wal_replay_resume()');
}

/** Resolves when everything that the primary has written is on the standby's disk. */
export async function untilFlushed(primary: Server, standby: Server): Promise<void> {
  const lsn = await primary.value('SELECT pg_current_wal_flush_lsn()');
  await waitFor(`${lsn} on the disk of server ${standby.name}`, async () => {
    const rows = await primary.ask(
      'SELECT FROM pg_stat_replication WHERE application_name = $1 AND flush_lsn >= $2::pg_lsn',
      [standby.name, lsn],
    );
    return rows.length > 0 ? true : null;
  });
}

/** Resolves when the primary waits for that standby's commits. */
export async function untilSynchronous(primary: Server, standby: Server): Promise<void> {
  await waitFor(`server ${standby.name} as the synchronous standby of server ${primary.name}`, async () => {
    const rows = await primary.ask(
      "SELECT FROM pg_stat_replication WHERE application_name = $1 AND state = 'streaming' AND sync_state = 'sync'",
      [standby.name],
    );
    return rows.length > 0 ? true : null;
  });
}

/** Makes a standby a primary, and tells it that there is no other server for now: otherwise its commits wait. */
export async function promote(standby: Server): Promise<void> {
  await standby.ask('SELECT pg_promote(true, 60)');
  await standby.alter('synchronous_standby_names', '');
}

/** What is wrong with a server as a promoted primary. */
export async function findUnpromoted(server: Server): Promise<readonly string[]> {
  const isStandby = (await server.value('SELECT pg_is_in_recovery()')) === 'true';
  if (isStandby) {
    return [`server ${server.name} is a standby`];
  }
  const timeline = await timelineOf(server);
  return timeline === 2 ? [] : [`server ${server.name} writes timeline ${timeline}`];
}

/** What a primary writes: the first eight digits of the name of its file. */
export async function timelineOf(server: Server): Promise<number> {
  const file = await server.value('SELECT pg_walfile_name(pg_current_wal_lsn())');
  return Number.parseInt(file.slice(0, 8), 16);
}
