// SIGKILL at every point of an install, an update, a repair and a removal of a package: afterwards there is the old
// package or the new one, whole, and the next start removes what was left half-way.
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { openRuntime } from '../../src/index.ts';
import { type PackageHead, read } from '../../src/protocol/reads.ts';
import { lookAtPackage } from '../../src/runtime/package-look.ts';
import { openReader } from '../../src/sqlite.ts';
import { countPoints, killAt } from './kill-points.ts';
import { cli, createSite, type Site, writePackage } from './product.ts';

const profiles = ['edge', 'standalone'] as const;

// Each kill takes a third of a second. Here one in so many, another one each time that this is asked; all of them with
// the variable set. An update, of which most is asked, is met more often.
const isWhole = process.env['QL_TEST_EVERY_POINT'] !== undefined;
const strides = { edge: 6, standalone: 10 } as const;

function manifest(version: string): string {
  return `schema: qinglong/package@v1
name: sample
version: ${version}
tasks: { work: { run: [./scripts/work.sh] } }
workflows: { main: { steps: { one: { task: work } } } }
`;
}

function writeVersion(site: Site, version: string): string {
  return writePackage(join(site.root, `package-${version}`), {
    'qinglong.yaml': manifest(version),
    'scripts/work.sh': `#!/bin/sh\necho ${version}\n`,
  });
}

type State = {
  /** Null where nothing is installed. */
  readonly version: string | null;
  /** Of the files that the present generation consists of. */
  readonly differences: readonly string[];
  readonly names: readonly string[];
  readonly lockDigest: string | null;
};

function listPackages(site: Site): readonly string[] {
  const directory = join(site.data, 'packages');
  return existsSync(directory) ? readdirSync(directory).sort() : [];
}

/** What a reader finds, without anybody having started anew. */
async function look(site: Site): Promise<State> {
  const names = listPackages(site);
  const nothing = { version: null, differences: [], names, lockDigest: null };
  if (!existsSync(join(site.data, 'qinglong.db'))) {
    return nothing;
  }
  const reader = openReader({ data: site.data });
  try {
    const head: PackageHead | null = reader.read(read('package', { projectId: 'local', packageName: 'sample' }));
    if (head === null || head.lifecycle.state === 'uninstalled') {
      return nothing;
    }
    const { lockDigest } = head.installation.target;
    const files = reader.read(read('packageFiles', { lockDigest })) ?? [];
    const { differences } = await lookAtPackage(join(site.data, 'packages', lockDigest), files);
    const told = differences.map(({ file, rule }) => `${file} ${rule}`);
    return { version: head.installation.version, differences: told, names, lockDigest };
  } finally {
    reader.close();
  }
}

/** The next start: it sweeps, and whatever is installed can be run. */
async function startAnew(t: Test, site: Site, expected: State): Promise<void> {
  const runtime = await openRuntime({ data: site.data, runDirectory: site.run, log: () => {} });
  try {
    t.strictSame(listPackages(site), expected.lockDigest === null ? [] : [expected.lockDigest], 'nothing is left over');
    if (expected.version !== null) {
      const started = await runtime.start({ packageName: 'sample', workflowId: 'main' });
      const runId = started.kind === 'created' ? started.receipt.runId : '';
      let last = '';
      for await (const { type } of runtime.events(runId)) {
        last = type;
      }
      t.equal(last, 'workflow.succeeded', 'it runs');
    }
  } finally {
    await runtime.close();
  }
}

/** A prepared place, copied anew for every kill. */
function copySite(t: Test, prepared: Site): Site {
  const site = createSite(t);
  cpSync(prepared.root, site.root, { recursive: true });
  return site;
}

type Scene = {
  readonly prepare: (t: Test, site: Site) => Promise<void>;
  /** The command that is killed; `root` is that of the place. */
  readonly args: (root: string) => readonly string[];
  readonly check: (t: Test, state: State, when: string) => void;
  /** Whether the command, given again after any kill, leads to its end. */
  readonly after: (t: Test, state: State) => void;
};

async function installOld(t: Test, site: Site): Promise<void> {
  const ended = await cli(t, site, 'package', 'install', writeVersion(site, '1.0.0'));
  t.equal(ended.code, 0, ended.err);
  writeVersion(site, '2.0.0');
}

const isVersion = (t: Test, state: State, versions: readonly (string | null)[], when: string) => {
  t.ok(versions.includes(state.version), `${state.version} is active (${when})`);
  t.strictSame(state.differences, [], `and all of it is there (${when})`);
};

const scenes: Readonly<Record<string, Scene>> = {
  'the first install': {
    prepare: async (t, site) => {
      writeVersion(site, '1.0.0');
      t.equal((await cli(t, site, 'serve', '--until-idle')).code, 0);
    },
    args: (root) => ['package', 'install', join(root, 'package-1.0.0')],
    check: (t, state, when) => isVersion(t, state, [null, '1.0.0'], when),
    after: (t, state) => t.equal(state.version, '1.0.0'),
  },
  'C072 an update': {
    prepare: installOld,
    args: (root) => ['package', 'install', join(root, 'package-2.0.0')],
    check: (t, state, when) => isVersion(t, state, ['1.0.0', '2.0.0'], when),
    after: (t, state) => t.equal(state.version, '2.0.0'),
  },
  'a repair': {
    prepare: async (t, site) => {
      await installOld(t, site);
      const [lockDigest] = listPackages(site);
      writeFileSync(join(site.data, 'packages', lockDigest!, 'scripts/work.sh'), '#!/bin/sh\necho altered\n');
      rmSync(join(site.data, 'packages', lockDigest!, 'qinglong.yaml'));
    },
    args: (root) => ['package', 'install', join(root, 'package-1.0.0')],
    check: (t, state, when) => {
      t.equal(state.version, '1.0.0', when);
      t.ok(
        state.differences.every((told) => /^(scripts\/work\.sh has|qinglong\.yaml is missing)/.test(told)),
        when,
      );
    },
    after: (t, state) => isVersion(t, state, ['1.0.0'], 'after'),
  },
  'a removal': {
    prepare: installOld,
    args: () => ['package', 'uninstall', 'sample'],
    check: (t, state, when) => isVersion(t, state, [null, '1.0.0'], when),
    after: (t, state) => t.equal(state.version, null),
  },
};

for (const profile of profiles) {
  for (const [name, scene] of Object.entries(scenes)) {
    t.test(`${profile}: ${name}, killed at every point`, async (t) => {
      const prepared = createSite(t);
      const made = await cli(t, prepared, '--profile', profile, 'serve', '--until-idle');
      t.equal(made.code, 0, made.err);
      await scene.prepare(t, prepared);
      const whole = copySite(t, prepared);
      const points = await countPoints(t, whole, scene.args(whole.root));
      t.ok(points > 10, `${points} points`);
      const isUpdate = profile === 'edge' && name.startsWith('C072');
      const stride = isWhole ? 1 : isUpdate ? 3 : strides[profile];
      for (let kill = 1 + Math.floor(Math.random() * stride); kill <= points; kill += stride) {
        const site = copySite(t, prepared);
        const args = scene.args(site.root);
        const when = `killed at ${kill} of ${points}`;
        t.equal((await killAt(t, site, { args, kill })).signal, 'SIGKILL', when);
        const state = await look(site);
        scene.check(t, state, when);
        const isAltered = state.differences.length > 0;
        await startAnew(t, site, isAltered ? { ...state, version: null } : state);
        const again = await cli(t, site, ...args);
        t.equal(again.code, 0, again.err);
        scene.after(t, await look(site));
        rmSync(site.root, { recursive: true, force: true });
      }
      t.match(readFileSync(join(prepared.root, 'package-1.0.0/qinglong.yaml'), 'utf8'), /1\.0\.0/);
    });
  }
}
