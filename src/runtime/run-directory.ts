// Where the run directory of a data directory is: what concerns processes and means nothing after a reboot.
import { accessSync, constants } from 'node:fs';
import { join, resolve } from 'node:path';
import { sha256 } from '../core/hash.ts';

/**
 * Memory-backed where that is possible: process identity means nothing after a reboot, and none of it belongs on flash.
 * One directory a data directory.
 */
export function runDirectoryOf(data: string, asked: string | null): string {
  if (asked !== null) {
    return resolve(asked);
  }
  try {
    accessSync('/run', constants.W_OK);
    return join('/run/qinglong-edge', sha256(resolve(data)).slice(0, 16));
  } catch {
    return join(resolve(data), 'run');
  }
}
