// Faults that root does not feel (modes of files, the number of processes) are tried as a user who is not root.

import { spawnSync } from 'node:child_process';
import { chownSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Place } from './scenario.ts';

/** Nobody's: of these users nothing else runs; of the second one not even another scenario. */
const strangerIds = { shared: 54_321, counted: 54_322 } as const;

/** Whose the sites of such scenarios are; null where we are not root ourselves. */
export function plainUserId(purpose: keyof typeof strangerIds = 'shared'): number | null {
  return process.geteuid?.() === 0 ? strangerIds[purpose] : null;
}

/** Why no plain user can work there; null where one can. */
export function findUserObstacle({ bundle, scratch }: Place): string | null {
  const userId = plainUserId();
  if (userId === null) {
    return null;
  }
  const folder = mkdtempSync(join(scratch, 'user-'));
  try {
    chownSync(folder, userId, userId);
    const program =
      "require('node:fs').readFileSync(process.argv[1]); require('node:fs').writeFileSync(process.argv[2], '')";
    const { status } = spawnSync(process.execPath, ['-e', program, bundle, join(folder, 'file')], {
      cwd: folder,
      stdio: 'ignore',
      uid: userId,
      gid: userId,
    });
    return status === 0 ? null : 'a user other than root cannot reach the bundle, Node.js and the scratch folder here';
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** How many threads a user has now: what `ulimit -u` counts. */
export function countThreads(userId: number): number {
  const counts = readdirSync('/proc').map((name) => {
    try {
      const status = /^[0-9]+$/.test(name) ? readFileSync(`/proc/${name}/status`, 'latin1') : '';
      const isTheirs = Number(/^Uid:\t(\d+)/m.exec(status)?.[1] ?? -1) === userId;
      return isTheirs ? Number(/^Threads:\t(\d+)/m.exec(status)?.[1] ?? 0) : 0;
    } catch {
      return 0;
    }
  });
  return counts.reduce((sum, count) => sum + count, 0);
}
