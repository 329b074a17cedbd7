// Loaded into every test process. tap's runner hooks child processes to follow their coverage: it would add
// NODE_OPTIONS and its own variables to every command that a test starts, also to those of the product. Coverage is
// off, so all of that is taken away: a child sees exactly the environment that the test gave it.
import { createRequire } from 'node:module';
import path from 'node:path';

const spawnHooks: { removeAllListeners(): void } = createRequire(import.meta.url)('process-on-spawn');
spawnHooks.removeAllListeners();

for (const name of Object.keys(process.env)) {
  if (name === 'NODE_OPTIONS' || name === 'FORCE_COLOR' || name === 'NO_COLOR' || name.startsWith('_TAPJS_')) {
    delete process.env[name];
  }
}

// The launcher of every runtime that this test opens in its own process runs under the shell that was asked for.
const shell = process.env['QL_TEST_SHELL'];
if (shell !== undefined) {
  process.env['QINGLONG_EDGE_SHELL'] = shell;
}

// The fixtures of one test command are kept apart from those of others in the same folder.
const fixtures = process.env['QL_TEST_FIXTURES'];
if (fixtures !== undefined) {
  const { default: t } = await import('tap');
  t.testdirName = path.join(fixtures, path.basename(t.testdirName));
}
