// Removing one file, for every layer above. Node's own `rmSync` is not used for that: of an error that it does not
// foresee (EIO, ENOSPC, EROFS) it gives neither the code nor the call (seen with Node.js 24.22).
import { unlinkSync } from 'node:fs';
import { fileErrorCode } from '../core/file-error.ts';

/** Removes a file, if it is there. Throws what the file system says. */
export function removeFile(file: string): void {
  try {
    unlinkSync(file);
  } catch (error) {
    if (fileErrorCode(error) !== 'ENOENT') {
      throw error;
    }
  }
}
