import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { checkPackage } from '../../src/runtime/package-source.ts';
import { examplesDirectory } from './example-run.ts';

const examples = readdirSync(examplesDirectory).sort();

t.test('every example is a good package named like its directory, in YAML or in JSON', async (t) => {
  t.strictSame(examples, ['blocklist', 'log-prune', 'wan-watch']);
  const manifests = [];
  for (const example of examples) {
    const { manifest, manifestFile } = await checkPackage(join(examplesDirectory, example));
    t.equal(manifest.name, example);
    t.equal(manifest.workflows.length, 1, 'the one workflow that `run` needs not be told');
    manifests.push(manifestFile);
  }
  t.strictSame(manifests, ['qinglong.yaml', 'qinglong.json', 'qinglong.yaml']);
});

t.test('every step of an example has a title, and its task a time limit of its own', async (t) => {
  for (const example of examples) {
    const { manifest } = await checkPackage(join(examplesDirectory, example));
    for (const { id, title, timeoutMs } of manifest.tasks) {
      t.ok(title !== null && timeoutMs < 3_600_000, `${example} ${id}`);
    }
  }
});

t.test('scripts of the examples are for any POSIX shell', async (t) => {
  for (const example of examples) {
    const scripts = join(examplesDirectory, example, 'scripts');
    for (const name of readdirSync(scripts)) {
      const text = readFileSync(join(scripts, name), 'utf8');
      t.match(text, name === 'common.sh' ? /^# Sourced by / : /^#!\/bin\/sh\n# /, `${example}/${name}`);
      t.notMatch(text, /\[\[|\bfunction [a-z_]+ *\(\) *\{|\blocal |<\(|\bsource |echo -[ne]|\$'/, `${example}/${name}`);
    }
  }
});
