// What bare Node.js takes for the least that could do the same: the floor beside each figure, measured in the same run.

/** Opens a database (its argument) and what any such program needs, says so, and waits. */
export const idleProgram = `
require('node:crypto'); require('node:child_process');
const { DatabaseSync } = require('node:sqlite');
const db = new DatabaseSync(process.argv[1]);
db.prepare('SELECT count(*) FROM sqlite_schema').get();
console.log('ready');
setInterval(() => {}, 2 ** 31 - 1);
`;

/** Arguments: a new file, journal mode, synchronous, number of commits. Prints what these wrote; null: not counted. */
export const commitProgram = `
const { DatabaseSync } = require('node:sqlite');
const { readFileSync } = require('node:fs');
const [, file, journalMode, synchronous, commits] = process.argv;
const written = () => {
  try {
    return Number(/^write_bytes: (\\d+)/m.exec(readFileSync('/proc/self/io', 'latin1'))[1]);
  } catch {
    return null;
  }
};
const db = new DatabaseSync(file);
db.exec('PRAGMA page_size = 1024');
db.exec('PRAGMA journal_mode = ' + journalMode + '; PRAGMA synchronous = ' + synchronous);
db.exec('CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT) STRICT');
const insert = db.prepare('INSERT INTO t (v) VALUES (?)');
const before = written();
for (let count = 0; count < Number(commits); count += 1) {
  db.exec('BEGIN IMMEDIATE'); insert.run('one row'); db.exec('COMMIT');
}
console.log(JSON.stringify(before === null ? null : written() - before));
`;
