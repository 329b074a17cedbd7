// The recorder's shim, on small programs: it records what they do to a folder, and kills or fails exactly where it is
// told to. Needs a C compiler.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parseRecording, readRecording } from '../../edge-evidence/recorder/recording.ts';
import { buildShim, noShim, shimEnvironment, type Watch } from '../../edge-evidence/recorder/shim.ts';

const ground = realpathSync(t.testdir());
const shim = buildShim(join(ground, 'shim'));
const skip = shim === null ? noShim : false;

type Ran = {
  readonly status: number | null;
  readonly signal: string | null;
  readonly out: string;
  readonly err: string;
  /** Each call in words: its kind, and the name of what it is about. */
  readonly calls: readonly string[];
  readonly folder: string;
};

/** Runs a script on a fresh folder `d`, which it finds as `process.argv[1]`. */
function run(script: string, watch: Partial<Watch> = {}): Ran {
  const folder = join(ground, 'd');
  const log = join(ground, 'log');
  for (const path of [folder, log]) {
    rmSync(path, { recursive: true, force: true });
  }
  mkdirSync(folder);
  const env = { PATH: process.env['PATH'], ...shimEnvironment({ shim: `${shim}`, root: folder, log, ...watch }) };
  const program = `const fs = require('node:fs'); const d = process.argv[1]; ${script}`;
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, ['-e', program, folder], {
    env,
    encoding: 'utf8',
  });
  const recorded = existsSync(log) ? readRecording(log) : [];
  const calls = recorded.map(({ kind, path, data }) => {
    const name = path === '' ? '' : ` ${path.slice(folder.length + 1)}`;
    return `${kind}${name}${kind === 'write' || kind === 'answer' ? ` ${data}` : ''}`;
  });
  return { status, signal, out: stdout, err: stderr, calls, folder };
}

const three = "for (const name of ['a', 'b', 'c']) fs.writeFileSync(d + '/' + name, name)";

t.test('every call on a file below the root is recorded, in order, with its data', { skip }, async (t) => {
  const { calls, status } = run(`
    const fd = fs.openSync(d + '/f', 'wx', 0o640);
    fs.writeSync(fd, 'hello');
    fs.writevSync(fd, [Buffer.from('XX'), Buffer.from('Y')], 1);
    fs.ftruncateSync(fd, 4);
    fs.fchmodSync(fd, 0o600);
    fs.fsyncSync(fd);
    fs.closeSync(fd);
    fs.mkdirSync(d + '/k');
    fs.renameSync(d + '/f', d + '/k/g');
    fs.symlinkSync('g', d + '/k/s');
    fs.linkSync(d + '/k/g', d + '/h');
    fs.unlinkSync(d + '/h');
    fs.writeSync(1, 'done');
    fs.rmSync(d + '/k', { recursive: true });
  `);
  t.equal(status, 0);
  const expected = [
    'create f',
    'write hello',
    'write XXY',
    'truncate',
    'chmod',
    'sync',
    'close',
    'mkdir k',
    'rename f',
  ];
  t.same(calls.slice(0, 9), expected);
  t.same(calls.slice(9, 13), ['symlink k/s', 'link k/g', 'unlink h', 'answer done']);
  t.same(calls.filter((call) => /^(unlink|rmdir) k/.test(call)).sort(), ['rmdir k', 'unlink k/g', 'unlink k/s']);
});

t.test('a record says at which offset, with which mode, and what the call answered', { skip }, async (t) => {
  run(`
    const fd = fs.openSync(d + '/f', 'a', 0o640);
    fs.writeSync(fd, 'one');
    fs.writeSync(fd, 'two');
    try { fs.mkdirSync(d + '/f'); } catch {}
  `);
  const [create, , second, failed] = readRecording(join(ground, 'log'));
  t.match(create, { kind: 'create', created: true, mode: 0o640, number: 1 });
  t.match(second, { kind: 'write', value: 3, result: 3, fd: create?.result, number: 3 });
  t.match(failed, { kind: 'mkdir', result: -17, number: 4 });
});

t.test('SQLite, threads of libuv, and folders that are skipped', { skip }, async (t) => {
  const { calls } = run(
    `
    const { DatabaseSync } = require('node:sqlite');
    fs.mkdirSync(d + '/not');
    fs.writeFileSync(d + '/not/x', 'x');
    const db = new DatabaseSync(d + '/s.db');
    db.exec('PRAGMA synchronous = EXTRA; CREATE TABLE t (a)');
    db.close();
    fs.promises.writeFile(d + '/p', 'p');
  `,
    { skip: join(ground, 'd/not') },
  );
  const names = calls.filter((call) => call.startsWith('create') || call.startsWith('unlink'));
  t.same(names, ['create s.db', 'create s.db-journal', 'unlink s.db-journal', 'create p']);
  t.ok(calls.filter((call) => call === 'sync').length >= 4);
  t.ok(calls.includes('write p'));
});

t.test('a process that is started is a mark, is not watched, and does not know', { skip }, async (t) => {
  const { calls, out } = run(
    `require('node:child_process').spawnSync('/bin/sh', ['-c', 'echo x >' + d + '/x; env'], { stdio: 'inherit' })`,
  );
  t.same(calls, ['start']);
  t.notMatch(out, /QLE_SHIM|LD_PRELOAD/);
});

t.test('children are watched too where that is asked for', { skip }, async (t) => {
  const { calls } = run(
    `require('node:child_process').spawnSync(process.execPath, ['-e', 'fs.mkdirSync(process.argv[1])', d + '/x'])`,
    { keepsChildren: true },
  );
  t.same(calls.toSorted(), ['mkdir x', 'start']);
});

t.test('a descriptor that was closed and is used again for something else is not recorded', { skip }, async (t) => {
  const { calls } = run(`
    const fd = fs.openSync(d + '/f', 'w');
    fs.closeSync(fd);
    fs.mkdirSync(d + '/k');
    fs.rmdirSync(d + '/k');
    fs.readdirSync(d, { recursive: true });
    const other = fs.openSync(d + '/../other', 'w');
    fs.writeSync(other, 'unseen');
    if (other !== fd) process.exitCode = 1;
  `);
  t.same(calls, ['create f', 'close', 'mkdir k', 'rmdir k']);
});

t.test('the process is killed before the n-th call or behind it, at no other', { skip }, async (t) => {
  for (const [when, files, count] of [
    ['before', ['a'], 3],
    ['after', ['a', 'b'], 4],
  ] as const) {
    const { signal, calls, folder } = run(three, { kill: { number: 4, when } });
    t.equal(signal, 'SIGKILL');
    t.same(readdirSync(folder), files);
    t.equal(calls.length, count);
  }
  t.equal(run(three, { kill: { number: 10, when: 'before' } }).signal, null, 'there are nine');
});

t.test('the first call of a kind from the n-th on fails, once or from there on', { skip }, async (t) => {
  const tolerant = `for (const name of ['a', 'b', 'c']) {
    try { fs.writeFileSync(d + '/' + name, name); } catch (error) { fs.writeSync(2, name + error.code + ' '); }
  }`;
  const failing = (lasts: boolean, kinds: readonly ['write'] | 'all') =>
    run(tolerant, { fault: { number: 3, error: 'ENOSPC', kinds, lasts } }).err.trim();
  t.equal(failing(false, ['write']), 'bENOSPC');
  t.equal(failing(true, ['write']), 'bENOSPC cENOSPC');
  t.equal(failing(false, 'all'), 'aENOSPC', 'the third call is the close');
});

t.test('a write is really short, and the error meets what follows', { skip }, async (t) => {
  const { err, folder } = run(
    `const fd = fs.openSync(d + '/a', 'w');
     fs.writeSync(2, fs.writeSync(fd, 'x') + ' ' + fs.writeSync(fd, '1234567') + ' ');
     try { fs.writeSync(fd, '567'); } catch (error) { fs.writeSync(2, error.code); }`,
    { fault: { number: 2, error: 'EIO', kinds: ['write'], lasts: true, bytesMax: 4 } },
  );
  t.equal(err, '1 4 EIO');
  t.equal(readFileSync(join(folder, 'a'), 'utf8'), 'x1234');
});

t.test('reads can be made to fail, and are counted only then', { skip }, async (t) => {
  writeFileSync(join(ground, 'seed'), 'x');
  const script = `fs.writeFileSync(d + '/a', 'x');
    try { fs.readFileSync(d + '/a'); } catch (error) { fs.writeSync(2, error.code); }`;
  const fault = { number: 1, error: 'EIO', kinds: ['read'], lasts: true } as const;
  t.equal(run(script, { fault, countsReads: true }).err, 'EIO');
  t.equal(run(script, { fault }).err, '');
});

t.test('half a record at the end of a recording is left out', { skip }, async (t) => {
  run(three);
  const bytes = readFileSync(join(ground, 'log'));
  const whole = parseRecording(bytes).length;
  t.equal(whole, 9);
  t.equal(parseRecording(bytes.subarray(0, -3)).length, whole - 1);
  t.equal(parseRecording(bytes.subarray(0, 20)).length, 0);
});
