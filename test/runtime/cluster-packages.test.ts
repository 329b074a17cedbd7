// Package files out of the database: whoever lacks them fetches them, and gets exactly what was installed or nothing.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { install } from '../../src/protocol/package.ts';
import { operation } from '../../src/protocol/protocol.ts';
import { bringPackage, shareContents } from '../../src/runtime/cluster-packages.ts';
import { createPackageGuard } from '../../src/runtime/package-guard.ts';
import { checkPackage } from '../../src/runtime/package-source.ts';
import { realClock } from '../../src/runtime/ports.ts';
import { projectId, startRun } from '../contract/world.ts';
import { openTestLeases } from '../store/postgres/lease-scene.ts';
import { createDatabase, openScene, openServer } from '../store/postgres/scene.ts';
import { writePackage } from './package-fixtures.ts';

const databases = await openServer(t);

function manifestOf(task: object = {}): string {
  return JSON.stringify({
    schema: 'qinglong/package@v1',
    name: 'sample',
    version: '1.0.0',
    tasks: { work: { run: ['./scripts/work.sh'], ...task } },
    workflows: { main: { steps: { one: { task: 'work' } } } },
  });
}

const script = '#!/bin/sh\necho up\n';
const plainFiles = { 'qinglong.json': manifestOf(), 'scripts/work.sh': script, 'scripts/data.txt': 'data\n' };

/** A package that is shared, installed and started, and a machine that has nothing of it. */
async function openShared(t: Test, files: Readonly<Record<string, string | Uint8Array>> = plainFiles) {
  const root = t.testdir({ data: {} });
  chmodSync(join(root, 'data'), 0o700);
  const checked = await checkPackage(writePackage(join(root, 'source'), files));
  const database = await createDatabase(t, databases);
  const url = databases.urlOf(database);
  const scene = await openScene(t, url);
  const leases = openTestLeases(t, url);
  await shareContents(leases, checked);
  const { revision, lockDigest } = checked;
  const asked = { projectId, revision, files: checked.files, signature: null, allowUnsigned: true };
  await scene.store.submit(operation(install, asked));
  const runId = await startRun(scene);
  const packagesDirectory = join(root, 'data/packages');
  const guard = createPackageGuard({ packagesDirectory, clock: realClock() });
  const underWay = new Map<string, Promise<string | null>>();
  const fetched: string[] = [];
  const told = {
    putContents: leases.putContents,
    getContents(lockDigest: string, path: string) {
      fetched.push(path);
      return leases.getContents(lockDigest, path);
    },
  };
  return {
    ...{ root, files, checked, database, url, leases, runId, lockDigest, packagesDirectory, guard, fetched },
    target: join(packagesDirectory, lockDigest),
    bring: () => bringPackage({ store: scene.store, leases: told, packagesDirectory, guard, underWay }, runId),
    query: (sql: string) => databases.query(database, sql),
    left: () => (existsSync(packagesDirectory) ? readdirSync(packagesDirectory) : []),
  };
}

type Shared = Awaited<ReturnType<typeof openShared>>;

/** Starts a process that fetches, and resolves when it has its first file. */
async function startFetcher(t: Test, { url, packagesDirectory, runId }: Shared) {
  const program = join(import.meta.dirname, 'package-fetcher.ts');
  const fetcher: ChildProcess = spawn(process.execPath, [program, url, packagesDirectory, runId], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const closed = once(fetcher, 'close');
  t.teardown(async () => {
    fetcher.kill('SIGKILL');
    await closed;
  });
  let said = '';
  const begun = new Promise<void>((resolve) => {
    fetcher.stdout?.on('data', (bytes) => {
      said += bytes;
      resolve();
    });
  });
  await Promise.race([begun, closed]);
  t.equal(said, 'begun\n');
  return {
    async goOn(): Promise<string> {
      fetcher.stdin?.end();
      await closed;
      return said;
    },
    async kill(): Promise<void> {
      fetcher.kill('SIGKILL');
      await closed;
    },
  };
}

function isComplete(t: Test, { target, files, guard, lockDigest }: Shared): void {
  for (const [path, content] of Object.entries(files)) {
    t.ok(readFileSync(join(target, path)).equals(Buffer.from(content)), path);
  }
  t.equal(guard.check(lockDigest), null);
}

const modeOf = (...path: readonly string[]) => statSync(join(...path)).mode & 0o7777;

t.test('a package that is lacking is fetched whole, for its owner alone, and its commands may start', async (t) => {
  const shared = await openShared(t);
  const { bring, guard, lockDigest, packagesDirectory, target, left } = shared;
  t.not(guard.check(lockDigest), null);
  await bring();
  isComplete(t, shared);
  t.same(left(), [lockDigest]);
  t.equal(modeOf(packagesDirectory), 0o700);
  t.equal(modeOf(target), 0o700);
  t.equal(modeOf(target, 'scripts'), 0o700);
  t.equal(modeOf(target, 'scripts/work.sh'), 0o700);
  t.equal(modeOf(target, 'scripts/data.txt'), 0o600);
  t.equal((await checkPackage(target)).lockDigest, lockDigest);
});

t.test('many runs of one package that come at once have its files fetched once', async (t) => {
  const shared = await openShared(t);
  const answers = await Promise.all(Array.from({ length: 8 }, () => shared.bring()));
  t.strictSame(
    answers,
    Array.from({ length: 8 }, () => null),
  );
  t.strictSame([...shared.fetched].sort(), Object.keys(plainFiles).sort());
  isComplete(t, shared);
});

t.test('the modes of what is fetched do not depend on the umask', async (t) => {
  for (const umask of [0o000, 0o077]) {
    const { bring, target, packagesDirectory, root } = await openShared(t, {
      ...plainFiles,
      'qinglong.json': manifestOf({ user: 'nobody' }),
    });
    const before = process.umask(umask);
    await bring().finally(() => process.umask(before));
    // Another user runs it: that one can reach it, and list nothing beside it.
    t.equal(modeOf(root, 'data'), 0o711);
    t.equal(modeOf(packagesDirectory) & 0o733, 0o711);
    t.equal(modeOf(target), 0o755);
    t.equal(modeOf(target, 'scripts'), 0o755);
    t.equal(modeOf(target, 'scripts/work.sh'), 0o755);
    t.equal(modeOf(target, 'scripts/data.txt'), 0o644);
    rmSync(root, { recursive: true });
  }
});

t.test('what is there is not fetched again', async (t) => {
  const shared = await openShared(t);
  await shared.bring();
  await shared.query('DELETE FROM ql3.package_contents');
  await shared.bring();
  isComplete(t, shared);
});

t.test('other bytes in the database are damage, and nothing of them is left; put again, they are right', async (t) => {
  const shared = await openShared(t);
  const { bring, query, left, leases, checked } = shared;
  await query(`UPDATE ql3.package_contents SET bytes = bytes || 'x' WHERE path = 'scripts/work.sh'`);
  await t.rejects(bring(), { code: 'damaged', message: /scripts\/work\.sh/, hint: /install/ });
  t.same(left(), []);
  await shareContents(leases, checked);
  await bring();
  isComplete(t, shared);
  t.same(left(), [shared.lockDigest]);
});

t.test('a file that is missing in the database can be had later, and nothing half is left until then', async (t) => {
  const shared = await openShared(t);
  const { bring, query, left, leases, checked } = shared;
  await query(`DELETE FROM ql3.package_contents WHERE path = 'scripts/work.sh'`);
  await t.rejects(bring(), { code: 'unavailable', message: /scripts\/work\.sh/ });
  t.same(left(), []);
  await query('DELETE FROM ql3.package_contents');
  await t.rejects(bring(), { code: 'unavailable' });
  t.same(left(), []);
  await shareContents(leases, checked);
  await bring();
  isComplete(t, shared);
});

t.test('a list of files that is missing is told as that', async (t) => {
  const { bring, query } = await openShared(t);
  await query('ALTER TABLE ql3.package_files DISABLE TRIGGER ALL; DELETE FROM ql3.package_files');
  await t.rejects(bring(), { code: 'unavailable', message: /list of its files/ });
});

t.test('two processes that fetch at once have the same, once', async (t) => {
  const shared = await openShared(t);
  const fetchers = await Promise.all([startFetcher(t, shared), startFetcher(t, shared)]);
  const said = await Promise.all(fetchers.map((fetcher) => fetcher.goOn()));
  t.same(said, ['begun\nfetched 3\n', 'begun\nfetched 3\n'], 'each had all of it');
  t.same(shared.left(), [shared.lockDigest]);
  await shared.bring();
  isComplete(t, shared);
});

t.test('two workers of one process that fetch at once have the same, once', async (t) => {
  const shared = await openShared(t);
  await Promise.all([shared.bring(), shared.bring(), shared.bring()]);
  isComplete(t, shared);
  t.same(shared.left(), [shared.lockDigest]);
});

t.test('what a killed process left half is in nobody’s way, and does not stay', async (t) => {
  const shared = await openShared(t);
  const { bring, left, lockDigest } = shared;
  const fetcher = await startFetcher(t, shared);
  t.equal(left().length, 1);
  t.notOk(left().includes(lockDigest));
  await fetcher.kill();
  await bring();
  isComplete(t, shared);
  t.same(left(), [lockDigest], 'and taken away');
});

t.test('what an earlier process of the same number left is no part of what is fetched', async (t) => {
  const shared = await openShared(t);
  for (let count = 0; count < 64; count += 1) {
    const partial = `${shared.target}.${process.pid}-${count}.partial`;
    mkdirSync(partial, { recursive: true });
    writePackage(partial, { 'old.sh': script });
  }
  await shared.bring();
  isComplete(t, shared);
  t.notOk(existsSync(join(shared.target, 'old.sh')));
});

t.test('names and bytes of every kind come through as they are', async (t) => {
  const deep = Array.from({ length: 40 }, (_, depth) => `d${depth}`).join('/');
  const files = {
    ...plainFiles,
    'scripts/签到 copy.py': '#!/usr/bin/env python3\n',
    'a b/ c ': ' leading, trailing\n',
    "it's; DROP TABLE ql3.runs; --": 'quoted',
    'back\\slash and %41 and $1 :path': 'x',
    [`${deep}/file`]: 'deep',
    '.hidden': '',
    'e\u0301': 'decomposed',
    '\u{1f9ea}': 'beyond the first plane',
    'bin/all': Uint8Array.from({ length: 256 }, (_, index) => index),
    'bin/large': randomBytes(3 * 1024 * 1024 + 1),
  };
  const shared = await openShared(t, files);
  await shared.bring();
  isComplete(t, shared);
  t.equal((await checkPackage(shared.target)).lockDigest, shared.lockDigest);
});
