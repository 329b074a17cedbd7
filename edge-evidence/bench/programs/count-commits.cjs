// A preload: counts the commits whose transaction had changed a row, inside the unmodified bundle, and writes the count
// to the file COMMITS_FILE names when the process ends.
const { writeFileSync } = require('node:fs');
const { DatabaseSync } = require('node:sqlite');

const { exec } = DatabaseSync.prototype;
const changesOf = (db) => db.prepare('SELECT total_changes() AS n').get().n;
const before = new WeakMap();
let commits = 0;

DatabaseSync.prototype.exec = function count(sql) {
  if (/^BEGIN/.test(sql)) {
    before.set(this, changesOf(this));
  }
  const hasChanged = sql === 'COMMIT' && changesOf(this) > before.get(this);
  const result = exec.call(this, sql);
  commits += hasChanged ? 1 : 0;
  return result;
};

process.on('exit', () => writeFileSync(process.env.COMMITS_FILE, `${commits}`));
