// Kills the program right before its n-th call that changes a file, or right before or after a COMMIT that changed
// something: every point at which a kill leaves something else behind.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { type Ended, type Site, startCli } from './product.ts';

/** Wraps the file system and the database of the process that loads it; `kill` 0 only counts. */
const hookText = (kill: number, countFile: string) => `
const fs = require('node:fs');
const { DatabaseSync } = require('node:sqlite');
const write = fs.writeFileSync;
let calls = 0;
const point = () => {
  calls += 1;
  if (calls === ${kill}) process.kill(process.pid, 'SIGKILL');
};
const wrap = (holder, name, isPoint = () => true) => {
  const call = holder[name];
  holder[name] = function (...args) {
    if (isPoint(args)) point();
    return call.apply(this, args);
  };
};
const isWriting = ([, flags]) => typeof flags === 'string' ? flags !== 'r' : (flags & 3) !== 0;
for (const name of ['mkdir', 'rename', 'rm', 'chmod', 'rmdir', 'unlink']) {
  wrap(fs.promises, name);
  wrap(fs, name + 'Sync');
}
for (const name of ['writeSync', 'fsyncSync', 'fchmodSync', 'writeFileSync']) wrap(fs, name);
wrap(fs, 'openSync', isWriting);
const { open } = fs.promises;
let isHandleWrapped = false;
fs.promises.open = async (...args) => {
  if (isWriting(args)) point();
  const handle = await open(...args);
  if (!isHandleWrapped) {
    isHandleWrapped = true;
    for (const name of ['write', 'sync', 'chmod']) wrap(Object.getPrototypeOf(handle), name);
  }
  return handle;
};
const { exec } = DatabaseSync.prototype;
const changes = (db) => db.prepare('SELECT total_changes() AS n').get().n;
const begun = new WeakMap();
DatabaseSync.prototype.exec = function (sql) {
  if (/^BEGIN/.test(sql)) begun.set(this, changes(this));
  const isWrite = sql === 'COMMIT' && changes(this) > begun.get(this);
  if (isWrite) point();
  const result = exec.call(this, sql);
  if (isWrite) point();
  return result;
};
process.on('exit', () => write(${JSON.stringify(countFile)}, String(calls)));
`;

/** Runs a command and kills it at its n-th point; the last one is behind everything that it does. */
export function killAt(t: Test, site: Site, options: { readonly args: readonly string[]; readonly kill: number }) {
  const hook = join(site.root, 'hook.cjs');
  writeFileSync(hook, hookText(options.kill, join(site.root, 'points')));
  return startCli(t, site, options.args, { nodeArgs: ['-r', hook] }).ended;
}

/** How many points a command has; it is carried out. */
export async function countPoints(t: Test, site: Site, args: readonly string[]): Promise<number> {
  const ended: Ended = await killAt(t, site, { args, kill: 0 });
  t.equal(ended.code, 0, ended.err);
  return Number(readFileSync(join(site.root, 'points'), 'utf8'));
}
