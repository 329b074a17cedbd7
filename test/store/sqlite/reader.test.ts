import { chmodSync, existsSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { limits } from '../../../src/core/limits.ts';
import { readPragma } from '../../../src/store/sqlite/open.ts';
import type { Profile } from '../../../src/store/sqlite/profile.ts';
import { openReaderWith } from '../../../src/store/sqlite/reader.ts';
import { startChild } from './child.ts';
import { addNote, hasNote, migration, openToyStore, schemaOf, toyMigrations, toyParts } from './toy-store.ts';

const profiles: readonly Profile[] = ['edge', 'standalone'];
const openReader = (data: string) => openReaderWith({ data }, toyParts);

async function makeStore(data: string, profile: Profile = 'edge'): Promise<void> {
  const { store } = openToyStore({ data, profile });
  await store.submit(addNote({ id: 'a' }));
  await store.close();
}

for (const profile of profiles) {
  t.test(`${profile}: reading works without a holder, and beside one that goes on writing`, async (t) => {
    const data = t.testdir();
    await makeStore(data, profile);
    const alone = openReader(data);
    t.same([alone.read(hasNote('a')), alone.read(hasNote('b'))], [true, false]);
    t.match(alone.info, { profile, capability: { name: 'toy', version: 1 } });
    t.equal(alone.holder, null);
    alone.close();

    const { store } = openToyStore({ data, command: 'serve' });
    const beside = openReader(data);
    t.match(beside.holder, { pid: process.pid, command: 'serve' });
    for (const id of ['b', 'c', 'd']) {
      t.equal(await store.submit(addNote({ id })), 'added');
      t.equal(beside.read(hasNote(id)), true);
    }
    t.same(beside.checkIntegrity(), { problems: [], isComplete: true });
    beside.close();
    t.equal(await store.submit(addNote({ id: 'e' })), 'added', 'the locks of the writer are all there');
    await store.close();
  });
}

t.test('several reads of one moment do not see what is committed in between', async (t) => {
  const data = t.testdir();
  await makeStore(data, 'standalone');
  const reader = openReader(data);
  // Only with a write-ahead log can anybody commit meanwhile.
  const writer = new DatabaseSync(path.join(data, 'qinglong.db'));
  const seen = reader.readTogether((read) => {
    const before = read(hasNote('b'));
    writer.exec("INSERT INTO Notes (id, text) VALUES ('b', 'late')");
    return [before, read(hasNote('b'))];
  });
  t.same(seen, [false, false]);
  t.equal(reader.read(hasNote('b')), true);
  writer.close();
  const failing = () =>
    reader.readTogether(() => {
      throw new RangeError('enough');
    });
  t.throws(failing, { name: 'RangeError' });
  t.equal(reader.read(hasNote('a')), true, 'and the next one begins anew');
  reader.close();
});

t.test('with a rollback journal, reading makes no file and changes none', async (t) => {
  const data = t.testdir();
  await makeStore(data);
  const state = () =>
    readdirSync(data).map((name) => {
      const { mtimeNs, ctimeNs, size } = statSync(path.join(data, name), { bigint: true });
      return [name, mtimeNs, ctimeNs, size];
    });
  const before = state();
  const reader = openReader(data);
  reader.read(hasNote('a'));
  t.same(state(), before);
  reader.checkIntegrity();
  reader.close();
  t.same(state(), before);
});

t.test('a reader cannot write, and waits as long as a turn may take', async (t) => {
  const data = t.testdir();
  await makeStore(data);
  let connection: DatabaseSync | null = null;
  const createReads = (db: DatabaseSync) => {
    connection = db;
    return toyParts.parts.createReads(db, null);
  };
  const reader = openReaderWith({ data }, { ...toyParts, parts: { createReads } });
  const write = () => (connection as DatabaseSync | null)?.exec("INSERT INTO Notes VALUES ('b', 'text')");
  t.throws(write, /readonly/);
  t.equal(connection === null ? null : readPragma(connection, 'PRAGMA busy_timeout'), limits.turnRetryMsMax);
  reader.close();
});

t.test('where there is no data directory, or none yet, the error says what to do and makes nothing', async (t) => {
  const data = path.join(t.testdir(), 'nowhere');
  t.throws(() => openReader(data), { code: 'not-found', hint: /--data/ });
  t.notOk(existsSync(data));
  const empty = t.testdir();
  t.throws(() => openReader(empty), { code: 'not-found' });
  writeFileSync(path.join(empty, 'config.json'), '{"profile":"edge"}');
  t.throws(() => openReader(empty), { code: 'not-found', message: /no database yet/ });
  t.same(readdirSync(empty), ['config.json']);
});

t.test('a lost database and one of another version are told as that', async (t) => {
  const data = t.testdir();
  await makeStore(data);
  const newer = schemaOf([
    ...toyMigrations,
    migration('0003-more', 'CREATE TABLE More (id INTEGER PRIMARY KEY) STRICT;'),
  ]);
  const refused = { code: 'unavailable', hint: /the version of this program/ };
  t.throws(() => openReaderWith({ data }, { ...toyParts, schema: newer }), refused);
  const older = schemaOf(toyMigrations.slice(0, 1));
  t.throws(() => openReaderWith({ data }, { ...toyParts, schema: older }), { code: 'unavailable', message: /newer/ });
  rmSync(path.join(data, 'qinglong.db'));
  t.throws(() => openReader(data), { code: 'damaged', message: /lost/ });
});

// Dies with a transaction on its way into the file: pages spilled, journal synced.
const dyingProgram = (data: string) => `
  const { DatabaseSync } = await import('node:sqlite');
  const db = new DatabaseSync(${JSON.stringify(path.join(data, 'qinglong.db'))});
  db.exec("PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN EXCLUSIVE; UPDATE Notes SET text = 'lost'");
  const insert = db.prepare('INSERT INTO Notes VALUES (?, ?)');
  for (let index = 0; index < 500; index += 1) {
    insert.run('half' + index, 'x'.repeat(500));
  }
  process.kill(process.pid, 'SIGKILL');`;

t.test('after a process died inside a commit, reading rolls it back and sees what was durable', async (t) => {
  const data = t.testdir();
  await makeStore(data);
  const child = startChild(t, dyingProgram(data));
  t.equal((await child.ended()).signal, 'SIGKILL');
  t.ok(statSync(path.join(data, 'qinglong.db-journal')).size > 0);
  const reader = openReader(data);
  t.same([reader.read(hasNote('a')), reader.read(hasNote('half0'))], [true, false]);
  t.same(reader.checkIntegrity(), { problems: [], isComplete: true });
  reader.close();
  t.notOk(existsSync(path.join(data, 'qinglong.db-journal')));
});

t.test('with a write-ahead log, what a killed process had committed is read without a holder', async (t) => {
  const data = t.testdir();
  const child = startChild(
    t,
    `const { addNote, openToyStore } = await toy();
     const { store } = openToyStore({ data: ${JSON.stringify(data)}, profile: 'standalone' });
     await store.submit(addNote({ id: 'a' }));
     console.log('written');
     process.stdin.resume();`,
  );
  t.equal(await child.line(), 'written');
  child.process.kill('SIGKILL');
  await child.ended();
  const reader = openReader(data);
  t.equal(reader.read(hasNote('a')), true);
  t.equal(reader.holder, null);
  reader.close();
});

t.test('one read is one look: a commit in between does not show in half of it', async (t) => {
  const data = t.testdir();
  await makeStore(data, 'standalone');
  const { store } = openToyStore({ data });
  const writer = new DatabaseSync(path.join(data, 'qinglong.db'));
  t.teardown(() => writer.close());
  const seen: unknown[] = [];
  const createReads = (db: DatabaseSync) => {
    const count = () => db.prepare('SELECT count(*) AS count FROM Notes').get()?.['count'];
    return (() => {
      seen.push(count());
      writer.exec("INSERT INTO Notes VALUES ('between', 'text')");
      seen.push(count());
      return true;
    }) as never;
  };
  const reader = openReaderWith({ data }, { ...toyParts, parts: { createReads } });
  reader.read(hasNote('a'));
  t.same(seen, [1, 1]);
  reader.close();
  await store.close();
});

t.test('C064: reading waits for a process that is committing', async (t) => {
  const data = t.testdir();
  await makeStore(data);
  const holder = new DatabaseSync(path.join(data, 'qinglong.db'));
  holder.exec('BEGIN EXCLUSIVE');
  const child = startChild(
    t,
    `const { openReaderWith } = await sqlite('reader.ts');
     const { hasNote, toyParts } = await toy();
     console.log('begins');
     const reader = openReaderWith({ data: ${JSON.stringify(data)} }, toyParts);
     console.log(reader.read(hasNote('a')));`,
  );
  t.equal(await child.line(), 'begins');
  holder.exec('ROLLBACK');
  holder.close();
  t.equal(await child.line(), 'true');
});

t.test('a table that is not as it was made is damage, not a defect, and is named', async (t) => {
  const data = t.testdir();
  await makeStore(data);
  const db = new DatabaseSync(path.join(data, 'qinglong.db'));
  db.exec('ALTER TABLE Notes RENAME COLUMN id TO name');
  db.close();
  const reader = openReader(data);
  t.throws(() => reader.read(hasNote('a')), { code: 'damaged', message: /table Notes: column id/ });
  reader.close();
});

t.test('without the right to read, the error says so', async (t) => {
  const data = t.testdir();
  await makeStore(data);
  chmodSync(data, 0o755);
  const file = path.join(data, 'qinglong.db');
  const isRoot = process.getuid?.() === 0;
  chmodSync(file, isRoot ? 0o600 : 0o000);
  const program = `
    const { openReaderWith } = await sqlite('reader.ts');
    const { toyParts } = await toy();
    try {
      openReaderWith({ data: ${JSON.stringify(data)} }, toyParts);
      console.log('opened');
    } catch (error) {
      console.log(error.code);
    }`;
  const child = startChild(t, program, isRoot ? { uid: 65534 } : {});
  t.equal(await child.line(), 'unavailable');
});
