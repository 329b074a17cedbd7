// How a server becomes a copy of another that runs: by pg_basebackup, or by hand where the PostgreSQL at hand does not
// come with it; and how one that went astray is brought back, by pg_rewind or as a new copy.

import { rmSync, writeFileSync } from 'node:fs';
import { copyFile, lstat, mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { give, hasProgram, makeFolder, type Programs, runProgram } from './programs.ts';
import { openSession, type Server, superuser } from './server.ts';

export type CloneMethod = 'pg_basebackup' | 'low-level backup';
export type RejoinMethod = 'pg_rewind' | `new copy by ${CloneMethod}`;

/** Makes `to`, which has no data, a copy of `from`. It has the settings of `from` afterwards. */
export async function clone(from: Server, to: Server): Promise<CloneMethod> {
  if (hasProgram(to.programs, 'pg_basebackup')) {
    const args = ['-D', to.data, '-h', from.folder, '-U', superuser, '-X', 'stream', '-c', 'fast', '--no-sync'];
    await runProgram(to.programs, 'pg_basebackup', args);
    return 'pg_basebackup';
  }
  await copyByHand(from, to);
  return 'low-level backup';
}

/** Makes `lost`, which is stopped, fit to follow `from`, whose history left its own. */
export async function rejoin(from: Server, lost: Server): Promise<RejoinMethod> {
  if (hasProgram(lost.programs, 'pg_rewind')) {
    // It asks the source's control file for its timeline, which only a checkpoint writes.
    await from.ask('CHECKPOINT');
    const source = `host=${from.folder} port=5432 user=${superuser} dbname=postgres`;
    await runProgram(lost.programs, 'pg_rewind', ['-D', lost.data, `--source-server=${source}`, '--no-sync']);
    return 'pg_rewind';
  }
  rmSync(lost.data, { recursive: true, force: true });
  return `new copy by ${await clone(from, lost)}`;
}

// What belongs to the running server and not to its data, and what the copy streams by itself.
const leftOut =
  /^(?:postmaster\.(?:pid|opts)|backup_label|tablespace_map|standby\.signal|.*pgsql_tmp.*|pg_internal\.init)$/;
const emptied = new Set([
  ...['pg_wal', 'pg_replslot', 'pg_dynshmem', 'pg_notify', 'pg_serial', 'pg_snapshots', 'pg_stat_tmp', 'pg_subtrans'],
]);

/** The steps of PostgreSQL's manual, "Making a Base Backup Using the Low Level API". */
async function copyByHand(from: Server, to: Server): Promise<void> {
  const session = await openSession(from);
  try {
    await session.query("SELECT pg_backup_start('drill', true)");
    makeFolder(to.programs, to.data);
    await copyBelow(to.programs, from.data, to.data);
    const { rows } = await session.query<{ labelfile: string }>('SELECT labelfile FROM pg_backup_stop(false)');
    const label = join(to.data, 'backup_label');
    writeFileSync(label, rows[0]?.labelfile ?? '', { mode: 0o600 });
    give(to.programs, label);
    makeFolder(to.programs, join(to.data, 'pg_wal', 'archive_status'));
  } finally {
    await session.end();
  }
}

async function copyBelow(programs: Programs, from: string, to: string): Promise<void> {
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (leftOut.test(entry.name)) {
      continue;
    }
    if (entry.isDirectory()) {
      await mkdir(target, { mode: 0o700 });
      give(programs, target);
      if (!emptied.has(entry.name)) {
        await copyBelow(programs, source, target);
      }
    } else {
      await copyIfThere(programs, source, target);
    }
  }
}

/** A table may be dropped under our hands: the log that is replayed over the copy says so too. */
async function copyIfThere(programs: Programs, source: string, target: string): Promise<void> {
  try {
    await copyFile(source, target);
    give(programs, target);
  } catch (error) {
    const isGone = (error as NodeJS.ErrnoException).code === 'ENOENT';
    if (!isGone || (await lstat(source).catch(() => null)) !== null) {
      throw error;
    }
  }
}
