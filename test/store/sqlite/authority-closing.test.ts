// What `closing` does in a turn, and what becomes of the turn's members when that fails.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t, { type Test } from 'tap';
import { isEdgeError } from '../../../src/core/errors.ts';
import { commitTurn } from '../../../src/store/sqlite/turn.ts';
import type { Turn } from '../../../src/store/store.ts';
import { addNote, hasNote, openToyStore, partsWithConnection } from './toy-store.ts';

const large = 'x'.repeat(100_000);

function limitPages(connection: DatabaseSync, more: number): void {
  const row = connection.prepare('PRAGMA page_count').get();
  connection.exec(`PRAGMA max_page_count = ${Number(row?.['page_count']) + more}`);
}

t.test('what is operated together is undone together, and nothing else is', async (t) => {
  const error = new RangeError('no place');
  const toy = openToyStore({
    data: t.testdir(),
    closing(turn) {
      turn.operate(addNote({ id: 'before' }));
      t.throws(
        () =>
          turn.together(() => {
            turn.operate(addNote({ id: 'claim' }));
            turn.together(() => turn.operate(addNote({ id: 'inner' })));
            throw error;
          }),
        error,
      );
      t.equal(
        turn.together(() => turn.operate(addNote({ id: 'claim' }))),
        'added',
        'it is as if nothing had been',
      );
    },
  });
  await toy.store.submit(addNote({ id: 'a' }));
  t.equal(toy.commits[0]?.length, 3, 'what was undone has no effects');
  const found = [];
  for (const id of ['a', 'before', 'claim', 'inner']) {
    found.push(await toy.store.read(hasNote(id)));
  }
  t.same(found, [true, true, true, false]);
  await toy.store.close();
});

t.test('a turn that only tried something together and undid it has written nothing', async (t) => {
  const seen: boolean[] = [];
  const toy = openToyStore({
    data: t.testdir(),
    closing(turn) {
      t.throws(() =>
        turn.together(() => {
          turn.operate(addNote({ id: 'claim' }));
          throw new RangeError('no place');
        }),
      );
      seen.push(turn.isWriting());
    },
  });
  toy.store.wake();
  await toy.store.read(hasNote('claim'));
  t.same(seen, [false]);
  await toy.store.close();
});

async function openGreedy(t: Test) {
  const { parts, connection } = partsWithConnection();
  const held: unknown[] = [];
  const closing = (turn: Turn) => {
    if (held.length === 0) {
      turn.operate(addNote({ id: 'large', text: large }));
    }
  };
  const toy = openToyStore({ data: t.testdir(), parts, closing, undone: (error) => held.push(error) });
  limitPages(connection(), 20);
  return { toy, held };
}

t.test('a `closing` that fails may hold back: then its members are done without it, a single one too', async (t) => {
  const { toy, held } = await openGreedy(t);
  t.equal(await toy.store.submit(addNote({ id: 'a' })), 'added');
  t.match(held, [{ code: 'full' }]);
  t.same(
    toy.commits.map((settled) => settled.length),
    [1],
  );
  held.length = 0;
  t.same(await Promise.all(['b', 'c'].map((id) => toy.store.submit(addNote({ id })))), ['added', 'added']);
  t.equal(held.length, 1);
  await toy.store.close();
});

t.test('a turn whose COMMIT fails for what `closing` wrote is done again without that', async (t) => {
  let isHeld = false;
  let isFailing = false;
  const toy = openToyStore({
    data: t.testdir(),
    closing(turn) {
      if (!isHeld) {
        isFailing = true;
        turn.operate(addNote({ id: 'late' }));
      }
    },
    undone() {
      isHeld = true;
      isFailing = false;
    },
    parts: partsWithFailingCommit(() => isFailing),
  });
  t.equal(await toy.store.submit(addNote({ id: 'a' })), 'added');
  t.equal(isHeld, true);
  t.same([await toy.store.read(hasNote('a')), await toy.store.read(hasNote('late'))], [true, false]);
  await toy.store.close();
});

/** A deferred foreign key that leads nowhere makes COMMIT fail, and nothing before it. */
function partsWithFailingCommit(isFailing: () => boolean): ReturnType<typeof partsWithConnection>['parts'] {
  const { parts } = partsWithConnection();
  return {
    ...parts,
    parts: {
      ...parts.parts,
      createLedger: (db, memory) => {
        db.exec(`CREATE TEMP TABLE Parents (id INTEGER PRIMARY KEY);
          CREATE TEMP TABLE Children (id INTEGER REFERENCES Parents (id) DEFERRABLE INITIALLY DEFERRED)`);
        const write = parts.parts.createLedger(db, memory);
        return (ledgerWrite) => {
          write(ledgerWrite);
          if (isFailing()) {
            db.exec('INSERT INTO Children VALUES (1)');
          }
        };
      },
    },
  };
}

t.test('a page that is none, met by COMMIT, is damage and no doubt', (t) => {
  const file = path.join(t.testdir(), 'db');
  const made = new DatabaseSync(file);
  made.exec('PRAGMA page_size = 512; PRAGMA auto_vacuum = FULL; CREATE TABLE T (text)');
  const insert = made.prepare('INSERT INTO T VALUES (?)');
  for (let count = 0; count < 50; count += 1) {
    insert.run('x'.repeat(400));
  }
  made.close();
  corruptLastMapEntry(file);
  const db = new DatabaseSync(file);
  // COMMIT moves the last pages into the place of those that are free now, by the map of what leads to them.
  db.exec('BEGIN; DELETE FROM T WHERE rowid < 10');
  const result = commitTurn(db);
  t.equal(result.kind, 'failed');
  t.ok('error' in result && isEdgeError(result.error) && result.error.code === 'damaged');
  t.equal(db.isTransaction, false);
  db.close();
  t.end();
});

/** A pointer map stands on page 2 and before every 102 pages more: five bytes a page, the first one its kind. */
function corruptLastMapEntry(file: string): void {
  const bytes = readFileSync(file);
  const lastPage = bytes.length / 512;
  const mapPage = 2 + 103 * Math.floor((lastPage - 2) / 103);
  bytes[(mapPage - 1) * 512 + 5 * (lastPage - mapPage - 1)] = 99;
  writeFileSync(file, bytes);
}
