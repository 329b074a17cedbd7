import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { compareCatalogs, describeCatalog, normalizeSql, packSql } from '../../../src/store/sqlite/catalog.ts';

const schema = `
CREATE TABLE Parents (id INTEGER PRIMARY KEY, name TEXT NOT NULL COLLATE NOCASE) STRICT;
CREATE TABLE Children (
  parentId INTEGER NOT NULL REFERENCES Parents (id) ON DELETE RESTRICT,
  position INTEGER NOT NULL DEFAULT 0 CHECK (position >= 0),
  twice INTEGER GENERATED ALWAYS AS (position * 2) VIRTUAL,
  PRIMARY KEY (parentId, position)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX ParentsByName ON Parents (name, id DESC) WHERE id > 0;
CREATE TRIGGER ParentsStay BEFORE DELETE ON Parents BEGIN SELECT RAISE(ABORT, 'parents stay'); END;
CREATE VIEW Positions AS SELECT position FROM Children;
`;

function catalogOf(sql: string) {
  const db = new DatabaseSync(':memory:');
  db.exec(sql);
  const catalog = describeCatalog(db);
  db.close();
  return catalog;
}

const expected = catalogOf(schema);

t.test('a catalog tells every fact of every object', async (t) => {
  t.match(expected, {
    'table Parents': { kind: 'STRICT, rowid', 'column id': 'INTEGER KEY 1', 'column name': 'TEXT NOT NULL' },
    'table Children': {
      kind: 'STRICT, WITHOUT ROWID',
      'column parentId': 'INTEGER NOT NULL KEY 1',
      'column position': 'INTEGER NOT NULL DEFAULT 0 KEY 2',
      'column twice': 'INTEGER hidden 2',
      'foreign key (parentId) to Parents': '(id) ON UPDATE NO ACTION ON DELETE RESTRICT',
    },
    'index ParentsByName': { table: 'Parents', kind: 'UNIQUE, partial', columns: 'name COLLATE NOCASE, id DESC' },
    'trigger ParentsStay': { table: 'Parents', sql: /^[0-9a-f]{64}$/ },
    'view Positions': { 'column position': 'INTEGER', sql: /^[0-9a-f]{64}$/ },
  });
});

t.test('the same schema written differently is the same catalog', async (t) => {
  const rewritten = schema.replaceAll('\n', '\n\n  ').replace('STRICT;', '-- a note\n STRICT /* here */ ;');
  t.same(compareCatalogs(expected, catalogOf(rewritten)), []);
  t.same(compareCatalogs(expected, catalogOf(packSql(schema))), []);
});

const alterations = [
  ['parentId INTEGER NOT NULL', 'parentId TEXT NOT NULL', 'column parentId is TEXT NOT NULL KEY 1 instead of INTEGER'],
  ['position INTEGER NOT NULL DEFAULT 0', 'position INTEGER NOT NULL DEFAULT 1', 'column position is'],
  [
    'ON DELETE RESTRICT',
    'ON DELETE CASCADE',
    'foreign key (parentId) to Parents is (id) ON UPDATE NO ACTION ON DELETE C',
  ],
  ['STRICT, WITHOUT ROWID', 'STRICT', 'table Children: kind is STRICT, rowid instead of STRICT, WITHOUT ROWID'],
  ['CHECK (position >= 0)', 'CHECK (position >= 1)', "table Children: its text differs from the migrations'"],
  [
    ', id DESC)',
    ', id)',
    'index ParentsByName: columns is name COLLATE NOCASE, id instead of name COLLATE NOCASE, id D',
  ],
  [
    'CREATE UNIQUE INDEX',
    'CREATE INDEX',
    'index ParentsByName: kind is not UNIQUE, partial instead of UNIQUE, partial',
  ],
  [' WHERE id > 0', '', 'index ParentsByName: kind is UNIQUE, whole instead of UNIQUE, partial'],
  ['WHERE id > 0', 'WHERE id > 1', "index ParentsByName: its text differs from the migrations'"],
  ["'parents stay'", "'parents  stay'", "trigger ParentsStay: its text differs from the migrations'"],
  ['SELECT position FROM', 'SELECT -position AS position FROM', 'view Positions: '],
] as const satisfies readonly (readonly [from: string, to: string, what: string])[];

for (const [from, to, what] of alterations) {
  t.test(`"${from}" changed to "${to}" is named`, async (t) => {
    const differences = compareCatalogs(expected, catalogOf(schema.replace(from, to)));
    t.equal(differences.length, 1, differences.join('\n'));
    t.match(differences[0], what);
  });
}

t.test('a missing object and one too many are named', async (t) => {
  const altered = catalogOf(`${schema.replace(/CREATE TRIGGER.*\n/, '')} CREATE TABLE Extra (a);`);
  t.same(compareCatalogs(expected, altered), ['table Extra: not part of the schema', 'trigger ParentsStay: missing']);
});

t.test('a column too many and a missing one are named', async (t) => {
  const differences = compareCatalogs(
    expected,
    catalogOf(schema.replace('name TEXT', 'label TEXT').replace('(name,', '(label,')),
  );
  t.match(differences, [
    'index ParentsByName: columns is label COLLATE NOCASE, id DESC instead of name COLLATE NOCASE, id DESC',
    'table Parents: column label is TEXT NOT NULL instead of absent',
    'table Parents: column name is missing instead of TEXT NOT NULL',
  ]);
});

t.test('normalizing keeps what is quoted', async (t) => {
  t.equal(normalizeSql('a  \'x  -- y\' /* c */ [b  c]\n"d  e" --end'), 'a \'x  -- y\' [b  c] "d  e"');
  t.equal(normalizeSql("'it''s  -- fine'"), "'it''s  -- fine'");
});
