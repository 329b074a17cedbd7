// Reading a file that this program keeps and an operator may have touched. Never waits: who opens a FIFO that nobody
// writes to sleeps until somebody does, and no signal handler of this process runs meanwhile.
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { EdgeError } from '../core/errors.ts';

/** A regular file whole; a link may lead to it. Throws `invalid` for anything else, and what the file system says. */
export function readRegularFile(file: string, hint: string): Buffer {
  const descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(descriptor);
    if (stats.isFile()) {
      return readFileSync(descriptor);
    }
    throw new EdgeError('invalid', `${file} is ${stats.isDirectory() ? 'a directory' : 'no regular file'}`, { hint });
  } finally {
    closeSync(descriptor);
  }
}
