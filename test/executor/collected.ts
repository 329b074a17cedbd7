// What a test sees of an output: the two parts that a bound leaves of it, and pieces by offset. Not a test itself.
import { cutOutput, openOutput, readRange } from '../../src/executor/output.ts';

export type CollectedOutput = {
  readonly head: Buffer;
  readonly tail: Buffer;
  readonly omittedBytes: number;
  readonly thrownBytes: number;
  readonly totalBytes: number;
  readonly isExact: boolean;
};

export function collectOutput(directory: string, attemptId: string, bytesMax: number): CollectedOutput {
  const source = openOutput(directory, attemptId);
  try {
    const { totalBytes, isExact } = source.look();
    const { headEnd, tailStart, tailEnd, thrownBytes } = cutOutput(source, bytesMax);
    return {
      head: readRange(source, { start: 0, end: headEnd }),
      tail: readRange(source, { start: tailStart, end: tailEnd }),
      omittedBytes: tailStart - headEnd,
      thrownBytes,
      totalBytes,
      isExact,
    };
  } finally {
    source.close();
  }
}

/** One piece, at most `bytesMax`, as it is now. */
export function readOutput(
  directory: string,
  attemptId: string,
  { offset, bytesMax }: { readonly offset: number; readonly bytesMax: number },
) {
  const source = openOutput(directory, attemptId);
  try {
    const { totalBytes, isEnded } = source.look();
    const piece = source.read(offset, Buffer.alloc(bytesMax));
    return { ...piece, nextOffset: piece.offset + piece.bytes.length, totalBytes, isEnded };
  } finally {
    source.close();
  }
}
