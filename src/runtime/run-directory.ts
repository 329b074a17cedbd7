// Where the run directory of a data directory is: what concerns processes and means nothing after a reboot.
import { accessSync, constants, existsSync, readdirSync, rmdirSync, rmSync, statfsSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join, resolve } from 'node:path';
import { EdgeError } from '../core/errors.ts';
import { sha256 } from '../core/hash.ts';
import { limits } from '../core/limits.ts';

// TMPFS_MAGIC and RAMFS_MAGIC of linux/magic.h.
const memoryTypes: ReadonlySet<number> = new Set([0x01021994, 0x858458f6]);

/**
 * Memory-backed where that is possible: process identity means nothing after a reboot, and none of it belongs on flash.
 * One directory a data directory; the same answer in every process of this user.
 */
export function runDirectoryOf(data: string, asked: string | null): string {
  if (asked !== null) {
    return resolve(asked);
  }
  const places = ['/run', `/run/user/${userInfo().uid}`, '/var/run', '/dev/shm'].filter(isWritable);
  const place = places.find(isInMemory) ?? places.find((name) => name === '/run');
  const name = sha256(resolve(data)).slice(0, 16);
  return place === undefined ? join(resolve(data), 'run') : join(place, 'qinglong-edge', name);
}

function isWritable(directory: string): boolean {
  try {
    accessSync(directory, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** Whether what is written there never reaches storage. False where that cannot be told. */
export function isInMemory(directory: string): boolean {
  try {
    return memoryTypes.has(statfsSync(directory).type);
  } catch {
    return false;
  }
}

/**
 * Throws `full` where the run directory has no room for one more attempt. Not a promise: others may take the room
 * meanwhile, and the launcher says so then; but nothing is claimed for a directory that is full already.
 */
export function refuseWithoutRoom(runDirectory: string): void {
  let room: { readonly bytes: number; readonly files: number };
  try {
    const { bavail, bsize, ffree, files } = statfsSync(runDirectory);
    // Some file systems do not count their files.
    room = { bytes: bavail * bsize, files: files === 0 ? limits.placeFilesMin : ffree };
  } catch {
    // Whatever is wrong with it is met when the attempt's directory is made.
    return;
  }
  if (room.bytes < limits.placeBytesMin || room.files < limits.placeFilesMin) {
    const left = `${room.bytes} bytes and ${room.files} files are left`;
    throw new EdgeError('full', `the run directory ${runDirectory} is full: ${left}`, {
      hint: 'free some space there',
    });
  }
}

/**
 * Takes away what a run directory holds when no attempt has anything left in it, and the directory itself where it is
 * the product's own: memory is not left behind for every data directory that there ever was. Called by its holder.
 */
export function removeRunDirectory(runDirectory: string, { isOwn }: { readonly isOwn: boolean }): void {
  const attempts = join(runDirectory, 'attempts');
  if (!existsSync(attempts) || readdirSync(attempts).length > 0) {
    return;
  }
  rmdirSync(attempts);
  rmSync(join(runDirectory, 'launcher.sh'), { force: true });
  if (isOwn && readdirSync(runDirectory).length === 0) {
    rmdirSync(runDirectory);
  }
}
