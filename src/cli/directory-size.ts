// How much a file or a directory holds, for those who are shown it.
import { lstatSync, readdirSync } from 'node:fs';
import path from 'node:path';

/** Bytes of all regular files in there, links not followed. What cannot be read, or goes meanwhile, counts 0. */
export function measureFiles(place: string): number {
  try {
    const stats = lstatSync(place);
    if (!stats.isDirectory()) {
      return stats.isFile() ? stats.size : 0;
    }
    return readdirSync(place).reduce((sum, name) => sum + measureFiles(path.join(place, name)), 0);
  } catch {
    return 0;
  }
}
