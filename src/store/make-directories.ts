// Making directories, for every layer above that keeps something on disk.
import { mkdirSync, statSync } from 'node:fs';
import path from 'node:path';

/**
 * Makes a directory and those above it that are missing, each 0700; returns the topmost that was made, or null where
 * nothing was missing. Throws what the file system says. Node's own `recursive` is not used: it never ends where a
 * parent answers ENOENT for ever, as below /proc.
 */
export function makeDirectories(directory: string): string | null {
  try {
    mkdirSync(directory, { mode: 0o700 });
    return directory;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const parent = path.dirname(directory);
    if (code === 'EEXIST' && statSync(directory).isDirectory()) {
      return null;
    }
    if (code !== 'ENOENT' || parent === directory) {
      throw error;
    }
    const made = makeDirectories(parent);
    mkdirSync(directory, { mode: 0o700 });
    return made ?? directory;
  }
}
