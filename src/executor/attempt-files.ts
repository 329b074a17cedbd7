// The files of one attempt's directory, as launcher.sh writes them. Owns names, forms and parsing; decides nothing.
//
// Every line ends with a mark and names its attempt: a line that is torn, foreign or forged by accident is null here.
// What a command may have put in their place (a FIFO, a link, something huge) neither blocks the reader nor fills it.
// Every reader throws where this process is only short of descriptors or memory (shortage.ts).
import { closeSync, constants, fstatSync, lstatSync, openSync, readlinkSync, readSync, type Stats } from 'node:fs';
import path from 'node:path';
import { assert } from '../core/errors.ts';
import { nullUnlessShort } from './shortage.ts';

/** Who the launcher is. `pid` is also the id of the session and of the command's process group. */
export type Identity = {
  readonly pid: number;
  /** Start of the process since boot in 1/100 s, as /proc counts everywhere on Linux. */
  readonly startTicks: number;
  readonly bootId: string;
  readonly uptimeMs: number;
  /** 0: it has no pump, and no FIFO `alive` either. */
  readonly pumpPid: number;
};

export type Receipt = {
  /** As a shell reports it: 128 + n for signal n, and for `exit 128+n` as well. */
  readonly status: number;
  readonly endUptimeMs: number;
  /** Wall time of the command's end, from the file: a shell has no clock without a fork. */
  readonly endedAtMs: number;
};

export type TakenState = 'free' | 'withdrawn' | 'taken';

/** Marks a launcher, and what it forks, by its attempt's directory; the command has another environment. */
export const launcherVariable = 'QL_LAUNCHER_OF';
export const withdrawnTarget = 'withdrawn';
const lineBytesMax = 4096;
const lineBuffer = Buffer.alloc(lineBytesMax);

/** Whether a directory of this name can be an attempt's: attempt ids are portable ids, so they are file names. */
export function isAttemptId(name: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._:-]{0,35}$/.test(name);
}

/** The directory of an attempt below a run directory. */
export function attemptDirectory(runDirectory: string, attemptId: string): string {
  assert(isAttemptId(attemptId), 'an attempt id is a portable id');
  return path.join(runDirectory, 'attempts', attemptId);
}

/** Opens a regular file for reading; null where there is none, or something else in its place. Never blocks. */
export function openRegular(file: string): { readonly fd: number; readonly stats: Stats } | null {
  let fd: number;
  try {
    fd = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  } catch (error) {
    return nullUnlessShort(error);
  }
  const stats = fstatSync(fd);
  if (stats.isFile()) {
    return { fd, stats };
  }
  closeSync(fd);
  return null;
}

/** At most the first 4 KiB of a file as Latin-1, or null. */
export function readHead(file: string): { readonly text: string; readonly stats: Stats } | null {
  const opened = openRegular(file);
  if (opened === null) {
    return null;
  }
  try {
    const bytes = readSync(opened.fd, lineBuffer, 0, lineBytesMax, 0);
    return { text: lineBuffer.toString('latin1', 0, bytes), stats: opened.stats };
  } catch (error) {
    return nullUnlessShort(error);
  } finally {
    closeSync(opened.fd);
  }
}

/** The words of a line `KIND ATTEMPT-ID word… end`, complete with its line end; null for anything else. */
export function parseLine(text: string, kind: string, attemptId: string): string[] | null {
  const end = text.indexOf('\n');
  const words = text.slice(0, Math.max(0, end)).split(' ');
  const isWhole = end > 0 && words[0] === kind && words[1] === attemptId && words.at(-1) === 'end';
  return isWhole ? words.slice(2, -1) : null;
}

function parseCount(word: string | undefined): number | null {
  return word !== undefined && /^[0-9]{1,15}$/.test(word) ? Number(word) : null;
}

/** `/proc/uptime` has two decimals. */
function parseUptime(word: string | undefined): number | null {
  return word !== undefined && /^[0-9]{1,12}\.[0-9]{2}$/.test(word) ? Math.round(Number(word) * 1000) : null;
}

/** The launcher's identity, or null where it wrote none (yet). */
export function readIdentity(directory: string, attemptId: string): Identity | null {
  const head = readHead(path.join(directory, 'identity'));
  const words = head === null ? null : parseLine(head.text, 'ql-identity-1', attemptId);
  if (words?.length !== 5) {
    return null;
  }
  const [pid, startTicks, uptimeMs] = [parseCount(words[0]), parseCount(words[1]), parseUptime(words[3])];
  const [bootId, pumpPid] = [words[2], parseCount(words[4])];
  if (
    pid === null ||
    pid <= 1 ||
    pumpPid === 1 ||
    startTicks === null ||
    uptimeMs === null ||
    !bootId ||
    pumpPid === null
  ) {
    return null;
  }
  return { pid, startTicks, bootId, uptimeMs, pumpPid };
}

/** The receipt, or null: wrong shape and another attempt's count as none. */
export function readReceipt(directory: string, attemptId: string): Receipt | null {
  const head = readHead(path.join(directory, 'receipt'));
  const words = head === null ? null : parseLine(head.text, 'ql-receipt-1', attemptId);
  const status = parseCount(words?.[0]);
  const endUptimeMs = parseUptime(words?.[1]);
  if (head === null || words?.length !== 2 || status === null || status > 255 || endUptimeMs === null) {
    return null;
  }
  return { status, endUptimeMs, endedAtMs: Math.round(head.stats.mtimeMs) };
}

/** Who created `taken`: the command's process, whoever took the start back, or nobody yet. */
export function readTakenState(directory: string): TakenState {
  const file = path.join(directory, 'taken');
  try {
    return lstatSync(file).isSymbolicLink() && readlinkSync(file) === withdrawnTarget ? 'withdrawn' : 'taken';
  } catch {
    return 'free';
  }
}

/** What the command's process wrote as it took the start. `pid` is null where a full disk kept it from writing. */
export function readTaken(directory: string, attemptId: string): { pid: number | null; atMs: number } | null {
  const head = readHead(path.join(directory, 'taken'));
  if (head === null) {
    return null;
  }
  const pid = parseCount(parseLine(head.text, 'ql-taken-1', attemptId)?.[0]);
  return { pid, atMs: Math.round(head.stats.mtimeMs) };
}

/** The launcher had nothing to make a pump of. */
export function isOutputThrownAway(directory: string, attemptId: string): boolean {
  const words = parseLine(readHead(path.join(directory, 'count'))?.text ?? '', 'ql-count-1', attemptId);
  return words?.[2] === '-';
}

/** What the launcher's shell said: `before` its child was forked, and `after`, which is its word about a signal. */
export function readNotes(directory: string): { readonly before: string; readonly after: string } {
  const text = readHead(path.join(directory, 'notes'))?.text ?? '';
  const [before = '', after = ''] = text.split('ql-notes-1\n', 2);
  return { before: before.trim(), after: after.trim() };
}
