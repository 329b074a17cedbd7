// Outputs as a launcher leaves them, and kept ones, made by hand. Not a test itself.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { type OutputSource, openOutput, readRange } from '../../src/executor/output.ts';
import { type KeptPlace, keptFileName, openKept } from '../../src/runtime/kept-file.ts';

/** The directory of an attempt that has written these bytes and ended. */
export function writeAttempt(directory: string, attemptId: string, bytes: Uint8Array | string): OutputSource {
  mkdirSync(directory, { recursive: true });
  writeFileSync(path.join(directory, 'out.0'), bytes);
  writeFileSync(path.join(directory, 'count'), `ql-count-1 ${attemptId} - - 0 done end\n`);
  return openOutput(directory, attemptId);
}

/** What was kept of an attempt, its parts joined; null where nothing was. */
export function readWhole(artifacts: string, place: KeptPlace): string | null {
  const reading = openKept(artifacts, place);
  if (reading.kind !== 'found') {
    return null;
  }
  try {
    const parts = reading.source.look().ranges.map((range) => readRange(reading.source, range));
    return Buffer.concat(parts).toString('latin1');
  } finally {
    reading.source.close();
  }
}

export function keptFile(artifacts: string, place: KeptPlace): string {
  return path.join(artifacts, keptFileName(place));
}

/** Bytes that this process has read by system calls so far. */
export function bytesRead(): number {
  return Number(/^rchar: (\d+)/m.exec(readFileSync('/proc/self/io', 'latin1'))?.[1]);
}
