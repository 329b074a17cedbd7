// Loaded into every test process. tap's runner hooks child processes to follow their coverage: it would add
// NODE_OPTIONS and its own variables to every command that a test starts, also to those of the product. Coverage is
// off, so all of that is taken away: a child sees exactly the environment that the test gave it.
import { createRequire } from 'node:module';

const spawnHooks: { removeAllListeners(): void } = createRequire(import.meta.url)('process-on-spawn');
spawnHooks.removeAllListeners();

for (const name of Object.keys(process.env)) {
  if (name === 'NODE_OPTIONS' || name === 'FORCE_COLOR' || name === 'NO_COLOR' || name.startsWith('_TAPJS_')) {
    delete process.env[name];
  }
}
