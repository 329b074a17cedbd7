import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { printReport, type Report, type Scenario, writeReport } from '../../edge-evidence/report.ts';
import { verifyReport } from '../../edge-evidence/verify-report.ts';
import { crashWindowScenarios, sampleReport, scenario, sealAnew, subject } from './report-samples.ts';

const bytesOf = (report: Report) => Buffer.from(printReport(report));

function faultsOf(bytes: Uint8Array): string {
  const { faults } = verifyReport(bytes);
  return faults.join('\n');
}

t.test(
  'a report is genuine as it was written, a control with failures and an attested power cut included',
  async (t) => {
    const attestation = { by: 'an operator', at: '2026-01-31T11:00:00.000Z' };
    for (const report of [sampleReport(), sampleReport({ attestation })]) {
      t.same(verifyReport(bytesOf(report), subject), { report, faults: [], failed: [] });
    }
    t.equal(sampleReport().physicalPowerLossProven, false);
    t.match(sampleReport().limits, [/not wear/, /no signature/, /other versions/, /not cut/]);
    t.equal(sampleReport({ attestation }).physicalPowerLossProven, true);
    t.notMatch(sampleReport({ attestation }).limits.join(), /not cut/);
  },
);

t.test('every changed, missing and doubled byte of a report is refused', async (t) => {
  const bytes = bytesOf(sampleReport());
  const accepted: string[] = [];
  const refuse = (what: string, altered: Uint8Array) => {
    if (verifyReport(altered).faults.length === 0) {
      accepted.push(what);
    }
  };
  for (const [at, byte] of bytes.entries()) {
    for (const mask of [0x01, 0x20, 0x80]) {
      refuse(`byte ${at} ^ ${mask}`, bytes.with(at, byte ^ mask));
    }
    refuse(`byte ${at} gone`, Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)]));
    refuse(`byte ${at} twice`, Buffer.concat([bytes.subarray(0, at + 1), bytes.subarray(at)]));
  }
  refuse('a byte order mark', Buffer.concat([Buffer.from('\ufeff'), bytes]));
  t.same(accepted, []);
});

t.test('another formatting of the same contents is refused, and it is said why', async (t) => {
  const report = sampleReport();
  t.match(faultsOf(Buffer.from(JSON.stringify(report))), /its text is not as a report is written/);
  const { kind, ...rest } = report;
  t.match(faultsOf(Buffer.from(`${JSON.stringify({ kind, ...rest }, null, 2)}\n`)), /its text is not as/);
  t.match(faultsOf(Buffer.from('{}')), /schema is missing; collect it anew/);
  t.match(faultsOf(Buffer.from('not JSON')), /it is no JSON document: .*; collect it anew/);
});

t.test('a lie is refused even where the digest was computed anew', async (t) => {
  const report = sampleReport();
  const [first, control] = report.scenarios as readonly [Scenario, Scenario];
  const lie = (change: Partial<Report>) => faultsOf(sealAnew(report, change));
  t.equal(lie({}), '');
  t.match(
    lie({ scenarios: [{ ...first, failures: ['lost'] }, control] }),
    /says passed: true, its failures say otherwise/,
  );
  t.match(lie({ scenarios: [first, { ...control, failures: [] }] }), /control, wal-full says passed: true/);
  t.match(lie({ scenarios: [first] }), /its summary says 2 of 2 passed, its scenarios 1 of 1/);
  t.match(lie({ scenarios: [first, first] }), /chain, wal-full is told twice/);
  t.match(lie({ summary: { scenarios: 2, passed: 1, failed: 1 } }), /its summary says 1 of 2/);
  t.match(lie({ physicalPowerLossProven: true }), /proven by an attestation, and by nothing else/);
  t.match(lie({ parameters: { ...report.parameters, modes: 'delete-full' } }), /modes that its parameters do not name/);
  t.match(faultsOf(bytesOf({ ...report, collectedAt: '2026-02-01T12:00:00.000Z' })), /not those of its digest/);
});

t.test(
  'a report of crash windows has all 24 windows of the admission, and every operation in every mode',
  async (t) => {
    const scenarios = crashWindowScenarios();
    const report = sampleReport({ kind: 'crash-window', scenarios });
    t.same(verifyReport(bytesOf(report)), { report, faults: [], failed: [] });
    t.equal(scenarios.filter(({ name }) => name.startsWith('admission: ')).length, 24);
    for (const [index, { name, mode }] of scenarios.entries()) {
      const rest = sampleReport({ kind: 'crash-window', scenarios: scenarios.toSpliced(index, 1) });
      t.match(faultsOf(bytesOf(rest)), `there is nothing about ${name}, ${mode}`);
    }
  },
);

t.test('a crash window that says that it passed is refused where its figures say that it did not', async (t) => {
  const scenarios = crashWindowScenarios();
  const withFigures = (name: string, change: Readonly<Record<string, number>>) => {
    const index = scenarios.findIndex((entry) => entry.name === name);
    const found = scenarios[index]!;
    const changed = { ...found, figures: { ...found.figures, ...change } };
    return faultsOf(bytesOf(sampleReport({ kind: 'crash-window', scenarios: scenarios.with(index, changed) })));
  };
  t.match(withFigures('admission: before COMMIT', { rowsLeft: 1 }), /but rowsLeft is 1 instead of 0/);
  t.match(withFigures('admission: before COMMIT', { created: 0, existing: 2 }), /but created is 0 instead of 1/);
  t.match(withFigures('admission: after COMMIT', { created: 1 }), /but created is 1 instead of 0/);
  t.match(withFigures('admission: after COMMIT', { rowsLeft: 0 }), /but the admission is gone, which was committed/);
  t.match(withFigures('admission: after the Run', { receipts: 2 }), /but receipts is 2 instead of 1/);
  t.match(withFigures('advance', { killed: 11 }), /but not every window had its kill/);
});

t.test('what failed on the device is told of a genuine report, with the first reason', async (t) => {
  const scenarios = [
    scenario({ failures: ['two runs', 'and one more'] }),
    scenario({ name: 'control', isControl: true }),
    scenario({ name: 'nothing', figures: { tried: 0 } }),
  ];
  const { faults, failed } = verifyReport(bytesOf(sampleReport({ scenarios })));
  t.same(faults, []);
  t.same(failed, [
    'chain, wal-full: two runs (and 1 more)',
    'control, wal-full: nothing went wrong, and it had to',
    'nothing, wal-full: nothing was tried',
  ]);
  t.same(verifyReport(bytesOf(sampleReport({ scenarios: [] }))).failed, ['it has no scenario']);
});

t.test('a report about another bundle is refused where one is given', async (t) => {
  const other = { bundleSha256: 'cd'.repeat(32), bundleBytes: subject.bundleBytes };
  t.match(verifyReport(bytesOf(sampleReport()), other).faults, [
    /about another bundle .* collect evidence with this bundle/,
  ]);
});

t.test('a report is written as a new file that is its owner’s alone, and never replaces one', async (t) => {
  const file = join(t.testdir({}), 'report.json');
  writeReport(file, sampleReport());
  t.equal(statSync(file).mode & 0o777, 0o600);
  const other = join(t.testdirName, 'other.json');
  writeFileSync(other, 'kept');
  t.throws(() => writeReport(other, sampleReport()), /is there already and stays: give another name/);
  t.equal(statSync(other).size, 4);
});

t.test('a part that contradicts itself is no report; endless failures are cut', async (t) => {
  const wrong = { ...scenario(), passed: false };
  t.throws(() => sampleReport({ scenarios: [wrong] }), /says passed: false, its failures say otherwise/);
  const failures = Array.from({ length: 5000 }, () => 'x'.repeat(10_000));
  const report = sampleReport({ scenarios: [scenario({ failures })] });
  t.equal(report.scenarios[0]?.failures.length, 101);
  t.same(verifyReport(bytesOf(report)).faults, []);
});
