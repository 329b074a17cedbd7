// What an uncut recording demands of every cut, on recordings written by hand with real databases in them.
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { listWindows } from '../../edge-evidence/exhaustive/windows.ts';
import { siteAt } from '../../edge-evidence/operation.ts';
import { watchCommits } from '../../edge-evidence/recorder/commits.ts';
import { Disk, type Entry, type Image } from '../../edge-evidence/recorder/disk.ts';
import { createJudge } from '../../edge-evidence/recorder/judge.ts';
import type { Recorded } from '../../edge-evidence/recorder/record.ts';
import type { Call } from '../../edge-evidence/recorder/recording.ts';
import { judgeCut, readStandard, type Standard } from '../../edge-evidence/recorder/standard.ts';
import { Tally } from '../../edge-evidence/recorder/tally.ts';
import { createCalls, directory, diskAfter, file, rootPath, textsOf } from './hand-made.ts';

const folder = t.testdir();
const judge = createJudge(join(folder, 'judged'));

/** A database with so many rows. */
function databaseOf(rows: number): Entry {
  const path = join(folder, 'made.db');
  rmSync(path, { force: true });
  const db = new DatabaseSync(path);
  db.exec('CREATE TABLE Things (value INTEGER) STRICT');
  for (let row = 0; row < rows; row += 1) {
    db.exec(`INSERT INTO Things VALUES (${row})`);
  }
  db.close();
  return { kind: 'file', bytes: readFileSync(path), mode: 0o600 };
}

const databases = [databaseOf(0), databaseOf(1), databaseOf(2)] as const;
const marker = file('{"database":"made"}\n');
const sound = { data: directory, 'data/qinglong.db.marker': marker };

function image(entries: Readonly<Record<string, Entry>>): Image {
  return new Map(Object.entries({ '': directory, ...sound, ...entries }));
}

function record(entries: Readonly<Record<string, Entry>>, calls: readonly Call[]): Recorded {
  const site = siteAt(rootPath, { bundle: '', mode: 'delete-extra' });
  const answer = { code: 0, signal: null, out: '', err: '' };
  return { site, before: image(entries), calls, answer, after: new Map(), endFacts: '' };
}

/** A commit as DELETE mode makes it, from one of the databases to the next. */
function commitCalls(calls: ReturnType<typeof createCalls>, to: Entry): readonly Call[] {
  const bytes = to.kind === 'file' ? to.bytes : Buffer.alloc(0);
  const journal = calls.open('create', 'data/qinglong.db-journal', { created: true });
  const database = calls.open('open', 'data/qinglong.db');
  const write = calls.write(database.fd, 0, bytes);
  return [journal.call, database.call, write, calls.unlink('data/qinglong.db-journal')];
}

/** Two commits, each followed by an answer: calls 1 to 5 and 6 to 10. */
function recordCommits(): { readonly recorded: Recorded; readonly standard: Standard } {
  const calls = createCalls();
  const list = databases.slice(1).flatMap((database) => [...commitCalls(calls, database), calls.make('answer')]);
  const recorded = record({ 'data/qinglong.db': databases[0] }, list);
  return { recorded, standard: readStandard(recorded, judge) };
}

function troubleAt(calls: number, entries: Readonly<Record<string, Entry>>, lostMax = 0): readonly string[] {
  const { standard } = recordCommits();
  return judgeCut(standard, image(entries), judge, { calls, lostMax }).trouble;
}

t.test('facts are known before the first commit and behind each, with what is acknowledged', async (t) => {
  const { standard } = recordCommits();
  t.equal(new Set(standard.facts).size, 3);
  t.same(standard.commitsAt, [0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2]);
  t.same(standard.acknowledgedAt, [0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 10]);
});

t.test('a commit of a WAL is complete with the page behind a header that says so', async (t) => {
  const calls = createCalls();
  const wal = calls.open('create', 'data/qinglong.db-wal', { created: true });
  const header = (pages: number) => {
    const bytes = Buffer.alloc(24);
    bytes.writeUInt32BE(pages, 4);
    return bytes;
  };
  const page = Buffer.alloc(1024);
  const frames = [header(0), page, header(9), page].map((bytes, index) =>
    calls.write(wal.fd, 32 + (index >> 1) * 1048 + (index % 2) * 24, bytes),
  );
  const list = [wal.call, calls.write(wal.fd, 0, Buffer.alloc(32)), ...frames];
  const disk = diskAfter({ data: directory }, []);
  const watch = watchCommits(disk, `${rootPath}/data/qinglong.db`);
  const found = list.map((call) => {
    const completes = watch.completes(call);
    disk.apply(call);
    return completes;
  });
  t.same(found, [false, false, false, false, false, true]);
});

t.test('the facts must be those of one commit, between the last acknowledged and the last complete one', async (t) => {
  t.same(troubleAt(9, { 'data/qinglong.db': databases[1] }), [], 'not acknowledged yet');
  t.same(troubleAt(9, { 'data/qinglong.db': databases[2] }), []);
  t.match(troubleAt(10, { 'data/qinglong.db': databases[1] }), [/1 acknowledged commits are gone/]);
  t.same(troubleAt(10, { 'data/qinglong.db': databases[1] }, 1), [], 'where that is not promised');
  t.match(troubleAt(3, { 'data/qinglong.db': databases[1] }), [/facts are those of no commit/], 'before it was made');
  t.match(troubleAt(3, { 'data/qinglong.db': databaseOf(7) }), [/facts are those of no commit/]);
});

t.test('a database that is damaged, lost, or without its marker is trouble', async (t) => {
  const [{ bytes }] = databases as unknown as [{ bytes: Buffer }];
  const torn: Entry = { kind: 'file', bytes: Buffer.concat([bytes.subarray(0, 4096), Buffer.alloc(4096, 9)]), mode: 0 };
  t.ok(troubleAt(0, { 'data/qinglong.db': torn }).length > 0);
  t.match(troubleAt(0, {}), [/facts/, /there is none/]);
  const { standard } = recordCommits();
  const unmarked = new Map(
    [...image({ 'data/qinglong.db': databases[0] })].filter(([path]) => !path.includes('marker')),
  );
  const { trouble } = judgeCut(standard, unmarked, judge, { calls: 0, lostMax: 0 });
  t.match(trouble.join('\n'), /without its marker/);
});

t.test('a file is old or new, and what was acknowledged stays; one that went may come back', async (t) => {
  const calls = createCalls();
  const list = [
    calls.open('create', 'data/x.partial', { created: true }).call,
    calls.rename('data/x.partial', 'data/x'),
    calls.make('answer'),
    calls.unlink('data/gone'),
    calls.make('answer'),
  ];
  const base = { 'data/qinglong.db': databases[0] };
  const recorded = record({ ...base, 'data/x': file('old'), 'data/gone': file('g') }, list);
  const standard = readStandard(recorded, judge);
  const trouble = (count: number, entries: Readonly<Record<string, Entry>>) =>
    judgeCut(standard, image({ ...base, ...entries }), judge, { calls: count, lostMax: 0 }).trouble;
  const gone = { 'data/gone': file('g') };
  t.same(trouble(2, { 'data/x': file('old'), ...gone }), []);
  t.same(trouble(2, { 'data/x': file(''), ...gone }), []);
  t.match(trouble(2, { 'data/x': file('half'), ...gone }), [/x is half/]);
  t.match(trouble(3, { 'data/x': file('old'), ...gone }), [/x is not what was acknowledged/]);
  t.match(trouble(2, gone), [/x is half/], 'it is never missing');
  t.same(trouble(5, { 'data/x': file(''), ...gone }), [], 'a file that went is back');
  t.same(trouble(5, { 'data/x': file('') }), []);
  t.same(trouble(5, { 'data/x': file(''), 'data/y.partial': file('?'), 'data/holder.json': file('') }), []);
  t.match(trouble(5, { 'data/x': file(''), 'data/y': file('?') }), [/y is half/], 'a file that nobody named');
});

t.test('a SIGKILL falls before each call and behind the last, and tears a write between pages of memory', async (t) => {
  const calls = createCalls();
  const { call, fd } = calls.open('open', 'a');
  const list = [call, calls.write(fd, 4000, 'x'.repeat(5000))];
  const disk = new Disk(
    rootPath,
    new Map([
      ['', directory],
      ['a', file('')],
    ]),
  );
  const windows = [...listWindows(disk, list)].map(({ calls: count, isTorn, image: seen }) => [
    count,
    isTorn,
    textsOf(seen)['a']?.length,
  ]);
  t.same(windows, [
    [0, false, 0],
    [1, false, 0],
    [1, true, 4096],
    [1, true, 8192],
    [2, false, 9000],
  ]);
});

t.test('trouble of one sort is told once, with the first cut of it', async (t) => {
  const tally = new Tally();
  tally.add(['page 1 is damaged'], () => 'here');
  tally.add(['page 2 is damaged', 'another'], () => 'there');
  tally.add([], () => 'nowhere');
  t.same(tally.failures, ['page 1 is damaged (here), 2 times', 'another (there)']);
  t.equal(tally.cuts, 2);
});
