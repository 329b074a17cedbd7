import t from 'tap';
import { projectRoot } from '../../build/project.ts';
import { checkStyle, printFinding, readStyleFiles, rules } from '../../build/style.ts';
import { parseFile } from '../../build/style-rule.ts';

/** The rules that these files break, in order, each once. */
function brokenRules(files: Readonly<Record<string, string>>): string[] {
  const parsed = Object.entries(files).map(([path, text]) => parseFile(path, text));
  return [...new Set(checkStyle(parsed).map(({ rule }) => rule))];
}

function lines(count: number): string {
  return 'let a = 1;\n'.repeat(count);
}

/** For each rule: files that break it and no other, and the nearest files that keep it. */
const samples: Readonly<Record<string, { breaks: Record<string, string>[]; keeps: Record<string, string>[] }>> = {
  'file-length': {
    breaks: [{ 'build/long.ts': lines(401) }, { 'schema/sqlite/1.sql': '--\n'.repeat(401) }],
    keeps: [{ 'build/long.ts': lines(400) }],
  },
  'line-width': {
    breaks: [{ 'test/wide.test.ts': `// ${'é'.repeat(118)}` }, { 'src/executor/wide.sh': `# ${'x'.repeat(119)}` }],
    keeps: [{ 'test/wide.test.ts': `// ${'🙂'.repeat(117)}` }],
  },
  'function-length': {
    breaks: [
      { 'test/a.test.ts': `t.test('long', async () => {\n${lines(69)}});` },
      { 'src/core/a.ts': `class A {\n  run() {\n${lines(69)}  }\n}` },
    ],
    keeps: [{ 'test/a.test.ts': `t.test('long', async () => {\n${lines(68)}});` }],
  },
  layers: {
    breaks: [
      { 'src/core/a.ts': "import { b } from '../protocol/b.ts';" },
      { 'src/protocol/a.ts': "import type { B } from '../store/b.ts';" },
      { 'src/store/a.ts': "const b = import('../executor/b.ts');" },
      { 'src/executor/a.ts': "import '../protocol/b.ts';" },
      { 'src/runtime/a.ts': "import { b } from '../cli/b.ts';" },
      { 'src/core/a.ts': "type B = import('../runtime/b.ts').B;" },
      { 'src/cli/a.ts': "import { b } from '../../build/b.ts';" },
      { 'src/other.ts': 'export const a = 1;' },
      { 'src/other/a.ts': 'export const a = 1;' },
    ],
    keeps: [
      {
        'src/runtime/a.ts':
          "import '../core/a.ts'; import '../protocol/a.ts'; import '../executor/a.ts'; import './b.ts';",
      },
      { 'src/cli/a.ts': "import '../runtime/a.ts'; import '../ui/a.ts';" },
      { 'src/executor/a.ts': "import '../core/a.ts';" },
      { 'src/index.ts': "import './runtime/a.ts'; import './cli/a.ts'; import './store/sqlite/a.ts';" },
    ],
  },
  adapters: {
    breaks: [
      { 'src/runtime/a.ts': "import type { B } from '../store/sqlite/b.ts';" },
      { 'src/cli/run.ts': "import { b } from '../store/sqlite/b.ts';" },
      { 'src/cli/run.ts': "import { main } from './main.ts';" },
      { 'src/store/postgres/a.ts': "import { b } from '../sqlite/b.ts';" },
      { 'src/store/a.ts': "import { b } from './sqlite/b.ts';" },
    ],
    keeps: [
      { 'src/cli/main.ts': "import { b } from '../store/sqlite/b.ts';" },
      { 'src/store/sqlite/a.ts': "import { b } from './b.ts'; import { c } from '../c.ts';" },
    ],
  },
  packages: {
    breaks: [{ 'src/runtime/a.ts': "import { Client } from 'pg';" }, { 'src/cli/a.ts': "import t from 'tap';" }],
    keeps: [{ 'src/runtime/a.ts': "import * as v from 'valibot'; import fs from 'node:fs';" }],
  },
  'core-platform': {
    breaks: [{ 'src/core/a.ts': "import { join } from 'node:path';" }],
    keeps: [{ 'src/core/hash.ts': "import { hash } from 'node:crypto';" }],
  },
  'core-synchronous': {
    breaks: [{ 'src/core/a.ts': 'export async function a() {}' }],
    keeps: [{ 'src/runtime/a.ts': 'export async function a() {}' }],
  },
  'evidence-imports': {
    breaks: [
      { 'edge-evidence/a.ts': "import { b } from '../src/core/evolve.ts';" },
      { 'edge-evidence/a.ts': "import { b } from '../src/runtime/b.ts';" },
    ],
    keeps: [{ 'edge-evidence/a.ts': "import { b } from '../src/core/canonical-json.ts'; import { c } from './c.ts';" }],
  },
  cycles: {
    breaks: [
      {
        'src/core/a.ts': "import { b } from './b.ts';",
        'src/core/b.ts': "import type { C } from './c.ts';",
        'src/core/c.ts': "import { a } from './a.ts';",
      },
    ],
    keeps: [{ 'src/core/a.ts': "import './b.ts'; import './c.ts';", 'src/core/b.ts': "import './c.ts';" }],
  },
  barrels: {
    breaks: [
      { 'src/core/a.ts': "export * from './b.ts';" },
      { 'src/core/a.ts': "import { b } from './b.ts';\nexport { b };" },
    ],
    keeps: [
      { 'src/index.ts': "export { b } from './core/b.ts';" },
      { 'src/core/a.ts': "export { b } from './b.ts';\nexport const c = 1;" },
    ],
  },
  'default-exports': {
    breaks: [
      { 'src/core/a.ts': 'export default 1;' },
      { 'build/a.ts': 'export default function a() {}' },
      { 'build/a.ts': 'const a = 1;\nexport { a as default };\nexport const b = 1;' },
    ],
    keeps: [{ 'src/core/a.ts': 'export const a = 1;' }],
  },
  'kebab-case': {
    breaks: [{ 'src/core/canonicalJson.ts': '' }, { 'test/Core/a.test.ts': '' }, { 'build/a_b.ts': '' }],
    keeps: [{ 'src/core/canonical-json.ts': '' }, { 'src/store/sqlite/migrations/0080-baseline.generated.ts': '' }],
  },
  'file-names': {
    breaks: [{ 'src/core/path-utils.ts': '' }, { 'src/core/types.ts': '' }, { 'src/runtime/job-queue.ts': '' }],
    keeps: [{ 'src/core/workflow.ts': '' }],
  },
  vocabulary: {
    breaks: [
      { 'src/core/a.ts': 'export const jobCount = 1;' },
      { 'src/core/a.ts': 'export type RunJob = { isCanceled: boolean };' },
      { 'test/a.test.ts': 'function startFlow() {}' },
      { 'src/core/a.ts': 'const MAX_JOBS = 1;' },
    ],
    keeps: [{ 'src/core/a.ts': 'const workflowId = overflow(isCancelled, SQLITE_FULL); // no job here' }],
  },
  'sql-vocabulary': {
    breaks: [{ 'schema/sqlite/1.sql': 'CREATE TABLE RunJobs (id INTEGER);' }],
    keeps: [{ 'schema/sqlite/1.sql': '-- not a job\nCREATE TABLE Workflows (id INTEGER);' }],
  },
  ports: {
    breaks: [
      { 'src/runtime/a.ts': 'const a = Date.now();' },
      { 'src/runtime/a.ts': 'const a = new Date();' },
      { 'src/core/a.ts': 'const a = Math.random();' },
      { 'src/cli/a.ts': "const a = process.env['HOME'];" },
      { 'src/executor/a.ts': 'setTimeout(() => {}, 1);' },
      { 'src/executor/a.ts': 'setInterval(() => {}, 1);' },
      { 'src/runtime/a.ts': "import { randomUUID } from 'node:crypto';" },
    ],
    keeps: [
      { 'src/runtime/ports.ts': 'const a = [Date.now(), process.env, setTimeout];' },
      { 'src/runtime/a.ts': '// Date.now() is behind the clock\nconst a = new Date(1);' },
    ],
  },
  'thrown-errors': {
    breaks: [{ 'src/core/a.ts': "throw new Error('a');" }, { 'build/a.ts': "throw Error('a');" }],
    keeps: [{ 'src/core/a.ts': "throw new EdgeError('invalid', 'a', { hint: 'b' });" }],
  },
  'sql-interpolation': {
    breaks: [
      { 'src/store/sqlite/a.ts': 'const a = `SELECT * FROM Runs WHERE id = ${id}`;' },
      { 'src/store/sqlite/a.ts': "const a = 'DELETE FROM ' + table;" },
    ],
    keeps: [
      { 'src/store/sqlite/a.ts': 'const a = `SELECT * FROM Runs WHERE id = :id`;' },
      { 'src/store/sqlite/a.ts': "const a = 'SELECT 1 ' + 'FROM Runs';" },
      { 'src/cli/a.ts': 'const a = `select a package: ${name}`;' },
    ],
  },
  'open-ends': {
    breaks: [{ 'src/core/a.ts': `// ${'TO'}${'DO'}: later` }, { 'schema/sqlite/1.sql': `-- ${'FIX'}${'ME'}` }],
    keeps: [{ 'src/core/a.ts': '// mastodon' }],
  },
  suppressions: {
    breaks: [
      { 'src/core/a.ts': `// ${'biome'}-ignore lint: no` },
      { 'test/a.test.ts': `// ${'@ts'}-expect-error` },
      { 'build/a.ts': `// ${'eslint'}-disable` },
    ],
    keeps: [{ 'src/core/a.ts': '// a line that biome may ignore' }],
  },
};

t.test('every rule has a sample that breaks it', async (t) => {
  t.same(Object.keys(samples), Object.keys(rules));
});

for (const [rule, { breaks, keeps }] of Object.entries(samples)) {
  t.test(`${rule} tells what breaks it, and only that`, async (t) => {
    for (const files of breaks) {
      t.same(brokenRules(files), [rule], JSON.stringify(files).slice(0, 120));
    }
    for (const files of keeps) {
      t.same(brokenRules(files), [], JSON.stringify(files).slice(0, 120));
    }
  });
}

t.test('a finding names the file, the line and the rule', async (t) => {
  const findings = checkStyle([parseFile('src/core/a.ts', "const a = 1;\nthrow new Error('a');\n")]);
  t.same(findings.map(printFinding), ['src/core/a.ts:2: thrown-errors: throws a plain Error']);
});

t.test('the project keeps all rules', async (t) => {
  const files = readStyleFiles(projectRoot);
  t.ok(files.length > 40, 'all files are looked at');
  t.same(checkStyle(files).map(printFinding), []);
});
