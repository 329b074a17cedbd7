// Whether there is room for a package: under the quota of all package files, and on the file system. Asked before a
// single byte is copied.
import { lstat, readdir, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { EdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { PackageFile } from '../core/revision.ts';
import { codeOf } from './package-file.ts';

// What a file takes beyond its bytes on the usual file systems: the rest of its last block, and its inode.
const fileOverheadBytes = 4096;

export type SpaceOptions = {
  readonly packagesDirectory: string;
  readonly quotaBytes: number;
  readonly packageName: string;
  readonly files: readonly PackageFile[];
  /** Removes what nothing refers to. */
  readonly sweep: () => Promise<void>;
};

/** Throws `full`, with all sizes and what to do, where a copy of these files has no room. */
export async function requireSpace(options: SpaceOptions): Promise<void> {
  const { packagesDirectory, quotaBytes, packageName, files, sweep } = options;
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  if ((await measure(packagesDirectory)) + bytes > quotaBytes) {
    await sweep();
    const used = await measure(packagesDirectory);
    if (used + bytes > quotaBytes) {
      const room = `the packages here take ${formatBytes(used)} of ${formatBytes(quotaBytes)}`;
      throw new EdgeError('full', `package ${packageName} needs ${formatBytes(bytes)}, but ${room}`, {
        hint: 'uninstall a package that is not needed (`package list`), or raise the setting packagesQuota',
      });
    }
  }
  // The data directory: its packages may not have one yet.
  const { bavail, bsize } = await statfs(dirname(packagesDirectory));
  const free = bavail * bsize;
  const needed = bytes + files.length * fileOverheadBytes + limits.freeBytesMin;
  if (free < needed) {
    const room = `only ${formatBytes(free)} are free, and ${formatBytes(limits.freeBytesMin)} must stay so`;
    throw new EdgeError('full', `package ${packageName} needs ${formatBytes(needed - limits.freeBytesMin)}: ${room}`, {
      hint: 'free space on that file system, then try again',
    });
  }
}

/** Bytes of all files below a directory, whatever they are; what vanishes meanwhile counts nothing. */
async function measure(directory: string): Promise<number> {
  let bytes = 0;
  for (const entry of await readdir(directory, { withFileTypes: true }).catch(ignoreAbsent)) {
    const path = join(directory, entry.name);
    bytes += entry.isDirectory()
      ? await measure(path)
      : await lstat(path).then(
          ({ size }) => size,
          () => 0,
        );
  }
  return bytes;
}

function ignoreAbsent(error: unknown): [] {
  const code = codeOf(error);
  if (code !== 'ENOENT' && code !== 'ENOTDIR') {
    throw error;
  }
  return [];
}

function formatBytes(bytes: number): string {
  const kib = Math.ceil(bytes / 1024);
  return kib < 1024 ? `${kib} KiB` : `${(kib / 1024).toFixed(1)} MiB`;
}
