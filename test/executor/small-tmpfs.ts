// A file system in memory that is as full as a test wants it. Needs root. Not a test itself.
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Test } from 'tap';

const pageBytes = 4096;
const page = Buffer.alloc(pageBytes, 'x');

export const skipWithoutMounts: string | false = canMount() ? false : 'only root may mount a small tmpfs';

function canMount(): boolean {
  // CAP_SYS_ADMIN; a container's root often lacks it.
  const capabilities = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[1] ?? '0';
  return (BigInt(`0x${capabilities}`) & (1n << 21n)) !== 0n;
}

export type SmallTmpfs = {
  readonly folder: string;
  /** Fills it, but for so many pages and inodes. Null leaves enough of them. */
  leave(left: { readonly pages: number | null; readonly inodes: number | null }): void;
  /** Takes the filling away. */
  empty(): void;
};

/** Mounted until the end of the test. */
export function mountSmallTmpfs(t: Test): SmallTmpfs {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'small-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m,nr_inodes=200,mode=700', 'tmpfs', folder]);
  t.teardown(() => {
    execFileSync('umount', ['-l', folder]);
    rmdirSync(folder);
  });
  const filling = path.join(folder, 'filling');
  const empty = () => rmSync(filling, { recursive: true, force: true });
  return {
    folder,
    empty,
    leave({ pages, inodes }) {
      empty();
      mkdirSync(filling);
      if (pages !== null) {
        fillPages(path.join(filling, 'pages'), pages);
      }
      if (inodes !== null) {
        fillInodes(filling, inodes);
      }
    },
  };
}

/** Somebody else may be taking some at the same time. */
function fillInodes(filling: string, left: number): void {
  for (let made = 0; ; made += 1) {
    try {
      closeSync(openSync(path.join(filling, `inode-${made}`), 'w'));
    } catch {
      for (let index = made - left; index < made; index += 1) {
        rmSync(path.join(filling, `inode-${index}`));
      }
      return;
    }
  }
}

function fillPages(file: string, left: number): void {
  const fd = openSync(file, 'w');
  try {
    for (;;) {
      writeSync(fd, page);
    }
  } catch {
    // Full.
  } finally {
    closeSync(fd);
  }
  truncateSync(file, statSync(file).size - left * pageBytes);
}
