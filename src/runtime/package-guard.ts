// Whether the files of a package are still those that were installed, asked each time before one of its commands
// starts. Exact and cheap: in one process every file is hashed once, and from then on its stamp is compared (a few
// microseconds a file); a file whose stamp is another one is hashed again, so that only other bytes are refused, not a
// `touch`.
import { join } from 'node:path';
import type { Clock } from '../core/ports.ts';
import type { PackageFile } from '../core/revision.ts';
import { type FileStamp, lookAtFile, stampNow } from './installed-file.ts';
import { createChunkBuffer } from './package-file.ts';

export type PackageGuard = {
  /** From now on commands of this package may start, as long as its files are these. */
  note(lockDigest: string, files: readonly PackageFile[]): void;
  knows(lockDigest: string): boolean;
  /** Its files are gone. */
  forget(lockDigest: string): void;
  /** Null where every file is what it was; else which is not, and how. Never throws. */
  check(lockDigest: string): string | null;
};

type Known = { readonly files: readonly PackageFile[]; readonly stamps: Map<string, string> };

/** As many as a person reads; `package verify` names all. */
const toldMax = 3;

// Within one tick of the kernel's clock (10 ms at most) a file may be written a second time under the same stamp.
const settledMs = 100;

export function createPackageGuard(options: {
  readonly packagesDirectory: string;
  readonly clock: Clock;
}): PackageGuard {
  const known = new Map<string, Known>();
  return {
    note(lockDigest, files) {
      known.set(lockDigest, { files, stamps: new Map() });
    },
    knows: (lockDigest) => known.has(lockDigest),
    forget(lockDigest) {
      known.delete(lockDigest);
    },
    check(lockDigest) {
      const entry = known.get(lockDigest);
      if (entry === undefined) {
        return 'the list of its files is missing';
      }
      const { wallMs } = options.clock.observe();
      const altered = findAltered(join(options.packagesDirectory, lockDigest), entry, wallMs);
      return altered.length === 0 ? null : tell(altered);
    },
  };
}

function findAltered(directory: string, { files, stamps }: Known, nowMs: number): readonly string[] {
  const altered: string[] = [];
  let buffer: Uint8Array | null = null;
  for (const file of files) {
    const stamp = stampNow(directory, file.path);
    if (stamp !== null && stamp.text === stamps.get(file.path)) {
      continue;
    }
    buffer ??= createChunkBuffer();
    const look = lookAtFile(directory, file, buffer);
    if ('rule' in look) {
      altered.push(`${file.path} ${look.rule}`);
    } else if (isSettled(look.stamp, nowMs)) {
      stamps.set(file.path, look.stamp.text);
    }
  }
  return altered;
}

function isSettled({ changedMs }: FileStamp, nowMs: number): boolean {
  return nowMs - changedMs > settledMs;
}

function tell(altered: readonly string[]): string {
  const more = altered.length > toldMax ? `, and ${altered.length - toldMax} more` : '';
  return `${altered.slice(0, toldMax).join(', ')}${more}`;
}
