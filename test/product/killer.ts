// A preload that kills the process of the unmodified bundle around one of its commits. Not a test itself.

/** Kills the process right before or right after its n-th COMMIT of a transaction that changed something. */
export const killer = (point: 'before' | 'after', commit: number) => `
const { DatabaseSync } = require('node:sqlite');
const exec = DatabaseSync.prototype.exec;
const changes = (db) => db.prepare('SELECT total_changes() AS n').get().n;
const begun = new WeakMap();
let commits = 0;
const die = () => process.kill(process.pid, 'SIGKILL');
DatabaseSync.prototype.exec = function (sql) {
  if (/^BEGIN/.test(sql)) begun.set(this, changes(this));
  const isLast = sql === 'COMMIT' && changes(this) > begun.get(this) && ++commits === ${commit};
  if (isLast && ${point === 'before'}) die();
  const result = exec.call(this, sql);
  if (isLast) die();
  return result;
};
`;
