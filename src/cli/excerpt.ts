// The end of what a command wrote, as lines for people. Bytes are data: what is no UTF-8 shows as replacement
// characters, controls as escapes. Pure.
import { cutToWidth, neutralize, neutralizeLines } from './plain-text.ts';

export type Excerpt = {
  /** Neutralized, none longer than a few lines of a terminal. */
  readonly lines: readonly string[];
  /** What comes before them: counted in lines where all of it was looked at, else in bytes. Null: nothing. */
  readonly before: { readonly lines: number } | { readonly bytes: number } | null;
};

/** A line without an end, such as JSON in one piece, is told by its beginning. */
const lineWidthMax = 400;
const lastLineWidthMax = 200;
const mark = '...';
const lineEnd = 0x0a;

/** The last lines of an output, given the end of it; line ends at its very end count for nothing. */
export function takeExcerpt(
  output: { readonly tail: Uint8Array; readonly totalBytes: number },
  linesMax: number,
): Excerpt {
  const { totalBytes } = output;
  const tail = withoutLineEnds(output.tail);
  const shown = tailBytes(tail, linesMax);
  const isWhole = output.tail.length === totalBytes;
  const text = neutralizeLines(decodeBytes(shown));
  return {
    lines: text === '' ? [] : text.split('\n').map((line) => cutToWidth(line, { widthMax: lineWidthMax, mark })),
    before: isWhole
      ? linesBefore(tail, shown)
      : { bytes: totalBytes - (output.tail.length - tail.length) - shown.length },
  };
}

function withoutLineEnds(bytes: Uint8Array): Uint8Array {
  let end = bytes.length;
  while (bytes[end - 1] === lineEnd || bytes[end - 1] === 0x0d) {
    end -= 1;
  }
  return bytes.subarray(0, end);
}

function linesBefore(bytes: Uint8Array, shown: Uint8Array): { readonly lines: number } | null {
  const before = bytes.subarray(0, bytes.length - shown.length);
  return before.length === 0 ? null : { lines: before.filter((byte) => byte === lineEnd).length };
}

/** The last line that is not blank; null where there is none. Of a progress bar, what it shows last. */
export function lastLineOf(bytes: Uint8Array): string | null {
  const lines = decodeBytes(bytes).split(/[\n\r]/);
  const line = lines.findLast((candidate) => candidate.trim() !== '');
  return line === undefined ? null : cutToWidth(neutralize(line).trim(), { widthMax: lastLineWidthMax, mark });
}

/** The bytes from the beginning of the last `lines` lines on; a line end at the very end belongs to the last line. */
export function tailBytes(bytes: Uint8Array, lines: number): Uint8Array {
  let start = bytes.at(-1) === lineEnd ? bytes.length - 1 : bytes.length;
  for (let count = 0; count < lines; count += 1) {
    start = start === 0 ? -1 : bytes.lastIndexOf(lineEnd, start - 1);
    if (start < 0) {
      return bytes;
    }
  }
  return bytes.subarray(start + 1);
}

function decodeBytes(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
}
