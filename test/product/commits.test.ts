// How often the product writes durably: counted inside the unmodified bundle by a preload that wraps node:sqlite.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { cli, createSite, readLines, startCli, writePackage } from './product.ts';

/** Writes a line for each COMMIT whose transaction had changed a row. */
const preload = (file: string) => `
const { DatabaseSync } = require('node:sqlite');
const { appendFileSync } = require('node:fs');
const exec = DatabaseSync.prototype.exec;
const changes = (db) => db.prepare('SELECT total_changes() AS n').get().n;
const before = new WeakMap();
DatabaseSync.prototype.exec = function (sql) {
  if (/^BEGIN/.test(sql)) before.set(this, changes(this));
  const changed = sql === 'COMMIT' && changes(this) > before.get(this);
  const result = exec.call(this, sql);
  if (changed) appendFileSync(${JSON.stringify(file)}, 'commit\\n');
  return result;
};
`;

const chain = (length: number) => {
  const keys = Array.from({ length }, (_, index) => `s${index}`);
  const steps = keys.map((key, index) => [key, { task: 'work', needs: index === 0 ? [] : [keys[index - 1]] }]);
  return JSON.stringify({
    schema: 'qinglong/package@v1',
    name: 'chain',
    version: '1.0.0',
    tasks: { work: { run: ['/bin/true'] } },
    workflows: { main: { steps: Object.fromEntries(steps) } },
  });
};

for (const profile of ['edge', 'standalone']) {
  t.test(`${profile}: a chain of 8 quick steps takes 9 durable commits, from admission to the end`, async (t) => {
    const site = createSite(t);
    const directory = writePackage(join(site.root, 'package'), { 'qinglong.json': chain(8) });
    t.equal((await cli(t, site, '--profile', profile, 'package', 'install', directory)).code, 0);
    const commits = join(site.root, 'commits');
    const hook = join(site.root, 'hook.cjs');
    writeFileSync(hook, preload(commits));
    writeFileSync(commits, '');
    const ended = await startCli(t, site, ['run', directory], { nodeArgs: ['-r', hook] }).ended;
    t.equal(ended.code, 0, ended.err);
    t.equal(readLines(commits).length, 9, readFileSync(commits, 'utf8'));
  });

  t.test(`${profile}: starting, looking around and stopping without work commits nothing`, async (t) => {
    const site = createSite(t);
    const directory = writePackage(join(site.root, 'package'), { 'qinglong.json': chain(1) });
    t.equal((await cli(t, site, '--profile', profile, 'run', directory)).code, 0);
    const commits = join(site.root, 'commits');
    const hook = join(site.root, 'hook.cjs');
    writeFileSync(hook, preload(commits));
    writeFileSync(commits, '');
    for (const args of [['serve', '--until-idle'], ['advance'], ['package', 'install', directory]]) {
      t.equal((await startCli(t, site, args, { nodeArgs: ['-r', hook] }).ended).code, 0, args.join(' '));
    }
    t.same(readLines(commits), []);
  });
}
