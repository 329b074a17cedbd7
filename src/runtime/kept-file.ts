// The form of an output that was kept: `artifacts/ATTEMPT@RUN.out`, the bytes of its first part, those of its last, and
// one line behind them that says where in the stream they belong. The name holds the run, so that what belongs to no
// run is found without asking for every attempt. Neither `@` nor a slash is part of an id.
import { closeSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { assert } from '../core/errors.ts';
import { openRegular, parseLine } from '../executor/attempt-files.ts';
import type { OutputCut, OutputPiece, OutputSource, OutputState } from '../executor/output.ts';

export type KeptPlace = { readonly runId: string; readonly attemptId: string };

/** `isExact` as of the output that it was cut from. */
export type KeptCut = OutputCut & { readonly isExact: boolean };

export const partialSuffix = '.partial';
const namePattern = /^([A-Za-z0-9][A-Za-z0-9._:-]{0,35})@([A-Za-z0-9][A-Za-z0-9._:-]{0,35})\.out(\.partial)?$/;
const kind = 'ql-output-1';
/** What `parseLine` and 2^53 allow; the same for all, so that the length of a file tells that of its output. */
const digits = 15;

export function keptFileName({ runId, attemptId }: KeptPlace): string {
  const name = `${attemptId}@${runId}.out`;
  assert(namePattern.test(name), 'run and attempt ids are portable ids');
  return name;
}

/** Whose a file in `artifacts/` is, by its name; null for what is not of this product. */
export function parseKeptName(name: string): (KeptPlace & { readonly isPartial: boolean }) | null {
  const match = namePattern.exec(name);
  return match === null ? null : { attemptId: match[1]!, runId: match[2]!, isPartial: match[3] !== undefined };
}

/** The line behind the bytes. */
export function keptFooter(attemptId: string, { headEnd, tailStart, tailEnd, thrownBytes, isExact }: KeptCut): Buffer {
  const numbers = [headEnd, tailStart, tailEnd, thrownBytes].map((value) => `${value}`.padStart(digits, '0'));
  return Buffer.from(`\n${[kind, attemptId, ...numbers, isExact ? 'exact' : 'short', 'end'].join(' ')}\n`, 'latin1');
}

const sampleCut = { headEnd: 0, tailStart: 0, tailEnd: 0, thrownBytes: 0, isExact: true };

/** Bytes of output in a file of this length. */
export function outputBytesOf(attemptId: string, fileBytes: number): number {
  return fileBytes - keptFooter(attemptId, sampleCut).length;
}

export type KeptReading =
  | { readonly kind: 'found'; readonly source: OutputSource }
  | { readonly kind: 'absent' }
  | { readonly kind: 'damaged'; readonly file: string };

/** Opens what was kept of an attempt. It stays readable when it is removed meanwhile, until it is closed. */
export function openKept(artifactsDirectory: string, place: KeptPlace): KeptReading {
  const file = join(artifactsDirectory, keptFileName(place));
  const opened = openRegular(file);
  if (opened === null) {
    return { kind: 'absent' };
  }
  const { fd, stats } = opened;
  const cut = readFooter(fd, stats.size, place.attemptId);
  if (cut === null) {
    closeSync(fd);
    return { kind: 'damaged', file };
  }
  return { kind: 'found', source: { look: () => stateOf(cut), read: readerOf(fd, cut), close: () => closeSync(fd) } };
}

function readFooter(fd: number, fileBytes: number, attemptId: string): KeptCut | null {
  const bytes = outputBytesOf(attemptId, fileBytes);
  const line = Buffer.alloc(Math.max(0, fileBytes - bytes));
  if (bytes < 0 || readSync(fd, line, 0, line.length, bytes) !== line.length) {
    return null;
  }
  const words = parseLine(line.toString('latin1', 1), kind, attemptId) ?? [];
  const [headEnd = Number.NaN, tailStart = 0, tailEnd = 0, thrownBytes = 0] = words.slice(0, 4).map(Number);
  const isWhole = words.length === 5 && headEnd + (tailEnd - tailStart) === bytes && headEnd <= tailStart;
  return isWhole ? { headEnd, tailStart, tailEnd, thrownBytes, isExact: words[4] === 'exact' } : null;
}

function stateOf({ headEnd, tailStart, tailEnd, thrownBytes, isExact }: KeptCut): OutputState {
  const parts = headEnd === tailStart ? [{ start: 0, end: tailEnd }] : partsOf(headEnd, tailStart, tailEnd);
  const ranges = parts.filter(({ start, end }) => start < end);
  return { ranges, keptEnd: tailEnd, thrownBytes, totalBytes: tailEnd + thrownBytes, isEnded: true, isExact };
}

function partsOf(headEnd: number, tailStart: number, tailEnd: number) {
  return [
    { start: 0, end: headEnd },
    { start: tailStart, end: tailEnd },
  ];
}

function readerOf(fd: number, cut: KeptCut): OutputSource['read'] {
  const { ranges } = stateOf(cut);
  return (offset, target): OutputPiece => {
    const range = ranges.find(({ end }) => end > offset);
    const from = Math.max(offset, range?.start ?? offset);
    const length = Math.min(target.length, (range?.end ?? from) - from);
    // What was left out is not in the file either.
    const position = from >= cut.tailStart ? from - cut.tailStart + cut.headEnd : from;
    return { offset: from, bytes: target.subarray(0, readSync(fd, target, 0, length, position)) };
  };
}
