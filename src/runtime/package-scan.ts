// Looks at every entry below a package directory before anything is read from it. Owns what a package may consist of:
// regular files and the directories around them, under names that every file system and every reader can hold.
// Links of both kinds are refused, also those that stay inside: a package is its bytes, and a link is not.
import { isUtf8 } from 'node:buffer';
import type { Stats } from 'node:fs';
import { lstat, opendir, readlink } from 'node:fs/promises';
import { dirname, join, resolve, sep } from 'node:path';
import type { Mistake } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { codeOf, packageModeOf } from './package-file.ts';

/** Says who made the package. It cannot be a part of what it vouches for. */
export const signatureName = 'qinglong.sig';

/** Left out at the top of a package: the default data directory, the history of git, the signature. */
export const omittedNames: ReadonlySet<string> = new Set(['.qinglong-edge', '.git', signatureName]);

/** A regular file: its path with `/`, its mode as 0o700 (someone may execute it) or 0o600. */
export type ScannedFile = { readonly path: string; readonly size: number; readonly mode: number };

export type PackageScan = {
  /** Sorted by path. */
  readonly files: readonly ScannedFile[];
  readonly mistakes: readonly Mistake[];
  /** What is there at the top and no part of the package, sorted; the signature apart. */
  readonly leftOut: readonly string[];
  /** False when there were more entries than a package may have, so that some were not looked at. */
  readonly isComplete: boolean;
};

type Scan = {
  readonly root: string;
  readonly omit: ReadonlySet<string>;
  readonly files: ScannedFile[];
  readonly mistakes: Mistake[];
  readonly leftOut: string[];
  entries: number;
  bytes: number;
};

export const setIdBits = 0o6000;
export const setIdRule = 'has a set-user-ID or set-group-ID bit: take it away';

/** `omit` names entries of the root that do not belong to the package. Rejects only when the root cannot be read. */
export async function scanPackage(root: string, omit: ReadonlySet<string>): Promise<PackageScan> {
  const scan: Scan = { root, omit, files: [], mistakes: [], leftOut: [], entries: 0, bytes: 0 };
  const directories = [''];
  for (let directory = directories.pop(); directory !== undefined; directory = directories.pop()) {
    for (const name of await readNames(scan, directory)) {
      const path = directory === '' ? name : `${directory}/${name}`;
      if ((await scanEntry(scan, path)) === 'directory') {
        directories.push(path);
      }
    }
    if (scan.entries > limits.packageFilesMax) {
      refuse(scan, '.', `holds too many entries: ${limits.packageFilesMax} files and directories are allowed`);
      break;
    }
  }
  if (scan.bytes > limits.packageBytesMax) {
    refuse(scan, '.', `holds ${scan.bytes} bytes, at most ${limits.packageBytesMax} are allowed`);
  }
  scan.files.sort((left, right) => (left.path < right.path ? -1 : 1));
  return {
    files: scan.files,
    mistakes: scan.mistakes,
    leftOut: scan.leftOut.sort(),
    isComplete: scan.entries <= limits.packageFilesMax,
  };
}

/** The names in a directory that can be used, sorted. Stops reading one entry beyond the bound. */
async function readNames(scan: Scan, directory: string): Promise<readonly string[]> {
  const names: string[] = [];
  try {
    // The type of `encoding` knows no buffers; only they show a name that is no UTF-8.
    for await (const entry of await opendir(join(scan.root, directory), { encoding: 'buffer' as BufferEncoding })) {
      const name = entry.name as unknown as Buffer;
      if (directory === '' && scan.omit.has(name.toString())) {
        scan.leftOut.push(...[name.toString()].filter((omitted) => omitted !== signatureName));
        continue;
      }
      scan.entries += 1;
      if (scan.entries > limits.packageFilesMax) {
        break;
      }
      if (isUtf8(name)) {
        names.push(name.toString());
      } else {
        refuse(scan, join(directory, name.toString()), 'has a name that is no UTF-8');
      }
    }
  } catch (error) {
    if (directory === '') {
      throw error;
    }
    refuse(scan, directory, `cannot be read (${codeOf(error)})`);
  }
  names.sort();
  return withoutCollisions(scan, directory, names);
}

/** The same for all names that are one name on some file system. */
export function foldName(name: string): string {
  return name.normalize('NFC').toLowerCase();
}

/** Names that differ in case alone, or in the composition of letters alone, are one name on other file systems. */
function withoutCollisions(scan: Scan, directory: string, names: readonly string[]): readonly string[] {
  const firstByFold = new Map<string, string>();
  for (const name of names) {
    const fold = foldName(name);
    const first = firstByFold.get(fold);
    if (first === undefined) {
      firstByFold.set(fold, name);
    } else {
      refuse(scan, join(directory, name), `differs from ${first} in case alone: one of them must have another name`);
    }
  }
  return names;
}

async function scanEntry(scan: Scan, path: string): Promise<'directory' | 'other'> {
  const wrongName = nameRule(path);
  if (wrongName !== null) {
    refuse(scan, path, wrongName);
    return 'other';
  }
  const stats = await lstat(join(scan.root, path)).catch((error: unknown) => {
    refuse(scan, path, `cannot be read (${codeOf(error)})`);
    return null;
  });
  if (stats === null) {
    return 'other';
  }
  if (stats.isDirectory()) {
    return 'directory';
  }
  const rule = await brokenRule(scan.root, path, stats);
  if (rule !== null) {
    refuse(scan, path, rule);
    return 'other';
  }
  scan.bytes += stats.size;
  scan.files.push({ path, size: stats.size, mode: packageModeOf(stats.mode) });
  return 'other';
}

// What breaks the line in which a name is told, or moves the terminal that shows it.
const controlCharacter = /[\p{Cc}\p{Zl}\p{Zp}]/u;

/** What is wrong with a path in a package, by itself; null for a sound one. */
export function nameRule(path: string): string | null {
  if (controlCharacter.test(path)) {
    return 'has a control character in its name, such as a line break';
  }
  const { fileNameBytesMax, filePathBytesMax } = limits;
  const isTooLong =
    Buffer.byteLength(path) > filePathBytesMax ||
    path.split('/').some((name) => Buffer.byteLength(name) > fileNameBytesMax);
  return isTooLong
    ? `is too long a name: ${fileNameBytesMax} bytes are allowed, ${filePathBytesMax} for a whole path`
    : null;
}

async function brokenRule(root: string, path: string, stats: Stats): Promise<string | null> {
  if (stats.isSymbolicLink()) {
    const target = resolve(root, dirname(path), await readlink(join(root, path)).catch(() => ''));
    const leaves = target !== root && !target.startsWith(`${root}${sep}`);
    return `is a symbolic link${leaves ? ' to something outside of the package' : ''}: put the file itself there`;
  }
  if (!stats.isFile()) {
    const kinds = [
      [stats.isFIFO(), 'a FIFO'],
      [stats.isSocket(), 'a socket'],
      [true, 'a device'],
    ] as const;
    const kind = kinds.find(([isKind]) => isKind)![1];
    return `is ${kind}: a package holds regular files only`;
  }
  if (stats.nlink > 1) {
    return `is a hard link (${stats.nlink} names for one file): put a copy in its place`;
  }
  return (stats.mode & setIdBits) === 0 ? null : setIdRule;
}

function refuse(scan: Scan, file: string, rule: string): void {
  if (scan.mistakes.length <= limits.packageFilesMax) {
    scan.mistakes.push({ file, path: '', line: null, rule });
  }
}
