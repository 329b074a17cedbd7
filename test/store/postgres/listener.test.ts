// Words from one runtime to the others: heard by whoever listens, again after a session was lost, and no more when it
// is closed.
import t, { type Test } from 'tap';
import { openLeases } from '../../../src/postgres.ts';
import { realAlarm, realClock } from '../../../src/runtime/ports.ts';
import { leaseMs, until } from './lease-scene.ts';
import { openProxy } from './proxy.ts';
import { createDatabase, openServer } from './scene.ts';

const databases = await openServer(t);
const clock = realClock();
const alarm = realAlarm(clock);

async function openPair(t: Test, url?: (database: string) => string) {
  const database = await createDatabase(t, databases);
  const open = (where: string) => openLeases({ url: where, leaseMs, clock, alarm });
  const listening = open(url?.(database) ?? databases.urlOf(database));
  const speaking = open(databases.urlOf(database));
  t.teardown(async () => {
    await listening.close();
    await speaking.close();
  });
  const heard: string[] = [];
  /** Sessions of ours in this database, but for the one that asks. */
  const sessions = (query = '%') =>
    databases.query(
      database,
      `SELECT pid FROM pg_stat_activity
       WHERE datname = current_database() AND application_name = 'qinglong-edge' AND query LIKE '${query}'
         AND state = 'idle'`,
    );
  const untilListening = () => until(async () => (await sessions('LISTEN%')).length === 1);
  return { database, listening, speaking, heard, sessions, untilListening };
}

t.test('what is notified is heard as it was said, in its order, by everybody who listens', async (t) => {
  const { listening, speaking, heard, untilListening } = await openPair(t);
  listening.listen((what) => heard.push(what));
  await untilListening();
  const words = ['work', '0199aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee', 'work'];
  for (const word of words) {
    await speaking.notify(word);
  }
  await until(() => heard.length === words.length);
  t.same(heard, words);
  await listening.notify('own');
  await until(() => heard.length > words.length);
  t.same(heard.at(-1), 'own', 'also what it says itself');
});

t.test('a session that the server ends is had again by itself', async (t) => {
  const { listening, speaking, heard, untilListening, sessions, database } = await openPair(t);
  listening.listen((what) => heard.push(what));
  for (const round of [1, 2, 3]) {
    await untilListening();
    await speaking.notify(`word ${round}`);
    await until(() => heard.length === round);
    const [{ pid } = {}] = await sessions('LISTEN%');
    await databases.query(database, `SELECT pg_terminate_backend(${pid})`);
    await until(async () => (await sessions('LISTEN%')).every((session) => session['pid'] !== pid));
  }
  await untilListening();
  await speaking.notify('after');
  await until(() => heard.length === 4);
  t.same(heard, ['word 1', 'word 2', 'word 3', 'after'], 'each once');
});

t.test('a server that refuses for a while is listened to when it does no more', async (t) => {
  const proxy = await openProxy(databases.server);
  t.teardown(() => proxy.close());
  proxy.refuse(true);
  const { listening, speaking, heard, untilListening, sessions } = await openPair(t, (database) =>
    proxy.urlOf(database, databases.server.superuser),
  );
  listening.listen((what) => heard.push(what));
  await t.rejects(listening.renew('anybody'), { code: 'unavailable' });
  proxy.refuse(false);
  await untilListening();
  await speaking.notify('work');
  await until(() => heard.length === 1);
  const [{ pid } = {}] = await sessions('LISTEN%');
  proxy.cutAll();
  await until(async () => (await sessions('LISTEN%')).some((session) => session['pid'] !== pid));
  await speaking.notify('again');
  await until(() => heard.length === 2);
  t.same(heard, ['work', 'again']);
});

t.test('when it is closed no session is left, and nothing is heard', async (t) => {
  const { listening, speaking, heard, untilListening, sessions } = await openPair(t);
  listening.listen((what) => heard.push(what));
  await untilListening();
  await listening.renew('anybody');
  t.equal((await sessions()).length, 2);
  await listening.close();
  await until(async () => (await sessions()).length === 0);
  await speaking.notify('work');
  t.same(heard, []);
  t.equal((await sessions('LISTEN%')).length, 0);
});

t.test('closed before its session is there, it has none for long', async (t) => {
  const { speaking, sessions, database } = await openPair(t);
  const url = databases.urlOf(database);
  for (let count = 0; count < 12; count += 1) {
    const early = openLeases({ url, leaseMs, clock, alarm });
    early.listen(() => t.fail('nothing is heard'));
    await early.close();
  }
  await speaking.notify('work');
  await until(async () => (await sessions()).length === 1);
  t.equal((await sessions('LISTEN%')).length, 0);
});
