// `npm test`: builds the bundle, runs the test files through tap and ends with one line, `N passed, N failed`.
// Arguments select files and folders: `npm test -- test/core`.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { listFiles, projectRoot, readText } from './project.ts';
import { createTapReport, type TapFile } from './tap-report.ts';

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

/** Runs the files and answers the totals; what did not end as TAP should counts as one failure more. */
async function runTests(files: readonly string[]): Promise<{ passed: number; failed: number; skipped: number }> {
  const report = createTapReport(printFile);
  const child = spawn(process.execPath, [tapProgram, '--reporter=tap', ...files], {
    cwd: projectRoot,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  child.stdout.pipe(report.parser);
  const [status] = await once(child, 'close');
  const { passed, failed, skipped } = report.counts;
  const isBroken = failed === 0 && (status !== 0 || !report.isComplete);
  if (isBroken) {
    print(`FAILED tap ended with status ${status} though no test failed`);
  }
  return { passed, failed: failed + (isBroken ? 1 : 0), skipped };
}

async function main(): Promise<void> {
  const { files, missing } = selectTests(process.argv.slice(2));
  for (const name of missing) {
    print(`FAILED ${name}: there is no such file or folder`);
  }
  // Without a bundle the tests that drive it cannot pass; the others still tell something.
  const hasBundle = runScript('build/bundle.ts');
  if (!hasBundle) {
    print('FAILED build: dist/ could not be built');
  }
  const hasTap = prepareTap();
  if (!hasTap) {
    print('FAILED tap build');
  }
  const counts = files.length === 0 ? { passed: 0, failed: 0, skipped: 0 } : await runTests(files);
  const failed = counts.failed + missing.length + (hasBundle ? 0 : 1) + (hasTap ? 0 : 1);
  if (counts.skipped > 0) {
    print(`${counts.skipped} skipped, each with its reason beside its name`);
  }
  print(`${counts.passed} passed, ${failed} failed`);
  process.exitCode = failed > 0 || counts.passed === 0 ? 1 : 0;
}

await main();
