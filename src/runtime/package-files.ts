// Writing package files so that they are durable, whole, and readable by those who may: the parts that copying, mending
// and sweeping share.
import { constants } from 'node:fs';
import { chmod, type FileHandle, lstat, open } from 'node:fs/promises';
import { join } from 'node:path';
import { EdgeError, isEdgeError } from '../core/errors.ts';
import type { PackageFile } from '../core/revision.ts';
import { changedError } from './package-bytes.ts';
import type { ReadFile } from './package-contents.ts';
import { codeOf } from './package-file.ts';

/** Who can read and execute package files besides their owner; nobody else ever writes them. */
export type Reach = 'owner' | 'everyone';

export function directoryModeFor(reach: Reach): number {
  return reach === 'owner' ? 0o700 : 0o755;
}

/** `mode` is the canonical one of a lock digest, 0o700 or 0o600. */
export function fileModeFor(mode: number, reach: Reach): number {
  return reach === 'owner' ? mode : mode | (mode === 0o700 ? 0o055 : 0o044);
}

export type FileCopy = {
  readonly file: PackageFile;
  readonly read: ReadFile;
  readonly target: string;
  readonly reach: Reach;
};

/** Writes one file from its source and syncs it. Throws `invalid` for other bytes than were hashed, `full`, …. */
export async function writeFileCopy({ file, read, target, reach }: FileCopy): Promise<void> {
  try {
    const handle = await open(target, 'wx', 0o600);
    try {
      const { sha256 } = await read((chunk) => writeAll(handle, chunk));
      if (sha256 !== file.sha256) {
        throw changedError(file.path);
      }
      // Set and not left to the umask: whether it is executable is part of the lock digest.
      await handle.chmod(fileModeFor(file.mode, reach));
      await handle.sync();
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw storageError(error, `write ${target}`);
  }
}

async function writeAll(handle: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let written = 0; written < chunk.length; ) {
    written += (await handle.write(chunk, written)).bytesWritten;
  }
}

/** The directories around a file of a package, outermost first. */
export function directoriesAround(path: string): readonly string[] {
  const names = path.split('/').slice(0, -1);
  return names.map((_, index) => names.slice(0, index + 1).join('/'));
}

/** Gives the files of a package their modes again, where somebody took them away. */
export async function openUp(directory: string, files: readonly PackageFile[], reach: Reach): Promise<void> {
  const directories = new Set(['.', ...files.flatMap(({ path }) => directoriesAround(path))]);
  for (const path of directories) {
    await setMode(join(directory, path), directoryModeFor(reach));
  }
  for (const { path, mode } of files) {
    await setMode(join(directory, path), fileModeFor(mode, reach));
  }
}

async function setMode(path: string, mode: number): Promise<void> {
  if (((await lstat(path)).mode & 0o777) !== mode) {
    await chmod(path, mode);
  }
}

/** Makes the entries of a directory durable: a rename alone may be forgotten by a power cut. */
export async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** What the file system answered, as the one operating error. `doing` completes "cannot …". */
export function storageError(error: unknown, doing: string): EdgeError {
  if (isEdgeError(error)) {
    return error;
  }
  const code = codeOf(error);
  const isFull = code === 'ENOSPC' || code === 'EDQUOT';
  return new EdgeError(isFull ? 'full' : 'unavailable', `cannot ${doing}: ${code}`, {
    hint: isFull ? 'free space on that file system, then try again' : 'look at that directory and its permissions',
    cause: error,
  });
}
