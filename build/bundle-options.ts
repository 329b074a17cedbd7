// How the shipped files are made of the sources, the same for all of them, and what one of them is made of.
import { builtinModules } from 'node:module';
import { build, type Metafile, type Plugin } from 'esbuild';
import type { EntryPoint } from './entry-points.ts';
import { packageOf } from './project.ts';

export type Bundle = {
  readonly entry: EntryPoint;
  readonly bytes: Uint8Array;
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

/**
 * Bundles one entry point in memory. CommonJS: an ES module costs 11 MiB of memory and 45 ms at start. What is asked
 * for by `import()` is inside the same file, but evaluated only then.
 */
export async function bundleEntry(root: string, entry: EntryPoint): Promise<Bundle> {
  const result = await build({
    absWorkingDir: root,
    entryPoints: [entry.source],
    outfile: `dist/${entry.output}`,
    bundle: true,
    write: false,
    metafile: true,
    minify: true,
    format: 'cjs',
    platform: 'node',
    target: 'node24',
    charset: 'utf8',
    legalComments: 'none',
    plugins: [nodePrefix],
    // Only Node's own modules and the optional peer of the PostgreSQL module stay outside.
    external: ['pg'],
    logLevel: 'silent',
    ...(entry.isProgram ? { banner: { js: '#!/usr/bin/env node' } } : {}),
  });
  return { entry, bytes: result.outputFiles[0]!.contents, metafile: result.metafile };
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
