import { statSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { limits } from '../../../src/core/limits.ts';
import { journalBytesMax, type Profile } from '../../../src/store/sqlite/profile.ts';
import type { Turn } from '../../../src/store/store.ts';
import { startChild } from './child.ts';
import { addNote, hasNote, openToyStore, partsWithConnection, type ToyStore } from './toy-store.ts';

/** Another process that holds the database as `sql` says, until it is told to let go. */
async function startLocker(t: Test, data: string, sql: string): Promise<() => Promise<void>> {
  const child = startChild(
    t,
    `
    const { DatabaseSync } = await import('node:sqlite');
    const db = new DatabaseSync(${JSON.stringify(path.join(data, 'qinglong.db'))});
    db.exec(${JSON.stringify(sql)});
    console.log('holds');
    process.stdin.once('data', () => {
      db.exec('ROLLBACK');
      console.log('let go');
      process.stdin.pause();
    });`,
  );
  t.equal(await child.line(), 'holds');
  return async () => {
    child.process.stdin?.write('\n');
    t.equal(await child.line(), 'let go');
  };
}

/** Rings the alarm until the promise has settled; every ring moves the simulated clock. */
async function ringUntil<T>({ alarm }: ToyStore, promise: Promise<T>): Promise<T> {
  let isSettled = false;
  const settled = promise.finally(() => {
    isSettled = true;
  });
  settled.catch(() => undefined);
  while (!isSettled) {
    await Promise.race([alarm.nextSet(), settled.catch(() => undefined)]);
    if (!isSettled) {
      alarm.ring();
    }
  }
  return settled;
}

const profiles: readonly Profile[] = ['edge', 'standalone'];

for (const profile of profiles) {
  t.test(
    `C064, ${profile}: while another process holds BEGIN IMMEDIATE, reading works and writing waits`,
    async (t) => {
      const data = t.testdir();
      const toy = openToyStore({ data, profile });
      await toy.store.submit(addNote({ id: 'a' }));
      const letGo = await startLocker(t, data, 'BEGIN IMMEDIATE');
      const waiting = toy.store.submit(addNote({ id: 'b' }));
      await toy.alarm.nextSet();
      toy.alarm.ring();
      t.equal(toy.alarm.count, 1, 'it waits again');
      t.equal(toy.commits.length, 1);
      await letGo();
      toy.alarm.ring();
      t.equal(await waiting, 'added');
      t.equal(toy.alarm.count, 0, 'nothing is left to ring');
      await toy.store.close();
    },
  );

  t.test(`${profile}: a reader is answered at once while another process is about to write`, async (t) => {
    const data = t.testdir();
    const toy = openToyStore({ data, profile });
    await toy.store.submit(addNote({ id: 'a' }));
    await startLocker(t, data, "BEGIN IMMEDIATE; INSERT INTO Notes VALUES ('foreign', 'text')");
    t.same([await toy.store.read(hasNote('a')), await toy.store.read(hasNote('foreign'))], [true, false]);
    t.equal(toy.alarm.count, 0);
    await toy.store.close();
  });
}

t.test('after 5 s of waiting the operations are told busy, nothing is written, and later ones work', async (t) => {
  const data = t.testdir();
  const toy = openToyStore({ data });
  const letGo = await startLocker(t, data, 'BEGIN IMMEDIATE');
  const startedAtMs = toy.clock.observe().uptimeMs;
  const refused = Promise.allSettled([toy.store.submit(addNote({ id: 'a' })), toy.store.submit(addNote({ id: 'b' }))]);
  t.match(await ringUntil(toy, refused), [{ reason: { code: 'busy' } }, { reason: { code: 'busy' } }]);
  t.equal(toy.clock.observe().uptimeMs - startedAtMs, limits.turnRetryMsMax);
  await letGo();
  t.equal(await toy.store.read(hasNote('a')), false);
  t.equal(await toy.store.submit(addNote({ id: 'a' })), 'added');
  await toy.store.close();
});

t.test('closing while another process holds the database ends, with the work told busy', async (t) => {
  const data = t.testdir();
  const toy = openToyStore({ data });
  await startLocker(t, data, 'BEGIN IMMEDIATE');
  toy.store.wake();
  const refused = toy.store.submit(addNote({ id: 'a' }));
  refused.catch(() => undefined);
  const closed = toy.store.close();
  await toy.alarm.nextSet();
  toy.alarm.pass(limits.turnRetryMsMax);
  await ringUntil(toy, closed);
  await t.rejects(refused, { code: 'busy' });
});

t.test('a read waits for a process that is committing', async (t) => {
  const data = t.testdir();
  const toy = openToyStore({ data });
  await toy.store.submit(addNote({ id: 'a' }));
  const letGo = await startLocker(t, data, 'BEGIN EXCLUSIVE');
  const reads = Promise.all([toy.store.read(hasNote('a')), toy.store.read(hasNote('b'))]);
  await toy.alarm.nextSet();
  await letGo();
  toy.alarm.ring();
  t.same(await reads, [true, false]);
  await toy.store.close();
});

t.test('a COMMIT that meets a reader keeps its transaction and is tried again; nothing slips in between', async (t) => {
  const data = t.testdir();
  const toy = openToyStore({ data });
  const letGo = await startLocker(t, data, 'BEGIN; SELECT count(*) FROM Notes');
  const order: string[] = [];
  const first = toy.store.submit(addNote({ id: 'a' })).then(() => order.push('a'));
  await toy.alarm.nextSet();
  const second = toy.store.submit(addNote({ id: 'b' })).then(() => order.push('b'));
  const read = toy.store.read(hasNote('b')).then((isKnown) => order.push(`read ${isKnown}`));
  toy.alarm.ring();
  t.same([order, toy.commits.length], [[], 0], 'nothing is told before it is durable');
  await letGo();
  toy.alarm.ring();
  await Promise.all([first, second, read]);
  t.same(order, ['a', 'b', 'read true']);
  t.same(
    toy.commits.map(({ length }) => length),
    [1, 1],
  );
  await toy.store.close();
});

t.test('a COMMIT that meets a reader for 5 s is rolled back and told busy', async (t) => {
  const data = t.testdir();
  const toy = openToyStore({ data });
  const letGo = await startLocker(t, data, 'BEGIN; SELECT count(*) FROM Notes');
  const refused = toy.store.submit(addNote({ id: 'a' }));
  await toy.alarm.nextSet();
  toy.alarm.pass(limits.turnRetryMsMax);
  await t.rejects(ringUntil(toy, refused), { code: 'busy' });
  await letGo();
  t.equal(await toy.store.read(hasNote('a')), false);
  t.equal(await toy.store.submit(addNote({ id: 'a' })), 'added');
  t.equal(toy.commits.length, 1);
  await toy.store.close();
});

/** Leaves room for a few pages more. */
function limitPages(connection: DatabaseSync, more: number): void {
  const row = connection.prepare('PRAGMA page_count').get();
  connection.exec(`PRAGMA max_page_count = ${Number(row?.['page_count']) + more}`);
}

const large = 'x'.repeat(100_000);

for (const profile of profiles) {
  t.test(
    `${profile}: when space runs out, the one that needs it is told full and its siblings are done alone`,
    async (t) => {
      const { parts, connection } = partsWithConnection();
      const toy = openToyStore({ data: t.testdir(), profile, parts });
      limitPages(connection(), 20);
      const drawn: string[][] = [];
      const freshIds = (ids: readonly string[]) => drawn.push([...ids]);
      const results = await Promise.allSettled([
        toy.store.submit(addNote({ id: 'a', freshIds })),
        toy.store.submit(addNote({ id: 'large', text: large })),
        toy.store.submit(addNote({ id: 'b' })),
        toy.store.read(hasNote('a')),
      ]);
      t.match(results, [{ value: 'added' }, { reason: { code: 'full' } }, { value: 'added' }, { value: true }]);
      t.same(
        toy.commits.map((settled) => settled.map(({ outcome }) => outcome)),
        [['added'], ['added']],
      );
      t.same(drawn[0], drawn[1], 'done again with the same ids');
      t.equal(await toy.store.read(hasNote('large')), false);
      await toy.store.close();
    },
  );
}

t.test('a follower that runs out of space takes the one that it followed with it', async (t) => {
  const { parts, connection } = partsWithConnection();
  const toy = openToyStore({ data: t.testdir(), parts });
  limitPages(connection(), 20);
  const follow = [addNote({ id: 'large', text: large })];
  const results = await Promise.allSettled([
    toy.store.submit(addNote({ id: 'a', follow })),
    toy.store.submit(addNote({ id: 'b' })),
  ]);
  t.match(results, [{ reason: { code: 'full' } }, { value: 'added' }]);
  t.equal(await toy.store.read(hasNote('a')), false);
  await toy.store.close();
});

t.test(
  'a `closing` that runs out of space and says nothing is found out; nobody is told that it was done',
  async (t) => {
    const { parts, connection } = partsWithConnection();
    let isGreedy = true;
    const closing = (turn: Turn) => {
      if (isGreedy) {
        t.throws(() => turn.operate(addNote({ id: 'large', text: large })), { code: 'full' });
        t.throws(() => turn.operate(addNote({ id: 'small' })), { name: 'InvariantError' });
      }
    };
    const toy = openToyStore({ data: t.testdir(), parts, closing });
    limitPages(connection(), 20);
    const results = Promise.allSettled(['a', 'b'].map((id) => toy.store.submit(addNote({ id }))));
    t.match(await results, [{ reason: { code: 'full' } }, { reason: { code: 'full' } }]);
    t.same([await toy.store.read(hasNote('a')), await toy.store.read(hasNote('small'))], [false, false]);
    t.equal(toy.commits.length, 0);
    isGreedy = false;
    t.equal(await toy.store.submit(addNote({ id: 'a' })), 'added');
    await toy.store.close();
  },
);

t.test('a `closing` that throws undoes its turn, which is told; a woken one is reported, once', async (t) => {
  const error = new RangeError('mine');
  const toy = openToyStore({
    data: t.testdir(),
    closing: () => {
      throw error;
    },
  });
  const results = await Promise.allSettled(['a', 'b'].map((id) => toy.store.submit(addNote({ id }))));
  t.same(
    results.map((result) => result.status === 'rejected' && result.reason),
    [error, error],
  );
  t.equal(await toy.store.read(hasNote('a')), false);
  t.same(toy.reported.failed, []);
  toy.store.wake();
  await nextTurn();
  await nextTurn();
  t.same(toy.reported.failed, [error]);
  t.same(toy.commits, []);
  await toy.store.close();
});

/** A store in a process whose files may not grow far, so that a large COMMIT fails in the middle of its writes. */
const limitedProgram = (data: string, profile: Profile, closing: string) => `
  const { addNote, hasNote, openToyStore } = await toy();
  const fs = await import('node:fs');
  const data = ${JSON.stringify(data)};
  let isLarge = false;
  const closing = () => { ${closing} };
  let doubts = 0;
  const doubted = () => { doubts += 1; };
  const { store, reported, commits } = openToyStore({ data, profile: '${profile}', closing, doubted });
  const tell = async (promise) => console.log(await promise.then(String, (error) => error.code));
  await tell(store.submit(addNote({ id: 'a' })));
  isLarge = true;
  const large = store.submit(addNote({ id: 'large', text: 'x'.repeat(400_000) }));
  const beside = store.read(hasNote('a'));
  await tell(large);
  await tell(beside);
  isLarge = false;
  await tell(store.submit(addNote({ id: 'b' })));
  await tell(store.read(hasNote('b')));
  console.log('doubted ' + doubts);
  console.log(reported.failed.map(({ code }) => code).join());
  console.log(reported.closedForGood.map(({ code, cause }) => code + ' ' + cause.code).join());
  await store.close();
  console.log('closed');`;

const limitedFiles = ['sh', '-c', 'ulimit -f 300; exec "$@"', 'sh'];

for (const profile of profiles) {
  t.test(`${profile}: a COMMIT that the storage fails is an unknown outcome, and the store goes on`, async (t) => {
    const data = t.testdir();
    const child = startChild(t, limitedProgram(data, profile, ''), { prefix: limitedFiles });
    const lines = [];
    for (let count = 0; count < 9; count += 1) {
      lines.push(await child.line());
    }
    const unknown = 'unknown-outcome';
    t.same(lines, ['added', unknown, unknown, 'added', 'true', 'doubted 1', unknown, '', 'closed']);
    const { store } = openToyStore({ data });
    t.equal(await store.read(hasNote('b')), true);
    // Whether it is there was unknown; it is whole or not there at all.
    t.equal(await store.read(hasNote('large')), false);
    await store.close();
  });
}

t.test('when the database cannot be had back after an unknown outcome, the store is closed for good', async (t) => {
  const data = t.testdir();
  const closing = "if (isLarge) fs.renameSync(data + '/qinglong.db', data + '/gone.db');";
  const child = startChild(t, limitedProgram(data, 'edge', closing), { prefix: limitedFiles });
  const lines = [];
  for (let count = 0; count < 9; count += 1) {
    lines.push(await child.line());
  }
  const unknown = 'unknown-outcome';
  const gone = 'unavailable';
  t.same(lines, ['added', unknown, unknown, gone, gone, 'doubted 0', unknown, `${gone} unavailable`, 'closed']);
});

t.test('C058: 20,000 small writes beside an open reader keep the write-ahead log short', async (t) => {
  const data = t.testdir();
  const toy = openToyStore({ data, profile: 'standalone' });
  const reader = new DatabaseSync(path.join(data, 'qinglong.db'), { readOnly: true });
  let walBytesMax = 0;
  for (let round = 0; round < 80; round += 1) {
    const ids = Array.from({ length: 250 }, (_, index) => `n${round}-${index}`);
    await Promise.all(ids.map((id) => toy.store.submit(addNote({ id }))));
    t.ok(reader.prepare('SELECT count(*) AS count FROM Notes').get());
    walBytesMax = Math.max(walBytesMax, statSync(path.join(data, 'qinglong.db-wal')).size);
  }
  t.ok(walBytesMax < 4 * 1024 * 1024, `${walBytesMax} bytes`);
  reader.close();
  await toy.store.close();
});

t.test(
  'C058: a reader that never ends its transaction stops writing at the bound of the log, not beyond',
  async (t) => {
    const data = t.testdir();
    const toy = openToyStore({ data, profile: 'standalone' });
    const reader = new DatabaseSync(path.join(data, 'qinglong.db'), { readOnly: true });
    reader.exec('BEGIN; SELECT count(*) FROM Notes');
    const text = 'x'.repeat(2_000_000);
    let busy: unknown = null;
    let walBytes = 0;
    for (let index = 0; busy === null && index < 100; index += 1) {
      busy = await ringUntil(toy, toy.store.submit(addNote({ id: `n${index}`, text: `${index}${text}` }))).then(
        () => null,
        (error: unknown) => error,
      );
      walBytes = statSync(path.join(data, 'qinglong.db-wal')).size;
    }
    t.match(busy, { code: 'busy', message: /write-ahead log is at its bound/ });
    t.ok(walBytes > journalBytesMax.standalone && walBytes < journalBytesMax.standalone * 1.1, `${walBytes} bytes`);
    reader.close();
    t.equal(await toy.store.submit(addNote({ id: 'later' })), 'added');
    t.ok(statSync(path.join(data, 'qinglong.db-wal')).size < 1_000_000);
    await toy.store.close();
  },
);
