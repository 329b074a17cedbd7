// How the shipped files are made of the sources, the same for all of them, and what one of them is made of.
import { builtinModules } from 'node:module';
import path from 'node:path';
import { type BuildOptions, build, type Metafile, type Plugin, transform } from 'esbuild';
import { type EntryPoint, evidence, postgres } from './entry-points.ts';
import { packProgram, partName, renameParts } from './pack.ts';
import { packageOf, readPackage } from './project.ts';

export type Bundle = {
  readonly entry: EntryPoint;
  readonly bytes: Uint8Array;
  /** Its text as it is evaluated, in one part or in several. */
  readonly code: readonly string[];
  /** What went in, what came out, and which module asks for which: esbuild's own record. */
  readonly metafile: Metafile;
};

// Packages may ask for `process` where they mean `node:process`; a bundle asks for nothing but `node:`.
const nodePrefix: Plugin = {
  name: 'node-prefix',
  setup({ onResolve }) {
    onResolve({ filter: /^[a-z_/]+$/ }, ({ path: name }) =>
      builtinModules.includes(name) ? { path: `node:${name}`, external: true } : null,
    );
  },
};

// The driver asks for its native variant only where somebody wants that, and for another platform's sockets never.
const withoutNative: Plugin = {
  name: 'without-native',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^pg-(native|cloudflare)$/ }, ({ path: name }) => ({ path: name, namespace: 'absent' }));
    onLoad({ filter: /.*/, namespace: 'absent' }, () => ({ contents: 'module.exports = {};' }));
  },
};

/** The first Node whose SQLite and whose own functions this product is built on. */
export const nodeMajorMin = 24;

const sharedOptions = {
  bundle: true,
  write: false,
  metafile: true,
  minify: true,
  platform: 'node',
  target: `node${nodeMajorMin}`,
  // Text in one-byte characters: one other character would double what the source takes in memory.
  charset: 'ascii',
  legalComments: 'none',
  plugins: [nodePrefix],
  // Only Node's own modules stay outside; the driver of PostgreSQL is in the one file that is named after it.
  external: ['pg'],
  logLevel: 'silent',
} satisfies BuildOptions;

// What is asked for by name later is loaded as `require` does: `import()` would bring in Node's second loader.
const supported = { 'dynamic-import': false };

function optionsOf(root: string, entry: EntryPoint) {
  // The library as ECMAScript modules, of which the parts that nobody uses can be left out: 18 KB less.
  const alias = { yaml: path.join(root, 'node_modules/yaml/browser/dist/index.js') };
  return { ...sharedOptions, absWorkingDir: root, entryPoints: [entry.source], alias };
}

/**
 * Bundles one entry point in memory. CommonJS: an ES module costs 11 MiB of memory and 45 ms at start. What is asked
 * for by `import()` is inside the same file, but evaluated only then.
 */
export function bundleEntry(root: string, entry: EntryPoint): Promise<Bundle> {
  if (entry.output === evidence.output) {
    return bundleLibrary(root, entry, evidenceOptions(root));
  }
  if (entry.output === postgres.output) {
    return bundleLibrary(root, entry, {
      external: [],
      plugins: [withoutNative, nodePrefix],
      // A library that is a program as well, where it is what Node was given.
      banner: { js: '#!/usr/bin/env node\nvar isMainModule=require.main===module;' },
      define: { 'import.meta.main': 'isMainModule' },
    });
  }
  return entry.isProgram ? bundleProgram(root, entry) : bundleLibrary(root, entry);
}

/** It starts by itself, says so where Node is too old, and knows its version and the one file that it is in. */
function evidenceOptions(root: string): MoreOptions {
  const { version } = readPackage(root);
  const hint = `qinglong-edge-evidence: needs Node.js ${nodeMajorMin} or later; run it with a newer node\\n`;
  const isOld = `Number.parseInt(process.versions.node)<${nodeMajorMin}`;
  const demand = `if(${isOld}){process.stderr.write("${hint}");process.exit(4)}`;
  return {
    banner: { js: `#!/usr/bin/env node\n"use strict";${demand}` },
    define: { bundledVersion: JSON.stringify(version), 'import.meta.filename': '__filename' },
  };
}

type MoreOptions = Pick<BuildOptions, 'banner' | 'define' | 'external' | 'plugins'>;

async function bundleLibrary(root: string, entry: EntryPoint, more: MoreOptions = {}): Promise<Bundle> {
  const options = { ...optionsOf(root, entry), ...more };
  const result = await build({ ...options, supported, outfile: `dist/${entry.output}`, format: 'cjs' });
  const { contents, text } = result.outputFiles[0]!;
  return { entry, bytes: contents, code: [text], metafile: result.metafile };
}

/** Split along `import()` as ECMAScript modules, which alone can be split, then made CommonJS part by part. */
async function bundleProgram(root: string, entry: EntryPoint): Promise<Bundle> {
  const names = { entryNames: '[name]', chunkNames: '[hash]' };
  const options = { ...optionsOf(root, entry), ...names };
  const result = await build({ ...options, outdir: 'dist', format: 'esm', splitting: true });
  const parts = await Promise.all(
    result.outputFiles.map(async ({ path: file, text }) => {
      const { minify, platform, target, charset } = sharedOptions;
      const { code } = await transform(text, { minify, platform, target, charset, supported, format: 'cjs' });
      return { name: partName(file), code };
    }),
  );
  const main = partName(entry.source.replace(/\.ts$/, '.js'));
  const named = renameParts(parts, listPartOrder(result.metafile));
  const bytes = Buffer.from(packProgram(named.parts, named.names.get(main)!, nodeMajorMin), 'latin1');
  return { entry, bytes, code: named.parts.map(({ code }) => code), metafile: result.metafile };
}

// What a daemon loads at its start, whatever is in its data directory. These parts come first and so share boxes: six
// are unpacked at a start instead of ten, which takes 1.5 ms less.
const startEntries: ReadonlySet<string> = new Set([
  'src/cli/main.ts',
  'src/cli/serve-command.ts',
  'src/http/holder.ts',
  'src/sqlite.ts',
]);

/** The parts by what is in them: esbuild's own names and their order depend on the folder that it works in. */
function listPartOrder({ outputs }: Metafile): readonly string[] {
  const atStart = listStartParts(outputs);
  const keyed = Object.entries(outputs).map(([file, { inputs }]) => ({
    name: partName(file),
    key: `${atStart.has(file) ? 'at start' : 'later'} ${Object.keys(inputs).sort().join(' ')}`,
  }));
  return keyed.sort((one, other) => (one.key < other.key ? -1 : 1)).map(({ name }) => name);
}

/** The files of the parts that are reached from those entries without an `import()` on the way. */
function listStartParts(outputs: Metafile['outputs']): ReadonlySet<string> {
  const seen = new Set<string>();
  const pending = Object.keys(outputs).filter((file) => startEntries.has(outputs[file]?.entryPoint ?? ''));
  for (let file = pending.pop(); file !== undefined; file = pending.pop()) {
    if (!seen.has(file)) {
      seen.add(file);
      const eager = outputs[file]?.imports.filter(({ kind }) => kind === 'import-statement') ?? [];
      pending.push(...eager.map((imported) => imported.path).filter((imported) => imported in outputs));
    }
  }
  return seen;
}

/** The packages whose code is in a bundle, sorted by name. */
export function listBundledPackages(metafile: Metafile): string[] {
  const outputs = Object.values(metafile.outputs).flatMap((output) => Object.entries(output.inputs));
  const files = outputs.filter(([, { bytesInOutput }]) => bytesInOutput > 0).map(([file]) => file);
  return [...new Set(files.map(packageOf))].filter((name) => name !== null).sort();
}

/** The modules that a bundle leaves outside, sorted. */
export function listExternals(metafile: Metafile): string[] {
  const imports = Object.values(metafile.outputs).flatMap((output) => output.imports);
  return [...new Set(imports.filter(({ external }) => external === true).map((imported) => imported.path))].sort();
}

/** The packages that are evaluated when the bundle is loaded: those reached without an `import()` on the way. */
export function listEagerPackages({ inputs }: Metafile, source: string): string[] {
  const seen = new Set<string>();
  const pending = [source];
  for (let file = pending.pop(); file !== undefined; file = pending.pop()) {
    if (!seen.has(file)) {
      seen.add(file);
      const eager = inputs[file]?.imports.filter(
        ({ kind, external }) => kind !== 'dynamic-import' && external !== true,
      );
      pending.push(...(eager ?? []).map((imported) => imported.path));
    }
  }
  return [...new Set([...seen].map(packageOf))].filter((name) => name !== null).sort();
}
