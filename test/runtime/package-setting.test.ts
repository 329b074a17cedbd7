// Settings of a package through the library, and what an attempt is begun with.
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type EdgeRuntime, type Handlers, openRuntime } from '../../src/index.ts';
import type { Launch } from '../../src/protocol/attempt.ts';
import { beginAttempt } from '../../src/runtime/begin-attempt.ts';
import { realSalts } from '../../src/runtime/ports.ts';
import { createSite, writePackage } from '../product/product.ts';

const packageName = 'embedded';
const manifest = JSON.stringify({
  schema: 'qinglong/package@v1',
  name: packageName,
  version: '1.0.0',
  tasks: { work: { run: ['/bin/true'], env: { MODE: 'fast', TOKEN: { setting: 'API_TOKEN' } } } },
  workflows: { main: { steps: { one: { task: 'work' } } } },
});

async function open(t: Test, handlers: Handlers = {}): Promise<EdgeRuntime> {
  const { root, data, run } = createSite(t);
  const runtime = await openRuntime({ data, runDirectory: run, handlers });
  t.teardown(() => runtime.close('stop'));
  await runtime.install(writePackage(join(root, 'package'), { 'qinglong.json': manifest }));
  return runtime;
}

/** Runs the one workflow to its end and gives the one attempt. */
async function attemptOf(runtime: EdgeRuntime) {
  const started = await runtime.start({ packageName, workflowId: 'main' });
  if (started.kind !== 'created') {
    throw new TypeError(started.kind);
  }
  const { runId } = started.receipt;
  for await (const _ of runtime.events(runId)) {
    // To the end.
  }
  return (await runtime.run(runId)).steps[0]!.attempts[0]!;
}

t.test('a handler gets the settings in its environment; without one that it needs, it is not called', async (t) => {
  const seen: unknown[] = [];
  const runtime = await open(t, { 'embedded/work': ({ env }) => void seen.push(env) });
  t.match(await attemptOf(runtime), { status: 'failed', errorCode: 'setting_missing', exitCode: null });
  t.same(await runtime.changeSetting({ packageName, name: 'API_TOKEN', value: 'x' }), {
    kind: 'changed',
    isAsked: true,
    nearestName: null,
  });
  t.match(await attemptOf(runtime), { status: 'succeeded' });
  t.match(await runtime.changeSetting({ packageName, name: 'API_TOKEN', value: null }), { kind: 'changed' });
  t.match(await attemptOf(runtime), { status: 'failed', errorCode: 'setting_missing' });
  t.same(seen, [{ MODE: 'fast', TOKEN: 'x' }]);
});

t.test('what is no setting is refused with every mistake, and the value is not repeated', async (t) => {
  const runtime = await open(t);
  const refused = [
    [{ packageName, name: 'a-b', value: 'hunter2\0' }, ['name', 'value']],
    [{ packageName, name: 'A', value: 'hunter2'.repeat(20_000) }, ['value']],
    [{ packageName, name: 'A', value: 'hunter2\ud800' }, ['value']],
    [{ packageName, name: 'A', value: ['hunter2'] as unknown as string }, ['value']],
    [{ packageName, name: 7 as unknown as string, value: null }, ['name']],
    [{ packageName: 'Hunter2', name: 'A', value: null }, ['packageName']],
  ] as const;
  for (const [request, paths] of refused) {
    const error: unknown = await runtime.changeSetting(request).catch((thrown: unknown) => thrown);
    t.match(error, { code: 'invalid', mistakes: paths.map((path) => ({ path })) }, paths.join());
    t.notMatch(JSON.stringify([error, `${error}`]), 'hunter2');
  }
});

t.test('of many missing settings the first are named, and how many more there are', async (t) => {
  const settingNames = Array.from({ length: 11 }, (_, index) => `NAME_${index}`);
  const launch = { attemptId: 'at_1', packageName, environment: { kind: 'lacking', settingNames } } as const;
  const never = () => t.fail('nothing is started');
  const ended = await new Promise((resolve) => {
    let isInside = true;
    beginAttempt(launch as unknown as Launch, {
      executor: { start: never },
      handlers: { start: never },
      packagesDirectory: '/',
      guard: { check: () => null },
      isTooLate: () => false,
      base: {},
      onEnd: (attemptId, end) => resolve({ attemptId, end, isInside }),
    });
    isInside = false;
  });
  t.match(ended, {
    attemptId: 'at_1',
    isInside: false,
    end: {
      kind: 'spawn-failed',
      errorCode: 'setting_missing',
      errorSummary: /^settings NAME_0, .*, NAME_7 and 3 more have neither .*`settings set embedded NAME VALUE`, each$/,
    },
  });
});

t.test('a salt is 16 bytes, and no two are the same', async (t) => {
  const salts = Array.from({ length: 100 }, () => realSalts().fresh());
  t.ok(salts.every((salt) => /^[0-9a-f]{32}$/.test(salt)));
  t.equal(new Set(salts).size, salts.length);
});
