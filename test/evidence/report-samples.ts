// Small reports for tests: a genuine one of each kind that matters, and the same after somebody changed it.
import { admissionWindows, expectedOutcomes } from '../../edge-evidence/crash-window/admission-windows.ts';
import type { Environment } from '../../edge-evidence/environment.ts';
import { modes } from '../../edge-evidence/operation.ts';
import { operations } from '../../edge-evidence/operations/all.ts';
import {
  type Attestation,
  buildReport,
  digestReport,
  hasPassed,
  type Part,
  printReport,
  type Report,
  type ReportMode,
  type Scenario,
} from '../../edge-evidence/report.ts';

export const environment: Environment = {
  node: '24.0.0',
  sqlite: '3.50.0',
  sqliteOptions: ['THREADSAFE=1'],
  architecture: 'mips',
  kernel: 'Linux 6.6.0',
  libc: 'musl',
  cpu: { model: 'MediaTek MT7621', count: 4 },
  memoryKib: 262_144,
  fileSystem: { type: 'jffs2', mountOptions: ['rw', 'noatime'] },
};

export const subject = { bundleSha256: 'ab'.repeat(32), bundleBytes: 263_157, version: '0.1.0' };

export function scenario(change: Partial<Scenario> = {}): Scenario {
  const made = { name: 'chain', mode: 'wal-full' as const, isControl: false, figures: {}, failures: [], ...change };
  return { passed: hasPassed(made), ...made };
}

export function sampleReport(
  change: Partial<Part> & {
    readonly attestation?: Attestation | null;
    readonly isQuick?: boolean;
    readonly modes?: readonly ReportMode[];
  } = {},
): Report {
  const { attestation = null, isQuick = false, modes: ownModes = modes, ...part } = change;
  const scenarios = [
    scenario({ figures: { steps: 8, commits: 9 } }),
    scenario({ name: 'control', isControl: true, failures: ['the commit “é” was lost'] }),
  ];
  return buildReport(
    { kind: 'footprint', parameters: { idleMs: 1000, where: 'flash' }, scenarios, limits: ['not wear'], ...part },
    {
      options: { modes: ownModes, isQuick, seed: 7 },
      subject,
      environment,
      collectedAt: new Date('2026-01-31T12:00:00Z'),
      attestation,
    },
  );
}

/** Everything that a report of crash windows has to have, with figures of windows that held. */
export function crashWindowScenarios(): readonly Scenario[] {
  return modes.flatMap((mode) => [
    ...admissionWindows.map((window) => {
      const outcomes = expectedOutcomes(window);
      const created = outcomes.filter((outcome) => outcome === 'created').length;
      const rowsLeft = window.isDurable ? 11 : 0;
      const figures = { windows: 1, killed: 1, rowsLeft, created, existing: 2 - created, receipts: 1 };
      return scenario({ name: window.name, mode, figures });
    }),
    ...operations.map(({ name }) => scenario({ name, mode, figures: { windows: 12, killed: 12, replays: 5 } })),
  ]);
}

/** The bytes of a report whose digest was computed anew, as a liar would. */
export function sealAnew(report: Report, change: Partial<Report> = {}): Uint8Array {
  const changed = { ...report, ...change };
  return Buffer.from(printReport({ ...changed, reportDigest: digestReport(changed) }));
}
