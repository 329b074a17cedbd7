// Text is never SQL: whatever stands in a field, it is that text, or it is refused. Every read and every write of the
// store is given hostile ones in each of its text fields.
import t from 'tap';
import { cancel } from '../../../src/protocol/cancel.ts';
import { changeLifecycle, quarantine } from '../../../src/protocol/package.ts';
import { changeSetting } from '../../../src/protocol/package-setting.ts';
import type { Operation } from '../../../src/protocol/protocol.ts';
import { operation } from '../../../src/protocol/protocol.ts';
import { addPublisher, revokePublisher } from '../../../src/protocol/publisher.ts';
import { type ReadName, type ReadRequest, read } from '../../../src/protocol/reads.ts';
import { setAsideRun } from '../../../src/protocol/set-aside.ts';
import { installRevision, rowsOf, sampleRevision, startRun } from '../../contract/world.ts';
import { fingerprintOf } from './fingerprint.ts';
import { openLeaseScene, until } from './lease-scene.ts';
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
const look = (name = database) => fingerprintOf(databases, name);
const before = await look();

const cancelling = (id: string) => ({ runId: id, reason: 'user' as const, requestedBy: 'tester' });

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
  busyOfWorkflow: { packageName: text, workflowId: text },
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
      const isNothing = isMeant || name === 'runCounts' || answer === 0 || isEmpty(answer) || answer === 'invalid';
      t.ok(isNothing, `${name} of ${JSON.stringify(text)} answers ${JSON.stringify(answer)}`);
    }
  }
  t.same(await look(), before);
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
  t.same(await look(), before);
  t.match((await rowsOf(scene, runId)).run, { status: 'running' });
});

t.test('no text that is given with a lease is anything but that text', async (t) => {
  const { leases, store: other, database: name, ...held } = await openLeaseScene(t, databases);
  const [heldId] = (await held.startRuns(1)) as [string];
  await leases.register('holder', 'here');
  const [lease] = await leases.claim('holder', 1);
  const beforeAll = await look(name);
  const digest = 'a'.repeat(64);
  for (const text of hostile) {
    const asked: Readonly<Record<string, () => Promise<unknown>>> = {
      renew: () => leases.renew(text),
      toHalt: () => leases.toHalt(text),
      claim: () => leases.claim(text, 0),
      resign: () => leases.resign(text),
      find: () => leases.find(text),
      'drop a run': () => leases.drop({ ...lease!, runId: text }),
      'drop of a worker': () => leases.drop({ ...lease!, workerId: text }),
      'note for a run': () => leases.noteHalted({ ...lease!, runId: text }),
      'note of a worker': () => leases.noteHalted({ ...lease!, workerId: text }),
      'get of a digest': () => leases.getContents(text, 'file'),
      'get of a path': () => leases.getContents(digest, text),
      'submit for a run': () => other.submitUnder(operation(cancel, cancelling(heldId)), { ...lease!, runId: text }),
      'submit of a worker': () =>
        other.submitUnder(operation(cancel, cancelling(heldId)), { ...lease!, workerId: text }),
      'put of a digest': () => leases.putContents(text, [{ path: 'file', bytes: Buffer.from('x') }]),
    };
    for (const [verb, ask] of Object.entries(asked)) {
      const answer = await ask().catch((error: { code: string }) => error.code);
      const isNothing = answer === undefined || isEmpty(answer) || answer === 'invalid' || answer === 'unavailable';
      t.ok(isNothing, `${verb} ${JSON.stringify(text)} answers ${JSON.stringify(answer)}`);
    }
    t.same(await look(name), beforeAll, JSON.stringify(text));
  }
});

t.test('what a worker says, what is notified and how a file is called may be any text without NUL', async (t) => {
  const { leases, ...held } = await openLeaseScene(t, databases);
  const [heldId] = (await held.startRuns(1)) as [string];
  const heard: string[] = [];
  leases.listen((what) => heard.push(what));
  await until(async () => (await held.query("SELECT FROM pg_stat_activity WHERE query LIKE 'LISTEN %'")).length === 1);
  const digest = 'a'.repeat(64);
  const bytes = Buffer.from([0, 39, 92, 255]);
  for (const [index, text] of hostile.entries()) {
    const all = () => [
      leases.register(`w-${index}`, text),
      leases.notify(text),
      leases.putContents(digest, [{ path: text, bytes }]),
    ];
    if (text.includes('\u0000')) {
      for (const refused of await Promise.allSettled(all())) {
        t.match(refused, { status: 'rejected', reason: { code: 'invalid' } });
      }
      continue;
    }
    await Promise.all(all());
    t.match(await leases.claim(`w-${index}`, 1), [{ runId: heldId }]);
    t.match(await leases.find(heldId), { isHeld: true, workerId: `w-${index}`, described: text });
    await leases.resign(`w-${index}`);
    t.same(await leases.getContents(digest, text), bytes);
    await until(() => heard.length > index - 1 && heard.includes(text));
  }
  t.same(
    heard,
    hostile.filter((text) => !text.includes('\u0000')),
  );
  t.same(await held.query('SELECT count(*)::int AS count FROM ql3.package_contents'), [{ count: heard.length }]);
});

t.test('a worker under any name is that worker, or is refused', async (t) => {
  const { leases, database: name } = await openLeaseScene(t, databases);
  const beforeAll = await look(name);
  for (const text of hostile) {
    const registered = await leases.register(text, 'here').then(
      () => true,
      (error: { name: string }) => error.name,
    );
    t.ok(registered === true || registered === 'EdgeError');
    t.equal(await leases.renew(text).catch(() => false), registered === true, JSON.stringify(text));
    await leases.resign(text).catch(() => {});
    await databases.query(name, 'DELETE FROM ql3.workers');
    t.same(await look(name), beforeAll);
  }
});

t.test('the database is still the one that this program made', async (t) => {
  await openScene(t, url);
});
