// The end of what a command wrote, as lines for people. Bytes are data: what is no UTF-8 shows as replacement
// characters, controls as escapes. Pure.
import { neutralize, neutralizeLines } from './plain-text.ts';

export type Excerpt = {
  /** Neutralized. */
  readonly lines: readonly string[];
  /** How many lines come before them. */
  readonly omittedLines: number;
};

/** The last lines of an output; line ends at its very end count for nothing. */
export function takeExcerpt(bytes: Uint8Array, linesMax: number): Excerpt {
  const text = neutralizeLines(decodeBytes(bytes)).replace(/\n+$/, '');
  const lines = text === '' ? [] : text.split('\n');
  return { lines: lines.slice(-linesMax), omittedLines: Math.max(0, lines.length - linesMax) };
}

/** The last line that is not blank; null where there is none. Of a progress bar, what it shows last. */
export function lastLineOf(bytes: Uint8Array): string | null {
  const lines = decodeBytes(bytes).split(/[\n\r]/);
  const line = lines.findLast((candidate) => candidate.trim() !== '');
  return line === undefined ? null : neutralize(line).trim();
}

/** The bytes from the beginning of the last `lines` lines on; a line end at the very end belongs to the last line. */
export function tailBytes(bytes: Uint8Array, lines: number): Uint8Array {
  const lineEnd = 0x0a;
  let start = bytes.at(-1) === lineEnd ? bytes.length - 1 : bytes.length;
  for (let count = 0; count < lines; count += 1) {
    start = start === 0 ? -1 : bytes.lastIndexOf(lineEnd, start - 1);
    if (start < 0) {
      return bytes;
    }
  }
  return bytes.subarray(start + 1);
}

export function decodeBytes(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
}
