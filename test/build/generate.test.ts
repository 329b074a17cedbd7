import { readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { findStale, generateAll } from '../../build/generate.ts';
import { generateMigrations } from '../../build/generate-store.ts';
import { generateScripts } from '../../build/generate-texts.ts';
import { templateLiteral } from '../../build/generated-file.ts';
import { listFiles, projectRoot, readReleaseMs } from '../../build/project.ts';
import { sha256 } from '../../src/core/hash.ts';
import { fingerprintSchema, withSchema } from '../../src/store/sqlite/catalog.ts';

const changeLog = '# Changes\n\n## 0.2.0, unreleased (2026-02-03)\n\n## 0.1.0 (2025-12-01)\n';
const firstSql =
  "-- Runs.\nCREATE TABLE Runs (\n  id TEXT NOT NULL, -- '\n  note TEXT DEFAULT 'a  -- `${b}`'\n) STRICT;\n";
const secondSql = 'CREATE INDEX RunsByNote ON Runs (note DESC) WHERE note IS NOT NULL;\n';

function sampleProject(changes: object = {}) {
  return {
    'package.json': '{"version":"0.2.0"}',
    'CHANGELOG.md': changeLog,
    schema: {
      sqlite: { '0002-index.sql': secondSql, '0001-runs.sql': firstSql, 'notes.txt': 'not a migration' },
      postgres: { 'pg-0001-runs.sql': 'CREATE TABLE runs (id text);\n', 'roles.sql': '-- Two.\nCREATE ROLE two;\n' },
    },
    src: { executor: { 'launcher.sh': '#!/bin/sh\necho "${HOME}" `date` \\n\n', 'pump-end.sh': 'exit 0\n' } },
    ...changes,
  };
}

const generated = generateAll(t.testdir(sampleProject()));

function textOf(file: string): string {
  return generated.find((entry) => entry.path === file)?.text ?? '';
}

/** Writes the generated modules into a folder of their own and loads one. */
async function load(t: Pick<typeof import('tap').t, 'testdir'>, files: typeof generated, file: string) {
  const tree: Record<string, string> = {};
  for (const { path: name, text } of files) {
    tree[name.replaceAll('/', '+')] = text.replaceAll(/from '(\.[^']*)'/g, (_match, target: string) => {
      return `from './${path.posix.join(path.posix.dirname(name), target).replaceAll('/', '+')}'`;
    });
  }
  const folder = t.testdir(tree);
  return import(pathToFileURL(path.join(folder, file.replaceAll('/', '+'))).href);
}

t.test('migrations stand in the order of their names, each with the hash of its file', async (t) => {
  const { migrations } = await load(t, generated, 'src/store/sqlite/migrations.generated.ts');
  t.match(migrations, [
    { id: '0001-runs', sha256: sha256(firstSql) },
    { id: '0002-index', sha256: sha256(secondSql) },
  ]);
});

t.test('the migrations of the other database stand beside its roles, which are none', async (t) => {
  const { migrations } = await load(t, generated, 'src/store/postgres/migrations.generated.ts');
  t.match(migrations, [{ id: 'pg-0001-runs', sql: 'CREATE TABLE runs (id text);\n' }]);
  t.equal(migrations.length, 1);
  const { rolesSql } = await load(t, generated, 'src/store/postgres/roles.generated.ts');
  t.equal(rolesSql, 'CREATE ROLE two;\n');
});

t.test('comments and indentation are left out, and what is quoted is untouched', async (t) => {
  const { migrations } = await load(t, generated, 'src/store/sqlite/migrations.generated.ts');
  t.equal(migrations[0].sql, "CREATE TABLE Runs (\nid TEXT NOT NULL,\nnote TEXT DEFAULT 'a  -- `${b}`'\n) STRICT;\n");
});

t.test('the schema digest is that of a database that the migrations made', async (t) => {
  const { schemaFingerprint } = await load(t, generated, 'src/store/sqlite/schema-fingerprint.generated.ts');
  const { migrations } = await load(t, generated, 'src/store/sqlite/migrations.generated.ts');
  t.equal(withSchema(migrations, fingerprintSchema), schemaFingerprint);
  t.not(withSchema(migrations.slice(0, 1), fingerprintSchema), schemaFingerprint);
});

t.test('scripts are embedded byte for byte', async (t) => {
  const scripts = await load(t, generated, 'src/executor/scripts.generated.ts');
  t.equal(scripts.launcherScript, '#!/bin/sh\necho "${HOME}" `date` \\n\n');
  t.equal(scripts.pumpEndScript, 'exit 0\n');
});

t.test('a long line of any text keeps its bytes and fits the width', async (t) => {
  for (const line of ['`'.repeat(300), '\\'.repeat(301), `${'x'.repeat(117)}\${a}`, 'é'.repeat(500), '', '\n\n']) {
    const literal = templateLiteral(line);
    const { value } = await import(
      `data:text/javascript;charset=utf-8,${encodeURIComponent(`export const value = ${literal}`)}`
    );
    t.equal(value, line);
    t.ok(literal.split('\n').every((part) => part.length <= 120));
  }
});

t.test('the build date is that of the newest heading of the change log', async (t) => {
  const { buildInfo } = await load(t, generated, 'src/runtime/build-info.generated.ts');
  t.same(buildInfo, { version: '0.2.0', buildDateMs: Date.UTC(2026, 1, 3) });
});

t.test('a change log whose newest heading has no date is refused', async (t) => {
  const root = t.testdir({ 'CHANGELOG.md': '## 0.2.0\n\n## 0.1.0 (2025-12-01)\n' });
  t.throws(() => readReleaseMs(root), { code: 'invalid', hint: 'write it as: ## 1.2.3 (2026-01-31)' });
});

t.test('without any SQL and scripts the modules are there and empty', async (t) => {
  const root = t.testdir(sampleProject({ schema: { sqlite: {} }, src: { executor: {} } }));
  t.same(
    generateMigrations(root, 'sqlite').map(({ path: name }) => name),
    ['src/store/sqlite/migrations.generated.ts'],
  );
  t.match(generateScripts(root), [{ text: /export \{\};/ }]);
});

t.test('a migration that SQLite refuses stops the generator', async (t) => {
  const schema = { sqlite: { '0001-wrong.sql': 'CREATE TABLE (a);' }, postgres: { 'roles.sql': '' } };
  const root = t.testdir(sampleProject({ schema }));
  t.throws(() => generateAll(root), { code: 'ERR_SQLITE_ERROR' });
});

t.test('what is missing, altered or left over is stale', async (t) => {
  const listed = textOf('src/store/sqlite/migrations.generated.ts');
  const root = t.testdir({
    src: { store: { sqlite: { 'migrations.generated.ts': `${listed}\n`, 'old.generated.ts': '', 'other.ts': '' } } },
  });
  const stale = findStale(
    root,
    generated.filter(({ path: name }) => name.startsWith('src/store/sqlite/migrations')),
  );
  t.same(stale, [
    'src/store/sqlite/migrations/0001-runs.generated.ts is stale: npm run generate',
    'src/store/sqlite/migrations/0002-index.generated.ts is stale: npm run generate',
    'src/store/sqlite/migrations.generated.ts is stale: npm run generate',
    'src/store/sqlite/old.generated.ts is generated from nothing: npm run generate',
  ]);
});

t.test('the generated files of the project are up to date', async (t) => {
  t.same(findStale(projectRoot, generateAll(projectRoot)), []);
  const headers = listFiles(projectRoot, ['src']).filter((file) => file.endsWith('.generated.ts'));
  for (const file of headers) {
    t.match(readFileSync(path.join(projectRoot, file), 'utf8'), /^\/\/ Generated by `npm run generate` from /, file);
  }
});
