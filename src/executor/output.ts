// What a command wrote, from the segments in its attempt's directory: pure file reading, also by a process that is not
// the runtime, and also while the pump is still writing. Output is data: bytes, never taken for text or markup here.
//
// out.0 is the beginning; out.1 and out.2 alternate, and `count` says where in the stream each of them begins.
import { closeSync, readSync, statSync } from 'node:fs';
import path from 'node:path';
import { openRegular, parseLine, readHead } from './attempt-files.ts';

type Segment = { readonly index: number; readonly start: number; readonly end: number };

type Layout = {
  /** By rising start; what lies between two of them was dropped. */
  readonly segments: readonly Segment[];
  /** End of what was kept of the stream's end. */
  readonly keptEnd: number;
  /** Read after `keptEnd` and thrown away, for want of space. */
  readonly thrownBytes: number;
  /** The pump has said that nothing comes any more. */
  readonly isEnded: boolean;
  /** Every byte was counted. */
  readonly isExact: boolean;
};

/** A piece of the stream as it is now. `offset` is later than asked for where that part was dropped. */
export type OutputPiece = {
  readonly offset: number;
  readonly bytes: Buffer;
  readonly nextOffset: number;
  readonly totalBytes: number;
  readonly isEnded: boolean;
};

/** Output cut to a bound: the first and the last part of the stream, at UTF-8 boundaries, and true counts. */
export type CollectedOutput = {
  readonly head: Buffer;
  readonly tail: Buffer;
  /** Dropped between `head` and `tail`. */
  readonly omittedBytes: number;
  /** Came after `tail`, when there was no space any more. */
  readonly thrownBytes: number;
  readonly totalBytes: number;
  /** False: the pump was killed or is held by a process that escaped; the counts are of what it had written. */
  readonly isExact: boolean;
};

const retriesMax = 5;

function readLayout(directory: string, attemptId: string): Layout {
  const words = parseLine(readHead(path.join(directory, 'count'))?.text ?? '', 'ql-count-1', attemptId);
  const starts = [0, parseStart(words?.[0]), parseStart(words?.[1])];
  const state = words?.[3] ?? 'open';
  const segments = starts.flatMap((start, index) => {
    const size = start === null ? null : segmentBytes(directory, index);
    return start === null || size === null ? [] : [{ index, start, end: start + size }];
  });
  segments.sort((one, other) => one.start - other.start);
  return {
    segments,
    keptEnd: segments.at(-1)?.end ?? 0,
    thrownBytes: parseStart(words?.[2]) ?? 0,
    isEnded: state === 'done' || state === 'short',
    isExact: state === 'done',
  };
}

function parseStart(word: string | undefined): number | null {
  return word !== undefined && /^[0-9]{1,15}$/.test(word) ? Number(word) : null;
}

function segmentBytes(directory: string, index: number): number | null {
  try {
    return statSync(path.join(directory, `out.${index}`)).size;
  } catch {
    return null;
  }
}

/** Reads into `target`; answers how many bytes there were. */
function readSegment(directory: string, { index, start }: Segment, offset: number, target: Buffer): number {
  const opened = openRegular(path.join(directory, `out.${index}`));
  if (opened === null) {
    return 0;
  }
  try {
    return readSync(opened.fd, target, 0, target.length, offset - start);
  } finally {
    closeSync(opened.fd);
  }
}

/** Reads from `offset` on, at most `bytesMax`. Empty with `nextOffset === offset`: nothing there (yet). */
export function readOutput(
  directory: string,
  attemptId: string,
  { offset, bytesMax }: { readonly offset: number; readonly bytesMax: number },
): OutputPiece {
  for (let retries = 0; ; retries += 1) {
    const layout = readLayout(directory, attemptId);
    const segment = layout.segments.find(({ end }) => end > offset);
    const totalBytes = layout.keptEnd + layout.thrownBytes;
    if (segment === undefined || retries === retriesMax) {
      return { offset, bytes: Buffer.alloc(0), nextOffset: offset, totalBytes, isEnded: layout.isEnded };
    }
    const from = Math.max(offset, segment.start);
    const target = Buffer.alloc(Math.min(bytesMax, segment.end - from));
    const bytes = target.subarray(0, readSegment(directory, segment, from, target));
    // The segment may have been taken for newer output meanwhile; then its start in `count` is another one.
    const after = readLayout(directory, attemptId).segments.find(({ index }) => index === segment.index);
    if (after?.start === segment.start && bytes.length > 0) {
      return { offset: from, bytes, nextOffset: from + bytes.length, totalBytes, isEnded: layout.isEnded };
    }
  }
}

/** How much a command has written, and whether all of it is still there within `bytesMax`. */
export function measureOutput(directory: string, attemptId: string, bytesMax: number) {
  const layout = readLayout(directory, attemptId);
  const keptBytes = layout.segments.reduce((sum, { start, end }) => sum + end - start, 0);
  const totalBytes = layout.keptEnd + layout.thrownBytes;
  const isWhole = layout.isExact && keptBytes === totalBytes && totalBytes <= bytesMax;
  return { outputBytes: totalBytes, outputTruncated: !isWhole, isExact: layout.isExact };
}

/** The output of an attempt that has ended, at most `bytesMax` of it. */
export function collectOutput(directory: string, attemptId: string, bytesMax: number): CollectedOutput {
  const layout = readLayout(directory, attemptId);
  const firstEnd = contiguousEnd(layout.segments);
  const lastStart = contiguousStart(layout.segments);
  const isWhole = firstEnd === layout.keptEnd && layout.keptEnd <= bytesMax;
  const headEnd = isWhole ? layout.keptEnd : Math.min(firstEnd, Math.floor(bytesMax / 2));
  const tailStart = Math.max(headEnd, lastStart, layout.keptEnd - (bytesMax - headEnd));
  const head = readRange(directory, layout, 0, headEnd);
  const tail = readRange(directory, layout, tailStart, layout.keptEnd);
  const cut = isWhole ? { head, tail } : { head: cutEnd(head), tail: cutStart(tail) };
  return {
    ...cut,
    omittedBytes: layout.keptEnd - cut.head.length - cut.tail.length,
    thrownBytes: layout.thrownBytes,
    totalBytes: layout.keptEnd + layout.thrownBytes,
    isExact: layout.isExact,
  };
}

function contiguousEnd(segments: readonly Segment[]): number {
  return segments.reduce((end, segment) => (segment.start === end ? segment.end : end), 0);
}

function contiguousStart(segments: readonly Segment[]): number {
  const last = segments.at(-1);
  return segments.reduceRight((start, segment) => (segment.end === start ? segment.start : start), last?.start ?? 0);
}

function readRange(directory: string, { segments }: Layout, from: number, to: number): Buffer {
  const target = Buffer.alloc(Math.max(0, to - from));
  let filled = 0;
  for (const segment of segments) {
    const [start, end] = [Math.max(from, segment.start), Math.min(to, segment.end)];
    if (start < end && start === from + filled) {
      filled += readSegment(directory, segment, start, target.subarray(filled, filled + end - start));
    }
  }
  return target.subarray(0, filled);
}

const isContinuation = (byte: number | undefined) => byte !== undefined && byte >= 0x80 && byte < 0xc0;

/** Without the first bytes of a character whose rest was cut off. */
function cutEnd(bytes: Buffer): Buffer {
  let lead = bytes.length - 1;
  while (lead > bytes.length - 4 && isContinuation(bytes[lead])) {
    lead -= 1;
  }
  const first = bytes[lead] ?? 0;
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  return lead >= 0 && lead + length > bytes.length ? bytes.subarray(0, lead) : bytes;
}

/** Without the last bytes of a character that began before. */
function cutStart(bytes: Buffer): Buffer {
  let start = 0;
  while (start < 3 && isContinuation(bytes[start])) {
    start += 1;
  }
  return isContinuation(bytes[start]) ? bytes : bytes.subarray(start);
}
