// Where the run directory of a data directory is: what concerns processes and means nothing after a reboot.
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { EdgeError } from '../core/errors.ts';
import { fromFileError } from '../core/file-error.ts';
import { fingerprint } from '../core/hash.ts';
import { limits } from '../core/limits.ts';
import { makeDirectories } from '../store/make-directories.ts';
import { removeFile } from '../store/remove-file.ts';

// TMPFS_MAGIC and RAMFS_MAGIC of linux/magic.h.
const memoryTypes: ReadonlySet<number> = new Set([0x01021994, 0x858458f6]);

const othersMayWrite = 0o022;
const stickyBit = 0o1000;

function userId(): number {
  return process.geteuid?.() ?? 0;
}

/**
 * Memory-backed where that is possible: process identity means nothing after a reboot, and none of it belongs on flash.
 * One directory a data directory. Where attempts are left it is the one that they are in, however the data directory is
 * called now and whatever places have come since: looked for elsewhere they would be taken for gone, and run again.
 */
export function runDirectoryOf(data: string, asked: string | null): string {
  return levelsOf(data, asked).at(-1)!;
}

/** The directories that must be this user's alone, outermost first; the last one is the run directory. */
function levelsOf(data: string, asked: string | null): readonly string[] {
  if (asked !== null) {
    return [resolve(asked)];
  }
  const left = findLeftAttempts(data);
  if (left !== null) {
    return [left];
  }
  const places = ['/run', `/run/user/${userId()}`, '/var/run', '/dev/shm'].filter(isUsable);
  const place = places.find(isInMemory) ?? places.find((name) => name === '/run');
  if (place === undefined) {
    return [ownPlace(data)];
  }
  // Where others write too, a name for everybody would be whose who comes first.
  const own = join(place, isShared(place) ? `${ownName}-${userId()}` : ownName);
  return [own, join(own, fingerprint(resolve(data)))];
}

const ownName = 'qinglong-edge';

/** Where the system has no place for it. */
function ownPlace(data: string): string {
  return join(resolve(data), 'run');
}

/** Whether this user may write there, and nobody else may rename what this user has there. */
function isUsable(place: string): boolean {
  return isWritable(place) && (!isShared(place) || (statSync(place).mode & stickyBit) !== 0);
}

function isShared(place: string): boolean {
  return (statSync(place).mode & othersMayWrite) !== 0;
}

/**
 * Makes the run directory where it is missing, says there whose it is, and returns it. Throws what
 * `makePrivateDirectory` throws, of it or of the directory of this user around it, and `busy` where another data
 * directory has it.
 */
export function makeRunDirectory(data: string, asked: string | null): string {
  const levels = levelsOf(data, asked);
  levels.forEach(makePrivateDirectory);
  const runDirectory = levels.at(-1)!;
  const left = findLeftAttempts(data);
  if (left !== null && !isSameDirectory(left, runDirectory)) {
    throw new EdgeError('busy', `attempts that have not been settled are in the run directory ${left}`, {
      hint: `go on with --run-dir ${left}, or without --run-dir, until they have ended`,
    });
  }
  claimRunDirectory(runDirectory, resolve(data));
  return runDirectory;
}

/** Beside the database: where the attempts are. Not synced: after a power cut there are none. */
const placeFile = 'run-directory';

/** The run directory that this data directory had last, while attempts are in it; null where there are none. */
function findLeftAttempts(data: string): string | null {
  const place = readText(join(resolve(data), placeFile));
  return place !== null && listAttempts(place).length > 0 ? place : null;
}

function listAttempts(runDirectory: string): readonly string[] {
  try {
    return readdirSync(join(runDirectory, 'attempts'));
  } catch {
    // Gone with the memory that it was in, or out of reach: whoever uses it says so.
    return [];
  }
}

/** Names the data directory whose attempts are here: those of another one would be taken for its leftovers. */
const ownerFile = 'data-directory';

function claimRunDirectory(runDirectory: string, data: string): void {
  const trouble = findOwnerTrouble(runDirectory, data);
  if (trouble !== null) {
    throw trouble;
  }
  writeOnce(join(runDirectory, ownerFile), data);
  // A directory that nothing is kept in yet, as of `doctor`, gets no file.
  if (existsSync(data)) {
    writeOnce(join(data, placeFile), runDirectory);
  }
}

/** Leaves a file alone that says this already: flash is not written for nothing. */
function writeOnce(file: string, text: string): void {
  try {
    if (readText(file) !== text) {
      removeFile(file);
      writeFileSync(file, text, { flag: 'wx', mode: 0o600 });
    }
  } catch (error) {
    throw fromFileError(error, { doing: `write ${file}`, access: 'writes', hint: otherPlace });
  }
}

/** A data directory that is gone owns nothing any more; one that was renamed finds its attempts again. */
function findOwnerTrouble(runDirectory: string, data: string): EdgeError | null {
  const owner = readOwner(runDirectory);
  return owner === null || !existsSync(owner) || isSameDirectory(owner, data)
    ? null
    : new EdgeError('busy', `the run directory ${runDirectory} is that of the data directory ${owner}`, {
        hint: otherPlace,
      });
}

/** Null where nobody is named. */
function readOwner(runDirectory: string): string | null {
  return readText(join(runDirectory, ownerFile));
}

/** Null where no such file is, or an empty one: its writing was cut off. */
function readText(file: string): string | null {
  return lstatSync(file, { throwIfNoEntry: false })?.isFile() === true ? readFileSync(file, 'utf8') || null : null;
}

function isSameDirectory(one: string, other: string): boolean {
  const [a, b] = [one, other].map((name) => statSync(name, { throwIfNoEntry: false }));
  return a !== undefined && b !== undefined && a.dev === b.dev && a.ino === b.ino;
}

/** Why the run directory could not be used as it is now; null where nothing is wrong, or it is not there yet. */
export function findRunDirectoryTrouble(data: string, asked: string | null): EdgeError | null {
  for (const level of levelsOf(data, asked)) {
    const trouble = findTrouble(level);
    if (trouble !== null) {
      return trouble;
    }
  }
  return findOwnerTrouble(runDirectoryOf(data, asked), resolve(data));
}

const otherPlace = 'name another run directory with --run-dir';

/**
 * Makes a directory (0700) where it is missing. Another user who could write there could stand in for the holder, so an
 * existing one must be no link, this user's, and closed to all others; an empty one is closed here. Throws
 * `unavailable`, `invalid` and `full`, each with what to do.
 */
export function makePrivateDirectory(directory: string): void {
  try {
    if (lstatSync(directory, { throwIfNoEntry: false }) === undefined) {
      makeDirectories(directory);
    }
    const stats = lstatSync(directory);
    const isOwn = stats.isDirectory() && stats.uid === userId();
    if (isOwn && (stats.mode & 0o077) !== 0 && readdirSync(directory).length === 0) {
      chmodSync(directory, 0o700);
    }
  } catch (error) {
    const hint = `${otherPlace}: it must be writable`;
    throw fromFileError(error, { doing: `make the run directory ${directory}`, access: 'writes', hint });
  }
  const trouble = findTrouble(directory);
  if (trouble !== null) {
    throw trouble;
  }
}

function findTrouble(directory: string): EdgeError | null {
  const stats = lstatSync(directory, { throwIfNoEntry: false });
  if (stats === undefined) {
    return null;
  }
  if (!stats.isDirectory()) {
    const what = stats.isSymbolicLink() ? 'a link' : 'not a directory';
    return new EdgeError('unavailable', `the run directory ${directory} is ${what}`, {
      hint: `move it away, or ${otherPlace}`,
    });
  }
  if (stats.uid !== userId()) {
    const message = `the run directory ${directory} belongs to user ${stats.uid}, not to user ${userId()}`;
    return new EdgeError('unavailable', message, { hint: otherPlace });
  }
  return (stats.mode & 0o077) === 0
    ? null
    : new EdgeError('unavailable', `the run directory ${directory} is open to other users`, {
        hint: `chmod 700 ${directory}, or ${otherPlace}`,
      });
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
export function removeRunDirectory(runDirectory: string, data: string): void {
  const attempts = join(runDirectory, 'attempts');
  if (!existsSync(attempts) || readdirSync(attempts).length > 0) {
    return;
  }
  rmdirSync(attempts);
  removeFile(join(runDirectory, 'launcher.sh'));
  removeFile(join(runDirectory, ownerFile));
  const isOwn = basename(dirname(runDirectory)).startsWith(ownName) || runDirectory === ownPlace(data);
  if (isOwn && readdirSync(runDirectory).length === 0) {
    rmdirSync(runDirectory);
  }
}
