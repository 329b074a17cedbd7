// `npm run evidence`: every kind of evidence about the bundle that was just built, in every mode; a table for people,
// and a report of each kind, checked by the shipped `verify-report`. Exits with 1 where anything failed, or where a
// control, which has to fail, did not.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { collectCrashWindows } from './crash-window/collect.ts';
import { usePreload } from './crash-window/preload.ts';
import { readEnvironment } from './environment.ts';
import { collectExhaustive } from './exhaustive/collect.ts';
import { collectFaults } from './faults/collect.ts';
import { collectFootprint } from './footprint/collect.ts';
import { modes } from './operation.ts';
import { collectPowerLoss } from './power-loss/collect.ts';
import { drawSeed } from './random.ts';
import {
  buildReport,
  type FileKind,
  fileKinds,
  type Part,
  type PartOptions,
  type Report,
  writeReport,
} from './report.ts';
import { clearFolder } from './site-copy.ts';
import { readSubject } from './subject.ts';
import { readOrExit } from './usage.ts';

const collectors: Readonly<Record<FileKind, (options: PartOptions) => Promise<Part>>> = {
  'crash-window': collectCrashWindows,
  exhaustive: collectExhaustive,
  'power-loss': collectPowerLoss,
  faults: collectFaults,
  footprint: collectFootprint,
};

const project = join(import.meta.dirname, '..');
const bundleName = 'qinglong-edge.cjs';
const verifier = join(project, 'dist/qinglong-edge-evidence.cjs');

type Given = {
  readonly isQuick: boolean;
  readonly seed: number;
  readonly chosen: readonly FileKind[];
  readonly reports: string;
  /** Of the machine; an own folder is made in it. */
  readonly scratch: string;
};

/** Throws TypeError for what cannot be meant. */
function readArguments(args: readonly string[]): Given {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: 'boolean', default: false },
      out: { type: 'string', default: join(project, 'reports') },
      only: { type: 'string', multiple: true },
      seed: { type: 'string', default: `${drawSeed()}` },
      scratch: { type: 'string', default: tmpdir() },
    },
  });
  const { only = fileKinds } = values;
  const unknown = only.find((name) => !fileKinds.includes(name as FileKind));
  const seed = Number(values.seed);
  if (unknown !== undefined || !Number.isSafeInteger(seed) || seed < 0 || seed >= 2 ** 32) {
    throw new TypeError(`--only takes ${fileKinds.join(', ')}; --seed a whole number from 0 to ${2 ** 32 - 1}`);
  }
  const chosen = fileKinds.filter((kind) => only.includes(kind));
  return { isQuick: values.quick, seed, chosen, reports: values.out, scratch: values.scratch };
}

const usage = `npm run evidence -- [--quick] [--only KIND]... [--seed N] [--out DIR] [--scratch DIR]
  KIND: ${fileKinds.join(', ')}; docs/evidence.md says what they are`;

async function main(): Promise<number> {
  const given = readOrExit(usage, () => readArguments(process.argv.slice(2)));
  const { isQuick, seed, chosen, reports, scratch: place } = given;
  const scratch = realpathSync(mkdtempSync(join(place, 'evidence-')));
  mkdirSync(reports, { recursive: true });
  let isWhole = true;
  try {
    // A copy: whoever builds meanwhile does not change what this is about.
    const bundle = join(scratch, bundleName);
    copyFileSync(join(project, 'dist', bundleName), bundle);
    const evidenceBundle = join(scratch, 'qinglong-edge-evidence.cjs');
    copyFileSync(verifier, evidenceBundle);
    usePreload(evidenceBundle);
    const options: PartOptions = { bundle, scratch, modes, isQuick, seed, log: tell };
    tell(`seed ${seed}${isQuick ? ', a quick sample' : ''}`);
    for (const kind of chosen) {
      isWhole = (await collectKind(kind, options, reports)) && isWhole;
    }
  } finally {
    clearFolder(scratch);
  }
  return isWhole ? 0 : 1;
}

/** Answers whether everything of this kind passed, and its report is genuine. */
async function collectKind(kind: FileKind, options: PartOptions, reports: string): Promise<boolean> {
  const beganMs = performance.now();
  const collectedAt = new Date();
  try {
    const subject = readSubject(options.bundle);
    const environment = readEnvironment(options.scratch);
    const part = await collectors[kind](options);
    const report = buildReport(part, { options, subject, environment, collectedAt, attestation: null });
    const file = join(reports, `${collectedAt.toISOString().replaceAll(/[-:]|\.\d+/g, '')}-${kind}.json`);
    writeReport(file, report);
    printTable(report, (performance.now() - beganMs) / 1000);
    const verified = spawnSync(process.execPath, [verifier, 'verify-report', file, '--bundle', options.bundle], {
      encoding: 'utf8',
    });
    process.stdout.write(`  ${relative(process.cwd(), file)}: ${(verified.stdout || verified.stderr).trim()}\n`);
    return verified.status === 0;
  } catch (error) {
    process.stdout.write(`${kind}: cannot be collected: ${(error as Error).stack}\n`);
    return false;
  }
}

function printTable({ kind, scenarios, limits }: Report, seconds: number): void {
  const head = [kind.toUpperCase(), 'SCENARIOS', 'PASSED', 'CONTROLS', 'TRIED'];
  const rows = modes.map((mode) => {
    const own = scenarios.filter((scenario) => scenario.mode === mode);
    const tried = own.reduce((sum, { figures }) => sum + (figures['windows'] ?? figures['tried'] ?? 1), 0);
    const counts = [own, own.filter(({ passed }) => passed), own.filter(({ isControl }) => isControl)];
    return [mode, ...counts.map(({ length }) => `${length}`), `${tried}`];
  });
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column]?.length ?? 0)));
  const lines = [head, ...rows].map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '));
  const failures = scenarios
    .filter(({ passed }) => !passed)
    .flatMap(({ name, mode, failures: why, isControl }) => [
      `FAILED ${name}, ${mode}${isControl ? ': a control, and nothing went wrong' : ''}`,
      ...why.slice(0, failuresToldMax).map((what) => `  ${what}`),
    ]);
  const told = [...lines, ...failures, ...limits.map((limit) => `limit: ${limit}`), `${seconds.toFixed(1)} s`];
  process.stdout.write(`\n${told.map((line) => line.trimEnd()).join('\n')}\n`);
}

/** The report has more. */
const failuresToldMax = 5;

function tell(line: string): void {
  process.stderr.write(`${line}\n`);
}

process.exitCode = await main();
