// What the commands of a run wrote, for whoever watches it: of attempts that ended in this process what it collected,
// of others what was kept, of running ones the last line so far. Keeps the end of each only.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { attemptDirectory } from '../executor/attempt-files.ts';
import { measureOutput, readOutput } from '../executor/output.ts';
import { keptOutputFile } from '../runtime/kept-output.ts';
import { type Excerpt, lastLineOf, takeExcerpt } from './excerpt.ts';

/** As much of a long output as is looked at at one sitting; all of it is one command away. */
const excerptLinesMax = 20;
/** Where the last line of a running command is looked for. */
const tailBytesMax = 4096;

export type AttemptOutputs = {
  /** The collected output of an attempt that ended here. */
  collect(attempt: { readonly attemptId: string; readonly output: Uint8Array }): void;
  /** The end of what an attempt wrote that has ended; null where nobody kept it. */
  excerpt(attemptId: string): Excerpt | null;
  /** The last line of an attempt that has ended; null where nobody kept it. */
  endLine(attemptId: string): string | null;
  /** The last line so far of one that runs; null where there is none. */
  liveLine(attemptId: string): string | null;
};

/** `runDirectory` answers null where nothing runs that can be read. */
export function createAttemptOutputs(places: {
  readonly data: string;
  readonly runDirectory: () => string | null;
}): AttemptOutputs {
  const collected = new Map<string, { readonly excerpt: Excerpt; readonly lastLine: string | null }>();
  const note = (attemptId: string, bytes: Uint8Array) => {
    const known = { excerpt: takeExcerpt(bytes, excerptLinesMax), lastLine: lastLineOf(bytes.subarray(-tailBytesMax)) };
    collected.set(attemptId, known);
    return known;
  };
  const find = (attemptId: string) => {
    const known = collected.get(attemptId);
    const kept = known === undefined ? readKept(places.data, attemptId) : null;
    return kept === null ? known : note(attemptId, kept);
  };
  return {
    collect: ({ attemptId, output }) => void note(attemptId, output),
    excerpt: (attemptId) => find(attemptId)?.excerpt ?? null,
    endLine: (attemptId) => find(attemptId)?.lastLine ?? null,
    liveLine(attemptId) {
      const runDirectory = places.runDirectory();
      return runDirectory === null ? null : lastLineOf(readLiveTail(runDirectory, attemptId));
    },
  };
}

/** Output that outlived its attempt; null where none was kept. */
export function readKept(data: string, attemptId: string): Uint8Array | null {
  try {
    return readFileSync(keptOutputFile(path.join(data, 'artifacts'), attemptId));
  } catch {
    return null;
  }
}

/** The last few KiB that a running command has written; empty where it wrote nothing or has no directory any more. */
export function readLiveTail(runDirectory: string, attemptId: string): Uint8Array {
  const directory = attemptDirectory(runDirectory, attemptId);
  const { outputBytes } = measureOutput(directory, attemptId, 0);
  return readLive(directory, { attemptId, from: Math.max(0, outputBytes - tailBytesMax) }).bytes;
}

export type LiveOutput = {
  readonly bytes: Uint8Array;
  /** Dropped already in between: an attempt keeps the first and the last part. */
  readonly omittedBytes: number;
};

/** What a running command has written from an offset on, as far as it is still there. */
export function readLive(directory: string, place: { readonly attemptId: string; readonly from: number }): LiveOutput {
  const { attemptId, from } = place;
  const pieces: Uint8Array[] = [];
  let omittedBytes = 0;
  // Not beyond what is there now: a command may write faster than this reads.
  const { outputBytes } = measureOutput(directory, attemptId, 0);
  for (let offset = from; offset < outputBytes; ) {
    const piece = readOutput(directory, attemptId, { offset, bytesMax: outputBytes - offset });
    if (piece.nextOffset === offset) {
      break;
    }
    pieces.push(piece.bytes);
    omittedBytes += piece.offset - offset;
    offset = piece.nextOffset;
  }
  return { bytes: Buffer.concat(pieces), omittedBytes };
}
