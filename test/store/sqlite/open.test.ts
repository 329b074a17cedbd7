import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { beginServing, openReadOnly, openWriter, readPragma } from '../../../src/store/sqlite/open.ts';
import { type Durability, durabilities, settleSettings } from '../../../src/store/sqlite/profile.ts';
import { startChild } from './child.ts';

const MIB = 1024 * 1024;

const expected = {
  'delete-extra': {
    journal_mode: 'delete',
    synchronous: 3,
    cache_size: -2048,
    mmap_size: 0,
    journal_size_limit: 8 * MIB,
  },
  'delete-full': {
    journal_mode: 'delete',
    synchronous: 2,
    cache_size: -2048,
    mmap_size: 0,
    journal_size_limit: 8 * MIB,
  },
  'wal-full': {
    journal_mode: 'wal',
    synchronous: 2,
    cache_size: -16384,
    mmap_size: 64 * MIB,
    journal_size_limit: 64 * MIB,
    wal_autocheckpoint: 1000,
  },
};

const always = {
  page_size: 1024,
  auto_vacuum: 2,
  foreign_keys: 1,
  recursive_triggers: 1,
  trusted_schema: 0,
  temp_store: 2,
  busy_timeout: 50,
  locking_mode: 'normal',
};

const durabilityNames = Object.keys(durabilities) as Durability[];

function settingsOf(durability: Durability) {
  return settleSettings({ profile: null, durability }, { profile: null, durability: null });
}

for (const durability of durabilityNames) {
  t.test(`${durability} has every setting, when it is made and ever after`, async (t) => {
    const file = path.join(t.testdir(), 'q.db');
    for (const isFresh of [true, false]) {
      const db = openWriter({ path: file, ...settingsOf(durability), isFresh });
      beginServing(db);
      if (isFresh) {
        db.exec('CREATE TABLE Notes (id INTEGER PRIMARY KEY)');
      }
      for (const [name, answer] of Object.entries({ ...always, ...expected[durability] })) {
        t.equal(readPragma(db, `PRAGMA ${name}`), answer, `${name}, fresh: ${isFresh}`);
      }
      db.close();
    }
    t.equal(statSync(file).size % 1024, 0);
  });

  t.test(`${durability}: files are for their owner alone, sidecars too`, async (t) => {
    const directory = t.testdir();
    const file = path.join(directory, 'q.db');
    const db = openWriter({ path: file, ...settingsOf(durability), isFresh: true });
    db.exec('CREATE TABLE Notes (id INTEGER PRIMARY KEY); BEGIN IMMEDIATE; INSERT INTO Notes VALUES (1)');
    const names = readdirSync(directory);
    t.ok(names.length > 1, names.join(', '));
    for (const name of names) {
      t.equal(statSync(path.join(directory, name)).mode & 0o777, 0o600, name);
    }
    db.close();
  });
}

t.test('a file that others could read is closed to them', async (t) => {
  const file = path.join(t.testdir({ 'q.db': '' }), 'q.db');
  chmodSync(file, 0o644);
  openWriter({ path: file, ...settingsOf('delete-extra'), isFresh: true }).close();
  t.equal(statSync(file).mode & 0o777, 0o600);
});

t.test('a connection is defensive, knows no extension and no double-quoted string', async (t) => {
  const db = openWriter({ path: path.join(t.testdir(), 'q.db'), ...settingsOf('delete-extra'), isFresh: true });
  t.teardown(() => db.close());
  db.exec('CREATE TABLE Notes (id INTEGER PRIMARY KEY)');
  t.throws(() => db.exec("UPDATE sqlite_schema SET name = 'x'"), /may not be modified/);
  t.throws(() => db.exec('SELECT "word"'), /no such column/);
  t.throws(() => db.exec("SELECT load_extension('x')"), /not authorized/);
  t.throws(() => db.enableLoadExtension(true));
});

t.test('a path with signs of a URL is taken as it is', async (t) => {
  const directory = path.join(t.testdir(), 'a?mode=ro#b%20c ü');
  mkdirSync(directory);
  const file = path.join(directory, 'q.db');
  const db = openWriter({ path: file, ...settingsOf('delete-extra'), isFresh: true });
  db.exec('CREATE TABLE Notes (id INTEGER PRIMARY KEY)');
  db.close();
  t.ok(statSync(file).size > 0);
});

t.test('links are refused, as the database and as any of its sidecars', async (t) => {
  for (const ending of ['', '-journal', '-wal', '-shm']) {
    const directory = t.testdir({ elsewhere: '' });
    const file = path.join(directory, 'q.db');
    symlinkSync(path.join(directory, 'elsewhere'), file + ending);
    const open = () => openWriter({ path: file, ...settingsOf('delete-extra'), isFresh: true });
    t.throws(open, { code: 'invalid', message: /not a regular file/ }, `q.db${ending}`);
    t.equal(statSync(path.join(directory, 'elsewhere')).size, 0);
  }
});

t.test('a relative path is a defect of the caller', async (t) => {
  const open = () => openWriter({ path: 'q.db', ...settingsOf('delete-extra'), isFresh: true });
  t.throws(open, { name: 'InvariantError' });
});

t.test('a database that should be there is never made', async (t) => {
  const directory = t.testdir();
  const place = { path: path.join(directory, 'q.db'), ...settingsOf('delete-extra') };
  t.throws(() => openWriter({ ...place, isFresh: false }), { code: 'unavailable' });
  t.throws(() => openReadOnly(place), { code: 'unavailable' });
  t.same(readdirSync(directory), []);
});

t.test('a database made in one journal mode is not opened in another', async (t) => {
  const file = path.join(t.testdir(), 'q.db');
  openWriter({ path: file, ...settingsOf('wal-full'), isFresh: true }).close();
  const open = () => openWriter({ path: file, ...settingsOf('delete-extra'), isFresh: false });
  t.throws(open, { code: 'invalid', message: /journal mode wal/ });
  const db = openWriter({ path: file, ...settingsOf('wal-full'), isFresh: false });
  t.equal(readPragma(db, 'PRAGMA journal_mode'), 'wal');
  db.close();
});

t.test('a database with another page size says so', async (t) => {
  const file = path.join(t.testdir(), 'q.db');
  const other = new DatabaseSync(file);
  other.exec('PRAGMA page_size = 4096; CREATE TABLE Notes (id INTEGER PRIMARY KEY)');
  other.close();
  const open = () => openWriter({ path: file, ...settingsOf('delete-extra'), isFresh: false });
  t.throws(open, { code: 'unavailable', message: /4096/ });
});

t.test('a file that is no database, or was cut, is damaged', async (t) => {
  const file = path.join(t.testdir(), 'q.db');
  const place = { path: file, ...settingsOf('delete-extra') };
  const made = openWriter({ ...place, isFresh: true });
  made.exec('CREATE TABLE Notes (id INTEGER PRIMARY KEY, text TEXT)');
  made.exec("INSERT INTO Notes (text) SELECT printf('%.500c', 'x') FROM (VALUES (1), (2), (3), (4), (5), (6))");
  made.close();
  truncateSync(file, 2048);
  t.throws(() => openWriter({ ...place, isFresh: false }), { code: 'damaged' });
  rmSync(file);
  writeFileSync(file, 'a text, not a database. '.repeat(100));
  t.throws(() => openWriter({ ...place, isFresh: false }), { code: 'damaged' });
  t.throws(() => openReadOnly(place), { code: 'damaged' });
});

t.test('without the right to write, opening fails at once instead of reading silently', async (t) => {
  const directory = t.testdir();
  const file = path.join(directory, 'q.db');
  openWriter({ path: file, ...settingsOf('delete-extra'), isFresh: true }).close();
  chmodSync(file, 0o400);
  chmodSync(directory, 0o755);
  // Root may write everything, so the attempt is made as somebody else.
  const isRoot = process.getuid?.() === 0;
  if (isRoot) {
    chmodSync(file, 0o444);
  }
  const program = `
    const { openWriter } = await sqlite('open.ts');
    try {
      openWriter({ path: ${JSON.stringify(file)}, profile: 'edge', durability: 'delete-extra', isFresh: false });
      console.log('opened');
    } catch (error) {
      console.log(error.code, error.message);
    }`;
  const child = startChild(t, program, isRoot ? { uid: 65534 } : {});
  t.match(await child.line(), /^unavailable cannot open .* for writing: E(ACCES|PERM)/);
  t.equal(lstatSync(file).mode & 0o777, isRoot ? 0o444 : 0o400);
});
