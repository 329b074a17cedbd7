import { spawnSync } from 'node:child_process';
import t from 'tap';

const printEnvironment = 'process.stdout.write(JSON.stringify(process.env))';

t.test('a process started by a test sees exactly the environment that the test gives it', async (t) => {
  const child = spawnSync(process.execPath, ['-e', printEnvironment], { encoding: 'utf8', env: { ONLY: 'this' } });
  t.same(JSON.parse(child.stdout), { ONLY: 'this' });
});

t.test('a process that inherits the environment is not instrumented', async (t) => {
  const child = spawnSync(process.execPath, ['-e', printEnvironment], { encoding: 'utf8' });
  const names = Object.keys(JSON.parse(child.stdout));
  t.notOk(names.includes('NODE_OPTIONS'));
  t.same(
    names.filter((name) => name.startsWith('_TAPJS_')),
    [],
  );
});

t.test('tests run on Node 24', async (t) => {
  t.match(process.version, /^v24\./);
});
