// Every column of the evidence of a run, damaged in turn behind the program's back: refused, and nothing repaired.
import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import { verifyAdmission } from '../../../src/core/admission.ts';
import { type EdgeError, InvariantError, isEdgeError } from '../../../src/core/errors.ts';
import { draft, type RunEvent } from '../../../src/core/events.ts';
import { foldEvents } from '../../../src/core/evolve.ts';
import type { RunRows } from '../../../src/core/records.ts';
import { createReads } from '../../../src/store/sqlite/reads.ts';
import type { SqlValue } from '../../../src/store/sqlite/statement.ts';
import { endDraft } from '../../core/run-driver.ts';
import { admittedAtMs, attemptHead } from '../../core/samples.ts';
import { admitRun, openSample, type Sample } from './sample-database.ts';

const runId = 'run-1';
const planId = 'plan-1';
const admissions = 'QingLong3PluginPackageWorkflowAdmissions';
const admissionSteps = 'QingLong3PluginPackageWorkflowAdmissionSteps';

/**
 * Two runs. In the first, step `a` failed once, with output and a summary, and runs again with a deadline; `b` waits
 * for it, `c` was skipped. The second is there so that a wrong key leads somewhere.
 */
function tellSample(sample: Sample): void {
  const { append, reads, db } = sample;
  db.exec('BEGIN');
  admitRun(sample, 1);
  admitRun(sample, 2);
  const stepOf = (stepKey: string) =>
    [...reads.run({ runId })!.steps.values()].find((step) => step.stepKey === stepKey)!;
  const begin = (number: number) => {
    const step = stepOf('a');
    const claim = { number, stepRunVersion: step.version, executorType: 'process' as const };
    const deadline = { startMs: admittedAtMs, startUptimeMs: 5, bootId: `boot-${number}`, lengthMs: 60_000 };
    const claimed = draft('attempt.claimed', { ...claim, executionDigest: 'e'.repeat(64) }, attemptHead(step));
    const started = draft('attempt.started', { deadline, bootId: 'boot-1' }, attemptHead(step));
    return append({ rows: reads.run({ runId })!, events: [claimed, started] }, admittedAtMs + 10 * number);
  };
  const rows = begin(1);
  const outcome = {
    exitCode: 3,
    errorCode: 'exit_code',
    errorSummary: 'exit code 3',
    outputBytes: 7,
    outputTruncated: true,
  };
  const stepDue = { startMs: admittedAtMs, startUptimeMs: 6, bootId: 'boot-1', lengthMs: 5_000 };
  const failed = endDraft([...rows.attempts.values()][0]!, 'failed', { ...outcome, stepStatus: 'ready', stepDue });
  append({ rows, events: [failed] }, admittedAtMs + 15);
  begin(2);
  const skipped = draft(
    'step.skipped',
    { resultCode: 'some_code', errorSummary: 'why' },
    { stepRunId: stepOf('c').id },
  );
  append({ rows: reads.run({ runId })!, events: [skipped] }, admittedAtMs + 30);
  db.exec('COMMIT');
}

/** Reads everything that is known of the run, with nothing remembered; the first thing that does not fit. */
function findDamage({ db }: Sample): EdgeError | string | null {
  const reads = createReads(db);
  try {
    const evidence = reads.admission({ planId });
    if (evidence === null) {
      return 'no admission';
    }
    verifyAdmission(evidence);
    const rows = reads.wholeRun({ runId });
    reads.run({ runId });
    for (const { stepRunId } of evidence.plan.steps) {
      reads.step({ runId, stepRunId });
    }
    const events = reads.events({ runId, after: 0, limit: 1_000 });
    return isDeepStrictEqual(foldIfLegal(events), rows) ? null : 'another history';
  } catch (error) {
    if (isEdgeError(error)) {
      return error;
    }
    throw error;
  }
}

function foldIfLegal(events: readonly RunEvent[]): RunRows | null {
  try {
    return foldEvents(null, events);
  } catch (error) {
    if (error instanceof InvariantError) {
      return null;
    }
    throw error;
  }
}

type Column = { readonly name: string; readonly type: string };

function columnsOf({ db }: Sample, table: string): Column[] {
  const columns = db.prepare('SELECT name, type FROM pragma_table_xinfo(:table) WHERE hidden = 0').all({ table });
  return columns as Column[];
}

/** Other values for a column: one near it, one far away, none at all. */
function damagesOf({ type }: Column, value: SqlValue): SqlValue[] {
  if (type === 'INTEGER') {
    return [typeof value === 'number' ? value + 1 : 1, typeof value === 'number' ? value + 100_000 : 0, null];
  }
  if (type === 'BLOB') {
    const bytes = value instanceof Uint8Array ? Uint8Array.from(value) : new Uint8Array(32);
    bytes[31]! ^= 1;
    return [bytes, new Uint8Array(0), null];
  }
  return [
    typeof value === 'string' ? `${value.slice(0, -1)}~` : 'x',
    typeof value === 'string' ? `${value} ` : '',
    null,
  ];
}

function isEqual(left: SqlValue, right: SqlValue): boolean {
  return left instanceof Uint8Array && right instanceof Uint8Array ? Buffer.compare(left, right) === 0 : left === right;
}

/** Damages each column of the rows that `where` names, and tells what was found each time. */
function damageAll(
  sample: Sample,
  { table, where }: { table: string; where: string },
  judge: (column: string, value: SqlValue, found: EdgeError | string | null) => void,
): void {
  const { db } = sample;
  const keys = db.prepare(`SELECT rowid AS rowKey FROM ${table} WHERE ${where}`).all() as { rowKey: number }[];
  for (const column of columnsOf(sample, table)) {
    for (const { rowKey } of keys) {
      const row = db.prepare(`SELECT ${column.name} AS value FROM ${table} WHERE rowid = ?`).get(rowKey);
      const value = (row as { value: SqlValue }).value;
      for (const damage of damagesOf(column, value).filter((other) => !isEqual(other, value))) {
        db.exec('SAVEPOINT damage');
        try {
          db.prepare(`UPDATE ${table} SET ${column.name} = ? WHERE rowid = ?`).run(damage, rowKey);
        } catch {
          // NOT NULL and uniqueness cannot be switched off: such a row cannot come about.
          db.exec('ROLLBACK TO damage; RELEASE damage');
          continue;
        }
        const changes = db.prepare('SELECT total_changes() AS number').get();
        judge(column.name, damage, findDamage(sample));
        t.same(db.prepare('SELECT total_changes() AS number').get(), changes, 'nothing is repaired');
        db.exec('ROLLBACK TO damage; RELEASE damage');
      }
    }
  }
}

function openDamaged(t: Parameters<typeof openSample>[0]): Sample {
  const sample = openSample(t, { a: [], b: ['a'], c: ['a'] });
  const { db } = sample;
  tellSample(sample);
  const triggers = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'").all() as { name: string }[];
  db.exec(triggers.map(({ name }) => `DROP TRIGGER ${name};`).join(''));
  db.exec('PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF');
  return sample;
}

t.test('an undamaged run is sound', async (t) => {
  t.equal(findDamage(openDamaged(t)), null);
});

for (const [table, where] of [
  [admissions, `planId = '${planId}'`],
  [admissionSteps, 'runKey = 1'],
]) {
  t.test(`every column of ${table} is refused by its name`, async (t) => {
    const sample = openDamaged(t);
    let count = 0;
    damageAll(sample, { table: table!, where: where! }, (column, value, found) => {
      count += 1;
      t.match(found, { code: 'damaged' }, `${column} = ${value}`);
      // Without its keys a row is not found, and then it is the row that is missing.
      const isKey = ['runKey', 'planId', 'recordKey'].includes(column);
      const name = isKey ? /has no row|has \d rows|lacks|differs|names step/ : new RegExp(`${table}\\.${column}\\b`);
      t.match((found as EdgeError).message, name, `${column} = ${value}`);
    });
    t.ok(count > 10);
  });
}

for (const [table, where] of [
  ['RunIdentities', 'runKey = 1'],
  ['RunRecords', 'runKey = 1'],
  ['RunAttempts', 'runKey = 1'],
  ['RunEvents', 'runKey = 1'],
]) {
  t.test(`every column of ${table} is refused`, async (t) => {
    const sample = openDamaged(t);
    let count = 0;
    damageAll(sample, { table: table!, where: where! }, (column, value, found) => {
      count += 1;
      t.not(found, null, `${column} = ${value}`);
    });
    t.ok(count > 30);
  });
}

t.test('a row that was taken away is missed', async (t) => {
  const sample = openDamaged(t);
  for (const table of [admissions, admissionSteps, 'RunIdentities', 'RunRecords', 'RunAttempts', 'RunEvents']) {
    const keys = sample.db.prepare(`SELECT rowid AS rowKey FROM ${table} WHERE runKey = 1`).all() as {
      rowKey: number;
    }[];
    t.ok(keys.length > 0);
    for (const { rowKey } of keys) {
      sample.db.exec('SAVEPOINT damage');
      sample.db.prepare(`DELETE FROM ${table} WHERE rowid = ?`).run(rowKey);
      t.not(findDamage(sample), null, `${table} ${rowKey}`);
      sample.db.exec('ROLLBACK TO damage; RELEASE damage');
    }
  }
});

t.test('what a key says is compared with the admission while that is there', async (t) => {
  const sample = openDamaged(t);
  const columns = columnsOf(sample, 'AdmissionKeys').filter(({ name }) => !['planId', 'expiresAtMs'].includes(name));
  for (const { name, type } of columns) {
    sample.db.exec('SAVEPOINT damage');
    const damage = type === 'BLOB' ? new Uint8Array(32) : 'other';
    sample.db.prepare(`UPDATE AdmissionKeys SET ${name} = ? WHERE planId = 'plan-1'`).run(damage);
    t.match(findDamage(sample), { code: 'damaged', message: `run run-1: AdmissionKeys.${name}` });
    sample.db.exec('ROLLBACK TO damage; RELEASE damage');
  }
});

t.test('one damaged run hides no other', async (t) => {
  const sample = openDamaged(t);
  sample.db.exec("UPDATE RunRecords SET errorSummary = 'x' WHERE recordKey = 256");
  const { reads } = sample;
  const list = reads.runs({ limit: 10, beforeRunId: null, status: null, packageName: null });
  t.match(list, [
    { runId: 'run-2', run: { id: 'run-2' } },
    { runId, run: null },
  ]);
  t.same(reads.runningRuns({ limit: 10, after: null }).runIds, [runId, 'run-2']);
  t.ok(reads.run({ runId: 'run-2' }));
});
