// Judges the entries of an archive by the rules that hold for the files of a package directory: names, kinds, modes,
// numbers and sizes. Pure: everything wrong is told at once, and what is left is the scan of a package.
import type { Mistake } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { PackageFile } from '../core/revision.ts';
import type { ScriptWarning } from './package-contents.ts';
import { packageModeOf } from './package-file.ts';
import {
  foldName,
  nameRule,
  omittedNames,
  type PackageScan,
  type ScannedFile,
  setIdBits,
  setIdRule,
  signatureName,
} from './package-scan.ts';
import type { TarKind } from './tar-reader.ts';

export type SeenEntry = {
  /** In its shortest form; one that is absolute still begins with a slash. */
  readonly name: string;
  /** Whether the name is UTF-8 without NUL. */
  readonly isReadable: boolean;
  readonly kind: TarKind;
  readonly size: number;
  readonly mode: number;
  /** Of a file. */
  readonly sha256: string;
  readonly warning: ScriptWarning | null;
};

export type JudgedArchive = {
  /** What stands before every name: empty, or the one directory around everything with a slash. */
  readonly root: string;
  readonly scan: PackageScan;
  readonly files: readonly PackageFile[];
  readonly warnings: readonly ScriptWarning[];
};

export function judgeEntries(entries: readonly SeenEntry[]): JudgedArchive {
  const root = rootOf(entries);
  const judge = createJudge();
  const leftOut = new Set<string>();
  for (const entry of entries) {
    if (entry.name === '' || `${entry.name}/` === root) {
      continue;
    }
    const path = entry.name.slice(root.length);
    const [top = ''] = path.split('/', 1);
    // Also what is left out may not name a place outside: an archive that tries is refused, not half trusted.
    if (!omittedNames.has(top) || path.split('/').includes('..')) {
      judge.take(path, entry);
    } else if (top !== signatureName) {
      leftOut.add(top);
    }
  }
  return { root, ...judge.finish([...leftOut].sort()) };
}

/**
 * A package has its manifest at its top, so an archive in which everything is in one directory means that directory:
 * what `npm pack`, `git archive --prefix` and most people make.
 */
function rootOf(entries: readonly SeenEntry[]): string {
  const tops = new Set(entries.filter(({ name }) => name !== '').map(({ name }) => name.split('/', 1)[0]!));
  const [top] = tops;
  const isDirectory = entries.every(({ name, kind }) => name !== top || kind === 'directory');
  return tops.size === 1 && top !== '' && top !== '..' && isDirectory ? `${top}/` : '';
}

function createJudge() {
  const files = new Map<string, ScannedFile & { readonly sha256: string }>();
  /** Every path with those above it: what it is. */
  const known = new Map<string, 'file' | 'directory'>();
  const firstByFold = new Map<string, string>();
  const mistakes: Mistake[] = [];
  const warnings: ScriptWarning[] = [];
  let bytes = 0;

  const refuse = (file: string, rule: string): void => {
    if (mistakes.length <= limits.packageFilesMax) {
      mistakes.push({ file, path: '', line: null, rule });
    }
  };

  /** Notes a path, and what is above it, once; false where it cannot be there. */
  function place(path: string, kind: 'file' | 'directory'): boolean {
    const parent = path.lastIndexOf('/');
    if (parent > 0 && !place(path.slice(0, parent), 'directory')) {
      return false;
    }
    const before = known.get(path);
    if (before !== undefined) {
      const isSame = before === kind;
      if (!isSame || kind === 'file') {
        refuse(path, isSame ? 'is in the archive twice' : 'is a file and a directory in the archive');
      }
      return isSame && kind === 'directory';
    }
    const fold = foldName(path);
    const first = firstByFold.get(fold);
    if (first !== undefined) {
      refuse(path, `differs from ${first} in case alone: one of them must have another name`);
    }
    firstByFold.set(fold, path);
    known.set(path, kind);
    return first === undefined;
  }

  return {
    take(path: string, entry: SeenEntry): void {
      const rule = brokenRule(path, entry);
      if (rule !== null) {
        refuse(path, rule);
        return;
      }
      if (entry.kind === 'directory') {
        place(path, 'directory');
        return;
      }
      if (place(path, 'file')) {
        const { size, sha256, warning } = entry;
        bytes += size;
        files.set(path, { path, size, mode: packageModeOf(entry.mode), sha256 });
        warnings.push(...(warning === null ? [] : [{ ...warning, file: path }]));
      }
    },
    finish(leftOut: readonly string[]): Omit<JudgedArchive, 'root'> {
      if (known.size > limits.packageFilesMax) {
        refuse('.', `holds too many entries: ${limits.packageFilesMax} files and directories are allowed`);
      }
      if (bytes > limits.packageBytesMax) {
        refuse('.', `holds ${bytes} bytes, at most ${limits.packageBytesMax} are allowed`);
      }
      const sorted = [...files.values()].sort((one, other) => (one.path < other.path ? -1 : 1));
      const scanned = sorted.map(({ sha256: _sha256, ...file }) => file);
      return { scan: { files: scanned, mistakes, leftOut, isComplete: true }, files: sorted, warnings };
    },
  };
}

function brokenRule(path: string, { name, isReadable, kind, mode }: SeenEntry): string | null {
  if (!isReadable) {
    return 'has a name that is no UTF-8';
  }
  if (name.startsWith('/')) {
    return 'has an absolute name: an archive must hold names inside of the package';
  }
  if (path.split('/').includes('..')) {
    return 'has a .. in its name: an archive must hold names inside of the package';
  }
  if (kind === 'symbolic link') {
    return 'is a symbolic link: put the file itself there';
  }
  if (kind === 'hard link') {
    return 'is a hard link: put a copy in its place (tar --hard-dereference)';
  }
  if (kind !== 'file' && kind !== 'directory') {
    const article = kind.startsWith('entry') ? 'an' : 'a';
    return `is ${article} ${kind}: a package holds regular files only`;
  }
  return nameRule(path) ?? (kind === 'file' && (mode & setIdBits) !== 0 ? setIdRule : null);
}
