// Runtimes in an embedder's process: the built entry point, on a real server.
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type * as library from '../../src/postgres.ts';
import { writePackage } from '../program.ts';
import { createDatabase, openServer } from '../store/postgres/scene.ts';
import { bundledProgram } from './ground.ts';

const { openClusterRuntime } = createRequire(import.meta.url)(bundledProgram) as typeof library;
const databases = await openServer(t);

const manifest = JSON.stringify({
  schema: 'qinglong/package@v1',
  name: 'embedded',
  version: '1.0.0',
  tasks: { work: { run: ['/bin/true'] } },
  workflows: { main: { steps: { one: { task: 'work' }, two: { task: 'work', needs: ['one'] } } } },
});

type Open = (name: string, options?: Partial<library.ClusterOptions>) => Promise<library.ClusterRuntime>;

async function openSite(t: Test): Promise<{ readonly root: string; readonly open: Open; readonly database: string }> {
  const root = mkdtempSync(join(tmpdir(), 'library-'));
  const database = await createDatabase(t, databases);
  const url = databases.urlOf(database);
  const opened: library.ClusterRuntime[] = [];
  t.teardown(async () => {
    await Promise.all(opened.map((runtime) => runtime.close('detach').catch(() => {})));
    rmSync(root, { recursive: true, force: true });
  });
  return {
    root,
    database,
    async open(name, options = {}) {
      const place = { data: join(root, name), runDirectory: join(root, `${name}.run`) };
      const runtime = await openClusterRuntime({ url, ...place, leaseMs: 3_000, ...options });
      opened.push(runtime);
      return runtime;
    },
  };
}

async function typesOf(runtime: library.ClusterRuntime, runId: string): Promise<string[]> {
  const types: string[] = [];
  for await (const { type } of runtime.events(runId)) {
    types.push(type);
  }
  return types;
}

t.test('two runtimes in one process share runs; who only starts them follows them to their end', async (t) => {
  const { root, open } = await openSite(t);
  const seen: string[] = [];
  const handlersOf = (name: string) => ({
    'embedded/work': ({ stepKey }: { readonly stepKey: string }) => void seen.push(`${name} ${stepKey}`),
  });
  const caller = await open('caller', { drives: false });
  await caller.install(writePackage(join(root, 'package'), { 'qinglong.json': manifest }));
  await open('first', { handlers: handlersOf('first'), concurrency: 1 });
  await open('second', { handlers: handlersOf('second'), concurrency: 1 });
  const started = await Promise.all(
    Array.from({ length: 12 }, (_, index) =>
      caller.start({ packageName: 'embedded', workflowId: 'main', idempotencyKey: `key-${index}` }),
    ),
  );
  for (const outcome of started) {
    t.equal(outcome.kind, 'created');
    const runId = outcome.kind === 'created' ? outcome.receipt.runId : '';
    t.equal((await typesOf(caller, runId)).at(-1), 'workflow.succeeded');
    t.match(await caller.run(runId), { run: { status: 'succeeded' }, steps: [{ attempts: [{}] }, { attempts: [{}] }] });
  }
  t.equal(seen.length, 24, 'each step once');
  t.same(await caller.counts(), { runningCount: 0, setAsideCount: 0 });
  const again = await caller.start({ packageName: 'embedded', workflowId: 'main', idempotencyKey: 'key-0' });
  t.equal(again.kind, 'existing');
  t.equal((await caller.runs({ limit: 5 })).length, 5);
});

t.test('a run is cancelled and retried from another process than the one that carries it on', async (t) => {
  const { root, open } = await openSite(t);
  const begun = Promise.withResolvers<void>();
  let isFirst = true;
  const handler = ({ signal }: { readonly signal: AbortSignal }) => {
    if (!isFirst) {
      return;
    }
    isFirst = false;
    begun.resolve();
    return new Promise<void>((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(new RangeError('stopped')));
    });
  };
  const caller = await open('caller', { drives: false });
  await caller.install(writePackage(join(root, 'package'), { 'qinglong.json': manifest }));
  const runtime = await open('worker', { handlers: { 'embedded/work': handler } });
  const outcome = await caller.start({ packageName: 'embedded', workflowId: 'main' });
  const runId = outcome.kind === 'created' ? outcome.receipt.runId : '';
  await begun.promise;
  t.match(await caller.cancel(runId), { kind: 'requested' });
  t.equal((await typesOf(caller, runId)).at(-1), 'workflow.cancelled');
  const retried = await caller.retry({ runId });
  t.equal(retried.kind, 'created');
  const retryId = retried.kind === 'created' ? retried.receipt.runId : '';
  t.equal((await typesOf(caller, retryId)).at(-1), 'workflow.succeeded');
  await runtime.close();
  await t.rejects(runtime.start({ packageName: 'embedded', workflowId: 'main' }), { code: 'unavailable' });
});

t.test('options are checked, and no session stays behind', async (t) => {
  const { root, open, database } = await openSite(t);
  const wrong = { url: 'mysql://x', data: '', leaseMs: 5, connectionsMax: 99, drives: 'yes', color: 'red' };
  const refused = await openClusterRuntime(wrong as unknown as library.ClusterOptions).catch((error) => error);
  t.match(refused, { code: 'invalid' });
  t.same(refused.mistakes.map(({ path }: { readonly path: string }) => path).sort(), [...Object.keys(wrong)].sort());
  const unmigrated = databases.urlOf(await databases.createEmpty());
  await t.rejects(openClusterRuntime({ url: unmigrated, data: join(root, 'none') }), { code: 'unavailable' });
  const runtime = await open('one');
  await runtime.close();
  const [row] = await databases.query(
    'postgres',
    `SELECT count(*)::integer AS count FROM pg_stat_activity WHERE datname = '${database}'`,
  );
  t.same(row, { count: 0 });
});
