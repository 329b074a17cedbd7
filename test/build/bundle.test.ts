import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import ts from 'typescript';
import { type BuildResult, buildAll, requireComplete, writeBuild } from '../../build/bundle.ts';
import { listEagerPackages, listExternals } from '../../build/bundle-options.ts';
import { listFiles, projectRoot, readPackage, readText } from '../../build/project.ts';

const modules = path.join(projectRoot, 'node_modules');

const sampleSources = {
  cli: {
    'main.ts': `import { readYaml } from '../read-yaml.ts';
if (process.argv[2] === 'read') {
  readYaml(process.argv[3] ?? '').then((value: unknown) => process.stdout.write(JSON.stringify(value)));
} else {
  process.stdout.write('quiet');
}
`,
  },
  'read-yaml.ts': `export async function readYaml(text: string): Promise<unknown> {
  const { parse } = await import('yaml');
  return parse(text);
}
`,
  'index.ts': `import * as v from 'valibot';
import type { Options } from './options.ts';
/** Doubles a figure. */
export function double(options: Options): number {
  return v.parse(v.number(), options.figure) * 2;
}
export type { Options };
`,
  'options.ts': 'export type Options = { readonly figure: number };\n',
  'unreachable.ts': 'export const neverShipped = 1;\n',
};

const samplePackage = {
  name: 'sample',
  version: '1.2.3',
  description: 'A sample',
  license: 'Apache-2.0',
  type: 'module',
  bin: { sample: './dist/qinglong-edge.cjs' },
  exports: { '.': { types: './dist/types/index.d.ts', default: './dist/index.cjs' } },
};

/** A small project that is built like this one. */
function sampleProject(changes: object = {}) {
  return {
    src: sampleSources,
    'package.json': JSON.stringify({ ...samplePackage, ...changes }),
    LICENSE: 'the licence\n',
    'tsconfig.json': readText(projectRoot, 'tsconfig.json'),
    'package-lock.json': readText(projectRoot, 'package-lock.json'),
    node_modules: t.fixture('symlink', modules),
  };
}

// Built once for all that only look at it.
const sample = await buildAll(t.testdir(sampleProject()));

const project = await buildAll(projectRoot);

function contentsOf({ files }: BuildResult): Record<string, string> {
  return Object.fromEntries([...files].map(([name, contents]) => [name, Buffer.from(contents).toString()]));
}

t.test('the program runs, and a lazily imported package is evaluated only when it is asked for', async (t) => {
  const root = t.testdir({});
  writeBuild(root, sample);
  const program = path.join(root, 'dist/qinglong-edge.cjs');
  t.equal(statSync(program).mode & 0o777, 0o755);
  t.ok(contentsOf(sample)['qinglong-edge.cjs']?.startsWith('#!/usr/bin/env node\n'));

  t.equal(spawnSync(process.execPath, [program], { encoding: 'utf8' }).stdout, 'quiet');
  const read = spawnSync(process.execPath, [program, 'read', 'a: [1, 2]'], { encoding: 'utf8' });
  t.equal(read.stdout, '{"a":[1,2]}');

  const main = sample.bundles.find(({ entry }) => entry.isProgram);
  t.same(listEagerPackages(main!.metafile, 'src/cli/main.ts'), []);
});

t.test('what is imported at the top of a module is told as evaluated at once', async (t) => {
  const library = sample.bundles.find(({ entry }) => !entry.isProgram);
  t.same(listEagerPackages(library!.metafile, 'src/index.ts'), ['valibot']);
  t.same(listExternals(library!.metafile), []);
});

t.test('an embedder on ES modules and one on CommonJS both run and compile against the package', async (t) => {
  const root = t.testdir({ consumer: { node_modules: {} } });
  const consumer = path.join(root, 'consumer');
  writeBuild(root, sample);
  symlinkSync(path.join(root, 'dist'), path.join(consumer, 'node_modules/sample'));
  const use = 'const options: Options = { figure: 4 };\nexport const result: number = double(options);\n';
  const sources = {
    'module.mts': `import { double, type Options } from 'sample';\n${use}console.log(result);\n`,
    'script.cts': `import { double, type Options } from 'sample';\n${use}`,
    'wrong.mts': `import { double } from 'sample';\nexport const result: string = double({ figure: 4 });\n`,
  };
  for (const [name, text] of Object.entries(sources)) {
    writeFileSync(path.join(consumer, name), text);
  }
  const program = ts.createProgram({
    rootNames: Object.keys(sources).map((name) => path.join(consumer, name)),
    options: { noEmit: true, strict: true, module: ts.ModuleKind.NodeNext, types: [] },
  });
  const mistakes = ts
    .getPreEmitDiagnostics(program)
    .map(({ file, code }) => [path.basename(file?.fileName ?? ''), code]);
  t.same(mistakes, [['wrong.mts', 2322]]);

  t.equal(spawnSync(process.execPath, ['module.mts'], { cwd: consumer, encoding: 'utf8' }).stdout, '8\n');
  const { double } = createRequire(path.join(consumer, 'script.cjs'))('sample');
  t.equal(double({ figure: 3 }), 6);
});

t.test(
  'every entry point of the product loads, as a module and as a script, and its declarations compile',
  async (t) => {
    const consumer = t.testdir({ node_modules: { '@types': t.fixture('symlink', path.join(modules, '@types')) } });
    writeBuild(consumer, project);
    renameSync(path.join(consumer, 'dist'), path.join(consumer, 'node_modules/qinglong-edge'));
    const { exports } = readPackage(projectRoot);
    const built = Object.entries(exports).filter(
      ([, target]) => typeof target !== 'string' && project.files.has(path.basename(target.default)),
    );
    const specifiers = built.map(([subpath]) => path.posix.join('qinglong-edge', subpath).replace(/\/$/, ''));
    const text = specifiers.map((specifier, index) => `import * as part${index} from '${specifier}';\npart${index};\n`);
    for (const name of ['all.mts', 'all.cts']) {
      writeFileSync(path.join(consumer, name), text.join(''));
    }
    const options = { noEmit: true, strict: true, module: ts.ModuleKind.NodeNext, types: ['node'] };
    const program = ts.createProgram({
      rootNames: ['all.mts', 'all.cts'].map((name) => path.join(consumer, name)),
      options: { ...options, typeRoots: [path.join(consumer, 'node_modules/@types')] },
    });
    t.same(
      ts.getPreEmitDiagnostics(program).map(({ messageText }) => messageText),
      [],
    );

    t.ok(specifiers.length > 0);
    const require = createRequire(path.join(consumer, 'all.cjs'));
    for (const specifier of specifiers) {
      const names = Object.keys(require(specifier)).sort();
      const script = `import('${specifier}').then((all) => console.log(Object.keys(all).sort().join()))`;
      const { stdout } = spawnSync(process.execPath, ['-e', script], { cwd: consumer, encoding: 'utf8' });
      t.ok(names.length > 0, specifier);
      t.same(
        stdout
          .trim()
          .split(',')
          .filter((name) => name !== 'default' && name !== 'module.exports'),
        names,
        specifier,
      );
    }
  },
);

t.test('only what an entry point reaches is declared', async (t) => {
  const names = [...sample.files.keys()];
  t.same(
    names.filter((name) => name.endsWith('.d.ts')),
    ['types/index.d.ts', 'types/options.d.ts'],
  );
});

t.test('a type that cannot be declared stops the build', async (t) => {
  const source = 'export const open = () => new (class { private figure = 1; })();\n';
  const root = t.testdir({ ...sampleProject(), src: { 'index.ts': source } });
  await t.rejects(buildAll(root), { code: 'invalid', message: /TS4094/ });
});

t.test('an entry point that package.json names and src does not have is refused for a release', async (t) => {
  const exports = {
    ...samplePackage.exports,
    './gone': { types: './dist/types/gone.d.ts', default: './dist/gone.cjs' },
  };
  const result = await buildAll(t.testdir(sampleProject({ exports })));
  t.throws(() => requireComplete(result), { code: 'invalid', message: 'missing entry points: src/gone.ts' });
  t.doesNotThrow(() => requireComplete({ ...result, missing: [] }));
});

t.test('dist holds exactly the build: what an earlier one left is gone', async (t) => {
  const root = t.testdir({ dist: { 'old.cjs': '', types: { 'old.d.ts': '' } } });
  writeBuild(root, sample);
  t.same(listFiles(path.join(root, 'dist'), ['.']), [...sample.files.keys()].sort());
});

t.test('the licences of what is bundled ship with it', async (t) => {
  const files = contentsOf(sample);
  const licenses = files['THIRD-PARTY-LICENSES.txt'];
  t.match(licenses, /^valibot 1\.\d+\.\d+ \(MIT\)$/m);
  t.match(licenses, 'Copyright (c) Fabian Hiller');
  t.match(licenses, /^yaml 2\.\d+\.\d+ \(ISC\)$/m);
  t.match(licenses, 'Copyright Eemeli Aro');
  t.notMatch(licenses, 'croner');
  t.equal(files['LICENSE'], 'the licence\n');
});

t.test('the package in dist depends on nothing', async (t) => {
  const manifest = JSON.parse(contentsOf(sample)['package.json'] ?? '');
  t.notHas(manifest, { dependencies: Object, optionalDependencies: Object });
  t.match(manifest, {
    name: 'sample',
    type: 'commonjs',
    bin: { sample: './qinglong-edge.cjs' },
    exports: { '.': { types: './types/index.d.ts', default: './index.cjs' } },
  });
});

t.test('the same sources give the same bytes in any folder', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'qinglong-edge-build-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const copy = path.join(folder, 'some', 'other-place');
  mkdirSync(copy, { recursive: true });
  for (const name of ['src', 'edge-evidence', 'package.json', 'package-lock.json', 'tsconfig.json', 'LICENSE']) {
    cpSync(path.join(projectRoot, name), path.join(copy, name), { recursive: true });
  }
  symlinkSync(modules, path.join(copy, 'node_modules'));
  t.same(contentsOf(await buildAll(copy)), contentsOf(project));
  for (const [name, contents] of Object.entries(contentsOf(project))) {
    t.notOk(contents.includes(projectRoot), `${name} does not tell where it was built`);
  }
});

t.test('the sums of a build hold for sha256sum', async (t) => {
  const root = t.testdir({});
  writeBuild(root, sample);
  const check = spawnSync('sha256sum', ['--check', '--strict', 'SHA256SUMS'], {
    cwd: path.join(root, 'dist'),
    encoding: 'utf8',
  });
  t.equal(check.status, 0, check.stdout);
  t.match(check.stdout, 'sbom.cdx.json: OK');
});
