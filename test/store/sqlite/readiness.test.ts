import { appendFileSync, copyFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t, { type Test } from 'tap';
import { applyMigrations } from '../../../src/store/sqlite/migrate.ts';
import { migrations } from '../../../src/store/sqlite/migrations.generated.ts';
import { openReadOnly, openWriter } from '../../../src/store/sqlite/open.ts';
import { checkReadiness, type Schema } from '../../../src/store/sqlite/readiness.ts';
import { schemaFingerprint } from '../../../src/store/sqlite/schema-fingerprint.generated.ts';
import { statement } from '../../../src/store/sqlite/statement.ts';

const settings = { profile: 'edge', durability: 'delete-extra' } as const;
const schema: Schema = { migrations, schemaFingerprint, capability: { name: 'local-control-core', version: 42 } };

function makeDatabase(t: Test): string {
  const file = path.join(t.testdir(), 'q.db');
  const db = openWriter({ path: file, ...settings, isFresh: true });
  applyMigrations(db, migrations, 1);
  db.close();
  return file;
}

/** Changes a copy as somebody could with a shell of SQLite, and says what readiness answers. */
function altered(file: string, alter: (db: DatabaseSync) => void): unknown {
  const copy = `${file}.copy`;
  copyFileSync(file, copy);
  const shell = new DatabaseSync(copy, { enableForeignKeyConstraints: false, enableDoubleQuotedStringLiterals: true });
  try {
    alter(shell);
  } finally {
    shell.close();
  }
  return answer(copy);
}

function answer(file: string): unknown {
  const db = openWriter({ path: file, ...settings, isFresh: false });
  try {
    checkReadiness(db, schema, file);
    return 'ready';
  } catch (error) {
    return error;
  } finally {
    db.close();
  }
}

type SchemaObject = { readonly type: string; readonly name: string; readonly sql: string };

function objectsOf(file: string): SchemaObject[] {
  const db = new DatabaseSync(file);
  const sql = "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name";
  const objects = statement<Record<string, never>, SchemaObject>(db, sql).all({});
  db.close();
  return objects;
}

/** Puts another text in place of an object's own, behind SQLite's back. */
function rewrite(db: DatabaseSync, { name }: SchemaObject, sql: string): void {
  db.enableDefensive(false);
  db.exec('PRAGMA writable_schema = ON');
  statement<{ sql: string; name: string }>(db, 'UPDATE sqlite_schema SET sql = :sql WHERE name = :name').run({
    sql,
    name,
  });
  db.exec('PRAGMA writable_schema = RESET');
}

const drops: Readonly<Record<string, string>> = {
  table: 'DROP TABLE',
  index: 'DROP INDEX',
  trigger: 'DROP TRIGGER',
  view: 'DROP VIEW',
};

t.test('a database as the migrations made it is ready, and asking writes nothing', async (t) => {
  const file = makeDatabase(t);
  const before = statSync(file, { bigint: true });
  t.equal(answer(file), 'ready');
  const after = statSync(file, { bigint: true });
  t.same([after.mtimeNs, after.size], [before.mtimeNs, before.size]);
});

t.test('C062: a database that says a user_version is refused, and nothing is written', async (t) => {
  const file = makeDatabase(t);
  const error = altered(file, (db) => db.exec('PRAGMA user_version = 1'));
  t.match(error, { code: 'unavailable', message: /user_version 1/ });
});

t.test('a newer database is said to be newer, not damaged', async (t) => {
  const file = makeDatabase(t);
  const error = altered(file, (db) => {
    db.exec('UPDATE Capabilities SET version = 43; CREATE TABLE Later (id INTEGER)');
  });
  t.match(error, { code: 'unavailable', message: /local-control-core 43/ });
});

t.test('every object of the catalog that is dropped is named', async (t) => {
  const file = makeDatabase(t);
  const objects = objectsOf(file);
  t.ok(objects.length > 20);
  for (const { type, name } of objects) {
    if (name === 'Migrations') {
      continue;
    }
    const error = altered(file, (db) => {
      // Views stand on tables: a shell would not let the table go first.
      db.exec('PRAGMA legacy_alter_table = ON');
      db.exec(`${drops[type]} ${name}`);
    });
    t.match(error, { code: 'damaged', message: new RegExp(`\\b${type} ${name}: missing`) }, `${type} ${name}`);
  }
});

t.test('every column that is renamed is named with its table', async (t) => {
  const file = makeDatabase(t);
  const tables = objectsOf(file).filter(({ type, name }) => type === 'table' && name !== 'Migrations');
  for (const { name } of tables) {
    const db = new DatabaseSync(file);
    const columns = statement<{ name: string }, { name: string }>(db, 'SELECT name FROM pragma_table_xinfo(:name)').all(
      { name },
    );
    db.close();
    for (const column of columns) {
      const error = altered(file, (shell) => {
        shell.exec(`ALTER TABLE ${name} RENAME COLUMN ${column.name} TO renamed`);
      });
      const message = new RegExp(`table ${name}: column ${column.name} is missing`);
      t.match(error, { code: 'damaged', message }, `${name}.${column.name}`);
    }
  }
});

const changes: Readonly<Record<string, (sql: string) => string>> = {
  table: (sql) => sql.replace(/\bSTRICT\b(, )?/, ''),
  index: (sql) => sql.replace(')', ' COLLATE NOCASE)'),
  trigger: (sql) => sql.replace('RAISE(ABORT', 'RAISE(FAIL'),
  view: (sql) => sql.replace('SELECT', 'SELECT DISTINCT'),
};

t.test('every object whose text was changed is named', async (t) => {
  const file = makeDatabase(t);
  for (const object of objectsOf(file)) {
    const changed = changes[object.type]?.(object.sql) ?? '';
    t.not(changed, object.sql, `the test changes ${object.name}`);
    const error = altered(file, (db) => rewrite(db, object, changed));
    t.match(error, { code: 'damaged', message: new RegExp(`${object.type} ${object.name}: `) }, object.name);
  }
});

t.test('a bound that was lifted in a check is named', async (t) => {
  const file = makeDatabase(t);
  const table = objectsOf(file).find(({ name }) => name === 'RunEvents');
  const error = altered(file, (db) => {
    t.ok(table);
    if (table !== undefined) {
      rewrite(db, table, table.sql.replace('<= 16384', '<= 16385'));
    }
  });
  t.match(error, { code: 'damaged', message: /table RunEvents: its text differs/ });
});

t.test('what is not part of the schema is named too', async (t) => {
  const file = makeDatabase(t);
  const additions = {
    'table Extra': 'CREATE TABLE Extra (id INTEGER)',
    'index ExtraIndex': 'CREATE INDEX ExtraIndex ON Migrations (appliedAtMs)',
    'trigger ExtraTrigger': 'CREATE TRIGGER ExtraTrigger AFTER INSERT ON Migrations BEGIN SELECT 1; END',
    'view ExtraView': 'CREATE VIEW ExtraView AS SELECT 1 AS one',
    'table Migrations: column extra': 'ALTER TABLE Migrations ADD COLUMN extra TEXT',
  };
  for (const [name, sql] of Object.entries(additions)) {
    const error = altered(file, (db) => db.exec(sql));
    t.match(error, { code: 'damaged', message: new RegExp(name) }, name);
  }
});

t.test('many differences are told up to a bound and counted beyond it', async (t) => {
  const file = makeDatabase(t);
  const error = altered(file, (db) => {
    for (let index = 0; index < 30; index += 1) {
      db.exec(`CREATE TABLE Extra${index} (id INTEGER)`);
    }
  });
  t.match(error, { code: 'damaged', message: /; and 10 more$/ });
});

t.test('a capability of another version, or none, is named', async (t) => {
  const file = makeDatabase(t);
  const older = altered(file, (db) => db.exec('UPDATE Capabilities SET version = 41'));
  t.match(older, { code: 'damaged', message: /capability is local-control-core 41 instead of local-control-core 42/ });
  const none = altered(file, (db) => db.exec('DELETE FROM Capabilities'));
  t.match(none, { code: 'damaged', message: /capability is missing/ });
});

t.test('an older database asks for the program that made it, a newer one for a newer program', async (t) => {
  const file = makeDatabase(t);
  const older = altered(file, (db) => db.exec("DELETE FROM Migrations WHERE id LIKE '0084%'"));
  t.match(older, { code: 'unavailable', message: /lacks 0084-/, hint: /the version of this program/ });
  const newer = altered(file, (db) => db.exec("INSERT INTO Migrations VALUES ('9999-later', hex(zeroblob(32)), 1)"));
  t.match(newer, { code: 'unavailable', message: /newer/ });
  const none = altered(file, (db) => db.exec('DROP TABLE Migrations'));
  t.match(none, { code: 'unavailable', message: /lacks 0080-baseline/ });
});

t.test('bytes behind the last page are damage', async (t) => {
  const file = makeDatabase(t);
  appendFileSync(file, Buffer.alloc(1024));
  t.match(answer(file), { code: 'damaged', message: /the file has \d+ bytes instead of \d+/ });
});

t.test('a connection that SQLite opened for reading only is found out', async (t) => {
  const file = makeDatabase(t);
  const db = openReadOnly({ path: file, ...settings });
  t.teardown(() => db.close());
  db.exec('BEGIN IMMEDIATE; ROLLBACK');
  t.throws(() => checkReadiness(db, schema, file), { code: 'unavailable', message: /readonly/ });
  t.notOk(db.isTransaction);
});
