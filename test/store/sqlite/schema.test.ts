// The SQL files against what core says: bounds, closed sets, and what the tables refuse.
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { actorTypes, eventTypes } from '../../../src/core/events.ts';
import { limits } from '../../../src/core/limits.ts';
import { publicationStates } from '../../../src/core/publication.ts';
import {
  attemptTransitions,
  cancelReasons,
  executorTypes,
  installationTransitions,
  lifecycleTransitions,
  runTransitions,
  stepTransitions,
  stopReasons,
} from '../../../src/core/states.ts';
import { actorTypeCodes, eventTypeCodes } from '../../../src/store/sqlite/rows-event.ts';
import { admittedAtMs } from '../../core/samples.ts';
import { admitRun, openDatabase, openSample, readSchema } from './sample-database.ts';

const schema = readSchema();
const lines = [...schema].flatMap(([file, text]) =>
  text.split('\n').map((line, index) => ({ file, line, at: index + 1 })),
);

// What every digest, time and key has: no bound of ours.
const ordinary = new Set(['32', '64', '9007199254740991', '255', '31', '24']);

t.test('every bound of a check is the one that core has, by its name', async (t) => {
  let named = 0;
  for (const { file, line, at } of lines) {
    const [code = '', comment] = line.split(/ -- (?=limits\.)/);
    const name = comment?.slice('limits.'.length) ?? null;
    if (name === null) {
      const check = /^\s*--/.test(line) ? '' : (/CHECK.*/.exec(code)?.[0] ?? '');
      const bounds = [...check.matchAll(/\b\d{2,}\b/g)].map(([number]) => number).filter((it) => !ordinary.has(it));
      t.same(bounds, [], `${file}:${at} names its bounds`);
      continue;
    }
    named += 1;
    const bound = Number(/(\d+)\)+,?;?$/.exec(code)?.[1]);
    t.equal(bound, limits[name as keyof typeof limits], `${file}:${at} ${name}`);
  }
  t.ok(named > 70, `${named} bounds are compared`);
});

t.test('the closed sets of the checks are those of the state machines', async (t) => {
  const text = [...schema.values()].join('\n');
  const setsOf = (column: string) =>
    [...text.matchAll(new RegExp(`\\b${column} IN \\(([^)]*)\\)`, 'g'))].map(([, list]) =>
      [...(list as string).matchAll(/'(\w+)'/g)].map(([, name]) => name).sort(),
    );
  const has = (column: string, states: readonly string[]) => {
    t.ok(
      setsOf(column).some((set) => set.join() === [...states].sort().join()),
      `${column}: ${states.join(', ')}`,
    );
  };
  has('status', Object.keys(runTransitions));
  has('status', Object.keys(stepTransitions));
  has('status', Object.keys(attemptTransitions));
  has('state', Object.keys(lifecycleTransitions));
  has('state', Object.keys(installationTransitions));
  has('state', publicationStates);
  has('cancelReason', cancelReasons);
  has('stopReason', stopReasons);
  has('executorType', executorTypes);
});

t.test('every event and actor type has a code, and the view tells its name', async (t) => {
  t.same([...eventTypeCodes].sort(), [...eventTypes].sort());
  t.same([...actorTypeCodes].sort(), [...actorTypes].sort());
  const sample = openSample(t, { only: [] });
  const { db } = sample;
  admitRun(sample);
  const insert = db.prepare(
    `INSERT INTO RunEvents (previousKey, runKey, sequence, type, actorType, createdAtMs) VALUES (1, 1, ?, ?, ?, 0)`,
  );
  eventTypeCodes.forEach((_name, code) => {
    insert.run(100 + code, code, code % 3);
  });
  const shown = db.prepare('SELECT type, actorType FROM RunHistory WHERE sequence >= 100').all();
  t.same(
    shown.map((row) => row['type']),
    eventTypeCodes,
  );
  t.same(
    shown.map((row) => row['actorType']),
    eventTypeCodes.map((_name, code) => actorTypeCodes[code % 3]),
  );
  t.throws(() => insert.run(200, eventTypeCodes.length, 0), /CHECK/, 'a code that nobody has is refused');
});

t.test('the views show a run, its steps and its history under the names of the design', async (t) => {
  const sample = openSample(t, { a: [], b: ['a'] });
  const { rows } = admitRun(sample);
  const { db } = sample;
  const { deadline: _deadline, ...run } = rows.run;
  t.match(db.prepare('SELECT * FROM Runs').get(), run);
  t.match(db.prepare('SELECT * FROM StepRuns').all(), [
    { runId: 'run-1', number: 1, stepKey: 'a', needs: '[]', status: 'ready', version: 1 },
    { runId: 'run-1', number: 2, stepKey: 'b', needs: '[1]', status: 'pending', version: 1 },
  ]);
  t.match(db.prepare('SELECT sequence, type, stepNumber FROM RunHistory').all(), [
    { sequence: 1, type: 'workflow.admitted', stepNumber: null },
    { sequence: 2, type: 'step.created', stepNumber: 1 },
    { sequence: 3, type: 'step.created', stepNumber: 2 },
  ]);
});

const appendOnly = {
  RunIdentities: 'generation = 9',
  RunEvents: 'createdAtMs = 9',
  QingLong3PluginPackageWorkflowAdmissions: 'generation = 9',
  QingLong3PluginPackageWorkflowAdmissionSteps: "needs = '[9]'",
  MaterializedRevisions: "revision = '{}'",
  PackageFiles: "files = '[]'",
  AutomationPublications: "state = 'absent'",
  PackageLifecycleEvents: "state = 'disabled'",
  PackageQuarantines: "reason = 'other'",
};

t.test('append-only tables refuse every change, and lose rows through the gate of retention alone', async (t) => {
  const sample = openSample(t, { a: [], b: ['a'] });
  const { db, ledger, target } = sample;
  admitRun(sample);
  const { projectId, packageName, installationId, lockDigest } = target;
  const quarantine = { projectId, packageName, installationId, lockDigest, reason: 'bad', atMs: 1 };
  ledger({ write: 'quarantine', quarantine });
  ledger({ write: 'package-files', lockDigest, files: [] });
  for (const [table, change] of Object.entries(appendOnly)) {
    const stays = new RegExp(`${table} (stay|go after|never change)`);
    t.throws(() => db.exec(`UPDATE ${table} SET ${change}`), stays);
    t.throws(() => db.exec(`DELETE FROM ${table}`), stays);
    const names = db
      .prepare('SELECT name FROM pragma_table_info(:table)')
      .all({ table })
      .map((row) => row['name']);
    t.throws(() => db.exec(`INSERT OR REPLACE INTO ${table} (${names}) SELECT ${names} FROM ${table}`), stays);
  }
  db.exec('INSERT INTO RetentionGate VALUES (1)');
  for (const [table, change] of Object.entries(appendOnly)) {
    t.throws(() => db.exec(`UPDATE ${table} SET ${change}`), /never change/, 'an open gate changes nothing');
  }
  t.throws(() => db.exec('INSERT INTO RetentionGate VALUES (2)'), /CHECK/);
});

t.test('a run goes from its end to its beginning, and nothing of it stays behind', async (t) => {
  const sample = openSample(t, { a: [], b: ['a'] });
  const { db } = sample;
  admitRun(sample);
  const admissions = 'QingLong3PluginPackageWorkflowAdmissions';
  db.exec('INSERT INTO RetentionGate VALUES (1)');
  t.throws(() => db.exec('DELETE FROM RunIdentities'), /RunIdentities go after RunRecords/);
  t.throws(() => db.exec('DELETE FROM RunRecords'), /RunRecords go after RunEvents/);
  t.throws(() => db.exec(`DELETE FROM ${admissions}`), /go after their steps/);
  db.exec('DELETE FROM RunEvents; DELETE FROM RunRecords');
  t.throws(() => db.exec('DELETE FROM RunIdentities'), /FOREIGN KEY/, 'the admission still refers to it');
  db.exec(
    `DELETE FROM QingLong3PluginPackageWorkflowAdmissionSteps; DELETE FROM ${admissions}; DELETE FROM RunIdentities`,
  );
  t.same(db.prepare('SELECT count(*) AS number FROM AdmissionKeys').get()?.['number'], 1, 'its key outlives it');
  t.match(sample.reads.keyOfPlan({ planId: 'plan-1' }), { runId: 'run-1' });
  t.equal(sample.reads.admission({ planId: 'plan-1' }), null);
});

const capabilities = ['0082-capability-v41.sql', '0084-capability-v42.sql'] as const;

t.test('a capability moves from exactly the value before it, or the migration fails', async (t) => {
  const db = openDatabase(t);
  const read = () => db.prepare('SELECT version, features FROM Capabilities').all();
  const after = [
    { version: 42, features: '{"plugin_package_workflow_admission":1,"workflow_task_attempt_admission":1}' },
  ];
  t.match(read(), after);
  for (const file of capabilities) {
    const sql = schema.get(file)!;
    t.throws(() => db.exec(sql), /NOT NULL/, `${file} again`);
    db.exec('UPDATE Capabilities SET features = \'{"other":1}\'');
    t.throws(() => db.exec(sql), /NOT NULL/, 'other features');
    db.exec('SAVEPOINT gone; DELETE FROM Capabilities');
    t.throws(() => db.exec(sql), /NOT NULL/, 'no capability at all');
    db.exec('ROLLBACK TO gone; RELEASE gone');
    db.exec(`UPDATE Capabilities SET features = '${after[0]!.features}'`);
  }
  t.match(read(), after);
});

t.test('each migration works on what those before it made', async (t) => {
  const db = new DatabaseSync(':memory:');
  t.teardown(() => db.close());
  const versions = [...schema].map(([, sql]) => {
    db.exec(sql);
    return db.prepare('SELECT version FROM Capabilities').get()?.['version'];
  });
  t.same(versions, [40, 40, 41, 41, 42]);
});

t.test('rows beyond a bound, or with a part of what belongs together, are refused', async (t) => {
  const sample = openSample(t, { a: [], b: ['a'] });
  const { db } = sample;
  admitRun(sample);
  const refused = (sql: string) => t.throws(() => db.exec(sql), /CHECK/, sql);
  const run = 'UPDATE RunRecords SET';
  refused(`${run} status = 'pending' WHERE number = 0`);
  refused(`${run} status = 'unheard_of' WHERE number = 1`);
  refused(`${run} status = 'succeeded' WHERE number = 1`);
  refused(`${run} status = 'failed', finishedAtMs = 1 WHERE number = 1`);
  refused(`${run} resultCode = 'some_code' WHERE number = 1`);
  refused(`${run} cancelRequestedAtMs = 1 WHERE number = 0`);
  refused(`${run} dueStartMs = 1 WHERE number = 1`);
  refused(`${run} digest = zeroblob(31) WHERE number = 1`);
  refused(`${run} attemptCount = ${limits.attemptsPerStepMax + 1} WHERE number = 1`);
  refused(`${run} recordKey = recordKey + ${limits.stepsMax} WHERE number = 1`);
  refused(`${run} updatedAtMs = -1 WHERE number = 0`);
  const event = 'INSERT INTO RunEvents (previousKey, runKey, sequence, type, actorType, createdAtMs, payload) VALUES';
  refused(`${event} (1, 1, 9, 2, 0, ${admittedAtMs}, hex(zeroblob(${limits.eventPayloadBytesMax / 2 + 1})))`);
  refused(`${event} (NULL, 1, 9, 2, 0, ${admittedAtMs}, NULL)`);
  refused(`${event} (1, 1, 9, 1, 0, ${admittedAtMs}, '{}')`);
  const setting = "INSERT INTO PackageSettings SELECT 'default', 'net-watch',";
  refused(`${setting} 'A', 'x', zeroblob(${limits.settingSaltBytes - 1}), 1`);
  refused(`${setting} 'A', printf('%.*c', ${limits.argumentBytesMax + 1}, 'x'), zeroblob(16), 1`);
  refused(`${setting} printf('%.*c', ${limits.settingNameBytesMax + 1}, 'n'), 'x', zeroblob(16), 1`);
});
