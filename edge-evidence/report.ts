// Reports of evidence: their form, when a scenario has passed, how a report is sealed, printed and written. Whether one
// that was read back is genuine is verify-report.ts.
import { createHash } from 'node:crypto';
import { closeSync, fsyncSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { canonicalJson } from '../src/core/canonical-json.ts';
import type { Environment } from './environment.ts';
import { EvidenceError, type Mode, modes } from './operation.ts';
import type { Subject } from './subject.ts';

/** How a cluster keeps what it acknowledges: applied on a standby first, or on one server alone. */
export const clusterModes = ['remote-apply', 'asynchronous'] as const;
export const reportModes: readonly ReportMode[] = [...modes, ...clusterModes];
export type ReportMode = Mode | (typeof clusterModes)[number];

export type Scenario = {
  readonly name: string;
  readonly mode: ReportMode;
  /** A control shows that the harness can see a failure: something that must go wrong. */
  readonly isControl: boolean;
  /** As `hasPassed` says; nothing else decides. */
  readonly passed: boolean;
  /** Counts and measured values, whole numbers. A count that must not be there is a failure too. */
  readonly figures: Readonly<Record<string, number>>;
  readonly failures: readonly string[];
};

/** About one database file. */
export const fileKinds = ['crash-window', 'exhaustive', 'power-loss', 'faults', 'footprint'] as const;
export const kinds = [...fileKinds, 'failover'] as const;
export type FileKind = (typeof fileKinds)[number];
export type Kind = (typeof kinds)[number];

export type Parameters = Readonly<Record<string, string | number | boolean>>;

/** What one kind of evidence found. */
export type Part = {
  readonly kind: Kind;
  readonly parameters: Parameters;
  readonly scenarios: readonly Scenario[];
  /** What it does not prove. */
  readonly limits: readonly string[];
};

export type PartOptions = {
  readonly bundle: string;
  /** An existing folder; whoever collects makes an own one in it and removes it. */
  readonly scratch: string;
  readonly modes: readonly Mode[];
  readonly isQuick: boolean;
  readonly seed: number;
  readonly log: (line: string) => void;
};

/** An operator's word that the power of this device was really cut, and when. Nothing else proves it. */
export type Attestation = { readonly by: string; readonly at: string };

export type Report = {
  readonly schema: 'qinglong/evidence@v1';
  readonly kind: Kind;
  /** ISO 8601, UTC, by the clock of the device. */
  readonly collectedAt: string;
  readonly subject: Subject;
  readonly environment: Environment;
  readonly parameters: Parameters;
  readonly scenarios: readonly Scenario[];
  readonly summary: { readonly scenarios: number; readonly passed: number; readonly failed: number };
  readonly limits: readonly string[];
  readonly physicalPowerLossProven: boolean;
  readonly attestation: Attestation | null;
  readonly reportDigest: string;
};

const digestLabel = 'qinglong/evidence-report@v1';

/** Counts of what was tried: where one of them is 0, nothing was shown. */
const triedFigures = ['tried', 'windows'];

/** A control passes exactly if it has failures, anything else exactly if it has none; nothing passes untried. */
export function hasPassed({ isControl, figures, failures }: Omit<Scenario, 'passed'>): boolean {
  const isTried = triedFigures.every((name) => figures[name] !== 0);
  return isTried && failures.length > 0 === isControl;
}

/** A scenario that is no control, judged. */
export function scenarioOf(
  name: string,
  mode: Mode,
  figures: Scenario['figures'],
  failures: Scenario['failures'],
): Scenario {
  const scenario = { name, mode, isControl: false, figures, failures };
  return { ...scenario, passed: hasPassed(scenario) };
}

export type Collected = {
  readonly options: Pick<PartOptions, 'isQuick' | 'seed'> & { readonly modes: readonly ReportMode[] };
  readonly subject: Subject;
  readonly environment: Environment;
  readonly collectedAt: Date;
  readonly attestation: Attestation | null;
};

/** Seals a part. Throws EvidenceError for one that contradicts itself: that is a defect of whoever collected it. */
export function buildReport(part: Part, collected: Collected): Report {
  const { options, subject, environment, collectedAt, attestation } = collected;
  const { modes, isQuick, seed } = options;
  for (const scenario of part.scenarios) {
    if (scenario.passed !== hasPassed(scenario)) {
      throw new EvidenceError(
        `${part.kind}: ${scenario.name} says passed: ${scenario.passed}, its failures say otherwise`,
      );
    }
  }
  const contents: Omit<Report, 'reportDigest'> = {
    schema: 'qinglong/evidence@v1',
    kind: part.kind,
    collectedAt: collectedAt.toISOString(),
    subject,
    environment,
    parameters: { ...part.parameters, modes: modes.join(' '), isQuick, seed },
    scenarios: part.scenarios.map(shorten),
    summary: summarize(part.scenarios),
    limits: [...part.limits, ...generalLimits, ...(attestation === null ? [unattestedLimit] : [])],
    physicalPowerLossProven: attestation !== null,
    attestation,
  };
  return { ...contents, reportDigest: digestReport(contents) };
}

const failuresToldMax = 100;
const failureCharactersMax = 2000;

/** As many failures as somebody reads, each as long as it needs to be. */
function shorten(scenario: Scenario): Scenario {
  const told = scenario.failures
    .slice(0, failuresToldMax)
    .map((failure) => failure.toWellFormed().slice(0, failureCharactersMax).toWellFormed() || 'it is not said why');
  const more = scenario.failures.length - told.length;
  return { ...scenario, failures: more > 0 ? [...told, `${more} more failures`] : told };
}

const generalLimits = [
  'the digest of this report shows that it was altered by mistake; it is no signature, and names nobody',
  'other versions of the bundle, of Node.js, of the kernel or of the file system may behave otherwise',
];
const unattestedLimit = 'the power of this device was not cut: nobody attests it';

export function summarize(scenarios: readonly Scenario[]): Report['summary'] {
  const passed = scenarios.filter((scenario) => scenario.passed).length;
  return { scenarios: scenarios.length, passed, failed: scenarios.length - passed };
}

/** SHA-256 over label, NUL and the canonical JSON of everything but the digest itself, in hex. */
export function digestReport(report: Omit<Report, 'reportDigest'> & { readonly reportDigest?: string }): string {
  const { reportDigest: _own, ...contents } = report;
  return createHash('sha256')
    .update(`${digestLabel}\0${canonicalJson(contents)}`)
    .digest('hex');
}

/** The one text of a report: fields in the order of the type above, names within figures and parameters sorted. */
export function printReport(report: Report): string {
  const { subject, environment, attestation, summary } = report;
  const ordered: Report = {
    schema: report.schema,
    kind: report.kind,
    collectedAt: report.collectedAt,
    subject: { bundleSha256: subject.bundleSha256, bundleBytes: subject.bundleBytes, version: subject.version },
    environment: {
      node: environment.node,
      sqlite: environment.sqlite,
      sqliteOptions: environment.sqliteOptions,
      architecture: environment.architecture,
      kernel: environment.kernel,
      libc: environment.libc,
      cpu: { model: environment.cpu.model, count: environment.cpu.count },
      memoryKib: environment.memoryKib,
      fileSystem: { type: environment.fileSystem.type, mountOptions: environment.fileSystem.mountOptions },
    },
    parameters: sortNames(report.parameters),
    scenarios: report.scenarios.map(({ name, mode, isControl, passed, figures, failures }) => {
      return { name, mode, isControl, passed, figures: sortNames(figures), failures };
    }),
    summary: { scenarios: summary.scenarios, passed: summary.passed, failed: summary.failed },
    limits: report.limits,
    physicalPowerLossProven: report.physicalPowerLossProven,
    attestation: attestation === null ? null : { by: attestation.by, at: attestation.at },
    reportDigest: report.reportDigest,
  };
  return `${JSON.stringify(ordered, null, 2)}\n`;
}

function sortNames<T>(record: Readonly<Record<string, T>>): Readonly<Record<string, T>> {
  return Object.fromEntries(Object.entries(record).sort(([left], [right]) => (left < right ? -1 : 1)));
}

/** Writes a report, 0600 and synced, as a new file. Throws EvidenceError where there is one, which stays as it is. */
export function writeReport(file: string, report: Report): void {
  const descriptor = openNew(file);
  try {
    writeFileSync(descriptor, printReport(report));
    fsyncSync(descriptor);
  } catch (error) {
    rmSync(file, { force: true });
    throw new EvidenceError(`cannot write ${file}: ${(error as Error).message}`);
  } finally {
    closeSync(descriptor);
  }
}

function openNew(file: string): number {
  try {
    return openSync(file, 'wx', 0o600);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new EvidenceError(
      code === 'EEXIST'
        ? `${file} is there already and stays: give another name with --out`
        : `cannot write ${file}: ${message}`,
    );
  }
}
