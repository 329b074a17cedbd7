// Text is never SQL: whatever stands in a field, it is that text, or it is refused. Every read and every write of the
// store is given hostile ones in each of its text fields.
import t from 'tap';
import { changeLifecycle, quarantine } from '../../../src/protocol/package.ts';
import { changeSetting } from '../../../src/protocol/package-setting.ts';
import type { Operation } from '../../../src/protocol/protocol.ts';
import { operation } from '../../../src/protocol/protocol.ts';
import { addPublisher, revokePublisher } from '../../../src/protocol/publisher.ts';
import { type ReadName, type ReadRequest, read } from '../../../src/protocol/reads.ts';
import { setAsideRun } from '../../../src/protocol/set-aside.ts';
import { installRevision, rowsOf, sampleRevision, startRun } from '../../contract/world.ts';
import { createDatabase, openScene, openServer } from './scene.ts';

const hostile = [
  "'; DROP TABLE ql3.runs CASCADE; --",
  "' OR ''='",
  '"; DELETE FROM ql3.runs; --',
  "\\'; DROP SCHEMA ql3 CASCADE; --",
  '$1',
  ':runId',
  '$$; DROP SCHEMA ql3 CASCADE; $$',
  '{"$ne": null}',
  "E'\\x00'",
  "a'||(SELECT pg_sleep(30))||'",
  '\u0000',
  '\uf8ff0000',
  '\u02bc OR 1=1 --',
  '/* FOR UPDATE */',
] as const;

const databases = await openServer(t);
const database = await createDatabase(t, databases);
const url = databases.urlOf(database);
const scene = await openScene(t, url);
const { store } = scene;
await installRevision(scene, sampleRevision());
const runId = await startRun(scene);
const before = await fingerprintOf();

/** Everything that is stored, and the schema; counted and digested by the server. */
async function fingerprintOf(): Promise<unknown> {
  const tables = await databases.query(
    database,
    "SELECT table_name FROM information_schema.tables WHERE table_schema = 'ql3' ORDER BY table_name",
  );
  const counts = tables.map(({ table_name: name }) => {
    return `SELECT '${name}' AS name, count(*) AS count, md5(coalesce(string_agg(x::text, '' ORDER BY x::text), ''))
      FROM ql3.${name} AS x`;
  });
  return databases.query(database, counts.join(' UNION ALL '));
}

const page = { limit: 64, after: { admittedAtMs: 0, planDigest: '' } };

/** Every read with a hostile text in each of its fields. */
const readsOf = (text: string): { readonly [N in ReadName]: ReadRequest<N>['args'] } => ({
  plan: { runId: text },
  run: { runId: text },
  wholeRun: { runId: text },
  step: { runId: text, stepRunId: text },
  events: { runId: text, after: 0, limit: 64 },
  eventCount: { runId: text, types: [text as 'step.created'] },
  admission: { planId: text },
  admissionOfRun: { runId: text },
  admissionOfStart: { projectId: text, idempotencyKey: text },
  keyOfPlan: { planId: text },
  keyOfStart: { projectId: text, idempotencyKey: text },
  runIds: { prefix: text, limit: 64 },
  isRunKnown: { runId: text },
  retriesOfRun: { runId: text, limit: 64 },
  package: { projectId: text, packageName: text },
  packages: { projectId: text },
  packageOfRun: { runId: text },
  settings: { projectId: text, packageName: text },
  startFacts: { projectId: text, packageName: text, installationId: text, lockDigest: 'a'.repeat(64) },
  lockCondemnation: { projectId: text, packageName: text, lockDigest: 'a'.repeat(64) },
  installations: { projectId: text },
  packageFiles: { lockDigest: text },
  publisher: { keyId: text },
  publishers: {},
  candidates: { ...page, after: { admittedAtMs: 0, planDigest: text } },
  readySteps: { ...page, except: [text] },
  activeSteps: { limit: 64 },
  runCounts: {},
  runningRuns: { ...page, after: { admittedAtMs: 0, planDigest: text } },
  condemnedRuns: { ...page, after: { admittedAtMs: 0, planDigest: text } },
  runs: { limit: 64, beforeRunId: text, status: text as 'running', packageName: text },
  setAside: { runId: text },
  strayRuns: { limit: 64, after: text },
  allSetAside: { limit: 64, after: text },
});

t.test('no text in a read is anything but that text', async (t) => {
  for (const text of hostile) {
    for (const [name, args] of Object.entries(readsOf(text))) {
      const asked = store.read(read(name as ReadName, args as never));
      const answer = await asked.catch((error: { code: string }) => error.code);
      const isMeant = name === 'readySteps' || name === 'publishers' || name === 'allSetAside';
      const isNothing = isMeant || name === 'runCounts' || isEmpty(answer) || answer === 'invalid';
      t.ok(isNothing, `${name} of ${JSON.stringify(text)} answers ${JSON.stringify(answer)}`);
    }
  }
  t.same(await fingerprintOf(), before);
});

/** Whether nothing was found. */
function isEmpty(answer: unknown): boolean {
  if (answer === null || answer === false || answer === 0) {
    return true;
  }
  return typeof answer === 'object' && Object.values(answer as object).every((value) => isEmpty(value));
}

t.test('a text that may be anything is stored as it is', async (t) => {
  for (const [index, text] of hostile.entries()) {
    const world = await openScene(t, databases.urlOf(await createDatabase(t, databases)));
    await installRevision(world, sampleRevision());
    const run = await startRun(world);
    const packagePlace = { projectId: 'local', packageName: 'sample' };
    const operations: readonly Operation[] = [
      operation(changeSetting, {
        ...packagePlace,
        name: 'token',
        value: text,
        salt: 'ab'.repeat(16),
      }) as Operation,
      operation(setAsideRun, { runId: run, code: 'damaged', summary: text }) as Operation,
      operation(addPublisher, { publicKey: 'ab'.repeat(32) }) as Operation,
      operation(changeLifecycle, { ...packagePlace, to: 'disabled', reason: text }) as Operation,
      operation(quarantine, { ...packagePlace, reason: text, requestedBy: 'tester' }) as Operation,
    ];
    for (const each of operations) {
      await world.store.submit(each);
    }
    const keyId = (await world.store.read(read('publishers', {})))[0]!.keyId;
    await world.store.submit(operation(revokePublisher, { projectId: 'local', keyId, reason: text, requestedBy: 'x' }));
    const settings = await world.store.read(read('settings', packagePlace));
    t.match(settings, [{ value: text }], `a setting, text ${index}`);
    t.match(await world.store.read(read('setAside', { runId: run })), { summary: text });
    const head = await world.store.read(read('package', packagePlace));
    t.match(head, { quarantineReason: text, lifecycle: { reason: text } });
    t.match(await world.store.read(read('publishers', {})), [{ revokeReason: text }]);
    t.same(world.failures, []);
  }
});

t.test('an id that is none is refused by what it is stored in, and nothing of it stays', async (t) => {
  for (const text of hostile) {
    const setAside = { runId: `${text}${'x'.repeat(40)}`, code: 'damaged', summary: '', atMs: 0 };
    const write: Operation = {
      name: 'set-aside',
      freshIds: 0,
      collided: null,
      load: () => ({}),
      decide: () => ({ outcome: null, ledger: [{ write: 'set-aside', setAside }] }),
    };
    await t.rejects(store.submit(write), { name: 'EdgeError' });
  }
  t.same(await fingerprintOf(), before);
  t.match((await rowsOf(scene, runId)).run, { status: 'running' });
});

t.test('the database is still the one that this program made', async (t) => {
  await openScene(t, url);
});
