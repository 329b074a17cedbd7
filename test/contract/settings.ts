// Contract: what a device sets for the commands of a package. Run against every store.
import type { Test } from 'tap';
import { limits } from '../../src/core/limits.ts';
import { type Launch, startAttempt } from '../../src/protocol/attempt.ts';
import { changeSetting } from '../../src/protocol/package-setting.ts';
import { operation } from '../../src/protocol/protocol.ts';
import { read } from '../../src/protocol/reads.ts';
import { verifyRun } from '../../src/runtime/verification.ts';
import {
  attemptAdmission,
  type ContractCase,
  endAttempt,
  exitZero,
  installRevision,
  moveLifecycle,
  packageName,
  projectId,
  rowsOf,
  sampleRevision,
  startRun,
  stepOf,
  type World,
} from './world.ts';

const secret = 'hunter2 密\n';
const place = { projectId, packageName };
const asking = {
  steps: { one: [] },
  task: {
    env: { MODE: 'fast', TOKEN: { setting: 'API_TOKEN', default: null }, ZONE: { setting: 'zone', default: 'here' } },
    retry: { limit: 3, backoffMs: 0, factor: 1, maxMs: 0, on: ['failed' as const] },
  },
};

/** `saltDigit` stands for fresh random bytes. */
function change({ store }: World, name: string, value: string | null, saltDigit = 'a') {
  return store.submit(operation(changeSetting, { ...place, name, value, salt: saltDigit.repeat(32) }));
}

async function claim({ store }: World, runId: string, stepRunId: string): Promise<string> {
  const claimed = await store.submit(attemptAdmission({ runId, stepRunId }));
  if (claimed.kind !== 'claimed') {
    throw new TypeError(`not claimed: ${JSON.stringify(claimed)}`);
  }
  return claimed.attemptId;
}

/** What the next attempt of step `one` is started with. */
async function launch(world: World, runId: string): Promise<Launch> {
  const { id: stepRunId } = await stepOf(world, runId, 'one');
  const attemptId = await claim(world, runId, stepRunId);
  const started = await world.store.submit(operation(startAttempt, { runId, stepRunId, attemptId }));
  if (started.kind !== 'started') {
    throw new TypeError(`not started: ${started.reason}`);
  }
  return started.launch;
}

async function executionDigests(world: World, runId: string): Promise<readonly string[]> {
  return [...(await rowsOf(world, runId)).attempts.values()].map(({ executionDigest }) => executionDigest);
}

async function namesSet({ store }: World): Promise<readonly string[]> {
  return (await store.read(read('settings', place))).map(({ name }) => name);
}

async function assertSilent(t: Test, world: World, runId: string): Promise<void> {
  const events = await world.store.read(read('events', { runId, after: 0, limit: 64 }));
  const told = JSON.stringify([events, [...(await rowsOf(world, runId)).attempts.values()]]);
  t.notMatch(told, 'hunter2', 'no event and no record holds the value');
  t.same((await verifyRun(world.store, runId)).differences, [], 'history folds to the present');
}

export const settingsContract: readonly ContractCase[] = [
  {
    name: 'an attempt takes the settings of its moment, and its digest tells that they changed but not to what',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision(asking));
      const runId = await startRun(world);
      const values = [null, secret, 'other', 'other'];
      for (const [index, value] of values.entries()) {
        await change(world, 'API_TOKEN', value, `${index}`);
        const { environment, runId: _, ...started } = await launch(world, runId);
        t.same(
          environment,
          value === null
            ? { kind: 'lacking', settingNames: ['API_TOKEN'] }
            : { kind: 'complete', variables: { MODE: 'fast', TOKEN: value, ZONE: 'here' } },
        );
        const attempt = { runId, stepRunId: started.stepRunId, attemptId: started.attemptId };
        await endAttempt(world, attempt, { ...exitZero, exitCode: 1 });
      }
      const [lacking, first, second, again] = await executionDigests(world, runId);
      t.equal(new Set([lacking, first, second]).size, 3);
      t.equal(again, second, 'the same value set again stays what it was');
      t.match((await rowsOf(world, runId)).run, { status: 'failed' });
      await assertSilent(t, world, runId);
    },
  },

  {
    name: 'the digest of a value is salted: set, unset and set again, it is another one',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision(asking));
      await change(world, 'API_TOKEN', secret, '1');
      const first = await startRun(world);
      await launch(world, first);
      await change(world, 'API_TOKEN', null);
      await change(world, 'API_TOKEN', secret, '2');
      const second = await startRun(world);
      await launch(world, second);
      const digests = [...(await executionDigests(world, first)), ...(await executionDigests(world, second))];
      t.equal(new Set(digests).size, 2);
    },
  },

  {
    name: 'a setting that changes between claim and start barrier holds the start up',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision(asking));
      const runId = await startRun(world);
      const { id: stepRunId } = await stepOf(world, runId, 'one');
      const attemptId = await claim(world, runId, stepRunId);
      const start = () => world.store.submit(operation(startAttempt, { runId, stepRunId, attemptId }));
      await change(world, 'API_TOKEN', secret);
      t.same(await start(), { kind: 'refused', reason: 'moved' });
      await change(world, 'API_TOKEN', null);
      await change(world, 'other', 'x');
      t.match(await start(), { kind: 'started' }, 'what it was claimed with, whatever else is set');
    },
  },

  {
    name: 'setting says whether it was asked for, and which name was perhaps meant',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      const known = { isAsked: true, nearestName: null };
      t.match(await change(world, 'API_TOKEN', secret), { kind: 'not-found' });
      await installRevision(world, sampleRevision(asking));
      t.same(await change(world, 'API_TOKEN', null), { kind: 'unchanged', ...known });
      t.same(await change(world, 'API_TOKEN', secret), { kind: 'changed', ...known });
      t.same(await change(world, 'API_TOKEN', secret), { kind: 'unchanged', ...known });
      t.same(await change(world, 'zone', ''), { kind: 'changed', ...known }, 'an empty value is a value');
      t.same(await change(world, 'API_TOKNE', 'x'), { kind: 'changed', isAsked: false, nearestName: 'API_TOKEN' });
      t.same(await change(world, 'q', 'x'), { kind: 'changed', isAsked: false, nearestName: null });
      t.same(await namesSet(world), ['API_TOKEN', 'API_TOKNE', 'q', 'zone']);
      t.same(await change(world, 'API_TOKNE', null), { kind: 'changed', isAsked: false, nearestName: 'API_TOKEN' });
      t.same(await namesSet(world), ['API_TOKEN', 'q', 'zone']);
    },
  },

  {
    name: 'settings outlive an upgrade and uninstalling, until they are unset',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision(asking));
      await change(world, 'API_TOKEN', secret);
      await installRevision(world, sampleRevision({ ...asking, lock: 'b' }));
      t.match((await launch(world, await startRun(world))).environment, { variables: { TOKEN: secret } });
      await moveLifecycle(world, 'uninstalled');
      t.same(await namesSet(world), ['API_TOKEN']);
      t.match(await change(world, 'API_TOKEN', null), { kind: 'changed' }, 'also while it is not installed');
      t.same(await namesSet(world), []);
      t.match(await change(world, 'API_TOKEN', secret), { kind: 'changed' });
      await installRevision(world, sampleRevision({ ...asking, lock: 'c' }));
      t.match((await launch(world, await startRun(world))).environment, { variables: { TOKEN: secret } });
    },
  },

  {
    name: 'a value may be as long as a variable can be, and comes back as it was',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision(asking));
      const longest = '密'.repeat(Math.floor(limits.argumentBytesMax / 3));
      t.match(await change(world, 'API_TOKEN', longest), { kind: 'changed' });
      const { environment } = await launch(world, await startRun(world));
      t.ok(environment.kind === 'complete' && environment.variables['TOKEN'] === longest);
      t.match(await change(world, 'API_TOKEN', ''), { kind: 'changed' }, 'an empty one takes its place');
      t.match((await launch(world, await startRun(world))).environment, { variables: { TOKEN: '' } });
    },
  },
];
