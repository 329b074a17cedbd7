import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { projectRoot } from '../../build/project.ts';
import { readProcessEntry } from '../../edge-evidence/processes.ts';

/**
 * `npm test` on files of its own, as if no test were around it. One file after the other: two at once end in any order.
 */
function runTests(...args: string[]) {
  const outer = Object.entries(process.env).filter(([name]) => !name.startsWith('TAP'));
  const env = Object.fromEntries([...outer, ['TAP_JOBS', '1']]);
  return spawnSync(process.execPath, ['build/run-tests.ts', ...args], { cwd: projectRoot, env, encoding: 'utf8' });
}

/** Test files by name, below the project, where they find tap. */
function writeTests(t: Test, files: Readonly<Record<string, string>>): string {
  const texts = Object.entries(files).map(([name, text]) => [name, `import t from 'tap';\n${text}\n`]);
  return path.relative(projectRoot, t.testdir(Object.fromEntries(texts)));
}

t.test('the last line counts what passed and failed, and a failure fails the command', async (t) => {
  const folder = writeTests(t, {
    'good.test.ts': "t.test('a', async (t) => t.ok(1));\nt.test('b', async (t) => t.ok(1));",
    'bad.test.ts': "t.test('one is two', async (t) => t.equal(1, 2));",
    'empty.test.ts': 'void t;',
    'not-a-test.ts': 'process.exit(1);',
  });
  const { status, stdout } = runTests(folder, 'test/nowhere');
  t.equal(status, 1);
  t.equal(stdout.trimEnd().split('\n').at(-1), '2 passed, 3 failed');
  t.match(stdout, /^order of files: --seed \d+$/m, 'a seed of its own');
  t.match(stdout, 'FAILED test/nowhere: there is no such file or folder');
  t.match(stdout, /^FAILED \S+\/bad.test.ts \(1 tests, \d+ ms\)$/m);
  t.match(stdout, /not ok: \S+ > one is two/);
  t.match(stdout, /^ok {5}\S+\/good.test.ts \(2 tests, \d+ ms\)$/m);
});

t.test('a seed orders the files, and the same seed orders them the same', async (t) => {
  const names = Array.from({ length: 6 }, (_, index) => `file-${index}.test.ts`);
  const folder = writeTests(t, Object.fromEntries(names.map((name) => [name, "t.test('a', async (t) => t.ok(1));"])));
  const orderOf = (seed: string) => {
    // One after the other: of two at once either may end first.
    const { stdout } = runTests(folder, '--seed', seed, '--parallel', '1');
    t.match(stdout, new RegExp(`^order of files: --seed ${seed}$`, 'm'));
    return [...stdout.matchAll(/(file-\d)\.test\.ts/g)].map(([, name]) => name);
  };
  const first = orderOf('1');
  t.equal(new Set(first).size, names.length);
  t.same(orderOf('1'), first);
  t.not(`${orderOf('2')}`, `${first}`);
});

// What a test may leave: itself unharmed by its own end, each of these is found in another way.
const leaving = `
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
const leave = (words, options) => {
  const child = spawn(words[0], words.slice(1), { detached: true, stdio: 'ignore', cwd: '/', env: {}, ...options });
  child.unref();
  return child.pid;
};
t.test('leaves processes', async (t) => {
  const pids = [
    leave(['/bin/sh', '-c', 'sleep 600 & wait', tmpdir()]),
    leave(['/bin/sleep', '600'], { env: { SOMETHING: tmpdir() + '/x' } }),
    leave(['/bin/sleep', '600'], { cwd: t.testdir() }),
    leave(['/bin/sleep', '600']),
  ];
  writeFileSync(process.env.PIDS, pids.join(' '));
  writeFileSync(tmpdir() + '/forgotten', '');
  // Long enough to be seen as a descendant of the test command.
  await new Promise((resolve) => setTimeout(resolve, 600));
  t.ok(FINE);
});`;

for (const isFine of [true, false]) {
  t.test(`what a ${isFine ? 'good' : 'failing'} test leaves is named, counted and ended`, async (t) => {
    const scratch = mkdtempSync(path.join(tmpdir(), 'leaving-'));
    t.teardown(() => rmSync(scratch, { recursive: true }));
    const pidsFile = path.join(scratch, 'pids');
    const text = leaving.replace('FINE', `${isFine}`).replace('process.env.PIDS', JSON.stringify(pidsFile));
    const { status, stdout } = runTests(writeTests(t, { 'leaving.test.ts': text }));
    t.equal(status, 1);
    const told = stdout.split('\n').filter((line) => line.startsWith('FAILED left behind: '));
    const pids = readFileSync(pidsFile, 'utf8').split(' ').map(Number);
    for (const [index, why] of ['command line', 'environment', 'working directory', 'had started it'].entries()) {
      t.ok(
        told.some((line) => line.includes(`process ${pids[index]} `) && line.includes(why)),
        why,
      );
    }
    t.ok(
      told.some((line) => line.endsWith('/forgotten')),
      'a file',
    );
    // The shell's own child is one of its session.
    t.equal(told.length, 6, told.join('\n'));
    t.equal(stdout.trimEnd().split('\n').at(-1), `${isFine ? 1 : 0} passed, ${isFine ? 6 : 7} failed`);
    t.same(
      pids.filter((pid) => readProcessEntry(pid)?.isOver === false),
      [],
      'nobody of them lives',
    );
  });
}

t.test('a shell that there is not is told before anything runs under it', async (t) => {
  const folder = writeTests(t, { 'good.test.ts': "t.test('a', async (t) => t.ok(1));" });
  const { status, stdout } = runTests(folder, '--shell', 'no-such-shell');
  t.equal(status, 1);
  t.match(stdout, 'FAILED --shell no-such-shell: there is no such shell');
});

t.test('the shell that was asked for reaches the tests and what they start', async (t) => {
  const text = "t.test('a', async (t) => t.equal(process.env['QINGLONG_EDGE_SHELL'], '/bin/sh -u'));";
  const { stdout } = runTests(writeTests(t, { 'shell.test.ts': text }), '--shell', '/bin/sh -u');
  t.match(stdout, 'launcher under: /bin/sh -u');
  t.match(stdout, '1 passed, 0 failed');
});
