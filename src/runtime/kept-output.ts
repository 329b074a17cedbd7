// Output that outlives its attempt: copied to `artifacts/`, synced and renamed before the completion commits. Bounded
// by a quota; the oldest goes first.
import { closeSync, fsyncSync, openSync, readdirSync, renameSync, rmSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { CollectedOutput } from '../executor/output.ts';
import { makeDirectories } from '../store/make-directories.ts';

const suffix = '.out';
const partialSuffix = '.partial';

export type KeptOutput = {
  /** Durable when it returns. Empty output makes no file. */
  keep(attemptId: string, bytes: Uint8Array): void;
};

export function keptOutputFile(artifactsDirectory: string, attemptId: string): string {
  return join(artifactsDirectory, `${attemptId}${suffix}`);
}

/** `quotaBytes` bounds all files together; half-written ones of an earlier process are removed. */
export function openKeptOutput(options: { readonly directory: string; readonly quotaBytes: number }): KeptOutput {
  const { directory, quotaBytes } = options;
  makeDirectories(directory);
  for (const name of readdirSync(directory).filter((entry) => entry.endsWith(partialSuffix))) {
    rmSync(join(directory, name), { force: true });
  }
  return {
    keep(attemptId, bytes) {
      if (bytes.length === 0) {
        return;
      }
      makeRoom(directory, quotaBytes - bytes.length);
      const file = keptOutputFile(directory, attemptId);
      writeSynced(`${file}${partialSuffix}`, bytes);
      renameSync(`${file}${partialSuffix}`, file);
      syncDirectory(directory);
    },
  };
}

/** First and last part, and between them what was left out, in words. */
export function joinOutput({ head, tail, omittedBytes, thrownBytes }: CollectedOutput): Uint8Array {
  const omitted = omittedBytes === 0 ? '' : `\n[${omittedBytes} bytes left out]\n`;
  const thrown = thrownBytes === 0 ? '' : `\n[${thrownBytes} bytes lost: no space in the run directory]\n`;
  return Buffer.concat([head, Buffer.from(omitted), tail, Buffer.from(thrown)]);
}

function makeRoom(directory: string, bytesMax: number): void {
  const files = readdirSync(directory)
    .map((name) => join(directory, name))
    .map((file) => ({ file, stats: statSync(file) }))
    .sort((left, right) => left.stats.mtimeMs - right.stats.mtimeMs);
  let bytes = files.reduce((sum, { stats }) => sum + stats.size, 0);
  for (const { file, stats } of files) {
    if (bytes <= bytesMax) {
      return;
    }
    rmSync(file, { force: true });
    bytes -= stats.size;
  }
}

function writeSynced(file: string, bytes: Uint8Array): void {
  const fd = openSync(file, 'w', 0o600);
  try {
    for (let written = 0; written < bytes.length; ) {
      written += writeSync(fd, bytes, written);
    }
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function syncDirectory(directory: string): void {
  const fd = openSync(directory, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
