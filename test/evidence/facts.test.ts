// What a database says, and whether it is sound: the same for two executions, and nothing in it can be altered unseen.
import { copyFileSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { findDatabaseTrouble, judgeDatabase } from '../../edge-evidence/database.ts';
import { noFacts, readFacts } from '../../edge-evidence/facts.ts';
import { databaseOf } from '../../edge-evidence/operation.ts';
import { carryOut, makeEvidenceSite, operationOf } from './site.ts';

const sites = [makeEvidenceSite(t, 'delete-extra', 'one'), makeEvidenceSite(t, 'wal-full', 'other')] as const;
const root = join(sites[0].root, '..');

const unguarded = join(root, 'unguarded.db');

t.before(async () => {
  for (const site of sites) {
    t.same(await carryOut(site, operationOf('advance')), []);
  }
  copyFileSync(databaseOf(sites[0]), unguarded);
  withDatabase(unguarded, (db) => {
    for (const { name } of db.prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'").all()) {
      db.exec(`DROP TRIGGER ${name}`);
    }
  });
});

function withDatabase<T>(file: string, work: (db: DatabaseSync) => T): T {
  const db = new DatabaseSync(file);
  try {
    db.exec('PRAGMA synchronous = OFF; PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF');
    return work(db);
  } finally {
    db.close();
  }
}

/** A copy of the first database in which one statement was executed, with nothing in its way. */
function alter(sql: string, ...values: readonly (null | number | string | Uint8Array)[]): string {
  const file = join(root, 'altered.db');
  copyFileSync(unguarded, file);
  const { changes } = withDatabase(file, (db) => db.prepare(sql).run(...values));
  t.equal(changes, 1, sql);
  return file;
}

t.test('two executions say the same, whatever their times, ids and journals were', async (t) => {
  const [one, other] = sites.map((site) => readFacts(databaseOf(site)));
  t.equal(one, other);
  t.match(one, /\|succeeded\|/);
  for (const site of sites) {
    t.same(findDatabaseTrouble(databaseOf(site)), []);
  }
});

t.test('a file that is no database is not kept open', async (t) => {
  const damaged = join(root, 'damaged.db');
  writeFileSync(damaged, 'no database at all, and longer than the head of one'.repeat(100));
  t.throws(() => readFacts(damaged), { message: /not a database/ });
  const open = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return '';
    }
  });
  t.notOk(open.includes(damaged));
});

t.test('a database that is not there, or holds nothing, says nothing and is sound', async (t) => {
  const empty = join(root, 'empty.db');
  t.same(judgeDatabase(empty), { facts: noFacts, trouble: [] });
  const db = new DatabaseSync(empty);
  db.exec('PRAGMA user_version = 0; PRAGMA journal_mode = WAL');
  db.close();
  t.same(judgeDatabase(empty), { facts: noFacts, trouble: [] });
});

const columnsOf = (table: string) =>
  withDatabase(unguarded, (db) => {
    const columns = db.prepare('SELECT name FROM pragma_table_info(?)').all(table);
    const [row] = db.prepare(`SELECT rowid AS place, * FROM ${table} ORDER BY rowid DESC LIMIT 1`).all();
    const place = Number(row?.['place']);
    return columns.map(({ name }) => ({ name: `${name}`, value: row?.[`${name}`] ?? null, rowid: place }));
  });

/** Another value that the column could hold. */
function otherThan(value: unknown): number | string | Uint8Array {
  if (value instanceof Uint8Array) {
    return value.map((byte) => byte ^ 1);
  }
  return typeof value === 'number' ? value + 1 : value === 'succeeded' ? 'failed' : `${value ?? ''}x`;
}

// Where rows lie, which the store alone knows about.
const ownKeys = ['attemptKey', 'previousKey', 'lastEventKey', 'lastAttemptKey', 'recordKey', 'runKey', 'eventKey'];

for (const table of ['RunIdentities', 'RunRecords', 'RunAttempts', 'RunEvents']) {
  t.test(`no column of ${table} can be altered without its history telling`, async (t) => {
    for (const { name, value, rowid } of columnsOf(table).filter((column) => !ownKeys.includes(column.name))) {
      const isNumeric = value === null && /Ms$|^exitCode$|^output|^attemptCount$|Number$|Epoch$/.test(name);
      const isBytes = value === null && /Digest$/.test(name);
      const other = isNumeric ? 1 : isBytes ? Buffer.alloc(32) : otherThan(value);
      const file = alter(`UPDATE ${table} SET ${name} = ? WHERE rowid = ?`, other, rowid);
      const { facts, trouble } = judgeDatabase(file);
      t.ok(trouble.length > 0, `${name}: ${facts.length} characters`);
    }
  });
}

t.test('no digest of a package, a plan or a receipt can be altered unseen', async (t) => {
  const digests = {
    QingLong3PluginPackageWorkflowAdmissions: ['planDigest', 'historyDigest', 'receiptDigest', 'publicationDigest'],
    QingLong3PluginPackageWorkflowAdmissionSteps: ['stepRunDigest', 'taskSourceDigest'],
    PackageInstallations: ['lockDigest', 'generationDigest', 'materializedRevisionDigest'],
    AutomationPublications: ['publicationDigest', 'lifecycleEventDigest', 'lockDigest'],
  };
  for (const [table, columns] of Object.entries(digests)) {
    for (const { name, value, rowid } of columnsOf(table).filter((column) => columns.includes(column.name))) {
      const file = alter(`UPDATE ${table} SET ${name} = ? WHERE rowid = ?`, otherThan(value), rowid);
      t.not(findDatabaseTrouble(file).length, 0, `${table}.${name}`);
    }
  }
  const digest = Buffer.alloc(32);
  t.not(findDatabaseTrouble(alter('UPDATE AdmissionKeys SET receiptDigest = ?', digest)).length, 0);
  t.not(findDatabaseTrouble(alter('UPDATE AutomationPublicationHeads SET publicationDigest = ?', digest)).length, 0);
});

t.test('facts are others for every changed status, version, kind and count, and every missing row', async (t) => {
  const facts = readFacts(databaseOf(sites[0]));
  const changes = [
    "UPDATE RunRecords SET status = 'failed' WHERE number = 0",
    "UPDATE RunRecords SET status = 'failed' WHERE number = 3",
    'UPDATE RunRecords SET version = version + 1 WHERE number = 2',
    'UPDATE RunAttempts SET exitCode = 1 WHERE number = 4',
    'UPDATE RunEvents SET type = 11 WHERE eventKey = (SELECT max(eventKey) FROM RunEvents WHERE type = 10)',
    'DELETE FROM RunEvents WHERE eventKey = (SELECT max(eventKey) FROM RunEvents)',
    'DELETE FROM AdmissionKeys',
    'DELETE FROM QingLong3PluginPackageWorkflowAdmissionSteps WHERE number = 4',
    "UPDATE PackageInstallations SET state = 'removed'",
    "UPDATE AutomationPublications SET state = 'withdrawn'",
    'UPDATE Capabilities SET version = version + 1',
    'DELETE FROM Migrations WHERE id = (SELECT max(id) FROM Migrations)',
  ];
  for (const sql of changes) {
    t.not(readFacts(alter(sql)), facts, sql);
  }
});

t.test('rows that belong to no run, and a file that is no database, are told', async (t) => {
  const strays = {
    RunRecords: 'UPDATE RunRecords SET recordKey = recordKey + 2560 WHERE number = 0',
    RunAttempts: 'UPDATE RunAttempts SET runKey = 9 WHERE number = 1',
  };
  for (const [table, sql] of Object.entries(strays)) {
    t.match(findDatabaseTrouble(alter(sql)).join('\n'), `1 rows of ${table} belong to no run`);
  }
  copyFileSync(import.meta.filename, join(root, 'altered.db'));
  t.match(judgeDatabase(join(root, 'altered.db')).trouble, [/it cannot be read: file is not a database/]);
});
