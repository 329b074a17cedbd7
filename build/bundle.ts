// `npm run build`: everything that ships, into dist/. The same sources give the same bytes in any folder, at any time.
// `--release` demands that every entry point exists that package.json names.
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { EdgeError } from '../src/core/errors.ts';
import { sha256 } from '../src/core/hash.ts';
import { type Bundle, bundleEntry, listBundledPackages, nodeMajorMin } from './bundle-options.ts';
import { printLicenses, readComponent } from './components.ts';
import { emitDeclarations } from './declarations.ts';
import { type EntryPoint, evidence, hasSource, listEntryPoints } from './entry-points.ts';
import { listFiles, type PackageJson, projectRoot, readPackage, readText } from './project.ts';
import { buildSbom } from './sbom.ts';

export type BuildResult = {
  readonly bundles: readonly Bundle[];
  /** Names below dist/ with their contents. */
  readonly files: ReadonlyMap<string, string | Uint8Array>;
  readonly missing: readonly EntryPoint[];
};

/** Builds all of dist/ in memory, of those entry points that exist. */
export async function buildAll(root: string): Promise<BuildResult> {
  const product = readPackage(root);
  const entries = listEntryPoints(product);
  const present = entries.filter((entry) => hasSource(root, entry));
  const bundles = await Promise.all(present.map((entry) => bundleEntry(root, entry)));
  const names = new Set(bundles.flatMap(({ metafile }) => listBundledPackages(metafile)));
  const components = [...names].sort().map((name) => readComponent(root, name));
  const libraries = present.filter((entry) => !isExecutable(entry)).map(({ source }) => source);

  const files = new Map<string, string | Uint8Array>([
    ...bundles.map(({ entry, bytes }): [string, Uint8Array] => [entry.output, bytes]),
    ...(libraries.length === 0 ? [] : emitDeclarations(root, libraries)),
    ['LICENSE', readText(root, 'LICENSE')],
    ['THIRD-PARTY-LICENSES.txt', printLicenses(components)],
    ['package.json', printJson(describePackage(product))],
  ]);
  const hashes = [...files].map(([name, contents]) => ({ name, sha256: sha256(contents) }));
  files.set('sbom.cdx.json', printJson(buildSbom({ product, components, files: hashes })));
  files.set('SHA256SUMS', printSums(files));
  return { bundles, files, missing: entries.filter((entry) => !present.includes(entry)) };
}

function isExecutable(entry: EntryPoint): boolean {
  return entry.isProgram || entry.output === evidence.output;
}

/** Throws `invalid` naming the entry points that package.json promises and src/ does not have. */
export function requireComplete({ missing }: BuildResult): void {
  if (missing.length > 0) {
    throw new EdgeError('invalid', `missing entry points: ${missing.map(({ source }) => source).join(', ')}`, {
      hint: 'write them, or take them out of the exports of package.json',
    });
  }
}

/** Makes dist/ hold exactly the build. A file is replaced whole and only when it differs: tests may be using it. */
export function writeBuild(root: string, { files, bundles }: BuildResult): void {
  const folder = path.join(root, 'dist');
  const programs = new Set(bundles.filter(({ entry }) => isExecutable(entry)).map(({ entry }) => entry.output));
  mkdirSync(folder, { recursive: true });
  for (const name of listFiles(folder, ['.'])) {
    if (!files.has(name)) {
      rmSync(path.join(folder, name), { force: true });
    }
  }
  for (const [name, contents] of files) {
    const file = path.join(folder, name);
    if (!existsSync(file) || !readFileSync(file).equals(Buffer.from(contents))) {
      mkdirSync(path.dirname(file), { recursive: true });
      const draft = `${file}.${process.pid}`;
      writeFileSync(draft, contents, { mode: programs.has(name) ? 0o755 : 0o644 });
      renameSync(draft, file);
    }
  }
}

/** dist/ is itself a package, for embedders: CommonJS, and without any dependency. */
function describePackage(product: PackageJson) {
  const below = (target: string) => target.replace('./dist/', './');
  const exports = Object.entries(product.exports).map(([subpath, target]) => [
    subpath,
    typeof target === 'string' ? below(target) : { types: below(target.types), default: below(target.default) },
  ]);
  return {
    name: product.name,
    version: product.version,
    description: product.description,
    license: product.license,
    type: 'commonjs',
    engines: { node: `>=${nodeMajorMin}` },
    bin: Object.fromEntries(Object.entries(product.bin).map(([name, target]) => [name, below(target)])),
    exports: Object.fromEntries(exports),
  };
}

function printJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

/** As `sha256sum --check` reads it. */
function printSums(files: ReadonlyMap<string, string | Uint8Array>): string {
  const lines = [...files].map(([name, contents]) => `${sha256(contents)}  ${name}\n`);
  return lines.sort((a, b) => (a.slice(64) < b.slice(64) ? -1 : 1)).join('');
}

async function main(): Promise<void> {
  const result = await buildAll(projectRoot);
  if (process.argv.includes('--release')) {
    requireComplete(result);
  }
  writeBuild(projectRoot, result);
  for (const { source } of result.missing) {
    process.stderr.write(`build: no ${source} yet, skipped\n`);
  }
}

if (import.meta.main) {
  await main();
}
