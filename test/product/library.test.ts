// The library as embedders load it: the built entry point, in this process.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type * as library from '../../src/index.ts';
import { until } from '../executor/until.ts';
import { attemptDirectories, createSite, writePackage } from './product.ts';

const { openRuntime } = createRequire(import.meta.url)('../../dist/index.cjs') as typeof library;

const manifest = JSON.stringify({
  schema: 'qinglong/package@v1',
  name: 'embedded',
  version: '1.0.0',
  tasks: { work: { run: ['/bin/true'] } },
  workflows: {
    main: { steps: { one: { task: 'work' }, two: { task: 'work', needs: ['one'] } } },
    short: { timeout: '300ms', steps: { one: { task: 'work' } } },
  },
});

async function open(t: Test, options: Partial<library.OpenOptions> = {}) {
  const { root, data, run } = createSite(t);
  const runtime = await openRuntime({ data, runDirectory: run, ...options });
  t.teardown(() => runtime.close('detach').catch(() => {}));
  await runtime.install(writePackage(join(root, 'package'), { 'qinglong.json': manifest }));
  return runtime;
}

async function start(runtime: library.EdgeRuntime, workflowId = 'main'): Promise<string> {
  const started = await runtime.start({ packageName: 'embedded', workflowId });
  if (started.kind !== 'created') {
    throw new TypeError(started.kind);
  }
  return started.receipt.runId;
}

async function typesOf(runtime: library.EdgeRuntime, runId: string): Promise<string[]> {
  const types: string[] = [];
  for await (const event of runtime.events(runId)) {
    types.push(event.type);
  }
  return types;
}

t.test('handlers stand in for commands, and what they throw is data', async (t) => {
  const seen: string[] = [];
  const runtime = await open(t, {
    handlers: {
      'embedded/work': ({ stepKey, attemptNumber }) => {
        seen.push(`${stepKey} ${attemptNumber}`);
        if (stepKey === 'two') {
          throw new RangeError('too much');
        }
      },
    },
  });
  const runId = await start(runtime);
  t.equal((await typesOf(runtime, runId)).at(-1), 'workflow.failed');
  t.same(seen, ['one 1', 'two 1']);
  const { steps } = await runtime.run(runId);
  t.match(steps[1]?.attempts[0], {
    status: 'failed',
    errorCode: 'handler_error',
    errorSummary: 'RangeError: too much',
  });
  t.equal(steps[0]?.attempts[0]?.exitCode, null, 'a handler has no exit code');
});

t.test('wrong arguments are refused with their names, and harm nothing', async (t) => {
  const runtime = await open(t);
  const call = async (verb: string, args: readonly unknown[]) =>
    (runtime as unknown as Record<string, (...args: readonly unknown[]) => unknown>)[verb]?.(...args);
  for (const [verb, args] of [
    ['cancel', [undefined]],
    ['cancel', [{}]],
    ['start', []],
    ['start', ['embedded/main']],
    ['start', [{}]],
    ['retry', []],
    ['changeSetting', []],
    ['settings', []],
    ['runs', [null]],
    ['runs', [{ limit: 0 }]],
    ['runs', [{ status: 'lost' }]],
    ['runs', [{ packageName: 7 }]],
    ['events', []],
    ['close', ['later']],
    ['start', [{ packageName: {}, workflowId: 'main' }]],
    ['start', [{ packageName: 'embedded', workflowId: 'main', idempotencyKey: '' }]],
    ['run', [undefined]],
    ['advance', [-1]],
    ['advance', [Number.NaN]],
    ['install', [7]],
  ] as const) {
    await t.rejects(call(verb, args), { code: 'invalid', hint: /^(call|correct)/ }, `${verb} ${JSON.stringify(args)}`);
  }
  await t.rejects(typesOf(runtime, undefined as unknown as string), { code: 'invalid' });
  t.equal((await typesOf(runtime, await start(runtime))).at(-1), 'workflow.succeeded', 'it still works');
});

t.test('runs and settings of a package can be read', async (t) => {
  const runtime = await open(t);
  t.same(await runtime.runs(), []);
  const runId = await start(runtime);
  await typesOf(runtime, runId);
  t.match(await runtime.runs({ status: 'succeeded' }), [{ id: runId, packageName: 'embedded', setAside: null }]);
  t.same(await runtime.runs({ beforeRunId: runId }), []);
  t.same(await runtime.settings('embedded'), []);
  await runtime.changeSetting({ packageName: 'embedded', name: 'spare', value: 'x' });
  t.match(await runtime.settings('embedded'), [{ name: 'spare', state: 'unused', value: 'x' }]);
  await t.rejects(runtime.settings('none'), { code: 'not-found' });
});

t.test('a run that has ended is retried, and both tell of each other', async (t) => {
  let fails = true;
  const runtime = await open(t, {
    handlers: {
      'embedded/work': () => {
        if (fails) {
          throw new RangeError('not yet');
        }
      },
    },
  });
  const runId = await start(runtime);
  await typesOf(runtime, runId);
  fails = false;
  const retried = await runtime.retry({ runId, idempotencyKey: 'again' });
  if (retried.kind !== 'created') {
    throw new TypeError(retried.kind);
  }
  t.equal((await typesOf(runtime, retried.receipt.runId)).at(-1), 'workflow.succeeded');
  t.same((await runtime.run(runId)).retriedByRunIds, [retried.receipt.runId]);
  t.equal((await runtime.run(retried.receipt.runId)).run.retryOfRunId, runId);
  t.same(await runtime.retry({ runId, idempotencyKey: 'again' }), { kind: 'existing', receipt: retried.receipt });
  t.match(await runtime.retry({ runId: 'run-unknown' }), { kind: 'not-found' });
});

t.test('the setting onStop says what close does by itself', async (t) => {
  const { root, data, run } = createSite(t);
  const directory = writePackage(join(root, 'package'), {
    'qinglong.json': manifest.replace('/bin/true"', '/bin/sleep", "30"'),
  });
  const open = (options: Partial<library.OpenOptions>) => openRuntime({ data, runDirectory: run, ...options });
  const first = await open({ onStop: 'detach', concurrency: 2, stopLimit: '3s' });
  await first.install(directory);
  const runId = await start(first);
  for await (const { type } of first.events(runId)) {
    if (type === 'attempt.started') {
      break;
    }
  }
  // Until its command has taken the start, the next one would take that back.
  await until(() =>
    attemptDirectories({ root, data, run }).some((id) => existsSync(join(run, 'attempts', id, 'taken'))),
  );
  await first.close();
  const second = await open({});
  t.match((await second.run(runId)).run, { status: 'running' }, 'it was left');
  await second.close();
  const third = await open({});
  t.match(await third.run(runId), {
    run: { status: 'failed' },
    steps: [{ attempts: [{ errorCode: 'shutdown' }] }, {}],
  });
  await third.close();
});

t.test('wrong options are refused with their names, all at once, and make no directory', async (t) => {
  const options = { data: '', profil: 'edge', concurrency: 0, handlers: { 'embedded/work': 1 } };
  await t.rejects(openRuntime(options as unknown as library.OpenOptions), {
    code: 'invalid',
    mistakes: [{ path: 'data' }, { path: 'profil' }, { path: 'concurrency' }, { path: 'handlers' }],
  });
});

t.test('runs started in a burst are all held to their timeout', async (t) => {
  const runtime = await open(t, {
    handlers: { 'embedded/work': ({ signal }) => new Promise((resolve) => signal.addEventListener('abort', resolve)) },
  });
  const runIds = await Promise.all(Array.from({ length: 250 }, () => start(runtime, 'short')));
  const ends = new Set<string | undefined>();
  for (const runId of runIds) {
    ends.add((await typesOf(runtime, runId)).at(-1));
  }
  t.same([...ends], ['workflow.timed_out']);
});

t.test(
  'a handler that ignores its abort does not hold the end up for ever, and nothing starts meanwhile',
  async (t) => {
    let begun = () => {};
    const isBegun = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const runtime = await open(t, {
      handlers: {
        'embedded/work': () => {
          begun();
          return new Promise(() => {});
        },
      },
    });
    await start(runtime);
    await isBegun;
    const closed = runtime.close();
    await t.rejects(start(runtime), { code: 'unavailable' });
    await t.rejects(closed, { code: 'unavailable', message: /did not end/ });
  },
);
