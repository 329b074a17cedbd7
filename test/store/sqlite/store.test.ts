import {
  chmodSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { realClock, realIds } from '../../../src/runtime/ports.ts';
import { migrateStoreWith } from '../../../src/store/sqlite/store.ts';
import { startChild } from './child.ts';
import {
  addNote,
  hasNote,
  migration,
  openToyStore,
  schemaOf,
  simulatedTime,
  toyMigrations,
  toyParts,
} from './toy-store.ts';

const wholeDirectory = ['config.json', 'lock.db', 'qinglong.db', 'qinglong.db.marker'];

async function makeStore(data: string, options: Partial<Parameters<typeof openToyStore>[0]> = {}): Promise<void> {
  const { store } = openToyStore({ data, ...options });
  await store.submit(addNote({ id: 'a' }));
  await store.close();
}

t.test('a directory is made with its database, marker and settings, all for the owner alone', async (t) => {
  const data = path.join(t.testdir(), 'new');
  const { store } = openToyStore({ data, profile: 'standalone' });
  t.match(store.info, {
    profile: 'standalone',
    durability: 'wal-full',
    engine: /^SQLite 3\.\d+/,
    capability: { name: 'toy', version: 1 },
  });
  t.same(JSON.parse(readFileSync(path.join(data, 'config.json'), 'utf8')), {
    profile: 'standalone',
    durability: 'wal-full',
  });
  for (const name of readdirSync(data)) {
    t.equal(statSync(path.join(data, name)).mode & 0o777, 0o600, name);
  }
  await store.close();
  t.same(readdirSync(data).sort(), wholeDirectory);
});

t.test('what was written is there after closing and opening again, in each durability', async (t) => {
  for (const durability of ['delete-extra', 'delete-full', 'wal-full'] as const) {
    const data = t.testdir();
    await makeStore(data, { durability });
    const { store } = openToyStore({ data });
    t.equal(store.info.durability, durability);
    t.equal(await store.read(hasNote('a')), true);
    await store.close();
  }
});

t.test('opening and closing without work writes nothing to the database', async (t) => {
  const data = t.testdir();
  await makeStore(data);
  const { mtimeNs, size } = statSync(path.join(data, 'qinglong.db'), { bigint: true });
  const { store } = openToyStore({ data });
  await store.read(hasNote('a'));
  await store.close();
  t.match(statSync(path.join(data, 'qinglong.db'), { bigint: true }), { mtimeNs, size });
});

t.test('another profile or durability than the directory has is refused', async (t) => {
  const data = t.testdir();
  await makeStore(data);
  const message = /made with profile edge, not standalone/;
  t.throws(() => openToyStore({ data, profile: 'standalone' }), { code: 'invalid', message });
  t.throws(() => openToyStore({ data, durability: 'delete-full' }), { code: 'invalid' });
  const { store } = openToyStore({ data, profile: 'edge', durability: 'delete-extra' });
  await store.close();
});

t.test('settings that were taken away or changed behind the back of the database are refused', async (t) => {
  const data = t.testdir();
  await makeStore(data);
  const config = path.join(data, 'config.json');
  rmSync(config);
  t.throws(() => openToyStore({ data }), { code: 'damaged', hint: /put back/ });
  writeFileSync(config, '{"profile":"standalone","durability":"wal-full"}');
  t.throws(() => openToyStore({ data }), { code: 'invalid', message: /journal mode delete/ });
  writeFileSync(config, '{"profile":"edge","durability":"delete-extra"}');
  const { store } = openToyStore({ data });
  await store.close();
});

t.test('a lost database is not replaced by an empty one', async (t) => {
  for (const lose of [rmSync, (file: string) => truncateSync(file, 0)]) {
    const data = t.testdir();
    await makeStore(data);
    const file = path.join(data, 'qinglong.db');
    lose(file);
    t.throws(() => openToyStore({ data }), { code: 'damaged', message: /lost/ });
    t.throws(() => openToyStore({ data }), { code: 'damaged', message: /lost/ }, 'and again');
    t.equal(existsSync(file) ? statSync(file).size : 0, 0);
    t.notOk(existsSync(path.join(data, 'holder.json')), 'the lock was given back');
  }
});

t.test('a link in place of the database is refused', async (t) => {
  const data = t.testdir();
  await makeStore(data);
  const file = path.join(data, 'qinglong.db');
  const { store } = openToyStore({ data: path.join(data, 'other') });
  await store.close();
  rmSync(file);
  symlinkSync(path.join(data, 'other', 'qinglong.db'), file);
  t.throws(() => openToyStore({ data }), { code: 'invalid', message: /not a regular file/ });
});

t.test('a second store of the same directory is refused while the first is open', async (t) => {
  const data = t.testdir();
  const { store } = openToyStore({ data, command: 'run' });
  t.throws(() => openToyStore({ data }), {
    code: 'busy',
    message: new RegExp(`held by process ${process.pid} \\(run\\)`),
  });
  t.equal(await store.submit(addNote({ id: 'a' })), 'added', 'the first is not disturbed');
  await store.close();
  await makeStore(data);
});

const makingProgram = (data: string, id: string) => `
  const { openToyStore, toyParts, migration, schemaOf } = await toy();
  const { DatabaseSync } = await import('node:sqlite');
  const fs = await import('node:fs');
  const exec = DatabaseSync.prototype.exec;
  let count = 0;
  // Dies before the statement of that number that this process gives to SQLite.
  DatabaseSync.prototype.exec = function (sql) {
    count += 1;
    if (count === ${id}) {
      process.kill(process.pid, 'SIGKILL');
    }
    return exec.call(this, sql);
  };
  openToyStore({ data: ${JSON.stringify(data)}, profile: 'standalone' });
  console.log(count);
  process.stdin.resume();`;

t.test('killed at any statement of its making, a directory is simply made by the next start', async (t) => {
  const counter = startChild(t, makingProgram(t.testdir(), '-1'));
  const count = Number(await counter.line());
  t.ok(count > 20, `${count} statements`);
  // Every third of them: a process for each is what takes the time.
  for (let at = 1; at <= count; at += 3) {
    const data = t.testdir();
    const child = startChild(t, makingProgram(data, `${at}`));
    t.equal((await child.ended()).signal, 'SIGKILL');
    const { store } = openToyStore({ data, profile: 'standalone' });
    t.equal(await store.submit(addNote({ id: 'a' })), 'added', `killed at ${at}`);
    await store.close();
    t.same(readdirSync(data).sort(), wholeDirectory, 'nothing is left lying about');
  }
});

t.test('an older database is migrated only by being asked to, under the lock', async (t) => {
  const data = t.testdir();
  await makeStore(data);
  const more = migration('0003-more', 'CREATE TABLE More (id INTEGER PRIMARY KEY) STRICT;');
  const newer = { ...toyParts, schema: schemaOf([...toyMigrations, more]) };
  t.throws(() => openToyStore({ data, parts: newer }), { code: 'unavailable', hint: /the version of this program/ });
  const { clock, alarm } = simulatedTime();
  const report = { failed: () => undefined, closedForGood: () => undefined };
  const ports = { clock, alarm, ids: realIds(realClock()), trustedFromMs: 0, report };
  const migrate = () => migrateStoreWith({ data, command: 'migrate', socket: null, ...ports }, newer);
  const held = openToyStore({ data });
  t.throws(migrate, { code: 'busy' });
  await held.store.close();
  t.same(migrate(), ['0003-more']);
  t.same(migrate(), []);
  t.throws(() => openToyStore({ data }), { code: 'unavailable', message: /newer than this program: it has 0003-more/ });
  const { store } = openToyStore({ data, parts: newer });
  t.equal(await store.read(hasNote('a')), true);
  await store.close();
  const nowhere = { data: path.join(data, 'nowhere'), command: 'migrate', socket: null, ...ports };
  t.throws(() => migrateStoreWith(nowhere, newer), { code: 'not-found' });
});

t.test('an altered catalog stops the start, names what differs and changes nothing', async (t) => {
  const data = t.testdir();
  await makeStore(data);
  const shell = new DatabaseSync(path.join(data, 'qinglong.db'));
  shell.exec('DROP INDEX NotesByText');
  shell.close();
  const { mtimeNs } = statSync(path.join(data, 'qinglong.db'), { bigint: true });
  t.throws(() => openToyStore({ data }), { code: 'damaged', message: /index NotesByText: missing/ });
  t.equal(statSync(path.join(data, 'qinglong.db'), { bigint: true }).mtimeNs, mtimeNs);
});

const writingProgram = (data: string, profile: string) => `
  const { addNote, openToyStore } = await toy();
  const { store } = openToyStore({ data: ${JSON.stringify(data)}, profile: '${profile}' });
  await store.submit(addNote({ id: 'a' }));
  console.log('written');
  process.stdin.resume();`;

for (const profile of ['edge', 'standalone'] as const) {
  t.test(`${profile}: after a SIGKILL the next process takes over at once, with all that was told`, async (t) => {
    const data = t.testdir();
    const child = startChild(t, writingProgram(data, profile));
    t.equal(await child.line(), 'written');
    t.throws(() => openToyStore({ data }), { code: 'busy', message: new RegExp(`process ${child.process.pid} `) });
    child.process.kill('SIGKILL');
    await child.ended();
    const { store } = openToyStore({ data });
    t.equal(await store.read(hasNote('a')), true);
    await store.close();
    t.same(readdirSync(data).sort(), wholeDirectory);
  });
}

t.test('in a directory that cannot be written, the error says so', async (t) => {
  const data = path.join(t.testdir(), 'data');
  await makeStore(data);
  const isRoot = process.getuid?.() === 0;
  for (const name of readdirSync(data)) {
    chmodSync(path.join(data, name), isRoot ? 0o444 : 0o400);
  }
  chmodSync(data, isRoot ? 0o755 : 0o500);
  const program = `
    const { openToyStore } = await toy();
    try {
      openToyStore({ data: ${JSON.stringify(data)} });
      console.log('opened');
    } catch (error) {
      console.log(error.code + ': ' + error.message);
    }`;
  const child = startChild(t, program, isRoot ? { uid: 65534 } : {});
  const line = await child.line();
  chmodSync(data, 0o700);
  t.match(line, /^unavailable: cannot open .*lock\.db for writing: E(ACCES|PERM)/);
});
