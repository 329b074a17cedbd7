// `npm test`: builds the bundle, runs the test files through tap and ends with one line, `N passed, N failed`. What the
// tests leave behind counts as failed too.
//   npm test -- test/core                     only these files and folders
//   npm test -- --parallel 1                  one file after the other
//   npm test -- --seed 7                      the files in the order that seed 7 gives; without it in a new one
//   npm test -- --shell 'busybox ash'         the launcher under another shell
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { drawSeed } from '../edge-evidence/random.ts';
import { listFiles, projectRoot, readText } from './project.ts';
import { createTapReport, type TapFile } from './tap-report.ts';
import { isNested, openTestGround } from './test-ground.ts';

const tapProgram = path.join(projectRoot, 'node_modules/.bin/tap');

const isTest = (file: string) => file.endsWith('.test.ts');

function selectTests(selection: readonly string[]): { files: string[]; missing: string[] } {
  const wanted = selection.length === 0 ? ['test'] : selection;
  const relative = wanted.map((name) => path.relative(projectRoot, path.resolve(name)).replaceAll(path.sep, '/'));
  const missing = relative.filter((name) => !existsSync(path.join(projectRoot, name)));
  const files = relative.flatMap((name) => {
    if (missing.includes(name)) {
      return [];
    }
    return statSync(path.join(projectRoot, name)).isDirectory()
      ? listFiles(projectRoot, [name]).filter(isTest)
      : [name];
  });
  return { files: [...new Set(files)], missing };
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

function printFile(file: TapFile): void {
  const skipped = file.skipped === 0 ? '' : `, ${file.skipped} skipped`;
  const total = file.passed + file.failed;
  print(
    `${file.failed === 0 ? 'ok    ' : 'FAILED'} ${file.name} (${total} tests${skipped}, ${Math.round(file.timeMs)} ms)`,
  );
  for (const failure of file.failures) {
    print(failure.replaceAll(/^(?=.)/gm, '  '));
  }
  if (file.failed > 0 && file.output.trim() !== '') {
    print(file.output.replaceAll(/^(?=.)/gm, '  | ').trimEnd());
  }
}

/** Runs a script of the project or of a tool; its output goes to stderr, for stdout belongs to the tests. */
function runScript(file: string, ...args: string[]): boolean {
  const { status } = spawnSync(process.execPath, [file, ...args], {
    cwd: projectRoot,
    stdio: ['ignore', process.stderr, process.stderr],
  });
  return status === 0;
}

/**
 * tap compiles its plugins in. As installed it has those that .taprc turns off, and its TypeScript plugin would take
 * over from Node's type stripping: `tap build` has to come before the first test.
 */
function prepareTap(): boolean {
  const built = 'node_modules/@tapjs/test/test-built/dist/esm/index.js';
  const signature = /export const signature = `([^`]*)`/.exec(readText(projectRoot, built))?.[1] ?? '';
  const unwanted = [...readText(projectRoot, '.taprc').matchAll(/"!([^"]+)"/g)].map(([, name]) => name);
  const isReady = !signature.split('\n').some((name) => unwanted.includes(name));
  return isReady || runScript(tapProgram, 'build');
}

type RunOptions = {
  readonly seed: number;
  readonly env: NodeJS.ProcessEnv;
  /** Files at the same time; null takes what .taprc says. */
  readonly parallel: string | null;
};
type Counts = { readonly passed: number; readonly failed: number; readonly skipped: number };

/** Runs the files and answers the totals; what did not end as TAP should counts as one failure more. */
async function runTests(files: readonly string[], { seed, env, parallel }: RunOptions): Promise<Counts> {
  const report = createTapReport(printFile);
  const order = `--import=${path.join(projectRoot, 'build/seeded-order.ts')}`;
  const inParallel = parallel === null ? [] : [`-j${parallel}`];
  const child = spawn(process.execPath, [order, tapProgram, '--reporter=tap', '--shuffle', ...inParallel, ...files], {
    cwd: projectRoot,
    env: { ...process.env, ...env, QL_TEST_SEED: `${seed}` },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  // Whoever stops this command still gets told what was left, and it is ended.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => child.kill(signal));
  }
  child.stdout.pipe(report.parser);
  const [status] = await once(child, 'close');
  const { passed, failed, skipped } = report.counts;
  const isBroken = failed === 0 && (status !== 0 || !report.isComplete);
  if (isBroken) {
    print(`FAILED tap ended with status ${status} though no test failed`);
  }
  return { passed, failed: failed + (isBroken ? 1 : 0), skipped };
}

/** The same on a ground of its own, where everything that is left is one failure more. */
async function runOnGround(
  files: readonly string[],
  { shell, ...options }: Omit<RunOptions, 'env'> & { readonly shell: string | null },
): Promise<Counts> {
  const ground = openTestGround(projectRoot);
  const env = shell === null ? ground.env : { ...ground.env, QL_TEST_SHELL: shell };
  const counts = await runTests(files, { ...options, env }).catch((error: unknown) => {
    print(`FAILED ${error}`);
    return { passed: 0, failed: 1, skipped: 0 };
  });
  const left = await ground.close();
  for (const what of left) {
    print(`FAILED left behind: ${what}`);
  }
  return { ...counts, failed: counts.failed + left.length };
}

/** Without a bundle the tests that drive it cannot pass; the others still tell something. */
function prepare(): readonly string[] {
  const hasBundle = isNested() || runScript('build/bundle.ts');
  const hasTap = prepareTap();
  return [...(hasBundle ? [] : ['build: dist/ could not be built']), ...(hasTap ? [] : ['tap build'])];
}

function isShell(shell: string): boolean {
  const [program = '', ...words] = shell.split(' ');
  return spawnSync(program, [...words, '-c', 'exit 0']).status === 0;
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    options: { seed: { type: 'string' }, shell: { type: 'string' }, parallel: { type: 'string' } },
    allowPositionals: true,
  });
  const { files, missing } = selectTests(positionals);
  const seed = Number(values.seed ?? drawSeed());
  const shell = values.shell ?? process.env['QL_TEST_SHELL'] ?? null;
  const broken = [
    ...missing.map((name) => `${name}: there is no such file or folder`),
    ...(shell === null || isShell(shell) ? [] : [`--shell ${shell}: there is no such shell`]),
    ...prepare(),
  ];
  for (const what of broken) {
    print(`FAILED ${what}`);
  }
  print(`order of files: --seed ${seed}`);
  if (shell !== null) {
    print(`launcher under: ${shell}`);
  }
  const options = { seed, shell, parallel: values.parallel ?? null };
  const counts = files.length === 0 ? { passed: 0, failed: 0, skipped: 0 } : await runOnGround(files, options);
  const failed = counts.failed + broken.length;
  if (counts.skipped > 0) {
    print(`${counts.skipped} skipped, each with its reason beside its name`);
  }
  print(`${counts.passed} passed, ${failed} failed`);
  process.exitCode = failed > 0 || counts.passed === 0 ? 1 : 0;
}

await main();
