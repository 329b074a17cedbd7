// What was short when SQLite could not make a file: on really full file systems, and without descriptors.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t, { type Test } from 'tap';
import { findMountObstacle, withMount } from '../../../edge-evidence/faults/mounts.ts';
import { findShortage } from '../../../src/store/sqlite/shortage.ts';
import { toEdgeError } from '../../../src/store/sqlite/statement.ts';
import { startChild } from './child.ts';

const obstacle = findMountObstacle([]) ?? false;

function makePlace(t: Test): string {
  const place = mkdtempSync(join(tmpdir(), 'shortage-'));
  t.teardown(() => rmSync(place, { recursive: true, force: true }));
  return place;
}

/** A database with a row, of which one more makes a journal or a shared memory. */
function makeDatabase(folder: string, journal: 'DELETE' | 'WAL'): string {
  const file = join(folder, 'qinglong.db');
  const db = new DatabaseSync(file);
  db.exec(`PRAGMA journal_mode = ${journal}; CREATE TABLE Notes (text TEXT)`);
  db.close();
  return file;
}

/** Files until there is room for no more. */
function useUp(folder: string, bytes: number): void {
  for (let count = 0; findShortage(join(folder, 'qinglong.db')) === null; count += 1) {
    writeFileSync(join(folder, `filler-${count}`), Buffer.alloc(bytes));
  }
}

/** What a row meets, as SQLite says it and as the operator is told. */
function meet(file: string) {
  const db = new DatabaseSync(file);
  try {
    db.exec("INSERT INTO Notes VALUES ('x')");
    return null;
  } catch (error) {
    return { errcode: (error as { readonly errcode?: number }).errcode, told: toEdgeError(error, 'write', file) };
  } finally {
    db.close();
  }
}

for (const journal of ['DELETE', 'WAL'] as const) {
  t.test(`a file system without a file left is told as full, journal ${journal}`, { skip: obstacle }, async (t) => {
    await withMount(makePlace(t), ['-t', 'tmpfs', '-o', 'size=1m,nr_inodes=12', 'none'], async (folder) => {
      const file = makeDatabase(folder, journal);
      useUp(folder, 0);
      t.match(meet(file), { errcode: 14, told: { code: 'full', message: 'cannot write: ENOSPC', hint: /free space/ } });
      rmSync(join(folder, 'filler-0'));
      rmSync(join(folder, 'filler-1'));
      t.equal(meet(file), null, 'and it works again');
      t.same(
        readdirSync(folder).filter((name) => name.startsWith('probe-')),
        [],
        'no trial is left',
      );
    });
  });
}

t.test('a log without room for its shared memory is told as full', { skip: obstacle }, async (t) => {
  await withMount(makePlace(t), ['-t', 'tmpfs', '-o', 'size=256k', 'none'], async (folder) => {
    const file = makeDatabase(folder, 'WAL');
    useUp(folder, 4096);
    t.match(meet(file), { errcode: 4874, told: { code: 'full' } });
  });
});

t.test('without a descriptor left the operator is told so, and what to do', async (t) => {
  const file = makeDatabase(makePlace(t), 'DELETE');
  const program = `
    const { openSync, closeSync } = await import('node:fs');
    const { DatabaseSync } = await import('node:sqlite');
    const { toEdgeError } = await sqlite('statement.ts');
    const db = new DatabaseSync(${JSON.stringify(file)});
    db.prepare('SELECT * FROM Notes').all();
    const used = [];
    try {
      for (;;) used.push(openSync('/dev/null', 'r'));
    } catch {}
    let told = null;
    try {
      db.exec("INSERT INTO Notes VALUES ('x')");
    } catch (error) {
      told = toEdgeError(error, 'write', db.location());
    }
    used.forEach((descriptor) => closeSync(descriptor));
    db.exec("INSERT INTO Notes VALUES ('y')");
    console.log(JSON.stringify({ ...told, message: told?.message }));`;
  const child = startChild(t, program, { prefix: ['/bin/sh', '-c', 'ulimit -n 64 && exec "$@"', 'sh'] });
  t.match(JSON.parse(await child.line()), {
    code: 'unavailable',
    message: 'cannot write: EMFILE',
    hint: 'let this user open more files (ulimit -n), then try again',
  });
});

t.test('a missing right is no shortage', async (t) => {
  const place = makePlace(t);
  t.equal(findShortage(join(place, 'gone', 'qinglong.db')), null);
  const raw = Object.assign(new Error('unable to open database file'), { errcode: 14 });
  t.match(toEdgeError(raw, 'write', join(place, 'gone', 'qinglong.db')), { code: 'unavailable', hint: /owner, mode/ });
});
