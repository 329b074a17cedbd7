// The bundle needs nothing beside it.

import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { bundleFile, createSite, writePackage } from './product.ts';

const yaml = `schema: qinglong/package@v1
name: alone
version: 1.0.0
tasks: { hello: { run: [./scripts/hello.sh] } }
workflows: { main: { steps: { hello: { task: hello } } } }
`;
const json = JSON.stringify({
  schema: 'qinglong/package@v1',
  name: 'alone',
  version: '1.0.0',
  tasks: { hello: { run: ['./scripts/hello.sh'] } },
  workflows: { main: { steps: { hello: { task: 'hello' } } } },
});
const script = '#!/bin/sh\necho "hello from $QL_STEP_KEY"\n';

for (const [name, text] of Object.entries({ 'qinglong.yaml': yaml, 'qinglong.json': json })) {
  t.test(`the bundle alone in an empty folder runs a package given as ${name}`, async (t) => {
    const { root, data, run } = createSite(t);
    const folder = join(root, 'empty');
    mkdirSync(folder);
    copyFileSync(bundleFile, join(folder, 'qinglong-edge.cjs'));
    const directory = writePackage(join(root, 'package'), { [name]: text, 'scripts/hello.sh': script });
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      ['qinglong-edge.cjs', '--data', data, '--run-dir', run, 'run', directory],
      { cwd: folder, encoding: 'utf8', env: {} },
    );
    t.equal(status, 0, stderr);
    t.match(stdout, /hello from hello/);
    t.same(readdirSync(folder), ['qinglong-edge.cjs'], 'nothing was written beside it');
  });
}
