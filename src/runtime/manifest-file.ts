// Finds and reads the manifest of a package directory: which file it is, its text, and every mistake with its line.
import { isUtf8 } from 'node:buffer';
import type { Mistake } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { readManifest } from '../core/manifest.ts';
import { normalizePackagePath } from '../core/package-path.ts';
import type { Manifest } from '../core/revision.ts';
import { parseJsonText } from './json-text.ts';
import type { PackageContents } from './package-contents.ts';
import type { PackageScan } from './package-scan.ts';
import { findLine } from './parsed-text.ts';
import { parseYamlText } from './yaml-text.ts';

const yamlName = 'qinglong.yaml';
const jsonName = 'qinglong.json';
export const manifestNames: readonly string[] = [yamlName, jsonName];

// Names that people write and that nobody reads: better said than found out.
const misspelledNames = ['qinglong.yml', 'qinglong.YAML', 'Qinglong.yaml', 'package.yaml'];

/** What a task takes from the package: these files are looked for whatever else is wrong with the manifest. */
export type TaskFiles = { readonly id: string; readonly cwd: string; readonly command: string };

type Read = {
  readonly name: string;
  readonly tasks: readonly TaskFiles[];
  readonly lineOf: (path: string) => number | null;
};

/** `sha256`: of the bytes that were read here, to be compared with what is installed. */
export type ManifestFile = Read & { readonly sha256: string; readonly manifest: Manifest };

export type BrokenManifest = Read & { readonly mistakes: readonly Mistake[] };

/** Reads the manifest among scanned files. Rejects only when the file cannot be read. */
export async function readManifestFile(contents: PackageContents): Promise<ManifestFile | BrokenManifest> {
  const { scan } = contents;
  const found = scan.files.filter(({ path }) => path === yamlName || path === jsonName);
  const [file] = found;
  if (file === undefined) {
    return unread(yamlName, missingMistakes(scan));
  }
  if (found.length > 1) {
    return unread(jsonName, [mistake(jsonName, `must not stand beside ${yamlName}: a package has one manifest`)]);
  }
  if (file.size > limits.manifestBytesMax) {
    const rule = `has ${file.size} bytes, at most ${limits.manifestBytesMax} are allowed`;
    return unread(file.path, [mistake(file.path, rule)]);
  }
  const { bytes, sha256 } = await contents.readManifest(file);
  const reading = await readManifestText(file.path, bytes);
  return 'mistakes' in reading ? reading : { ...reading, sha256 };
}

/** Reads a manifest from its bytes; `name` decides the language. */
export async function readManifestText(
  name: string,
  bytes: Uint8Array,
): Promise<Omit<ManifestFile, 'sha256'> | BrokenManifest> {
  const text = decodeText(bytes);
  if (typeof text === 'number') {
    return unread(name, [{ ...mistake(name, 'is no UTF-8'), line: text }]);
  }
  const parsed = name.endsWith('.json') ? parseJsonText(text) : await parseYamlText(text);
  const lineOf = (path: string) => findLine(parsed.lines, path);
  const reading = parsed.isReadable ? readManifest(parsed.value) : { mistakes: [] };
  if ('manifest' in reading && parsed.mistakes.length === 0) {
    const { manifest } = reading;
    const tasks = manifest.tasks.map(({ id, cwd, argv }) => ({ id, cwd, command: argv[0]! }));
    return { name, manifest, tasks, lineOf };
  }
  const rules = 'mistakes' in reading ? reading.mistakes : [];
  const mistakes = [
    ...parsed.mistakes.map((entry) => ({ file: name, ...entry })),
    ...rules.map(({ path, rule }) => ({ file: name, path, line: lineOf(path), rule })),
  ];
  const sorted = mistakes.sort((left, right) => (left.line ?? 0) - (right.line ?? 0));
  return { name, mistakes: sorted, tasks: readableTasks(parsed.value), lineOf };
}

function unread(name: string, mistakes: readonly Mistake[]): BrokenManifest {
  return { name, mistakes, tasks: [], lineOf: () => null };
}

/** The tasks of a manifest that has mistakes, as far as what they take from the package can be read. */
function readableTasks(value: unknown): readonly TaskFiles[] {
  return Object.entries(asRecord(asRecord(value)['tasks'])).flatMap(([id, task]) => {
    const { run, cwd = '.' } = asRecord(task);
    const place = typeof cwd === 'string' ? normalizePackagePath(cwd) : null;
    const command: unknown = Array.isArray(run) ? run[0] : null;
    return typeof command === 'string' && place !== null ? [{ id, cwd: place, command }] : [];
  });
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}

/** The text without a byte order mark, or the number of the first line that is no UTF-8. */
function decodeText(bytes: Uint8Array): string | number {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    // No byte of a longer UTF-8 sequence is a line end, so lines can be looked at one by one.
    const lines = Buffer.from(bytes).toString('latin1').split('\n');
    return 1 + lines.findIndex((line) => !isUtf8(Buffer.from(line, 'latin1')));
  }
}

function missingMistakes(scan: PackageScan): readonly Mistake[] {
  const isNoted = scan.mistakes.some(({ file }) => file === yamlName || file === jsonName);
  if (isNoted || !scan.isComplete) {
    return [];
  }
  const misspelled = scan.files.find(({ path }) => misspelledNames.includes(path));
  const rule = misspelled === undefined ? 'is missing' : `is missing: rename ${misspelled.path}`;
  return [mistake(yamlName, `${rule} (a package has a ${yamlName} or a ${jsonName} in its directory)`)];
}

function mistake(file: string, rule: string): Mistake {
  return { file, path: '', line: null, rule };
}
