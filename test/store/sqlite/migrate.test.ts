import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t, { type Test } from 'tap';
import { applyMigrations, pendingMigrations } from '../../../src/store/sqlite/migrate.ts';
import { openWriter, readPragma } from '../../../src/store/sqlite/open.ts';
import { startChild } from './child.ts';
import { migration, toyMigrations } from './toy-store.ts';

const settings = { profile: 'edge', durability: 'delete-extra' } as const;
const third = migration('0003-more', 'CREATE TABLE More (id INTEGER PRIMARY KEY) STRICT; INSERT INTO More VALUES (7);');
const all = [...toyMigrations, third];

function openFile(t: Test): { readonly db: DatabaseSync; readonly file: string } {
  const file = path.join(t.testdir(), 'q.db');
  const db = openWriter({ path: file, ...settings, isFresh: true });
  t.teardown(() => db.isOpen && db.close());
  return { db, file };
}

function tablesOf(db: DatabaseSync): string[] {
  const rows = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").all();
  return rows.map(({ name }) => String(name));
}

function versionOf(db: DatabaseSync) {
  return [readPragma(db, 'PRAGMA schema_version'), readPragma(db, 'SELECT total_changes()')];
}

t.test('migrations are applied in order, once, and recorded with the digest of their text', async (t) => {
  const { db } = openFile(t);
  t.same(pendingMigrations(db, all), all);
  t.same(applyMigrations(db, toyMigrations, 5), ['0001-notes', '0002-notes-by-text']);
  t.same(applyMigrations(db, all, 6), ['0003-more']);
  t.same(applyMigrations(db, all, 7), []);
  const recorded = db.prepare('SELECT * FROM Migrations ORDER BY id').all();
  t.same(
    recorded,
    all.map(({ id, sha256 }, index) => ({ id, sha256, appliedAtMs: index < 2 ? 5 : 6 })),
  );
});

t.test('a migration that fails leaves nothing of itself, and those before it stay', async (t) => {
  const { db } = openFile(t);
  const failing = migration(
    '0003-fails',
    'CREATE TABLE Half (id INTEGER PRIMARY KEY); INSERT INTO Half VALUES (1), (1);',
  );
  const apply = () => applyMigrations(db, [...toyMigrations, failing], 1);
  t.throws(apply, { code: 'internal', message: /^cannot apply migration 0003-fails: UNIQUE/ });
  t.notOk(db.isTransaction);
  t.same(tablesOf(db), ['Capabilities', 'Migrations', 'Notes']);
  t.same(pendingMigrations(db, all), [third]);
});

t.test('a full disk in a migration is told as that', async (t) => {
  const { db } = openFile(t);
  applyMigrations(db, toyMigrations, 1);
  db.exec(`PRAGMA max_page_count = ${readPragma(db, 'PRAGMA page_count')}`);
  t.throws(() => applyMigrations(db, all, 1), { code: 'full', message: /0003-more/ });
  t.notOk(db.isTransaction);
  db.exec('PRAGMA max_page_count = 10000');
  t.same(applyMigrations(db, all, 1), ['0003-more']);
});

t.test('a migration that ends the transaction itself is a defect', async (t) => {
  const { db } = openFile(t);
  const apply = () => applyMigrations(db, [...toyMigrations, migration('0003-commits', 'COMMIT;')], 1);
  t.throws(apply, { name: 'InvariantError', message: /0003-commits/ });
});

t.test('changed text of an applied migration is refused before any write', async (t) => {
  const { db } = openFile(t);
  applyMigrations(db, toyMigrations, 1);
  const before = versionOf(db);
  const changed = [migration('0001-notes', `${toyMigrations[0]?.sql} `), toyMigrations[1] ?? third, third];
  t.throws(() => applyMigrations(db, changed, 2), { code: 'damaged', message: /0001-notes/ });
  t.same(versionOf(db), before);
});

t.test('a migration that this program does not know is refused before any write, and named', async (t) => {
  const { db } = openFile(t);
  applyMigrations(db, all, 1);
  const before = versionOf(db);
  t.throws(() => applyMigrations(db, toyMigrations, 2), {
    code: 'unavailable',
    message: /newer than this program: it has 0003-more/,
  });
  t.same(versionOf(db), before);
});

t.test('a gap in the history is refused', async (t) => {
  const { db } = openFile(t);
  applyMigrations(db, all, 1);
  db.exec("DELETE FROM Migrations WHERE id = '0002-notes-by-text'");
  t.throws(() => applyMigrations(db, all, 2), { code: 'damaged', message: /0003-more .* out of order/ });
});

// The function stands between two statements of the migration; the child dies there by its own hand.
const dyingProgram = (file: string, count: number) => `
  const { openWriter } = await sqlite('open.ts');
  const { applyMigrations } = await sqlite('migrate.ts');
  const { toyMigrations, migration } = await toy();
  const db = openWriter({ path: ${JSON.stringify(file)}, profile: 'edge', durability: 'delete-extra', isFresh: true });
  let calls = 0;
  db.function('maybe_die', () => {
    calls += 1;
    if (calls === ${count}) {
      process.kill(process.pid, 'SIGKILL');
    }
    return calls;
  });
  const sql = 'SELECT maybe_die(); CREATE TABLE More (id INTEGER PRIMARY KEY) STRICT; SELECT maybe_die();' +
    "INSERT INTO More SELECT 7; SELECT maybe_die();";
  applyMigrations(db, [...toyMigrations, migration('0003-more', sql)], 1);`;

for (const count of [1, 2, 3]) {
  t.test(`killed at point ${count} inside a migration, starting again goes on from whole steps`, async (t) => {
    const file = path.join(t.testdir(), 'q.db');
    const child = startChild(t, dyingProgram(file, count));
    t.equal((await child.ended()).signal, 'SIGKILL');
    const db = openWriter({ path: file, ...settings, isFresh: true });
    t.teardown(() => db.close());
    t.same(tablesOf(db), ['Capabilities', 'Migrations', 'Notes']);
    t.same(applyMigrations(db, all, 2), ['0003-more']);
    t.same(db.prepare('SELECT id FROM More').all(), [{ id: 7 }]);
    t.equal(readPragma(db, 'PRAGMA integrity_check'), 'ok');
  });
}

t.test('another process that holds the database for writing is waited for, then told as busy', async (t) => {
  const { db, file } = openFile(t);
  applyMigrations(db, toyMigrations, 1);
  const other = new DatabaseSync(file);
  t.teardown(() => other.close());
  other.exec('BEGIN IMMEDIATE');
  db.exec('PRAGMA busy_timeout = 1');
  t.throws(() => applyMigrations(db, all, 2), { code: 'busy', message: /0003-more/ });
  other.exec('ROLLBACK');
  t.same(applyMigrations(db, all, 2), ['0003-more']);
});
