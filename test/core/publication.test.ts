import t from 'tap';
import { digest, digestLabels } from '../../src/core/digest.ts';
import {
  appendLifecycle,
  appendPublication,
  type GenerationTarget,
  type Publication,
  sealGeneration,
  verifyPublication,
} from '../../src/core/publication.ts';
import { edgeErrorOf, revisionOf, sampleTarget } from './samples.ts';

const revision = revisionOf({ a: [], b: ['a'] });
const { publicationDigest: _, generationDigest: __, ...unsealed } = sampleTarget;
const target = sealGeneration({ ...unsealed, materializedRevisionDigest: revision.digest });
const installed = appendLifecycle({ previous: null, target, state: 'active', reason: null, nowMs: 1_000 });
const first = appendPublication({
  previous: null,
  target,
  state: 'active',
  lifecycleEventDigest: installed.lifecycleEventDigest,
  revision,
  nowMs: 1_000,
});

const append = (previous: Publication | null, change: Partial<Parameters<typeof appendPublication>[0]>): Publication =>
  appendPublication({
    ...{
      previous,
      target,
      state: 'active',
      lifecycleEventDigest: installed.lifecycleEventDigest,
      revision,
      nowMs: 1_000,
    },
    ...change,
  });

t.test('the first entry is active with version 1, follows none, and lists the workflows of its revision', async (t) => {
  t.match(first, { state: 'active', version: 1, previousPublicationDigest: null, publishedAtMs: 1_000, target });
  t.equal(first.lifecycleEventDigest, installed.lifecycleEventDigest);
  const expected = revision.workflows.map(({ id, definitionDigest }) => ({ workflowId: id, definitionDigest }));
  t.same(first.workflows, expected);
  t.ok(expected.length > 0);
});

t.test('each entry names the one before it, and versions rise by one', async (t) => {
  const withdrawn = append(first, { state: 'withdrawn', nowMs: 2_000 });
  const again = append(withdrawn, { nowMs: 3_000 });
  const gone = append(again, { state: 'absent', nowMs: 4_000 });
  const chain = [first, withdrawn, again, gone];
  t.same(
    chain.map(({ version }) => version),
    [1, 2, 3, 4],
  );
  t.same(
    chain.map(({ state }) => state),
    ['active', 'withdrawn', 'active', 'absent'],
  );
  t.same(
    chain.slice(1).map(({ previousPublicationDigest }) => previousPublicationDigest),
    chain.slice(0, -1).map(({ publicationDigest }) => publicationDigest),
  );
  t.equal(new Set(chain.map(({ publicationDigest }) => publicationDigest)).size, 4);
});

t.test('only an active publication is withdrawn', async (t) => {
  const withdrawn = append(first, { state: 'withdrawn' });
  const absent = append(first, { state: 'absent' });
  for (const previous of [null, withdrawn, absent]) {
    t.throws(() => append(previous, { state: 'withdrawn' }), { name: 'InvariantError' });
  }
});

t.test('what is withdrawn or absent lists no workflow', async (t) => {
  t.same(append(first, { state: 'withdrawn' }).workflows, []);
  t.same(append(first, { state: 'absent' }).workflows, []);
});

t.test('a revision without workflows is absent, from its first entry on', async (t) => {
  const bare = append(null, { revision: { ...revision, workflows: [] } });
  t.match(bare, { state: 'absent', version: 1, workflows: [] });
});

t.test('nothing is active without its revision', async (t) => {
  t.throws(() => append(null, { revision: null }), { name: 'InvariantError' });
  t.equal(append(null, { revision: null, state: 'absent' }).state, 'absent');
});

t.test('time never goes back along the chain, whatever the clock does', async (t) => {
  const back = append(first, { state: 'withdrawn', nowMs: 5 });
  t.equal(back.publishedAtMs, 1_000);
  t.equal(append(back, { nowMs: 7_000 }).publishedAtMs, 7_000);
});

t.test('the digest of an entry covers every field of it', async (t) => {
  const { publicationDigest, ...contents } = first;
  t.equal(publicationDigest, digest(digestLabels.publication, contents));
  const changes: Partial<Publication>[] = [
    ...[{ state: 'withdrawn' as const }, { version: 2 }, { previousPublicationDigest: '9'.repeat(64) }],
    ...[{ lifecycleEventDigest: null }, { workflows: [] }, { publishedAtMs: 1_001 }],
    ...[{ target: { ...target, generation: 4 } }, { target: { ...target, projectId: 'other' } }],
  ];
  for (const change of changes) {
    const error = edgeErrorOf(() => verifyPublication({ ...first, ...change }));
    t.equal(error.code, 'damaged', JSON.stringify(change));
  }
  t.same(verifyPublication(structuredClone(first)), first);
});

t.test('an entry of a wrong shape is damaged', async (t) => {
  for (const key of Object.keys(first)) {
    const { [key as keyof Publication]: _, ...rest } = first;
    t.match(
      edgeErrorOf(() => verifyPublication(rest)),
      { code: 'damaged', mistakes: [{ path: key }] },
    );
  }
  for (const value of [null, [], 'x', { ...first, extra: 1 }, { ...first, state: 'paused' }]) {
    t.equal(edgeErrorOf(() => verifyPublication(value)).code, 'damaged');
  }
});

t.test('a generation digest covers every other field of the target', async (t) => {
  const { generationDigest, ...contents } = target;
  t.equal(generationDigest, digest(digestLabels.generation, contents));
  const others: Partial<GenerationTarget>[] = [
    ...[{ projectId: 'p' }, { packageName: 'q' }, { installationId: 'i' }, { lockDigest: '9'.repeat(64) }],
    ...[{ generation: 9 }, { materializedRevisionDigest: '9'.repeat(64) }],
  ];
  const digests = others.map((change) => sealGeneration({ ...contents, ...change }).generationDigest);
  t.equal(new Set([...digests, generationDigest]).size, others.length + 1);
});

t.test('a lifecycle begins active, moves along its table alone, and counts its events', async (t) => {
  const move = (previous: typeof installed | null, state: 'active' | 'disabled' | 'uninstalled', nowMs = 2_000) =>
    appendLifecycle({ previous, target, state, reason: 'because', nowMs });
  const disabled = move(installed, 'disabled');
  const enabled = move(disabled, 'active', 1);
  const gone = move(enabled, 'uninstalled', 3_000);
  t.same(
    [installed, disabled, enabled, gone].map(({ sequence }) => sequence),
    [1, 2, 3, 4],
  );
  t.same(
    [installed, disabled, enabled, gone].map(({ atMs }) => atMs),
    [1_000, 2_000, 2_000, 3_000],
  );
  t.equal(new Set([installed, disabled, enabled, gone].map((event) => event.lifecycleEventDigest)).size, 4);
  t.equal(move(disabled, 'uninstalled').state, 'uninstalled');
  for (const [previous, state] of [
    ...([
      [null, 'disabled'],
      [null, 'uninstalled'],
      [installed, 'active'],
      [disabled, 'disabled'],
    ] as const),
    ...([
      [gone, 'active'],
      [gone, 'disabled'],
      [gone, 'uninstalled'],
    ] as const),
  ]) {
    t.throws(() => move(previous, state), { name: 'InvariantError' }, `${previous?.state} → ${state}`);
  }
  const { lifecycleEventDigest, ...contents } = gone;
  t.equal(lifecycleEventDigest, digest(digestLabels.lifecycleEvent, contents));
});
