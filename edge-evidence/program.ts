// The entry of dist/qinglong-edge-evidence.cjs: collects evidence about a bundle on this very device, and checks
// reports. Without dependencies; the same file is the preload of the processes that it kills.
import { existsSync, realpathSync, statSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { collectCrashWindows } from './crash-window/collect.ts';
import { ordersVariable } from './crash-window/point.ts';
import { readEnvironment } from './environment.ts';
import { collectFaults } from './faults/collect.ts';
import { collectFootprint } from './footprint/collect.ts';
import { EvidenceError, type Mode, modes } from './operation.ts';
import { drawSeed } from './random.ts';
import {
  type Attestation,
  buildReport,
  clusterModes,
  type Part,
  type PartOptions,
  type Report,
  writeReport,
} from './report.ts';
import { measureBundle, readNamedFile, readSubject } from './subject.ts';
import { verifyReport } from './verify-report.ts';

declare const bundledVersion: string | undefined;

const collectors: Readonly<Record<string, (options: PartOptions) => Promise<Part>>> = {
  'crash-window': collectCrashWindows,
  faults: collectFaults,
  footprint: collectFootprint,
};

const exitCodes = { passed: 0, failed: 1, usage: 2, refused: 5 } as const;

const help = `usage: node qinglong-edge-evidence.cjs COMMAND [OPTION]...

Collects evidence about one bundle of qinglong-edge on this device, and checks reports of it.

commands:
  crash-window        kill the product at every write and on both sides of each commit, and look at what is left
  faults              let storage, limits and neighbours fail, and look at what the product says and keeps
  footprint           start, memory, an idle daemon, commits and bytes written, each beside bare Node.js
  verify-report FILE  recompute a report from its own bytes; with --bundle also compare whom it is about

options of crash-window, faults and footprint:
  --bundle FILE   the bundle qinglong-edge.cjs to collect evidence about
  --scratch DIR   an existing folder on the storage that matters; what is made in it is removed again
  --out FILE      where the report goes; a file that is there already is never replaced
  --quick         a fixed sample of it
  --mode NAME     delete-extra, delete-full or wal-full; may be given again (default: all three)
  --seed N        the seed of what is drawn (default: drawn, and told in the report)
  --power-cut-by NAME --power-cut-at TIME
                  you attest that the power of this device was really cut while this bundle worked, and that everything
                  was found as it had been acknowledged; TIME like 2026-01-31T12:00:00Z

other options:
  --help, --version

Exit codes: 0 genuine, and everything passed; 1 something failed; 2 invalid use; 5 a report that is not genuine.
`;

const optionForms = {
  bundle: { type: 'string' },
  scratch: { type: 'string' },
  out: { type: 'string' },
  quick: { type: 'boolean', default: false },
  mode: { type: 'string', multiple: true },
  seed: { type: 'string' },
  'power-cut-by': { type: 'string' },
  'power-cut-at': { type: 'string' },
  help: { type: 'boolean', short: 'h', default: false },
  version: { type: 'boolean', default: false },
} as const;

type Options = ReturnType<typeof readArguments>['values'];

function readArguments(args: readonly string[]) {
  return parseArgs({ args: [...args], options: optionForms, allowPositionals: true });
}

/** Use that cannot be carried out; the message says what to do. */
class UsageError extends Error {
  override readonly name = 'UsageError';
}

async function main(args: readonly string[]): Promise<number> {
  let given: ReturnType<typeof readArguments>;
  try {
    given = readArguments(args);
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
  const { values, positionals } = given;
  const [command, ...rest] = positionals;
  if (values.version) {
    const version = typeof bundledVersion === 'string' ? bundledVersion : 'from source';
    process.stdout.write(`qinglong-edge-evidence ${version}, Node.js ${process.versions.node}\n`);
    return exitCodes.passed;
  }
  if (values.help || command === 'help') {
    process.stdout.write(help);
    return exitCodes.passed;
  }
  if (command === 'verify-report') {
    return verify(rest, values);
  }
  const collect = command !== undefined && Object.hasOwn(collectors, command) ? collectors[command] : undefined;
  if (collect === undefined || rest.length > 0) {
    const what = command === undefined ? 'a command is missing' : `there is no \`${[command, ...rest].join(' ')}\``;
    throw new UsageError(`${what}: crash-window, faults, footprint or verify-report FILE`);
  }
  return collectReport(collect, values);
}

async function collectReport(collect: (options: PartOptions) => Promise<Part>, values: Options): Promise<number> {
  const options = readPartOptions(values);
  const out = demand(values.out, '--out', 'the file that the report goes to');
  if (existsSync(out)) {
    throw new UsageError(`${out} is there already and stays: give another name with --out`);
  }
  const attestation = readAttestation(values);
  const subject = readSubject(options.bundle);
  const environment = readEnvironment(options.scratch);
  const part = await collect(options);
  const report = buildReport(part, { options, subject, environment, collectedAt: new Date(), attestation });
  if (measureBundle(options.bundle).bundleSha256 !== subject.bundleSha256) {
    throw new EvidenceError(`${options.bundle} was replaced meanwhile: collect the evidence again`);
  }
  writeReport(out, report);
  printSummary(report, out);
  return report.summary.failed === 0 && report.summary.scenarios > 0 ? exitCodes.passed : exitCodes.failed;
}

function readPartOptions(values: Options): PartOptions {
  const bundle = demand(values.bundle, '--bundle', 'the file qinglong-edge.cjs');
  const scratch = demand(values.scratch, '--scratch', 'a folder on the storage that matters');
  const chosen = values.mode ?? modes;
  const unknown = chosen.find((name) => !modes.includes(name as Mode));
  if (unknown !== undefined) {
    throw new UsageError(`there is no mode ${unknown}: ${modes.join(', ')}`);
  }
  if (!existsSync(bundle)) {
    throw new UsageError(`there is no ${bundle}: give the file qinglong-edge.cjs with --bundle`);
  }
  // Made here, it would be left behind.
  if (!statSync(scratch, { throwIfNoEntry: false })?.isDirectory()) {
    throw new UsageError(`${scratch} is no folder: make it first, on the storage that matters`);
  }
  const seed = Number(values.seed ?? drawSeed());
  if (!Number.isSafeInteger(seed) || seed < 0 || seed >= 2 ** 32) {
    throw new UsageError(`--seed ${values.seed} is no whole number from 0 to ${2 ** 32 - 1}`);
  }
  return {
    bundle: realpathSync(bundle),
    scratch: realpathSync(scratch),
    // In one order, whatever order they are given in.
    modes: modes.filter((mode) => chosen.includes(mode)),
    isQuick: values.quick,
    seed,
    log: (line) => process.stderr.write(`${line}\n`),
  };
}

function readAttestation(values: Options): Attestation | null {
  const by = values['power-cut-by'];
  const at = values['power-cut-at'];
  if (by === undefined && at === undefined) {
    return null;
  }
  const time = new Date(at ?? '');
  if (by === undefined || by.trim() === '' || Number.isNaN(time.getTime())) {
    throw new UsageError(
      'an attestation has both --power-cut-by NAME and --power-cut-at TIME, like 2026-01-31T12:00:00Z',
    );
  }
  return { by, at: time.toISOString() };
}

function demand(value: string | undefined, option: string, what: string): string {
  if (value === undefined || value === '') {
    throw new UsageError(`${option} is missing: ${what}`);
  }
  return resolve(value);
}

function printSummary({ kind, scenarios, summary, limits, subject }: Report, file: string): void {
  const failed = scenarios.filter(({ passed }) => !passed);
  const about = `${subject.version} (${subject.bundleSha256.slice(0, 16)}…)`;
  const lines = [
    `${kind}: ${summary.passed} of ${summary.scenarios} scenarios passed for ${about}`,
    ...failed.flatMap(({ name, mode, failures }) => [
      `FAILED ${name}, ${mode}`,
      ...failures.map((what) => `  ${what}`),
    ]),
    ...limits.map((limit) => `limit: ${limit}`),
    `report: ${file}`,
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

function verify(files: readonly string[], values: Options): number {
  const [file] = files;
  if (file === undefined || files.length > 1) {
    throw new UsageError('verify-report takes one FILE');
  }
  const bundle = values.bundle === undefined ? null : measureBundle(values.bundle);
  let bytes: Uint8Array;
  try {
    bytes = readNamedFile(file);
  } catch (error) {
    throw new UsageError(`cannot read ${file}: ${(error as Error).message}`);
  }
  const { report, faults, failed } = verifyReport(bytes, bundle);
  if (faults.length > 0 || report === null) {
    process.stderr.write([`${basename(file)} is refused:`, ...faults.map((fault) => `  ${fault}`), ''].join('\n'));
    return exitCodes.refused;
  }
  const { kind, summary, subject, parameters } = report;
  const quick = parameters['isQuick'] === true ? ', a quick sample' : '';
  const whole = kind === 'failover' ? clusterModes : modes;
  const extent = parameters['modes'] === whole.join(' ') ? quick : `${quick}, ${parameters['modes']} only`;
  const about = `${kind} of ${subject.version}, SHA-256 ${subject.bundleSha256}`;
  process.stdout.write(`genuine: ${about}: ${summary.passed} of ${summary.scenarios} passed${extent}\n`);
  process.stdout.write(failed.map((what) => `FAILED ${what}\n`).join(''));
  return failed.length === 0 ? exitCodes.passed : exitCodes.failed;
}

/** As a preload it only wraps what the program behind it uses, which `preload.ts` does when it is loaded. */
if (process.env[ordersVariable] === undefined) {
  main(process.argv.slice(2)).then(
    (code) => {
      process.exitCode = code;
    },
    (error: unknown) => {
      const isExpected = error instanceof UsageError || error instanceof EvidenceError;
      process.stderr.write(`qinglong-edge-evidence: ${isExpected ? error.message : (error as Error).stack}\n`);
      process.exitCode = error instanceof UsageError ? exitCodes.usage : exitCodes.failed;
    },
  );
}
