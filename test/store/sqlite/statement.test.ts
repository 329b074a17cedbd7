import { DatabaseSync } from 'node:sqlite';
import t, { type Test } from 'tap';
import { isCollision, type SqlValue, statement, toEdgeError } from '../../../src/store/sqlite/statement.ts';

function openNotes(t: Test): DatabaseSync {
  const db = new DatabaseSync(':memory:');
  t.teardown(() => db.close());
  db.exec("CREATE TABLE Notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE CHECK (text <> '')) STRICT");
  return db;
}

const insertSql = 'INSERT INTO Notes (id, text) VALUES (:id, :text)';

t.test('a statement binds exactly the named values', async (t) => {
  const db = openNotes(t);
  const insert = statement<{ id: number; text: string }>(db, insertSql);
  t.equal(insert.run({ id: 1, text: 'one' }), 1);
  const find = statement<{ id: number }, { text: string }>(db, 'SELECT text FROM Notes WHERE id = :id');
  t.same(find.get({ id: 1 }), { text: 'one' });
  t.equal(find.get({ id: 2 }), null);
  t.same(find.all({ id: 1 }), [{ text: 'one' }]);
});

// C065: node:sqlite binds NULL for each of these, or rounds, and says nothing.
const refused: Readonly<Record<string, unknown>> = {
  'a missing value': { id: 1 },
  'an undefined value': { id: 1, text: undefined },
  NaN: { id: Number.NaN, text: 'x' },
  'a Date': { id: new Date(0), text: 'x' },
  'an integer beyond 2^53': { id: 2 ** 53, text: 'x' },
  'a fraction': { id: 1.5, text: 'x' },
  'a bigint': { id: 1n, text: 'x' },
  'a boolean': { id: true, text: 'x' },
  'a value too many': { id: 1, text: 'x', more: 1 },
  'another name': { id: 1, texts: 'x' },
  'an inherited value': Object.create({ id: 1, text: 'x' }),
  'a list': [1, 'x'],
};

for (const [what, values] of Object.entries(refused)) {
  t.test(`a statement refuses ${what} before SQLite sees it`, async (t) => {
    const db = openNotes(t);
    const insert = statement(db, insertSql);
    t.throws(() => insert.run(values as Record<string, SqlValue>), { name: 'InvariantError' });
    t.equal(statement<Record<string, never>>(db, 'SELECT 1 FROM Notes').get({}), null);
  });
}

t.test('without the wrapper, a missing name would have been NULL', async (t) => {
  const db = openNotes(t);
  t.same(db.prepare('SELECT :id AS id').get({}), { id: null });
});

t.test('names inside strings, quotes and comments are no parameters', async (t) => {
  const db = openNotes(t);
  const sql = `SELECT ':a' AS ":b", :c AS c -- :d ?
    /* :e */ FROM Notes WHERE text = 'it''s :f'`;
  t.equal(statement<{ c: number }>(db, sql).get({ c: 1 }), null);
});

t.test('positional parameters are refused', async (t) => {
  const db = openNotes(t);
  t.throws(() => statement(db, 'SELECT ? AS x').get({}), { name: 'InvariantError' });
  t.throws(() => statement(db, 'SELECT $x AS x').get({ x: 1 }), { name: 'InvariantError' });
});

t.test('a statement is compiled at its first use', async (t) => {
  const db = openNotes(t);
  const later = statement<Record<string, never>, { n: number }>(db, 'SELECT 1 AS n FROM Later');
  db.exec('CREATE TABLE Later (id INTEGER); INSERT INTO Later VALUES (1)');
  t.same(later.get({}), { n: 1 });
});

t.test('a taken identity is a collision, another constraint is not', async (t) => {
  const db = openNotes(t);
  const insert = statement<{ id: number; text: string }>(db, insertSql);
  insert.run({ id: 1, text: 'one' });
  const errorOf = (values: { id: number; text: string }) => {
    try {
      insert.run(values);
    } catch (error) {
      return error;
    }
    return null;
  };
  t.ok(isCollision(errorOf({ id: 1, text: 'two' })), 'primary key');
  t.ok(isCollision(errorOf({ id: 2, text: 'one' })), 'unique');
  t.notOk(isCollision(errorOf({ id: 3, text: '' })), 'check');
  t.match(toEdgeError(errorOf({ id: 3, text: '' }), 'add a note'), { code: 'internal' });
});

t.test('what SQLite answers becomes a code of the closed table', async (t) => {
  const codes = {
    5: 'busy',
    6: 'busy',
    8: 'unavailable',
    10: 'unavailable',
    11: 'damaged',
    13: 'full',
    14: 'unavailable',
  };
  for (const [errcode, code] of Object.entries({
    ...codes,
    26: 'damaged',
    5386: 'unavailable',
    8458: 'damaged',
    1: 'internal',
  })) {
    const raw = Object.assign(new Error('what SQLite said'), { errcode: Number(errcode), errstr: 'said' });
    const error = toEdgeError(raw, 'do it');
    t.match(error, { name: 'EdgeError', code, cause: raw, message: /^cannot do it: what SQLite said/ }, `${errcode}`);
    t.match(error, { hint: /./ });
  }
});

t.test('an integer that JavaScript cannot hold is damage, any other error stays what it is', async (t) => {
  const db = openNotes(t);
  const error = new TypeError('mine');
  t.equal(toEdgeError(error, 'do it'), error);
  try {
    statement(db, 'SELECT 9007199254740993 AS n').get({});
    t.fail('it cannot be read');
  } catch (raw) {
    t.match(toEdgeError(raw, 'read it'), { code: 'damaged' });
  }
});
