// Checks a package as a whole before anything is written: its files, its manifest, its signature, and that they fit
// together. Everything wrong is reported at once. Copying is package-copy.ts.
import { realpath, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { canonicalJson, utf8Bytes } from '../core/canonical-json.ts';
import { EdgeError, type Mistake } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { commandFile } from '../core/package-path.ts';
import type { PackageSignature } from '../core/publisher.ts';
import {
  computeLockDigest,
  listExactly,
  type Manifest,
  type MaterializedRevision,
  materialize,
  type PackageFile,
} from '../core/revision.ts';
import { type BrokenManifest, type ManifestFile, readManifestFile } from './manifest-file.ts';
import { changedError } from './package-bytes.ts';
import type { PackageContents, ScriptWarning } from './package-contents.ts';
import type { PackageScan } from './package-scan.ts';

/** A package without mistakes, whoever made it. */
export type ReadPackage = {
  readonly contents: PackageContents;
  /** `qinglong.yaml` or `qinglong.json`. */
  readonly manifestFile: string;
  readonly manifest: Manifest;
  readonly revision: MaterializedRevision;
  /** Sorted by path. */
  readonly files: readonly PackageFile[];
  readonly lockDigest: string;
  /** What is no mistake, and will not work as it was meant all the same. */
  readonly warnings: readonly ScriptWarning[];
};

/** `signature` is right for these files; null where the package has none. */
export type CheckedPackage = ReadPackage & { readonly signature: PackageSignature | null };

/**
 * Reads and checks a package, in a directory or an archive; writes nothing. Everything in it belongs to the package,
 * but for a `.git`, a `.qinglong-edge` and a `qinglong.sig` at its top. Throws `invalid` with every mistake that is in
 * it.
 */
export async function checkPackage(path: string): Promise<CheckedPackage> {
  const read = await readPackage(path);
  const bytes = await read.contents.readSignature();
  if (bytes === null) {
    return { ...read, signature: null };
  }
  const { readSignatureFile } = await import('./package-signature.ts');
  return { ...read, signature: readSignatureFile(bytes, read.lockDigest) };
}

/** The same, but for the signature: for who is about to make one. */
export async function readPackage(path: string): Promise<ReadPackage> {
  const contents = await openContents(path);
  const { scan } = contents;
  const source = await readManifestFile(contents);
  const noted = 'mistakes' in source ? source.mistakes : [];
  const inManifest = [...noted, ...commandMistakes(source, scan)].sort(
    (one, other) => (one.line ?? 0) - (other.line ?? 0),
  );
  const mistakes = [...inManifest, ...scan.mistakes];
  if ('mistakes' in source || mistakes.length > 0) {
    throw packageError(path, mistakes);
  }
  const { files, warnings } = await contents.hash();
  if (files.find((file) => file.path === source.name)?.sha256 !== source.sha256) {
    throw changedError(source.name);
  }
  const { name: manifestFile, manifest } = source;
  const lockDigest = computeLockDigest(files);
  requireListable(path, files);
  const revision = materialize(manifest, lockDigest);
  return { contents, manifestFile, manifest, revision, files, lockDigest, warnings };
}

export type PackagePlace = { readonly kind: 'directory' | 'archive'; readonly path: string };

/** What a path names, links followed, by a glance. Throws `invalid` for what is neither directory nor archive. */
export async function locatePackage(path: string): Promise<PackagePlace> {
  const root = await realpath(path).catch(() => null);
  const stats = root === null ? null : await stat(root).catch(() => null);
  if (root === null || stats === null || !(stats.isDirectory() || stats.isFile())) {
    throw new EdgeError('invalid', `${path} is neither a directory nor an archive that can be read`, {
      hint: 'give the directory that holds qinglong.yaml or qinglong.json, or a .tar.gz or .tar of it',
    });
  }
  if (stats.isDirectory()) {
    return { kind: 'directory', path: root };
  }
  const { looksLikeArchive } = await import('./package-archive.ts');
  if (!(await looksLikeArchive(root).catch(() => false))) {
    throw new EdgeError('invalid', `${path} is a file, not the directory of a package`, {
      hint: `give the directory that it is in: ${dirname(path)}`,
    });
  }
  return { kind: 'archive', path: root };
}

/** Opens a package and scans it. Throws as `locatePackage` does, and `invalid` for an archive that is damaged. */
export async function openContents(path: string): Promise<PackageContents> {
  const place = await locatePackage(path);
  return place.kind === 'directory'
    ? await (await import('./package-directory.ts')).openDirectory(place.path)
    : await (await import('./package-archive.ts')).openArchive(place.path);
}

/** The list of files is stored with the package, so that what was altered can be named. */
function requireListable(path: string, files: readonly PackageFile[]): void {
  const bytes = utf8Bytes(canonicalJson(listExactly(files)));
  if (bytes > limits.packageFilesBytesMax) {
    const rule = `has names that take ${bytes} bytes in a list, at most ${limits.packageFilesBytesMax} are allowed`;
    throw packageError(path, [{ file: '.', path: '', line: null, rule }]);
  }
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

function packageError(place: string, mistakes: readonly Mistake[]): EdgeError {
  const max = limits.mistakesMax;
  const rest: Mistake = { file: null, path: '', line: null, rule: `there are ${mistakes.length - max} more mistakes` };
  const count = mistakes.length === 1 ? 'one mistake' : `${mistakes.length} mistakes`;
  return new EdgeError('invalid', `the package in ${place} has ${count}`, {
    hint: 'correct what is named and try again; nothing was installed',
    mistakes: mistakes.length > max ? [...mistakes.slice(0, max), rest] : mistakes,
  });
}
