import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import { limits } from '../../../src/core/limits.ts';
import type { Operation } from '../../../src/protocol/protocol.ts';
import type { Turn } from '../../../src/store/store.ts';
import { addNote, hasNote, lookAtNote, openToyStore } from './toy-store.ts';

/**
 * How many transactions have changed the file: SQLite counts them in the header. Read in a child, as closing the file
 * here would drop this process's own locks.
 */
function countCommits(data: string): number {
  const { stdout } = spawnSync('od', ['-An', '-tu1', '-j24', '-N4', path.join(data, 'qinglong.db')]);
  const [a = 0, b = 0, c = 0, d = 0] = String(stdout).trim().split(/\s+/).map(Number);
  return a * 2 ** 24 + b * 2 ** 16 + c * 2 ** 8 + d;
}

t.test('what waits together shares one commit, in order, and later members see earlier ones', async (t) => {
  const data = t.testdir();
  const { store, commits } = openToyStore({ data });
  const before = countCommits(data);
  const order: string[] = [];
  const submit = (name: string, operation: Operation) =>
    store.submit(operation).then((outcome) => order.push(`${name} ${outcome}`));
  await Promise.all([
    submit('a', addNote({ id: 'a' })),
    submit('look', lookAtNote('a')),
    submit('again', addNote({ id: 'a' })),
    submit('b', addNote({ id: 'b' })),
  ]);
  t.same(order, ['a added', 'look true', 'again taken', 'b added']);
  t.equal(countCommits(data), before + 1);
  t.same(
    commits.map((settled) => settled.map(({ operation, outcome }) => `${operation.name} ${outcome}`)),
    [['add-note added', 'look true', 'add-note taken', 'add-note added']],
  );
  await store.close();
});

t.test('without load every operation has a commit of its own', async (t) => {
  const data = t.testdir();
  const { store } = openToyStore({ data });
  const before = countCommits(data);
  for (const id of ['a', 'b', 'c']) {
    await store.submit(addNote({ id }));
  }
  t.equal(countCommits(data), before + 3);
  await store.close();
});

t.test('a turn takes 64 operations; the next ones wait for the next', async (t) => {
  const data = t.testdir();
  const { store, commits } = openToyStore({ data });
  const before = countCommits(data);
  const count = limits.turnOperationsMax + 6;
  await Promise.all(Array.from({ length: count }, (_, index) => store.submit(addNote({ id: `n${index}` }))));
  t.equal(countCommits(data), before + 2);
  t.same(
    commits.map(({ length }) => length),
    [limits.turnOperationsMax, 6],
  );
  await store.close();
});

t.test('a turn ends after 20 ms of work, looked at between operations', async (t) => {
  const { store, commits, alarm } = openToyStore({ data: t.testdir() });
  // The simulated clock moves on only inside the second operation.
  const slow = addNote({ id: 'slow', freshIds: () => alarm.ring() });
  alarm.set(1_000 + limits.turnWorkMsMax, () => undefined);
  await Promise.all([
    store.submit(addNote({ id: 'a' })),
    store.submit(slow),
    store.submit(addNote({ id: 'b' })),
    store.submit(addNote({ id: 'c' })),
  ]);
  t.same(
    commits.map(({ length }) => length),
    [2, 2],
  );
  await store.close();
});

t.test('an operation that fails is rolled back alone, and its siblings are committed', async (t) => {
  const data = t.testdir();
  const { store, reported } = openToyStore({ data });
  const before = countCommits(data);
  const error = new RangeError('mine');
  const results = await Promise.allSettled([
    store.submit(addNote({ id: 'a' })),
    store.submit(addNote({ id: 'b', error })),
    store.submit(addNote({ id: 'c', text: '' })),
    store.submit(addNote({ id: 'd' })),
  ]);
  t.match(results, [
    { value: 'added' },
    { reason: error },
    { reason: { code: 'internal', message: /^cannot carry out add-note: CHECK/ } },
    { value: 'added' },
  ]);
  t.equal(countCommits(data), before + 1);
  t.same(await Promise.all(['a', 'b', 'c', 'd'].map((id) => store.read(hasNote(id)))), [true, false, false, true]);
  t.same(reported.failed, []);
  await store.close();
});

t.test('what follows an operation comes right after it, in the same commit, depth first', async (t) => {
  const data = t.testdir();
  const { store, commits } = openToyStore({ data });
  const before = countCommits(data);
  const grandchild = addNote({ id: 'a1x' });
  const follow = [addNote({ id: 'a1', follow: [grandchild] }), lookAtNote('a1x')];
  await Promise.all([store.submit(addNote({ id: 'a', follow })), store.submit(addNote({ id: 'b' }))]);
  t.equal(countCommits(data), before + 1);
  t.same(
    commits.map((settled) => settled.map(({ outcome }) => outcome)),
    [['added', 'added', 'added', true, 'added']],
  );
  await store.close();
});

t.test('a follower that fails is rolled back alone and reported; the one that it followed stands', async (t) => {
  const { store, reported } = openToyStore({ data: t.testdir() });
  const error = new RangeError('mine');
  const follow = [addNote({ id: 'bad', error }), addNote({ id: 'good' })];
  t.equal(await store.submit(addNote({ id: 'a', follow })), 'added');
  t.same(await Promise.all(['a', 'bad', 'good'].map((id) => store.read(hasNote(id)))), [true, false, true]);
  t.same(reported.failed, [error]);
  await store.close();
});

t.test('more followers than one turn may hold go on in the next', async (t) => {
  const { store, commits } = openToyStore({ data: t.testdir() });
  const follow = Array.from({ length: limits.followMax + 10 }, (_, index) => addNote({ id: `f${index}` }));
  const first = store.submit(addNote({ id: 'a', follow }));
  await first;
  t.equal(await store.read(hasNote(`f${limits.followMax + 9}`)), true);
  t.same(
    commits.map(({ length }) => length),
    [1 + limits.followMax, 10],
  );
  await store.close();
});

t.test('a reader sees what was submitted before it, and only once that is durable', async (t) => {
  const { store } = openToyStore({ data: t.testdir() });
  const order: string[] = [];
  const added = store.submit(addNote({ id: 'a' })).then(() => order.push('added'));
  const read = store.read(hasNote('a')).then((isKnown) => order.push(`read ${isKnown}`));
  await Promise.all([added, read]);
  t.same(order, ['added', 'read true']);
  await store.close();
});

t.test('a turn that only reads writes no byte, calls neither hook and takes no lock of a writer', async (t) => {
  for (const profile of ['edge', 'standalone'] as const) {
    const data = t.testdir();
    let closings = 0;
    const closing = () => {
      closings += 1;
    };
    const { store, commits } = openToyStore({ data, profile, closing });
    await store.submit(addNote({ id: 'a' }));
    const files = () => readdirSync(data).sort();
    const state = () => {
      const stats = files().map((name) => statSync(path.join(data, name), { bigint: true }));
      return stats.map(({ size, mtimeNs, ino }) => [size, mtimeNs, ino]);
    };
    const writtenBytes = () => Number(/^write_bytes: (\d+)$/m.exec(readFileSync('/proc/self/io', 'latin1'))?.[1]);
    const before = { files: files(), state: state(), written: writtenBytes() };
    for (let round = 0; round < 20; round += 1) {
      await Promise.all([store.read(hasNote('a')), store.read(hasNote('b'))]);
    }
    t.same({ files: files(), state: state(), written: writtenBytes() }, before, profile);
    t.same([closings, commits.length], [1, 1]);
    await store.submit(addNote({ id: 'b' }));
    t.notSame(state(), before.state, 'a write would have been seen');
    await store.close();
  }
});

t.test('a turn whose operations write nothing writes no byte either', async (t) => {
  const data = t.testdir();
  const { store, commits } = openToyStore({ data });
  const before = [countCommits(data), statSync(path.join(data, 'qinglong.db'), { bigint: true }).mtimeNs];
  await store.submit(lookAtNote('a'));
  t.same([countCommits(data), statSync(path.join(data, 'qinglong.db'), { bigint: true }).mtimeNs], before);
  t.equal(commits.length, 1, 'but it has effects all the same');
  await store.close();
});

t.test('`closing` comes last in a turn, inside its commit, and sees whether it costs one', async (t) => {
  const data = t.testdir();
  const seen: unknown[] = [];
  const closing = (turn: Turn) => {
    seen.push([turn.isWriting(), turn.read(hasNote('a'))]);
    if (seen.length === 1) {
      t.equal(turn.operate(addNote({ id: 'by-closing' })), 'added');
      t.equal(turn.operate(addNote({ id: 'a' })), 'taken');
    }
  };
  const { store, commits } = openToyStore({ data, closing });
  const before = countCommits(data);
  await store.submit(addNote({ id: 'a' }));
  t.equal(countCommits(data), before + 1);
  t.same(
    commits.map((settled) => settled.map(({ outcome }) => outcome)),
    [['added', 'added', 'taken']],
  );
  await store.submit(lookAtNote('by-closing'));
  t.same(seen, [
    [true, true],
    [false, true],
  ]);
  await store.close();
});

t.test('an operation of `closing` that fails is rolled back alone', async (t) => {
  const closing = (turn: Turn) => {
    t.throws(() => turn.operate(addNote({ id: 'bad', text: '' })), { code: 'internal' });
    turn.operate(addNote({ id: `good ${turn.read(hasNote('a'))}` }));
  };
  const { store } = openToyStore({ data: t.testdir(), closing });
  t.equal(await store.submit(addNote({ id: 'a' })), 'added');
  t.same([await store.read(hasNote('bad')), await store.read(hasNote('good true'))], [false, true]);
  await store.close();
});

t.test('`wake` makes a turn although nothing was submitted; many make one', async (t) => {
  const seen: string[] = [];
  const { store, commits } = openToyStore({
    data: t.testdir(),
    closing: (turn) => {
      seen.push('closing');
      turn.operate(addNote({ id: `n${seen.length}` }));
    },
  });
  store.wake();
  store.wake();
  t.same(seen, [], 'never inside the call');
  await nextTurn();
  t.equal(await store.read(hasNote('n1')), true);
  t.same(seen, ['closing']);
  t.equal(commits.length, 1);
  await store.close();
});

t.test('effects come after the commit and before the answers', async (t) => {
  const data = t.testdir();
  const order: string[] = [];
  const before: number[] = [];
  const toy = openToyStore({ data, closing: () => before.push(countCommits(data)) });
  const push = toy.commits.push.bind(toy.commits);
  (toy.commits as unknown as { push: (settled: never) => number }).push = (settled) => {
    order.push(`effects after ${countCommits(data) - (before[0] ?? 0)} commit`);
    return push(settled);
  };
  await toy.store.submit(addNote({ id: 'a' })).then(() => order.push('answer'));
  t.same(order, ['effects after 1 commit', 'answer']);
  await toy.store.close();
});

t.test('the 257th operation that waits is told that it is busy, and the others are done', async (t) => {
  const { store } = openToyStore({ data: t.testdir() });
  const waiting = Array.from({ length: limits.operationsPendingMax }, (_, index) =>
    store.submit(addNote({ id: `n${index}` })),
  );
  await t.rejects(store.submit(addNote({ id: 'late' })), { code: 'busy', message: /256/ });
  await t.rejects(store.read(hasNote('late')), { code: 'busy' });
  t.same(new Set(await Promise.all(waiting)), new Set(['added']));
  t.equal(await store.submit(addNote({ id: 'late' })), 'added', 'there is room again');
  await store.close();
});

t.test('closing drains what was accepted and takes nothing more', async (t) => {
  const data = t.testdir();
  const { store } = openToyStore({ data });
  const accepted = Array.from({ length: 100 }, (_, index) => store.submit(addNote({ id: `n${index}` })));
  const closed = store.close();
  await t.rejects(store.submit(addNote({ id: 'late' })), { code: 'unavailable' });
  store.wake();
  t.same(new Set(await Promise.all(accepted)), new Set(['added']));
  await closed;
  await store.close();
  const again = openToyStore({ data });
  t.equal(await again.store.read(hasNote('n99')), true);
  t.equal(await again.store.read(hasNote('late')), false);
  await again.store.close();
});

t.test('fresh ids are as many as the operation needs, and no two are the same', async (t) => {
  const { store } = openToyStore({ data: t.testdir() });
  const seen: string[] = [];
  const freshIds = (ids: readonly string[]) => seen.push(...ids);
  await Promise.all(['a', 'b'].map((id) => store.submit(addNote({ id, freshIds }))));
  t.equal(seen.length, 4);
  t.equal(new Set(seen).size, 4);
  await store.close();
});

t.test('a turn never begins inside a call, so that what comes in together is taken together', async (t) => {
  const { store, commits } = openToyStore({ data: t.testdir() });
  const first = store.submit(addNote({ id: 'a' }));
  await Promise.resolve();
  t.equal(commits.length, 0);
  const second = store.submit(addNote({ id: 'b' }));
  await nextTurn();
  t.equal(commits.length, 1);
  await Promise.all([first, second]);
  await store.close();
});
