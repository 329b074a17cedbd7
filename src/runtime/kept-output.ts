// Output that outlives its attempt: copied to `artifacts/`, synced and renamed before the completion commits. Owns the
// files there, their quota and the order in which they go: the oldest first, never one of an attempt that has not
// ended. Copies in pieces, so that memory does not depend on how much is kept.
import {
  closeSync,
  fsync,
  fsyncSync,
  futimesSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { EdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Clock } from '../core/ports.ts';
import { cutOutput, type OutputSource, type Range } from '../executor/output.ts';
import { makeDirectories } from '../store/make-directories.ts';
import {
  type KeptCut,
  type KeptPlace,
  keptFileName,
  keptFooter,
  outputBytesOf,
  parseKeptName,
  partialSuffix,
} from './kept-file.ts';

export type KeptOutputOptions = {
  readonly directory: string;
  /** Of one attempt. */
  readonly bytesMax: number;
  /** Of all of them together. */
  readonly quotaBytes: number;
  readonly clock: Clock;
  readonly isInFlight: (attemptId: string) => boolean;
};

type KeptFile = { readonly place: KeptPlace; readonly file: string; readonly bytes: number; readonly atMs: number };

/** `newestMs`: of the file that goes last. */
type Usage = { readonly usedBytes: number; readonly newestMs: number };

const pieceBytes = 64 * 1024;
/** Between two looks at the event loop; what is longer is synced beside it, too. */
const piecesPerTurn = 4;

const syncBeside = promisify(fsync);

/** Touches nothing until something is kept or swept. */
export class KeptOutput {
  readonly #options: KeptOutputOptions;
  /** Many small files are bounded too: to find the oldest, all names are read. */
  readonly #costMin: number;
  /** Null: to be counted again. */
  #usage: Usage | null = null;
  #last: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  constructor(options: KeptOutputOptions) {
    this.#options = options;
    this.#costMin = Math.max(limits.keptCostBytesMin, Math.ceil(options.quotaBytes / limits.keptFilesMax));
  }

  /**
   * Cuts and copies the output of an attempt that has ended, one at a time; durable when it resolves. Empty output
   * makes no file, and answers false. Rejects with `full` where the quota has no room, and with what the file system
   * says; then no half of it is left.
   */
  keep(place: KeptPlace, source: OutputSource): Promise<boolean> {
    const kept = this.#last.then(() => this.#keep(place, source));
    this.#last = kept.catch(() => {});
    return kept;
  }

  async #keep(place: KeptPlace, source: OutputSource): Promise<boolean> {
    const { directory, bytesMax, quotaBytes, clock } = this.#options;
    const cut = { ...cutOutput(source, Math.min(bytesMax, quotaBytes)), isExact: source.look().isExact };
    if (cutBytes(cut) === 0) {
      return false;
    }
    if (makeDirectories(directory) !== null) {
      syncDirectory(dirname(directory));
    }
    const file = join(directory, keptFileName(place));
    const partial = `${file}${partialSuffix}`;
    const usage = this.#makeRoom(place, cutBytes(cut));
    // Later than all others, whatever the clock says: the order is that in which they were kept.
    const atMs = Math.max(clock.observe().wallMs, usage.newestMs + 1);
    // Whatever fails, what is there is counted again.
    this.#usage = null;
    try {
      const written = await writeKept(partial, { attemptId: place.attemptId, source, cut, atMs });
      renameSync(partial, file);
      syncDirectory(directory);
      this.#usage = { usedBytes: usage.usedBytes + this.#costOf(cutBytes(written)), newestMs: atMs };
      return true;
    } catch (error) {
      remove(partial);
      throw error;
    }
  }

  /** What is there once there is room for one more. */
  #makeRoom(place: KeptPlace, bytes: number): Usage {
    const { directory, quotaBytes, isInFlight } = this.#options;
    // An earlier process may have kept it and died before the completion: it is written again.
    const isThere = statSync(join(directory, keptFileName(place)), { throwIfNoEntry: false }) !== undefined;
    const known = isThere ? null : this.#usage;
    if (known !== null && known.usedBytes + this.#costOf(bytes) <= quotaBytes) {
      return known;
    }
    const others = listKept(directory).filter(({ place: { attemptId } }) => attemptId !== place.attemptId);
    others.sort((one, other) => one.atMs - other.atMs);
    const newestMs = others.at(-1)?.atMs ?? 0;
    let usedBytes = others.reduce((sum, file) => sum + this.#costOf(file.bytes), 0);
    const isFull = () => usedBytes + this.#costOf(bytes) > quotaBytes;
    // Once some must go, a sixteenth more goes with them, so that the names are not read for every file.
    const goalBytes = quotaBytes - this.#costOf(bytes) - (isFull() ? Math.floor(quotaBytes / 16) : 0);
    for (const { place: owner, file, bytes: oldBytes } of others) {
      if (usedBytes > goalBytes && !isInFlight(owner.attemptId) && remove(file)) {
        usedBytes -= this.#costOf(oldBytes);
      }
    }
    if (isFull()) {
      const hint = 'raise outputQuota';
      throw new EdgeError('full', 'outputQuota is used up by attempts whose end is not recorded yet', { hint });
    }
    return { usedBytes, newestMs };
  }

  #costOf(bytes: number): number {
    return Math.max(this.#costMin, bytes);
  }

  /**
   * Removes halves that an earlier process left, and what belongs to no attempt that is known; run by run, other work
   * in between. `attemptsOf` answers an empty set for a run that is unknown; one that it rejects is left alone.
   */
  async sweep(attemptsOf: (runId: string) => Promise<ReadonlySet<string>>): Promise<void> {
    const { directory, isInFlight } = this.#options;
    const kept = listNames(directory).flatMap((name) => {
      const owner = parseKeptName(name);
      return owner === null ? [] : [{ name, ...owner }];
    });
    for (const [runId, own] of Map.groupBy(kept, (entry) => entry.runId)) {
      await nextTurn();
      const attempts = this.#isClosed ? null : await attemptsOf(runId).catch(() => null);
      if (this.#isClosed) {
        return;
      }
      for (const { name, attemptId, isPartial } of own) {
        if (!isInFlight(attemptId) && (isPartial || attempts?.has(attemptId) === false)) {
          remove(join(directory, name));
          this.#usage = null;
        }
      }
    }
  }

  /** Ends a sweep. */
  close(): void {
    this.#isClosed = true;
  }
}

function cutBytes({ headEnd, tailStart, tailEnd }: KeptCut): number {
  return headEnd + tailEnd - tailStart;
}

type Writing = {
  readonly attemptId: string;
  readonly source: OutputSource;
  readonly cut: KeptCut;
  readonly atMs: number;
};

/** Returns the cut as it could be written: a part that vanished meanwhile counts as left out. */
async function writeKept(file: string, { attemptId, source, cut, atMs }: Writing): Promise<KeptCut> {
  const fd = openSync(file, 'w', 0o600);
  try {
    const headEnd = await copyRange(fd, source, { start: 0, end: cut.headEnd });
    const tailEnd = await copyRange(fd, source, { start: cut.tailStart, end: cut.tailEnd });
    const thrownBytes = cut.thrownBytes + cut.tailEnd - tailEnd;
    const written = { ...cut, headEnd, tailEnd, thrownBytes };
    writeWhole(fd, keptFooter(attemptId, written));
    futimesSync(fd, atMs / 1000, atMs / 1000);
    if (cutBytes(written) > pieceBytes * piecesPerTurn) {
      await syncBeside(fd);
    } else {
      fsyncSync(fd);
    }
    return written;
  } finally {
    closeSync(fd);
  }
}

/** Returns where it ended: before the end of the range if the rest is not there any more. */
async function copyRange(fd: number, source: OutputSource, { start, end }: Range): Promise<number> {
  const piece = Buffer.allocUnsafe(Math.min(pieceBytes, end - start));
  let offset = start;
  for (let count = 1; offset < end; count += 1) {
    const { offset: from, bytes } = source.read(offset, piece.subarray(0, Math.min(piece.length, end - offset)));
    if (from !== offset || bytes.length === 0) {
      break;
    }
    writeWhole(fd, bytes);
    offset += bytes.length;
    if (count % piecesPerTurn === 0) {
      await nextTurn();
    }
  }
  return offset;
}

function writeWhole(fd: number, bytes: Buffer): void {
  for (let written = 0; written < bytes.length; ) {
    written += writeSync(fd, bytes, written);
  }
}

/** What was kept whole. A file that goes meanwhile is no longer there. */
function listKept(directory: string): KeptFile[] {
  return listNames(directory).flatMap((name) => {
    const place = parseKeptName(name);
    const stats = statSync(join(directory, name), { throwIfNoEntry: false });
    return place === null || place.isPartial || stats === undefined
      ? []
      : [
          {
            place,
            file: join(directory, name),
            bytes: outputBytesOf(place.attemptId, stats.size),
            atMs: stats.mtimeMs,
          },
        ];
  });
}

function listNames(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    // Nothing was kept so far; what else is wrong with it is met by the write.
    return [];
  }
}

/** False where it cannot be removed: the next one may be. */
function remove(file: string): boolean {
  try {
    rmSync(file, { force: true });
    return true;
  } catch {
    return false;
  }
}

function syncDirectory(directory: string): void {
  const fd = openSync(directory, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Lets the event loop go round once. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
