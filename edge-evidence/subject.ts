// What the evidence is about: exactly these bytes of a bundle.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { EvidenceError } from './operation.ts';

export type Subject = { readonly bundleSha256: string; readonly bundleBytes: number; readonly version: string };

/** A file that an operator named. Nothing but a regular one: who opens a FIFO that nobody writes to waits for ever. */
export function readNamedFile(file: string): Buffer {
  const descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    if (!fstatSync(descriptor).isFile()) {
      throw new EvidenceError('it is no regular file');
    }
    return readFileSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Digest and length of a file. Throws EvidenceError for one that cannot be read. */
export function measureBundle(file: string): Omit<Subject, 'version'> {
  try {
    const bytes = readNamedFile(file);
    return { bundleSha256: createHash('sha256').update(bytes).digest('hex'), bundleBytes: bytes.length };
  } catch (error) {
    throw new EvidenceError(`cannot read the bundle ${file}: ${(error as Error).message}`);
  }
}

/** As `measureBundle`, and what the bundle itself says of its version. */
export function readSubject(file: string): Subject {
  const measured = measureBundle(file);
  const { status, stdout } = spawnSync(process.execPath, [file, '--version'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const version = /^qinglong-edge ([0-9][\w.+-]*)/.exec(stdout ?? '')?.[1];
  if (status !== 0 || version === undefined) {
    throw new EvidenceError(`${file} does not say its version: give the bundle qinglong-edge.cjs of the product`);
  }
  return { ...measured, version };
}
