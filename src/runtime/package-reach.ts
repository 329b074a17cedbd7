// Lets the commands of a package that run as another user reach its files, and nothing else. The data directory is
// 0700 until the first such package comes; then it can be passed through, but not listed, and everything in it but
// `packages` is closed on its own account first.
import { chmod, lstat, readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { MaterializedRevision } from '../core/revision.ts';
import { type Reach, storageError } from './package-files.ts';

const passThrough = 0o011;
const othersBits = 0o077;

/** Whether somebody besides the owner has to read these files. */
export function reachOf({ tasks }: MaterializedRevision): Reach {
  return tasks.some(({ user }) => user !== null) ? 'everyone' : 'owner';
}

/** Throws `unavailable` where the modes cannot be set. */
export async function openPackages(packagesDirectory: string): Promise<void> {
  const data = dirname(packagesDirectory);
  try {
    for (const name of await readdir(data)) {
      const path = join(data, name);
      const stats = await lstat(path).catch(() => null);
      const isClosed = stats === null || stats.isSymbolicLink() || (stats.mode & othersBits) === 0;
      if (name !== basename(packagesDirectory) && !isClosed) {
        // By path and without opening: SQLite's locks on these files stay.
        await chmod(path, stats.mode & 0o700);
      }
    }
    for (const path of [packagesDirectory, data]) {
      const { mode } = await lstat(path);
      if ((mode & passThrough) !== passThrough) {
        await chmod(path, (mode & 0o777) | passThrough);
      }
    }
  } catch (error) {
    throw storageError(error, `let other users reach ${packagesDirectory}`);
  }
}
