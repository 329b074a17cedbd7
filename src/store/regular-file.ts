// Reading a file that a person named, for every layer that does. Never waits: who opens a FIFO that nobody writes to
// sleeps until somebody does, and no signal handler of this process runs meanwhile.
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { EdgeError } from '../core/errors.ts';

/**
 * Opens a regular file, which a link may lead to, for reading; the caller closes it. Throws `invalid` for anything
 * else, and what the file system says.
 */
export function openRegularFile(file: string, hint = 'name a regular file'): number {
  const descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(descriptor);
    if (stats.isFile()) {
      return descriptor;
    }
    const what = stats.isDirectory() ? 'a directory' : 'no regular file';
    throw new EdgeError('invalid', `${file} is ${what}`, { hint });
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

/** A regular file whole. Throws as `openRegularFile`. */
export function readRegularFile(file: string, hint?: string): Buffer {
  const descriptor = openRegularFile(file, hint);
  try {
    return readFileSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
