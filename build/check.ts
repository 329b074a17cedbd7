// `npm run check`: everything that must hold beside the tests, one line for each check. Nothing is exempt from any.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { isEdgeError } from '../src/core/errors.ts';
import { type BuildResult, buildAll, requireComplete } from './bundle.ts';
import { findEager, findForeignImports, findOversize, findTraces } from './bundle-checks.ts';
import { findStale, generateAll } from './generate.ts';
import { listFiles, projectRoot, readText, sourceFolders } from './project.ts';
import { checkStyle, printFinding, readStyleFiles } from './style.ts';

/** What is wrong, line by line; empty where the check holds. */
type Check = () => string[] | Promise<string[]>;

let build: Promise<BuildResult> | null = null;

/** Built once, in memory, for all checks that look at it. */
function built(): Promise<BuildResult> {
  build ??= buildAll(projectRoot);
  return build;
}

function runTool(file: string, ...args: string[]): string[] {
  const tool = path.join(projectRoot, 'node_modules', file);
  const { status, stdout, stderr } = spawnSync(process.execPath, [tool, ...args], {
    cwd: projectRoot,
    encoding: 'utf8',
  });
  return status === 0 ? [] : `${stdout}${stderr}`.trimEnd().split('\n');
}

/** All files of the project itself: its folders, and what lies beside them. */
function listProjectFiles(): string[] {
  const beside = readdirSync(projectRoot).filter((name) => statSync(path.join(projectRoot, name)).isFile());
  return [
    ...beside,
    ...listFiles(
      projectRoot,
      [...sourceFolders, '.ci'].filter((name) => existsSync(name)),
    ),
  ];
}

function findProjectTraces(): string[] {
  const files = listProjectFiles().map((file): [string, string] => [file, readText(projectRoot, file)]);
  return findTraces(new Map(files), projectRoot);
}

const checks: Readonly<Record<string, Check>> = {
  'format and lint': () => runTool('@biomejs/biome/bin/biome', 'ci', '--error-on-warnings', '--colors=off', '.'),
  style: () => checkStyle(readStyleFiles(projectRoot)).map(printFinding),
  types: () => runTool('typescript/bin/tsc', '--pretty', 'false'),
  'generated files are up to date': () => findStale(projectRoot, generateAll(projectRoot)),
  'bundles and declarations build': async () => {
    requireComplete(await built());
    return [];
  },
  'bundles import nothing but node:': async () => (await built()).bundles.flatMap(findForeignImports),
  'bundles evaluate late what is needed late': async () => (await built()).bundles.flatMap(findEager),
  'bundle size': async () => (await built()).bundles.flatMap(findOversize),
  'no trace of this machine in the build': async () => findTraces((await built()).files, projectRoot),
  'no trace of this machine in the project': findProjectTraces,
};

async function runCheck(check: Check): Promise<string[]> {
  try {
    return await check();
  } catch (error) {
    const text = isEdgeError(error) ? `${error.message}; ${error.hint}` : error instanceof Error ? error.stack : error;
    return String(text).split('\n');
  }
}

async function main(): Promise<void> {
  let broken = 0;
  for (const [name, check] of Object.entries(checks)) {
    const startMs = performance.now();
    const problems = await runCheck(check);
    const timeMs = Math.round(performance.now() - startMs);
    process.stdout.write(`${problems.length === 0 ? 'ok    ' : 'FAILED'} ${name} (${timeMs} ms)\n`);
    process.stdout.write(problems.map((line) => `  ${line}\n`).join(''));
    broken += problems.length === 0 ? 0 : 1;
  }
  const total = Object.keys(checks).length;
  process.stdout.write(broken === 0 ? `all ${total} checks hold\n` : `${broken} of ${total} checks do not hold\n`);
  process.exitCode = broken === 0 ? 0 : 1;
}

await main();
