// The holder lock: whoever writes holds BEGIN EXCLUSIVE on lock.db for as long as it lives. The kernel drops it with
// the process, so a dead holder blocks nobody. holder.json says who it is; it is a courtesy, the lock is the truth.
//
// These are POSIX locks: any open and close of lock.db through `fs` in the holder would drop them. So it is only ever
// looked at with `stat`. Nothing is written to it: it stays at 0 bytes.
import { readFileSync, rmSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';
import { EdgeError } from '../../core/errors.ts';
import { fileErrorCode, fromFileError } from '../../core/file-error.ts';
import type { Clock } from '../../core/ports.ts';
import { type DataPaths, isStillFile, readJson, statOf } from './data-directory.ts';
import { writeAtomically } from './durable-file.ts';
import { isLockFileHeld, openLockFile } from './open.ts';
import { sqliteCode, sqliteCodes, toEdgeError } from './statement.ts';

/** Who holds a data directory. */
export type Holder = {
  readonly pid: number;
  /** Path of the Unix socket that it listens on; null where it has none. */
  readonly socket: string | null;
  readonly startedAtMs: number;
  /** What it runs, such as `serve`. */
  readonly command: string;
};

export type HolderLock = {
  /** Whether the file that is locked is still the one that others would lock. A look at the file, nothing more. */
  isHeld(): boolean;
  /** Drops the lock and takes holder.json away; a second time does nothing. */
  release(): void;
};

export type HolderIdentity = { readonly command: string; readonly socket: string | null };

// A connection that nobody refers to is closed by the garbage collector, and the lock would go with it.
const held = new Set<DatabaseSync>();

/**
 * Takes the lock for this process, to be kept until `release` or its end. Throws `busy` naming who has it, `damaged`
 * where lock.db is no lock file, and what opening it throws.
 */
export function acquireHolderLock(paths: DataPaths, { command, socket }: HolderIdentity, clock: Clock): HolderLock {
  const db = openLockFile(paths.lock);
  try {
    // Else an empty file's transaction begins with a journal on flash.
    db.exec('PRAGMA journal_mode = MEMORY');
    db.exec('BEGIN EXCLUSIVE');
    const file = statOf(paths.lock);
    held.add(db);
    const holder: Holder = { pid: process.pid, socket, startedAtMs: clock.observe().wallMs, command };
    writeAtomically({ path: paths.holder, text: `${JSON.stringify(holder)}\n` });
    const isHeld = () => isStillFile(paths.lock, file);
    return { isHeld, release: () => release(db, paths, isHeld()) };
  } catch (error) {
    letGo(db);
    throw refusal(error, paths);
  }
}

function release(db: DatabaseSync, paths: DataPaths, isHeld: boolean): void {
  if (!held.has(db)) {
    return;
  }
  // Before the lock goes, so that it is never the next holder's; after it was lost, it may be.
  try {
    if (isHeld) {
      rmSync(paths.holder, { force: true });
    }
  } catch {
    // It names a process that is gone; whoever reads it checks that.
  }
  letGo(db);
}

function letGo(db: DatabaseSync): void {
  held.delete(db);
  db.close();
}

function refusal(error: unknown, paths: DataPaths): unknown {
  const code = sqliteCode(error);
  if (code === sqliteCodes.busy || code === sqliteCodes.locked) {
    const holder = readHolder(paths);
    return new EdgeError('busy', `${paths.data} is held by ${describeHolder(holder)}`, {
      cause: error,
      hint: holder === null ? 'try again, or stop that process' : `stop process ${holder.pid}, or use its socket`,
    });
  }
  if (code === sqliteCodes.notADatabase) {
    const hint = 'delete lock.db while no process uses this directory';
    return new EdgeError('damaged', `${paths.lock} is not a lock file`, { cause: error, hint });
  }
  return toEdgeError(error, `take the lock ${paths.lock}`);
}

function describeHolder(holder: Holder | null): string {
  return holder === null
    ? 'another process'
    : `process ${holder.pid} (${holder.command}) since ${new Date(holder.startedAtMs).toISOString()}`;
}

/**
 * Who says that it holds the directory, if that process lives; null otherwise. Not proof that the lock is held: pids
 * are given again. Throws what `fromFileError` makes of a file that cannot be read.
 */
export function readHolder(paths: DataPaths): Holder | null {
  const value = readJson(paths.holder);
  if (value === null || typeof value !== 'object') {
    return null;
  }
  const { pid, socket, startedAtMs, command } = value as Record<string, unknown>;
  const isHolder =
    isPositiveInteger(pid) &&
    (socket === null || typeof socket === 'string') &&
    isPositiveInteger(startedAtMs) &&
    typeof command === 'string';
  return isHolder && isAlive(pid) ? { pid, socket, startedAtMs, command } : null;
}

/** Whether a process holds the lock now: what holder.json only says. Throws what opening lock.db throws. */
export function isHeld(paths: DataPaths): boolean {
  return isLockFileHeld(paths.lock);
}

/**
 * Whether it is this very process that holds the lock, by the kernel's own list. False also where that cannot be told,
 * as on a file system across a network: whoever asks is about to end the process.
 */
export function isHeldByProcess(paths: DataPaths, pid: number): boolean {
  const file = statOf(paths.lock);
  // `1: POSIX  ADVISORY  WRITE 4655 fe:00:2744805 1073741824 1073742335`; devices are told in more than one way.
  return (
    file !== null &&
    readKernelLocks().some((line) => {
      const [, kind, , mode, owner, place = ''] = line.split(/\s+/);
      const inode = place.split(':').at(-1);
      return kind === 'POSIX' && mode === 'WRITE' && owner === `${pid}` && inode === `${file.ino}`;
    })
  );
}

function readKernelLocks(): readonly string[] {
  try {
    return readFileSync('/proc/locks', 'utf8').split('\n');
  } catch {
    return [];
  }
}

function isPositiveInteger(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) > 0;
}

/** Whether a process of that id lives, whoever it is by now. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    const code = fileErrorCode(error);
    if (code === 'ESRCH') {
      return false;
    }
    // EPERM: it lives, under another user.
    if (code === 'EPERM') {
      return true;
    }
    throw fromFileError(error, { doing: `look for process ${pid}`, access: 'reads' });
  }
}
