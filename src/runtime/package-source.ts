// Checks a package directory as a whole before anything is written: its files, its manifest, and that both fit
// together. Everything wrong is reported at once. Copying is package-copy.ts.
import { realpath, stat } from 'node:fs/promises';
import { EdgeError, type Mistake } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { commandFile } from '../core/package-path.ts';
import {
  computeLockDigest,
  type Manifest,
  type MaterializedRevision,
  materialize,
  type PackageFile,
} from '../core/revision.ts';
import { type BrokenManifest, type ManifestFile, readManifestFile } from './manifest-file.ts';
import { changedError, hashPackageFiles } from './package-bytes.ts';
import { omittedNames, type PackageScan, scanPackage } from './package-scan.ts';

export type CheckedPackage = {
  /** Absolute, links resolved. */
  readonly directory: string;
  /** `qinglong.yaml` or `qinglong.json`. */
  readonly manifestFile: string;
  readonly manifest: Manifest;
  readonly revision: MaterializedRevision;
  /** Sorted by path. */
  readonly files: readonly PackageFile[];
  readonly lockDigest: string;
};

/**
 * Reads and checks a package directory; writes nothing. Everything in it belongs to the package, but for a `.git` and a
 * `.qinglong-edge` at its top. Throws `invalid` with every mistake that is in it.
 */
export async function checkPackage(directory: string): Promise<CheckedPackage> {
  const root = await resolveRoot(directory);
  const scan = await scanPackage(root, omittedNames);
  const source = await readManifestFile(root, scan);
  const noted = 'mistakes' in source ? source.mistakes : [];
  const inManifest = [...noted, ...commandMistakes(source, scan)].sort(
    (one, other) => (one.line ?? 0) - (other.line ?? 0),
  );
  const mistakes = [...inManifest, ...scan.mistakes];
  if ('mistakes' in source || mistakes.length > 0) {
    throw packageError(directory, mistakes);
  }
  const files = await hashPackageFiles(root, scan.files);
  if (files.find(({ path }) => path === source.name)?.sha256 !== source.sha256) {
    throw changedError(source.name);
  }
  const { name: manifestFile, manifest } = source;
  const lockDigest = computeLockDigest(files);
  const revision = materialize(manifest, lockDigest);
  return { directory: root, manifestFile, manifest, revision, files, lockDigest };
}

async function resolveRoot(directory: string): Promise<string> {
  const root = await realpath(directory).catch(() => null);
  const stats = root === null ? null : await stat(root).catch(() => null);
  if (root === null || stats?.isDirectory() !== true) {
    throw new EdgeError('invalid', `${directory} is no directory that can be read`, {
      hint: 'give the directory that holds qinglong.yaml or qinglong.json',
    });
  }
  return root;
}

/**
 * Commands and working directories that a task takes from the package must be in it. What was refused for itself, or
 * not looked at, is not said to be missing as well.
 */
function commandMistakes(source: ManifestFile | BrokenManifest, scan: PackageScan): readonly Mistake[] {
  const byPath = new Map(scan.files.map((file) => [file.path, file]));
  const directories = directoriesOf(scan);
  const isRefused = (path: string) =>
    !scan.isComplete || scan.mistakes.some(({ file }) => path === file || path.startsWith(`${file}/`));
  const mistakes: Mistake[] = [];
  const note = (path: string, rule: string) => {
    mistakes.push({ file: source.name, path, line: source.lineOf(path), rule });
  };
  for (const { id, cwd, command: word } of source.tasks) {
    if (!directories.has(cwd) && !isRefused(cwd)) {
      note(`tasks.${id}.cwd`, `names ${cwd}, which is no directory of this package that holds a file`);
    }
    const command = commandFile(word, cwd);
    if (command === null || command === 'outside' || isRefused(command.path)) {
      continue;
    }
    const file = byPath.get(command.path);
    if (file === undefined) {
      const what = directories.has(command.path) ? 'is a directory' : 'is no file of this package';
      note(`tasks.${id}.run[0]`, `names ${command.path}, which ${what}`);
    } else if (file.mode !== 0o700) {
      note(`tasks.${id}.run[0]`, `names ${file.path}, which is not executable: chmod +x ${file.path}`);
    }
  }
  return mistakes;
}

/** Directories that hold a file, however deep: an empty one is not installed. */
function directoriesOf(scan: PackageScan): ReadonlySet<string> {
  const directories = new Set(['.']);
  for (const { path } of scan.files) {
    for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) {
      directories.add(path.slice(0, end));
    }
  }
  return directories;
}

function packageError(directory: string, mistakes: readonly Mistake[]): EdgeError {
  const max = limits.mistakesMax;
  const rest: Mistake = { file: null, path: '', line: null, rule: `there are ${mistakes.length - max} more mistakes` };
  const count = mistakes.length === 1 ? 'one mistake' : `${mistakes.length} mistakes`;
  return new EdgeError('invalid', `the package in ${directory} has ${count}`, {
    hint: 'correct what is named and try again; nothing was installed',
    mistakes: mistakes.length > max ? [...mistakes.slice(0, max), rest] : mistakes,
  });
}
