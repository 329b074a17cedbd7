// `npm run ha`: a cluster loses its primary while runtimes work; every gate is told, and a report written that
// `verify-report` checks. Exits with 1 where a gate did not hold, or a control, which has to fail, did not.
//   npm run ha -- [--pg-bin DIR] [--out FILE] [--runs N] [--bundle FILE] [--scratch DIR]
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { readEnvironment } from './environment.ts';
import { collectFailover } from './ha/collect.ts';
import { buildReport, clusterModes, type Report, writeReport } from './report.ts';
import { measureBundle } from './subject.ts';
import { readOrExit } from './usage.ts';

const project = join(import.meta.dirname, '..');
const verifier = join(project, 'dist/qinglong-edge-evidence.cjs');
const bundleName = 'dist/qinglong-edge-postgres.cjs';
// Each workflow of the package in each state that a failover can find it in is 15.
const runsDefault = 60;
const runsMax = 10_000;
const usage = 'npm run ha -- [--pg-bin DIR] [--out FILE] [--runs N] [--bundle FILE] [--scratch DIR]';

/** Throws TypeError for what cannot be meant. */
function readArguments(args: readonly string[]) {
  const { values } = parseArgs({
    args: [...args],
    options: {
      'pg-bin': { type: 'string' },
      out: { type: 'string' },
      runs: { type: 'string', default: `${runsDefault}` },
      bundle: { type: 'string', default: join(project, bundleName) },
      scratch: { type: 'string', default: tmpdir() },
    },
  });
  const runCount = Number(values.runs);
  if (!Number.isInteger(runCount) || runCount < 1 || runCount > runsMax) {
    throw new TypeError(`--runs is a whole number from 1 to ${runsMax}`);
  }
  // Told now, not after the drill.
  if (values.out !== undefined && existsSync(values.out)) {
    throw new TypeError(`--out ${values.out} is there already and stays: give another name`);
  }
  const bin = values['pg-bin'];
  return {
    bundle: realpathSync(values.bundle),
    scratch: realpathSync(values.scratch),
    pgBin: bin === undefined ? null : resolve(bin),
    out: values.out ?? null,
    runCount,
  };
}

async function main(): Promise<number> {
  const { out, ...given } = readOrExit(usage, () => readArguments(process.argv.slice(2)));
  const collectedAt = new Date();
  const beganMs = performance.now();
  const { version } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8')) as { readonly version: string };
  const subject = { ...measureBundle(given.bundle), version };
  const environment = readEnvironment(given.scratch);
  const part = await collectFailover({ ...given, log: (line) => process.stderr.write(`${line}\n`) });
  // Nothing is drawn: what a runtime did at the moment of a kill is up to the machine.
  const options = { modes: clusterModes, isQuick: given.runCount < runsDefault, seed: 0 };
  const report = buildReport(part, { options, subject, environment, collectedAt, attestation: null });
  printReport(report, (performance.now() - beganMs) / 1000);
  return out === null ? Number(report.summary.failed > 0) : writeAndVerify(out, report, given.bundle);
}

/** Answers the exit code of the shipped `verify-report`. */
function writeAndVerify(out: string, report: Report, bundle: string): number {
  writeReport(out, report);
  const { status, stdout, stderr } = spawnSync(process.execPath, [verifier, 'verify-report', out, '--bundle', bundle], {
    encoding: 'utf8',
  });
  process.stdout.write(`${out}: ${(stdout || stderr).trim()}\n`);
  return status ?? 1;
}

function printReport({ scenarios, parameters, summary, limits }: Report, seconds: number): void {
  const lines = scenarios.flatMap(({ name, mode, passed, figures, failures }) => {
    const told = Object.entries(figures).map(([what, value]) => `${what} ${value}`);
    const head = `${passed ? 'ok    ' : 'FAILED'} ${name} (${[mode, ...told].join(', ')})`;
    return [
      head,
      ...(figures['tried'] === 0 ? [] : failures).slice(0, failuresToldMax).map((what) => `         ${what}`),
    ];
  });
  const about = Object.entries(parameters).map(([name, value]) => `${name} ${value}`);
  const end = `${summary.passed} of ${summary.scenarios} gates hold, ${seconds.toFixed(1)} s`;
  process.stdout.write(
    `${[about.join(', '), ...lines, ...limits.map((limit) => `limit: ${limit}`), end].join('\n')}\n`,
  );
}

/** The report has more. */
const failuresToldMax = 5;

// Whoever stops reading does not stop the drill: its servers would stay.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', () => {});
}

process.exitCode = await main();
