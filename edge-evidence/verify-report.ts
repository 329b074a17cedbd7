// Whether a report is genuine and everything in it passed, recomputed from its bytes alone: form, text, digest, counts,
// what each scenario's own figures and failures say, and whether the scenarios are there that have to be.
import { admissionWindows, findFigureTrouble } from './crash-window/admission-windows.ts';
import { findMissingGates } from './ha/gates.ts';
import { operations } from './operations/all.ts';
import { digestReport, hasPassed, printReport, type Report, type Scenario, summarize } from './report.ts';
import { findShapeFaults } from './report-shape.ts';
import type { Subject } from './subject.ts';

export type Verdict = {
  /** Null where the bytes are no report. */
  readonly report: Report | null;
  /** Why it is not what a collector wrote; empty where it is. */
  readonly faults: readonly string[];
  /** What did not pass on the device, of a genuine report. */
  readonly failed: readonly string[];
};

export const reportBytesMax = 32 * 1024 * 1024;

const anew = 'collect it anew, or take it from where it was collected';

/** `bundle` are digest and length of a bundle that the report has to be about. */
export function verifyReport(bytes: Uint8Array, bundle: Omit<Subject, 'version'> | null = null): Verdict {
  const refuse = (...faults: readonly string[]): Verdict => ({ report: null, faults, failed: [] });
  if (bytes.length > reportBytesMax) {
    return refuse(`it has ${bytes.length} bytes, a report at most ${reportBytesMax}`);
  }
  let text: string;
  let value: unknown;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    value = JSON.parse(text);
  } catch (error) {
    return refuse(`it is no JSON document: ${(error as Error).message}; ${anew}`);
  }
  const shape = findShapeFaults(value);
  if (shape.length > 0) {
    return refuse(...shape.map((what) => `${what}; ${anew}`));
  }
  const report = value as Report;
  const faults = [
    ...unless(printReport(report) === text, `its text is not as a report is written (spaces, order, lines); ${anew}`),
    ...unless(digestReport(report) === report.reportDigest, `its contents are not those of its digest; ${anew}`),
    ...findContradictions(report),
    ...findMissing(report),
    ...(bundle === null ? [] : findOtherBundle(report.subject, bundle)),
  ];
  const failed = report.scenarios.filter(({ passed }) => !passed).map(describeFailure);
  return { report, faults, failed: failed.length > 0 || report.scenarios.length > 0 ? failed : ['it has no scenario'] };
}

/** What can be recomputed and comes out otherwise. */
function findContradictions(report: Report): readonly string[] {
  const { scenarios, summary, parameters, kind } = report;
  const counted = summarize(scenarios);
  const names = scenarios.map(({ name, mode }) => `${name}, ${mode}`);
  const seen = new Set<string>();
  const twice = names.filter((name) => seen.size === seen.add(name).size);
  const modes = `${parameters['modes']}`.split(' ');
  return [
    ...unless(
      counted.scenarios === summary.scenarios && counted.passed === summary.passed && counted.failed === summary.failed,
      `its summary says ${summary.passed} of ${summary.scenarios} passed, ` +
        `its scenarios ${counted.passed} of ${counted.scenarios}`,
    ),
    ...scenarios
      .filter((scenario) => scenario.passed !== hasPassed(scenario))
      .map(({ name, mode, passed }) => `${name}, ${mode} says passed: ${passed}, its failures say otherwise`),
    ...(kind === 'crash-window' ? scenarios.filter(({ passed }) => passed).flatMap(findWindowContradictions) : []),
    ...twice.map((name) => `${name} is told twice`),
    ...unless(
      scenarios.every(({ mode }) => modes.includes(mode)),
      'it has scenarios of modes that its parameters do not name',
    ),
    ...unless(
      report.physicalPowerLossProven === (report.attestation !== null),
      'a real power cut is proven by an attestation, and by nothing else',
    ),
  ];
}

/** Of a scenario that says that it passed: figures with which it cannot have. */
function findWindowContradictions({ name, mode, figures }: Scenario): readonly string[] {
  const window = admissionWindows.find((entry) => entry.name === name);
  const trouble =
    window === undefined
      ? unless(
          figures['killed'] === figures['windows'] && (figures['windows'] ?? 0) > 0,
          'not every window had its kill',
        )
      : findFigureTrouble(window, figures);
  return trouble.map((what) => `${name}, ${mode} says that it passed, but ${what}`);
}

/** Scenarios that a report has to have, where it is said which. */
function findMissing(report: Report): readonly string[] {
  const again = 'collect it with an evidence bundle of the same version as this one';
  const missing =
    report.kind === 'failover'
      ? findMissingGates(report).map(({ name, mode }) => `${name}, ${mode}`)
      : report.kind === 'crash-window'
        ? findMissingWindows(report)
        : [];
  return missing.map((name) => `there is nothing about ${name}; ${again}`);
}

/** All operations, and the named windows of the admission, in every mode. */
function findMissingWindows({ parameters, scenarios }: Report): readonly string[] {
  const found = new Set(scenarios.map(({ name, mode }) => `${name}, ${mode}`));
  const needed = [...admissionWindows.map(({ name }) => name), ...operations.map(({ name }) => name)];
  return `${parameters['modes']}`
    .split(' ')
    .flatMap((mode) => needed.map((name) => `${name}, ${mode}`))
    .filter((name) => !found.has(name));
}

function findOtherBundle(subject: Subject, bundle: Omit<Subject, 'version'>): readonly string[] {
  const isSame = subject.bundleSha256 === bundle.bundleSha256 && subject.bundleBytes === bundle.bundleBytes;
  const [own, other] = [subject, bundle].map(({ bundleSha256 }) => `${bundleSha256.slice(0, 16)}…`);
  const what = `it is about another bundle (${subject.version}, SHA-256 ${own}), not about this one (${other})`;
  return unless(isSame, `${what}; collect evidence with this bundle`);
}

function describeFailure({ name, mode, failures, isControl }: Scenario): string {
  const why = isControl ? 'nothing went wrong, and it had to' : (failures[0] ?? 'nothing was tried');
  const more = failures.length > 1 ? ` (and ${failures.length - 1} more)` : '';
  return `${name}, ${mode}: ${why}${more}`;
}

function unless(holds: boolean, what: string): readonly string[] {
  return holds ? [] : [what];
}
