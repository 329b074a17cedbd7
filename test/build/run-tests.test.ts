import { spawnSync } from 'node:child_process';
import path from 'node:path';
import t from 'tap';
import { projectRoot } from '../../build/project.ts';

/** `npm test` on files of its own, as if no test were around it. */
function runTests(...selection: string[]) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TAP')));
  return spawnSync(process.execPath, ['build/run-tests.ts', ...selection], { cwd: projectRoot, env, encoding: 'utf8' });
}

t.test('the last line counts what passed and failed, and a failure fails the command', async (t) => {
  const folder = t.testdir({
    'good.test.ts': "import t from 'tap';\nt.test('a', async (t) => t.ok(1));\nt.test('b', async (t) => t.ok(1));\n",
    'bad.test.ts': "import t from 'tap';\nt.test('one is two', async (t) => t.equal(1, 2));\n",
    'empty.test.ts': 'export {};\n',
    'not-a-test.ts': 'process.exit(1);\n',
  });
  const { status, stdout } = runTests(path.relative(projectRoot, folder), 'test/nowhere');
  t.equal(status, 1);
  t.equal(stdout.trimEnd().split('\n').at(-1), '2 passed, 3 failed');
  t.match(stdout, 'FAILED test/nowhere: there is no such file or folder');
  t.match(stdout, /^FAILED \S+\/bad.test.ts \(1 tests, \d+ ms\)$/m);
  t.match(stdout, /not ok: \S+ > one is two/);
  t.match(stdout, /^ok {5}\S+\/good.test.ts \(2 tests, \d+ ms\)$/m);
});
