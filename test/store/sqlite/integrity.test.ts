import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t, { type Test } from 'tap';
import { checkIntegrity } from '../../../src/store/sqlite/integrity.ts';

const schema = `
  PRAGMA page_size = 1024;
  CREATE TABLE Parents (id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;
  CREATE TABLE Children (id INTEGER PRIMARY KEY, parentId INTEGER NOT NULL REFERENCES Parents (id)) STRICT;
  CREATE INDEX ParentsByName ON Parents (name);
  WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
  INSERT INTO Parents SELECT i, printf('name %05d', i) FROM n;
  INSERT INTO Children SELECT id, id FROM Parents;`;

function makeFile(t: Test, more = ''): string {
  const file = path.join(t.testdir(), 'q.db');
  const db = new DatabaseSync(file, { enableForeignKeyConstraints: false, defensive: false });
  db.exec(schema + more);
  db.close();
  return file;
}

function check(file: string, isAlone: boolean) {
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    return checkIntegrity(db, { isAlone });
  } finally {
    db.close();
  }
}

for (const isAlone of [true, false]) {
  const way = isAlone ? 'all at once' : 'table by table';

  t.test(`${way}: a sound file has no problems`, async (t) => {
    t.same(check(makeFile(t), isAlone), { problems: [], isComplete: true });
  });

  t.test(`${way}: a schema that makes no sense any more is a problem of the file`, async (t) => {
    const more = "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, '(id)', '(ix)');";
    const { problems } = check(makeFile(t, more), isAlone);
    t.match(problems.join('; '), /foreign key mismatch/);
  });

  t.test(`${way}: a row that refers to nothing is told with its table`, async (t) => {
    const file = makeFile(t, 'DELETE FROM Parents WHERE id = 7;');
    t.same(check(file, isAlone), { problems: ['Children row 7 refers to no row of Parents'], isComplete: true });
  });

  t.test(`${way}: more problems than anybody reads are cut off, and that is said`, async (t) => {
    const report = check(makeFile(t, 'DELETE FROM Parents;'), isAlone);
    t.equal(report.problems.length, 100);
    t.equal(report.isComplete, false);
  });

  t.test(`${way}: an index that lacks a row is told`, async (t) => {
    // The same page of the index, with one name changed: every b-tree is well-formed, and they no longer agree.
    const file = makeFile(t);
    const bytes = readFileSync(file);
    const at = bytes.lastIndexOf('name 00100');
    bytes.write('name 00100'.replace('1', '2'), at);
    writeFileSync(file, bytes);
    const { problems } = check(file, isAlone);
    t.match(problems.join('\n'), /ParentsByName/);
  });

  t.test(`${way}: pages full of noise are told, not thrown`, async (t) => {
    const file = makeFile(t);
    const bytes = readFileSync(file);
    bytes.fill(0xa5, 2048, bytes.length);
    writeFileSync(file, bytes);
    t.ok(check(file, isAlone).problems.length > 0);
  });
}

t.test('only the whole check finds a page that belongs to nobody', async (t) => {
  const file = makeFile(t);
  const bytes = readFileSync(file);
  const pages = bytes.length / 1024;
  // One page more, counted in the header (offset 28) and used by nothing.
  const grown = Buffer.concat([bytes, Buffer.alloc(1024)]);
  grown.writeUInt32BE(pages + 1, 28);
  writeFileSync(file, grown);
  t.match(check(file, true).problems.join('\n'), /never used/);
  t.same(check(file, false).problems, []);
});
