// What the commands of a run wrote, for whoever watches it: of attempts that ended in this process what it collected,
// of others what was kept, of running ones the last line so far. Keeps a few lines of each only.
import path from 'node:path';
import { attemptDirectory } from '../executor/attempt-files.ts';
import { openOutput, readTail } from '../executor/output.ts';
import { type EndedOutput, tailBytesMax } from '../runtime/attempt-output.ts';
import { type KeptPlace, openKept } from '../runtime/kept-file.ts';
import { type Excerpt, lastLineOf, takeExcerpt } from './excerpt.ts';

/** As much of a long output as is looked at at one sitting; all of it is one command away. */
const excerptLinesMax = 20;
/** Where the last line of a command is looked for. */
const lastLineBytesMax = 4096;

export type AttemptOutputs = {
  /** The end of what an attempt wrote that ended here. */
  collect(output: EndedOutput): void;
  /** The end of what an attempt wrote that has ended; null where nobody kept it. */
  excerpt(place: KeptPlace): Excerpt | null;
  /** The last line of an attempt that has ended; null where nobody kept it. */
  endLine(place: KeptPlace): string | null;
  /** The last line so far of one that runs; null where there is none. */
  liveLine(attemptId: string): string | null;
};

/** `runDirectory` answers null where nothing runs that can be read. */
export function createAttemptOutputs(places: {
  readonly data: string;
  readonly runDirectory: () => string | null;
}): AttemptOutputs {
  const collected = new Map<string, { readonly excerpt: Excerpt; readonly lastLine: string | null }>();
  const note = (output: EndedOutput) => {
    const lastLine = lastLineOf(output.tail.subarray(-lastLineBytesMax));
    const known = { excerpt: takeExcerpt(output, excerptLinesMax), lastLine };
    collected.set(output.attemptId, known);
    return known;
  };
  const find = (place: KeptPlace) => {
    const known = collected.get(place.attemptId);
    const kept = known === undefined ? readKept(places.data, place) : null;
    return kept === null ? known : note(kept);
  };
  return {
    collect: (output) => void note(output),
    excerpt: (place) => find(place)?.excerpt ?? null,
    endLine: (place) => find(place)?.lastLine ?? null,
    liveLine(attemptId) {
      const runDirectory = places.runDirectory();
      return runDirectory === null ? null : lastLineOf(readLiveTail(runDirectory, attemptId));
    },
  };
}

/** `artifacts/` of a data directory. */
export function artifactsDirectory(data: string): string {
  return path.join(data, 'artifacts');
}

/** The end of what outlived its attempt; null where nothing was kept. */
function readKept(data: string, place: KeptPlace): EndedOutput | null {
  const reading = openKept(artifactsDirectory(data), place);
  if (reading.kind !== 'found') {
    return null;
  }
  const { source } = reading;
  try {
    const { totalBytes } = source.look();
    return { attemptId: place.attemptId, totalBytes, tail: readTail(source, tailBytesMax) };
  } finally {
    source.close();
  }
}

/** Empty where a command wrote nothing, or has no directory any more. */
function readLiveTail(runDirectory: string, attemptId: string): Uint8Array {
  const source = openOutput(attemptDirectory(runDirectory, attemptId), attemptId);
  try {
    return readTail(source, lastLineBytesMax);
  } finally {
    source.close();
  }
}
