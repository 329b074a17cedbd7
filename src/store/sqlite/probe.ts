// Whether a durability really works on a file system: a write, its sync and a read-back in a scratch database of that
// mode, beside the real one and never touching it. JFFS2 has no shared writable mmap: there journal_mode=WAL answers
// `wal`, and everything after it fails with 5386.
import { readdirSync, statfsSync } from 'node:fs';
import path from 'node:path';
import { EdgeError, isEdgeError } from '../../core/errors.ts';
import { fromFileError } from '../../core/file-error.ts';
import { removeFile } from '../remove-file.ts';
import { isAlive } from './holder-lock.ts';
import { openWriter } from './open.ts';
import { type Durability, durabilities } from './profile.ts';
import { statement, toEdgeError } from './statement.ts';

export type ProbePlace = { readonly data: string; readonly durability: Durability };

/** Throws one error that says what does not work and names the durability that does; `full` where space is short. */
export function probeStorage({ data, durability }: ProbePlace): void {
  const failure = tryDurability({ data, durability });
  if (failure === null) {
    return;
  }
  if (failure.code === 'full') {
    throw failure;
  }
  const others = Object.keys(durabilities).filter((name) => name !== durability) as Durability[];
  const working = others.find((other) => tryDurability({ data, durability: other }) === null);
  const hint =
    working === undefined
      ? 'no other durability works there either: put the data directory on another file system'
      : `durability ${working} works there: choose profile ${durabilities[working].profile}`;
  throw new EdgeError('unavailable', `durability ${durability} does not work in ${data}: ${failure.message}`, {
    cause: failure,
    hint,
  });
}

/** Null where it works, else what failed. Leaves no file behind. */
export function tryDurability({ data, durability }: ProbePlace): EdgeError | null {
  // With the pid, so that `doctor` may probe beside a holder.
  const file = path.join(data, `probe-${process.pid}.db`);
  try {
    removeScratch(data);
    refuseSmallBlocks({ data, durability });
    writeAndReadBack(file, durability);
    return null;
  } catch (error) {
    const doing = `write, sync and read back ${file}`;
    const failure = fromFileError(toEdgeError(error, doing, file), { doing, access: 'writes' });
    if (isEdgeError(failure)) {
      return failure;
    }
    throw failure;
  } finally {
    removeQuietly(data);
  }
}

// What failed first is what is told; what stays is taken away before the next trial.
function removeQuietly(data: string): void {
  try {
    removeScratch(data);
  } catch {}
}

// SQLite makes room for the shared memory of a WAL by one byte in every 4 KiB. In smaller blocks holes stay between
// them, and on a full file system the first touch of one ends the process, whoever reads: SIGBUS (seen on ext4, 1 KiB).
const blockBytesMin = 4096;

/** Throws `unavailable` where a write-ahead log must not be opened. A directory may have been copied there. */
export function refuseSmallBlocks({ data, durability }: ProbePlace): void {
  const { bsize } = statfsSync(data);
  if (durability === 'wal-full' && bsize < blockBytesMin) {
    const message = `the file system of ${data} has blocks of ${bsize} bytes: a full one would end this program`;
    throw new EdgeError('unavailable', message, { hint: `use a file system with blocks of ${blockBytesMin} bytes` });
  }
}

function writeAndReadBack(file: string, durability: Durability): void {
  const { profile } = durabilities[durability];
  // Random, as flash file systems compress. Two pages, so that a row, its overflow and their journal are written.
  const bytes = process.getBuiltinModule('node:crypto').randomBytes(2048);
  const writer = openWriter({ path: file, profile, durability, isFresh: true });
  try {
    writer.exec('BEGIN IMMEDIATE; CREATE TABLE Probe (bytes BLOB NOT NULL) STRICT');
    statement<{ bytes: Uint8Array }>(writer, 'INSERT INTO Probe (bytes) VALUES (:bytes)').run({ bytes });
    writer.exec('COMMIT');
  } finally {
    writer.close();
  }
  const reader = openWriter({ path: file, profile, durability, isFresh: false });
  try {
    const row = statement<Record<string, never>, { bytes: Uint8Array }>(reader, 'SELECT bytes FROM Probe').get({});
    if (row === null || !bytes.equals(row.bytes)) {
      throw new EdgeError('damaged', `what was written to ${file} came back different`, {
        hint: 'check the storage: its writes cannot be trusted',
      });
    }
  } finally {
    reader.close();
  }
}

const scratchName = /^probe-(\d+)\.db(-[a-z]+)?$/;

// This process's own, and what a killed one left. Nothing of ours is open on these, so `fs` drops no lock here.
function removeScratch(data: string): void {
  for (const name of readdirSync(data)) {
    const pid = Number(scratchName.exec(name)?.[1] ?? 0);
    if (pid === process.pid || (pid > 0 && !isAlive(pid))) {
      removeFile(path.join(data, name));
    }
  }
}
