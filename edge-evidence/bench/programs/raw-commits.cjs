// The floor of a durable step: commits of so many one-row inserts through node:sqlite, in the same mode.
// Options: file, durability, commits, rows (a commit).
const { DatabaseSync } = require('node:sqlite');
const { options, measure, answer, durabilities } = require('./measured.cjs');

const { file, durability, commits, rows } = options;
const db = new DatabaseSync(file);
db.exec('PRAGMA page_size = 1024');
for (const pragma of durabilities[durability]) {
  db.exec(`PRAGMA ${pragma}`);
}
db.exec('CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT) STRICT');
const insert = db.prepare('INSERT INTO t (v) VALUES (?)');

function commit() {
  db.exec('BEGIN IMMEDIATE');
  for (let count = 0; count < rows; count += 1) {
    insert.run('one row');
  }
  db.exec('COMMIT');
}

async function main() {
  const warmUp = Math.min(20, commits);
  for (let count = 0; count < warmUp; count += 1) {
    commit();
  }
  const measured = await measure(() => {
    for (let count = 0; count < commits; count += 1) {
      commit();
    }
  });
  answer({ ...measured, steps: commits * rows });
}

main();
