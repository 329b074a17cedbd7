import fc from 'fast-check';
import t from 'tap';
import { canonicalJson } from '../../src/core/canonical-json.ts';
import { digest } from '../../src/core/digest.ts';
import { formatDuration } from '../../src/core/duration.ts';
import { isEdgeError } from '../../src/core/errors.ts';
import {
  computeLockDigest,
  materialize,
  normalizeRevision,
  type PackageFile,
  revisionLabels,
} from '../../src/core/revision.ts';
import { acceptedManifest, sampleManifest } from './manifest-samples.ts';

const lockDigest = '1'.repeat(64);

const goldenManifest = sampleManifest({
  title: '小 工具',
  tasks: {
    probe: {
      run: ['./scripts/签到 copy.py', '--fast'],
      env: { TARGET: '192.0.2.1', TOKEN: { setting: 'API_TOKEN' }, ZONE: { setting: 'zone', default: '' } },
      timeout: '30s',
      user: 'nobody',
      nice: 10,
    },
    decide: { shell: 'cat state', retry: { limit: 2, on: ['lost'] }, limits: { memory: '64m', cpu: '30s', files: 64 } },
  },
  workflows: {
    nightly: {
      timeout: '1h',
      concurrency: 2,
      steps: { probe: { task: 'probe' }, decide: { task: 'decide', needs: ['probe'] } },
    },
  },
});

const files: readonly PackageFile[] = [
  { path: 'qinglong.yaml', mode: 0o600, size: 3, sha256: 'a'.repeat(64) },
  { path: 'scripts/签到 copy.py', mode: 0o700, size: 5, sha256: 'b'.repeat(64) },
];

/** What a refused revision is refused for, as `path: rule`; the code must be the one asked for. */
function refusalOf(value: unknown, code: 'invalid' | 'damaged' = 'damaged'): readonly string[] {
  try {
    normalizeRevision(value, code);
    return [];
  } catch (error) {
    if (!isEdgeError(error) || error.code !== code) {
      throw error;
    }
    return error.mistakes.map(({ path, rule }) => `${path}: ${rule}`);
  }
}

type Mutable = { [key: string]: unknown };

/** A copy of the golden revision with one place replaced, as a damaged row would have it. */
function altered(path: readonly (string | number)[], value: unknown): unknown {
  const copy = JSON.parse(canonicalJson(materialize(acceptedManifest(goldenManifest), lockDigest))) as Mutable;
  const parent = path.slice(0, -1).reduce<Mutable>((at, key) => at[key] as Mutable, copy);
  parent[path.at(-1)!] = value;
  return copy;
}

// Computed apart from this code, with another language's JSON and SHA-256.
t.test('digests of the golden package never change', async (t) => {
  const revision = materialize(acceptedManifest(goldenManifest), lockDigest);
  t.strictSame(
    {
      lock: computeLockDigest(files),
      tasks: revision.tasks.map(({ id, sourceDigest }) => [id, sourceDigest]),
      workflows: revision.workflows.map(({ id, definitionDigest }) => [id, definitionDigest]),
      revision: revision.digest,
    },
    {
      lock: 'ea8b08748dbacf41aa460814c2e1c1fd077859d8a707e283a131f27412d7d9fb',
      tasks: [
        ['decide', '49305888330029d717811ad6265484aeb2c2ffe3c3dcd92bf02080d39cb1f3c7'],
        ['probe', '3b3d94dd28c8e1269515ce283107789853ef62587df0056c824c0e345b4de8f3'],
      ],
      workflows: [['nightly', '139e958e12cbe995b2f63d7fdb403db8c31bbac961b53096e43564ad0fc22918']],
      revision: '9b7ca2e9b149189ee1e91728420c19a0219c3d4cf52b6f3d2c658e4bde1815b2',
    },
  );
});

t.test('a lock digest covers path, mode, size and bytes of every file, in any order', async (t) => {
  const golden = computeLockDigest(files);
  t.equal(computeLockDigest(files.toReversed()), golden);
  const [first, second] = files as [PackageFile, PackageFile];
  const others = [
    [first],
    [first, { ...second, path: 'scripts/x' }],
    [first, { ...second, mode: 0o600 }],
    [first, { ...second, size: 6 }],
    [first, { ...second, sha256: 'c'.repeat(64) }],
  ];
  t.equal(new Set([golden, ...others.map(computeLockDigest)]).size, 6);
  t.throws(() => computeLockDigest([first, first]), /broken invariant/);
});

t.test('a source digest covers every field of its task, a definition digest every field of its workflow', async (t) => {
  const digests = (changes: Readonly<Record<string, unknown>>) => {
    const revision = materialize(acceptedManifest({ ...goldenManifest, ...changes }), lockDigest);
    return { task: revision.tasks[0]!.sourceDigest, workflow: revision.workflows[0]!.definitionDigest };
  };
  const task = { shell: 'x' };
  const steps = { a: { task: 'probe' } };
  const variants = [
    { ...task },
    { ...task, title: 'x' },
    { ...task, enabled: false },
    { ...task, env: { A: 'x' } },
    { ...task, env: { A: { setting: 'x' } } },
    { ...task, env: { A: { setting: 'x', default: 'x' } } },
    { ...task, user: 'nobody' },
    { ...task, cwd: 'x' },
    { ...task, timeout: '1s' },
    { ...task, grace: '1s' },
    { ...task, nice: 1 },
    { ...task, retry: { limit: 1 } },
    { ...task, limits: { files: 64 } },
    { shell: 'y' },
  ].map((probe) => digests({ tasks: { probe }, workflows: { nightly: { steps } } }));
  t.equal(new Set(variants.map(({ task: source }) => source)).size, variants.length);
  t.equal(new Set(variants.map(({ workflow }) => workflow)).size, 1, 'a workflow is its own definition only');
  const workflows = [
    { steps },
    { steps, title: 'x' },
    { steps, timeout: '1s' },
    { steps, concurrency: 1 },
    { steps, enabled: false },
    { steps: { b: { task: 'probe' } } },
    { steps: { a: { task: 'decide' } } },
    { steps: { a: { task: 'probe', title: 'x' } } },
  ].map((nightly) => digests({ workflows: { nightly } }).workflow);
  t.equal(new Set(workflows).size, workflows.length);
});

t.test('the order in which a package is written does not matter', async (t) => {
  const turned = (value: unknown): unknown =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(
          Object.entries(value)
            .toReversed()
            .map(([key, inner]) => [key, turned(inner)]),
        )
      : value;
  t.equal(
    materialize(acceptedManifest(turned(goldenManifest)), lockDigest).digest,
    materialize(acceptedManifest(goldenManifest), lockDigest).digest,
  );
});

t.test('a revision read back from its canonical text is the same revision', async (t) => {
  const revision = materialize(acceptedManifest(goldenManifest), lockDigest);
  t.strictSame(normalizeRevision(JSON.parse(canonicalJson(revision)), 'damaged'), revision);
});

t.test('a revision with any field altered, taken out or added is refused', async (t) => {
  const golden = JSON.parse(canonicalJson(materialize(acceptedManifest(goldenManifest), lockDigest))) as Mutable;
  const places: (readonly (string | number)[])[] = [];
  const collect = (value: unknown, path: readonly (string | number)[]): void => {
    for (const key of typeof value === 'object' && value !== null ? Object.keys(value) : []) {
      const place = [...path, Array.isArray(value) ? Number(key) : key];
      places.push(place);
      collect((value as Mutable)[key], place);
    }
  };
  collect(golden, []);
  t.ok(places.length > 60, 'every place of the golden revision is tried');
  for (const place of places) {
    const name = place.join('.');
    t.ok(refusalOf(altered(place, undefined)).length > 0, `${name} gone`);
    t.ok(refusalOf(altered(place, 'altered')).length > 0, `${name} altered`);
    t.ok(refusalOf(altered(place, 7)).length > 0, `${name} a number`);
  }
  t.ok(refusalOf(altered(['extra'], 1)).length > 0, 'a field more');
  t.ok(refusalOf(altered(['tasks', 0, 'extra'], 1)).length > 0, 'a field more in a task');
});

t.test('digests that fit do not make a revision sound: the rules of the manifest hold for it too', async (t) => {
  const manifest = acceptedManifest(goldenManifest);
  const [decide, probe] = manifest.tasks as [(typeof manifest.tasks)[0], (typeof manifest.tasks)[0]];
  const [nightly] = manifest.workflows as [(typeof manifest.workflows)[0]];
  const [first, second] = nightly.steps as [(typeof nightly.steps)[0], (typeof nightly.steps)[0]];
  const refused = (changes: Partial<typeof manifest>) => {
    t.throws(() => materialize({ ...manifest, ...changes }, lockDigest), { code: 'invalid' });
  };
  refused({ tasks: [probe, decide] });
  refused({ tasks: [decide, decide, probe] });
  refused({ tasks: [decide] });
  refused({ tasks: [decide, { ...probe, argv: ['../../x'] }] });
  refused({ tasks: [decide, { ...probe, cwd: './x' }] });
  refused({ tasks: [decide, { ...probe, cwd: '/tmp' }] });
  refused({ tasks: [decide, { ...probe, env: { QL_X: '1' } }] });
  refused({ tasks: [decide, { ...probe, env: { A: { setting: 'a-b', default: null } } }] });
  refused({ tasks: [decide, { ...probe, env: { A: { setting: 'A', default: 'a\0b' } } }] });
  refused({ tasks: [decide, { ...probe, user: '007' }] });
  refused({ tasks: [decide, { ...probe, retry: { ...probe.retry, maxMs: 1 } }] });
  refused({ tasks: [decide, { ...probe, retry: { ...probe.retry, on: ['timed_out', 'failed'] } }] });
  refused({ tasks: [decide, { ...probe, limits: { ...probe.limits, cpuMs: 1_500 } }] });
  refused({ workflows: [{ ...nightly, steps: [] }] });
  refused({ workflows: [{ ...nightly, concurrency: 0 }] });
  refused({ workflows: [{ ...nightly, steps: [second, first] }] });
  refused({ workflows: [{ ...nightly, steps: [{ ...first, needs: ['nothing'] }, second] }] });
  refused({
    workflows: [
      {
        ...nightly,
        steps: [
          { ...first, needs: ['probe'] },
          { ...second, needs: ['decide'] },
        ],
      },
    ],
  });
  refused({ version: '' });
});

t.test('a part whose digest is not its own is refused, also when the digest of the whole fits', async (t) => {
  for (const place of [
    ['tasks', 0, 'sourceDigest'],
    ['workflows', 0, 'definitionDigest'],
  ] as const) {
    const { digest: _, ...contents } = altered(place, '7'.repeat(64)) as Mutable;
    const sealed = { ...contents, digest: digest(revisionLabels.revision, contents) };
    t.match(refusalOf(sealed), [/Digest: is not the digest of this (task|workflow)$/], place.join('.'));
  }
});

t.test('a revision too large to be stored is refused', async (t) => {
  const tasks = Object.fromEntries(
    Array.from({ length: 40 }, (_, index) => [`t${index}`, { shell: `${index}${'x'.repeat(120_000)}` }]),
  );
  const manifest = acceptedManifest({ ...goldenManifest, tasks: { ...(goldenManifest['tasks'] as object), ...tasks } });
  t.throws(() => materialize(manifest, lockDigest), { code: 'invalid', message: /at most 4194304 are allowed/ });
});

const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,8}$/);
const words = fc.string({ unit: 'grapheme', maxLength: 12 }).filter((text) => !text.includes('\0'));
const duration = fc.integer({ min: 1, max: 2 ** 31 - 1 }).map(formatDuration);
const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const anyTask = fc
  .record({
    shell: words.map((text) => `true ${text}`),
    title: optional(words.map((text) => `t${text}`)),
    env: optional(fc.dictionary(fc.stringMatching(/^[A-P_][A-Za-z0-9_]{0,5}$/), words, { maxKeys: 4 })),
    timeout: optional(duration),
    grace: optional(duration),
    retry: optional(
      fc.record({ limit: fc.nat(62), on: fc.shuffledSubarray(['lost', 'failed', 'timed_out'], { minLength: 1 }) }),
    ),
    nice: optional(fc.integer({ min: -20, max: 19 })),
    enabled: optional(fc.boolean()),
  })
  .map((task) => Object.fromEntries(Object.entries(task).filter(([, value]) => value !== undefined)));

const anyManifest = fc
  .record({
    tasks: fc.dictionary(name, anyTask, { minKeys: 1, maxKeys: 5 }),
    keys: fc.uniqueArray(name, { maxLength: 6 }),
  })
  .map(({ tasks, keys }) => {
    const ids = Object.keys(tasks);
    const steps = keys.map((key, index) => [key, { task: ids[index % ids.length], needs: keys.slice(0, index % 3) }]);
    // A need list may not name its own step.
    const isSound = keys.every((key, index) => !keys.slice(0, index % 3).includes(key));
    const workflows = steps.length > 0 && isSound ? { w: { steps: Object.fromEntries(steps) } } : {};
    return sampleManifest({ tasks, workflows });
  });

t.test('normalizing is idempotent: a normalized revision normalizes to itself', async () => {
  fc.assert(
    fc.property(anyManifest, (value) => {
      const revision = materialize(acceptedManifest(value), lockDigest);
      const text = canonicalJson(revision);
      return canonicalJson(normalizeRevision(JSON.parse(text), 'damaged')) === text;
    }),
  );
});
