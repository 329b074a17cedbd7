// What a command wrote, from the segments in its attempt's directory: pure file reading, also by a process that is not
// the runtime, while the pump is still writing, and on after the directory was removed: what was opened stays readable.
// Output is data: bytes, never taken for text or markup here.
//
// out.0 is the beginning; out.1 and out.2 alternate, and `count` says where in the stream each of them begins. Offsets
// are those of the stream, whatever of it is still there.
import { closeSync, fstatSync, readSync } from 'node:fs';
import path from 'node:path';
import { openRegular, parseLine } from './attempt-files.ts';
import { trimEnd, trimStart } from './character-bounds.ts';

/** Stream offsets; `end` is behind the last byte. */
export type Range = { readonly start: number; readonly end: number };

export type OutputState = {
  /** What is there, by rising offset; what lies between two of them was dropped. */
  readonly ranges: readonly Range[];
  /** End of what was kept of the stream's end. */
  readonly keptEnd: number;
  /** Came after `keptEnd` and was thrown away, for want of space. */
  readonly thrownBytes: number;
  readonly totalBytes: number;
  /** Nothing comes any more. */
  readonly isEnded: boolean;
  /** False: the pump was killed or is held by a process that escaped; the counts are of what it had written. */
  readonly isExact: boolean;
};

/** `offset` is later than asked for where that part was dropped; no bytes: nothing is there, or not yet. */
export type OutputPiece = { readonly offset: number; readonly bytes: Buffer };

/** The output of one attempt, wherever it is. What is not there reads as nothing; throws for want of descriptors. */
export type OutputSource = {
  look(): OutputState;
  /** Fills `target` as far as there is something in one piece from `offset` on; the bytes are a part of it. */
  read(offset: number, target: Buffer): OutputPiece;
  close(): void;
};

type Segment = Range & { readonly index: number };
type Counts = { readonly starts: readonly (number | null)[]; readonly thrownBytes: number; readonly state: string };

const segmentNames = ['out.0', 'out.1', 'out.2'] as const;
const retriesMax = 5;
const countBytesMax = 4096;

/**
 * Opens the output in an attempt's directory, as far as it is there: what comes to be later is opened when it is looked
 * for. Holds up to four descriptors until `close`.
 */
export function openOutput(directory: string, attemptId: string): OutputSource {
  const descriptors = new Map<string, number>();
  const countBuffer = Buffer.alloc(countBytesMax);
  const descriptorOf = (name: string): number | null => {
    const known = descriptors.get(name) ?? openRegular(path.join(directory, name))?.fd ?? null;
    if (known !== null) {
      descriptors.set(name, known);
    }
    return known;
  };
  const readCounts = (): Counts => {
    const fd = descriptorOf('count');
    const length = fd === null ? 0 : readQuietly(fd, countBuffer, 0);
    return parseCounts(countBuffer.toString('latin1', 0, length), attemptId);
  };
  const look = () => {
    const counts = readCounts();
    const segments = counts.starts.flatMap((start, index) => {
      const fd = start === null ? null : descriptorOf(segmentNames[index]!);
      return start === null || fd === null ? [] : [{ index, start, end: start + fstatSync(fd).size }];
    });
    segments.sort((one, other) => one.start - other.start);
    return { segments, state: describeState(segments, counts) };
  };
  const readSegment = ({ index, start, end }: Segment, offset: number, target: Buffer): Buffer => {
    const fd = descriptors.get(segmentNames[index]!)!;
    const length = readQuietly(fd, target.subarray(0, Math.min(target.length, end - offset)), offset - start);
    // It may have been taken for newer output meanwhile; its start in `count` was taken out before that.
    const isStill = index === 0 || readCounts().starts[index] === start;
    return target.subarray(0, isStill ? length : 0);
  };
  return {
    look: () => look().state,
    read(offset, target) {
      for (let retries = 0; retries < retriesMax; retries += 1) {
        const segment = look().segments.find(({ end }) => end > offset);
        if (segment === undefined) {
          break;
        }
        const from = Math.max(offset, segment.start);
        const bytes = readSegment(segment, from, target);
        if (bytes.length > 0) {
          return { offset: from, bytes };
        }
      }
      return { offset, bytes: target.subarray(0, 0) };
    },
    close() {
      descriptors.forEach((fd) => void closeSync(fd));
      descriptors.clear();
    },
  };
}

function readQuietly(fd: number, target: Buffer, position: number): number {
  try {
    return readSync(fd, target, 0, target.length, position);
  } catch {
    return 0;
  }
}

function parseCounts(text: string, attemptId: string): Counts {
  const words = parseLine(text, 'ql-count-1', attemptId);
  return {
    starts: [0, parseStart(words?.[0]), parseStart(words?.[1])],
    thrownBytes: parseStart(words?.[2]) ?? 0,
    state: words?.[3] ?? 'open',
  };
}

function parseStart(word: string | undefined): number | null {
  return word !== undefined && /^[0-9]{1,15}$/.test(word) ? Number(word) : null;
}

function describeState(segments: readonly Segment[], { thrownBytes, state }: Counts): OutputState {
  const keptEnd = segments.at(-1)?.end ?? 0;
  return {
    ranges: joinRanges(segments),
    keptEnd,
    thrownBytes,
    totalBytes: keptEnd + thrownBytes,
    isEnded: state === 'done' || state === 'short',
    isExact: state === 'done',
  };
}

/** Without what is empty, and with neighbours as one. */
function joinRanges(segments: readonly Segment[]): readonly Range[] {
  const ranges: Range[] = [];
  for (const { start, end } of segments.filter((segment) => segment.end > segment.start)) {
    const last = ranges.at(-1);
    if (last?.end === start) {
      ranges[ranges.length - 1] = { start: last.start, end };
    } else {
      ranges.push({ start, end });
    }
  }
  return ranges;
}

/** How much a command has written, and whether all of it is still there within `bytesMax`. */
export function measureOutput(directory: string, attemptId: string, bytesMax: number) {
  const source = openOutput(directory, attemptId);
  try {
    const { ranges, totalBytes, isExact } = source.look();
    const keptBytes = ranges.reduce((sum, { start, end }) => sum + end - start, 0);
    const isWhole = isExact && keptBytes === totalBytes && totalBytes <= bytesMax;
    return { outputBytes: totalBytes, outputTruncated: !isWhole, isExact };
  } finally {
    source.close();
  }
}

/** The parts of an output that a bound leaves of it: the first, [0, headEnd), and the last, [tailStart, tailEnd). */
export type OutputCut = {
  readonly headEnd: number;
  readonly tailStart: number;
  readonly tailEnd: number;
  /** Came after `tailEnd`, when there was no space any more. */
  readonly thrownBytes: number;
};

/** Cuts the output of an attempt that has ended to `bytesMax`, between characters. */
export function cutOutput(source: OutputSource, bytesMax: number): OutputCut {
  const { ranges, keptEnd, thrownBytes } = source.look();
  const [first, last] = [ranges[0], ranges.at(-1)];
  const firstEnd = first?.start === 0 ? first.end : 0;
  if (firstEnd === keptEnd && keptEnd <= bytesMax) {
    return { headEnd: keptEnd, tailStart: keptEnd, tailEnd: keptEnd, thrownBytes };
  }
  const headEnd = Math.min(firstEnd, Math.floor(bytesMax / 2));
  const tailStart = Math.max(headEnd, last?.start ?? 0, keptEnd - (bytesMax - headEnd));
  return {
    headEnd: boundaryBefore(source, headEnd),
    tailStart: boundaryAfter(source, { start: tailStart, end: keptEnd }),
    tailEnd: keptEnd,
    thrownBytes,
  };
}

/** Where the character ends that is the last whole one before `end`. */
export function boundaryBefore(source: OutputSource, end: number): number {
  const start = Math.max(0, end - 4);
  const bytes = readRange(source, { start, end });
  return bytes.length === end - start ? start + trimEnd(bytes).length : end;
}

/** Where the first character begins at `start` or after it. */
export function boundaryAfter(source: OutputSource, { start, end }: Range): number {
  const bytes = readRange(source, { start, end: Math.min(start + 4, end) });
  return start + bytes.length - trimStart(bytes).length;
}

/**
 * The last bytes that are there in one piece, at most `bytesMax`. They begin with a whole character, and, while more
 * may come, end with one.
 */
export function readTail(source: OutputSource, bytesMax: number): Buffer {
  const { ranges, isEnded } = source.look();
  const last = ranges.at(-1) ?? { start: 0, end: 0 };
  const start = Math.max(last.start, last.end - bytesMax);
  const bytes = readRange(source, { start, end: last.end });
  const whole = start === 0 ? bytes : trimStart(bytes);
  return isEnded ? whole : trimEnd(whole);
}

/** The bytes of a range, as far as they are still there from its start on. */
export function readRange(source: OutputSource, { start, end }: Range): Buffer {
  return fillFrom(source, start, Buffer.alloc(end - start));
}

/** Fills `target` with what is there in one piece from exactly `start` on. */
export function fillFrom(source: OutputSource, start: number, target: Buffer): Buffer {
  for (let filled = 0; ; ) {
    const { offset, bytes } = source.read(start + filled, target.subarray(filled));
    if (bytes.length === 0 || offset !== start + filled) {
      return target.subarray(0, filled);
    }
    filled += bytes.length;
  }
}
