// What a test command leaves where the product keeps run directories by default. Processes and files of its own folder:
// run-tests.test.ts.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, existsSync, mkdirSync, mkdtempSync, rmSync, watch, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { openTestGround } from '../../build/test-ground.ts';
import { killProcess, readProcessEntry } from '../../edge-evidence/processes.ts';

const shared = '/dev/shm';

function isWritable(): boolean {
  try {
    accessSync(shared, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

const skip = isWritable() ? false : `${shared} cannot be written here`;

/** A ground that belongs to no other one, and a place of the test's own among what all share. */
function openGround(t: Test) {
  const outer = process.env['QL_TEST_FOLDER'];
  delete process.env['QL_TEST_FOLDER'];
  const root = mkdtempSync(path.join(tmpdir(), 'ground-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  const ground = openTestGround(root);
  if (outer !== undefined) {
    process.env['QL_TEST_FOLDER'] = outer;
  }
  const place = mkdtempSync(path.join(shared, 'ql-ground-'));
  t.teardown(() => rmSync(place, { recursive: true, force: true }));
  return { ground, place };
}

t.test('a ground without anything on it is gone afterwards', async (t) => {
  const { ground, place } = openGround(t);
  rmSync(place, { recursive: true });
  t.ok(existsSync(ground.folder));
  t.equal(ground.env['TMPDIR'], ground.folder);
  t.same(
    (await ground.close()).filter((line) => line.includes(ground.folder)),
    [],
  );
  t.notOk(existsSync(ground.folder));
});

t.test('what is new in a shared place is named, at its top', { skip }, async (t) => {
  const { ground, place } = openGround(t);
  mkdirSync(path.join(place, 'attempts'));
  writeFileSync(path.join(place, 'attempts', 'left'), '');
  const left = await ground.close();
  t.ok(left.includes(`the file ${place}`), left.join('\n'));
});

t.test('what a stranger holds there is the stranger’s', { skip }, async (t) => {
  const scratch = t.testdir();
  const [name, ready] = [path.join(scratch, 'name'), path.join(scratch, 'ready')];
  // It is nobody's child by the time the ground opens, and goes to the place that is made after that.
  const wait = 'until [ -s "$0" ] && cd "$(cat "$0")"; do sleep 0.01; done';
  const script = `(${wait}; : >"$1"; exec sleep 600) >/dev/null 2>&1 & echo $!`;
  const parent = spawn('/bin/sh', ['-c', script, name, ready], {
    detached: true,
    env: { PATH: '/usr/bin:/bin' },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [pid] = (await once(parent.stdout, 'data')) as [Buffer];
  const stranger = readProcessEntry(Number(`${pid}`))!;
  t.teardown(() => killProcess(stranger));
  const { ground, place } = openGround(t);
  const watcher = watch(scratch);
  writeFileSync(name, place);
  while (!existsSync(ready)) {
    await once(watcher, 'change');
  }
  watcher.close();
  t.same(
    (await ground.close()).filter((line) => line.includes(place)),
    [],
  );
  t.equal(readProcessEntry(stranger.pid)?.startTicks, stranger.startTicks, 'and lives');
});
