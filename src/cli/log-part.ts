// Which part of an output is shown: what was asked for, and where in the stream it lies. Reads from the end backwards,
// so that the end of a long output is there at once. Owns no printing.
import { boundaryAfter, boundaryBefore, fillFrom, type OutputSource, type Range } from '../executor/output.ts';
import type { OptionValues } from './options.ts';

export type LogPart =
  | { readonly kind: 'all' }
  /** The last lines, and not more than so many bytes of them. */
  | { readonly kind: 'lines'; readonly lines: number; readonly bytesMax: number }
  | { readonly kind: 'last'; readonly bytes: number }
  | { readonly kind: 'from'; readonly offset: number; readonly bytes: number };

/** What a terminal scrolls back to without being asked for everything. */
const terminalPart: LogPart = { kind: 'lines', lines: 200, bytesMax: 64 * 1024 };
const blockBytes = 64 * 1024;
const lineEnd = 0x0a;

/** On a terminal the end, unless something else is asked for; everything for programs and files. */
export function logPart(options: OptionValues, { isTerminal }: { readonly isTerminal: boolean }): LogPart {
  const { tail, offset, bytes } = options;
  if (tail !== undefined) {
    return { kind: 'lines', lines: tail, bytesMax: Number.POSITIVE_INFINITY };
  }
  if (offset !== undefined) {
    return { kind: 'from', offset, bytes: bytes ?? Number.POSITIVE_INFINITY };
  }
  if (bytes !== undefined) {
    return { kind: 'last', bytes };
  }
  return options.all === true || options.json === true || !isTerminal ? { kind: 'all' } : terminalPart;
}

/** Where that part lies now. Unless `isRaw`, it begins and ends with whole characters. */
export function findPart(source: OutputSource, part: LogPart, { isRaw }: { readonly isRaw: boolean }): Range {
  const { ranges, keptEnd, isEnded } = source.look();
  const begin = ranges[0]?.start ?? 0;
  const start = Math.min(findStart(source, part, begin), keptEnd);
  const end = part.kind === 'from' ? Math.min(keptEnd, part.offset + part.bytes) : keptEnd;
  if (isRaw || start >= end) {
    return { start, end: Math.max(start, end) };
  }
  const wholeStart = start === begin ? start : boundaryAfter(source, { start, end });
  const wholeEnd = isEnded && end === keptEnd ? end : boundaryBefore(source, end);
  return { start: wholeStart, end: wholeEnd > wholeStart ? wholeEnd : firstCharacterEnd(source, wholeStart) };
}

/** A page that is smaller than a character holds that one: whoever goes on behind it must come to the end. */
function firstCharacterEnd(source: OutputSource, start: number): number {
  const { keptEnd, isEnded } = source.look();
  const end = boundaryAfter(source, { start: start + 1, end: keptEnd });
  return isEnded || boundaryBefore(source, end) === end ? end : start;
}

function findStart(source: OutputSource, part: LogPart, begin: number): number {
  const { keptEnd } = source.look();
  switch (part.kind) {
    case 'all':
      return begin;
    case 'last':
      return Math.max(begin, keptEnd - part.bytes);
    case 'from':
      return part.offset;
    case 'lines':
      return findLines(source, part);
  }
}

/** Where the last lines begin. A line end at the very end belongs to the last line. */
function findLines(source: OutputSource, { lines, bytesMax }: Extract<LogPart, { kind: 'lines' }>): number {
  const { ranges, keptEnd } = source.look();
  const floor = Math.max(0, keptEnd - bytesMax);
  const block = Buffer.allocUnsafe(blockBytes);
  let start = keptEnd;
  let count = 0;
  for (const range of [...ranges].reverse()) {
    for (start = range.end; start > Math.max(range.start, floor); ) {
      const from = Math.max(range.start, floor, start - blockBytes);
      const bytes = fillFrom(source, from, block.subarray(0, start - from));
      if (bytes.length < start - from) {
        // Dropped while this reads.
        return start;
      }
      for (let at = bytes.lastIndexOf(lineEnd); at >= 0; at = at === 0 ? -1 : bytes.lastIndexOf(lineEnd, at - 1)) {
        count += from + at + 1 === keptEnd ? 0 : 1;
        if (count === lines) {
          return from + at + 1;
        }
      }
      start = from;
    }
    if (start <= floor) {
      break;
    }
  }
  return start;
}

export type PieceHandlers = {
  /** `bytes` are lent until it resolves. */
  readonly bytes: (offset: number, bytes: Buffer) => Promise<void>;
  readonly missing: (offset: number, count: number) => void;
};

/** Reads a range in order, piece by piece. Returns where it ended: before the end where the rest is not there. */
export async function readPieces(
  source: OutputSource,
  { start, end }: Range,
  handlers: PieceHandlers,
): Promise<number> {
  const target = Buffer.allocUnsafe(blockBytes);
  let offset = start;
  while (offset < end) {
    const piece = source.read(offset, target);
    const from = Math.min(piece.offset, end);
    const bytes = piece.bytes.subarray(0, end - from);
    if (piece.bytes.length === 0) {
      break;
    }
    if (from > offset) {
      handlers.missing(offset, from - offset);
    }
    if (bytes.length > 0) {
      await handlers.bytes(from, bytes);
    }
    offset = from + bytes.length;
  }
  return offset;
}
