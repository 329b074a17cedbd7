// The whole way: a real engine on a real SQLite store, reached through its socket.
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { EdgeError } from '../../src/core/errors.ts';
import type { RunEvent } from '../../src/core/events.ts';
import { createSocketClient } from '../../src/http/client.ts';
import { type HolderOptions, openHolder } from '../../src/http/holder.ts';
import { askStatus, askToStop } from '../../src/http/holder-client.ts';
import type { HolderStatus } from '../../src/http/routes.ts';
import type { StorePorts } from '../../src/runtime/engine.ts';
import { defaultSettings } from '../../src/runtime/settings.ts';
import { openSqliteStore } from '../../src/sqlite.ts';
import { launcherShell } from '../launcher-shell.ts';
import { ask, askJson, makeDirectory, rejection } from './scene.ts';

type Teardown = { teardown(action: () => unknown): void };

function writePackage(directory: string): string {
  const target = path.join(directory, 'package');
  mkdirSync(target);
  const manifest = {
    schema: 'qinglong/package@v1',
    name: 'net-watch',
    version: '1.0.0',
    tasks: { quick: { shell: 'true' }, long: { run: ['/bin/sleep', '600'], grace: '0s' } },
    workflows: {
      nightly: { steps: { first: { task: 'quick' }, second: { task: 'quick', needs: ['first'] } } },
      endless: { steps: { only: { task: 'long' } } },
    },
  };
  writeFileSync(path.join(target, 'qinglong.json'), JSON.stringify(manifest));
  return target;
}

function optionsFor(directory: string, overrides: Partial<HolderOptions> = {}): HolderOptions {
  const data = path.join(directory, 'data');
  return {
    data,
    runDirectory: path.join(directory, 'run'),
    handlers: {},
    drives: true,
    log: () => {},
    onOutput: null,
    settings: { ...defaultSettings('edge'), ...(launcherShell && { shell: launcherShell }) },
    command: 'test',
    openStore: async (ports, identity) => openStore(data, ports, identity),
    ...overrides,
  };
}

function openStore(data: string, ports: StorePorts, identity: { command: string; socket: string }) {
  const report = { failed: () => {}, closedForGood: () => {} };
  return openSqliteStore({ data, ...ports, ...identity, report });
}

async function openHeld(t: Teardown) {
  const directory = makeDirectory(t);
  const holder = await openHolder(optionsFor(directory));
  t.teardown(() => holder.close('stop'));
  return { directory, holder, client: createSocketClient({ socketPath: holder.socketPath }) };
}

async function collect(events: AsyncIterable<RunEvent>): Promise<readonly string[]> {
  const seen: string[] = [];
  for await (const { type } of events) {
    seen.push(type);
  }
  return seen;
}

const nightly = { packageName: 'net-watch', workflowId: 'nightly', idempotencyKey: 'k-1', requestedBy: 'cli' };

t.test('a package is installed, run and followed to its end through the socket', async (t) => {
  const { directory, client, holder } = await openHeld(t);
  const installed = await client.install({ path: writePackage(directory) });
  t.match(installed, { packageName: 'net-watch', outcome: { kind: 'installed' } });
  const started = await client.start(nightly);
  t.equal(started.kind, 'created');
  const { runId } = (started as Extract<typeof started, { kind: 'created' }>).receipt;
  const types = await collect(client.follow({ runId, after: 0 }));
  t.equal(types[0], 'workflow.admitted');
  t.equal(types.at(-1), 'workflow.succeeded');
  t.equal(types.filter((type) => type === 'attempt.succeeded').length, 2);
  t.same(await collect(client.follow({ runId, after: types.length - 1 })), ['workflow.succeeded']);
  t.same(await client.start(nightly), { ...started, kind: 'existing' });
  t.same(await client.start(nightly), await holder.verbs.start(nightly));
});

t.test('cancel takes effect at once, and who follows sees it', async (t) => {
  const { directory, client } = await openHeld(t);
  await client.install({ path: writePackage(directory) });
  const started = await client.start({ ...nightly, workflowId: 'endless' });
  const { runId } = (started as Extract<typeof started, { kind: 'created' }>).receipt;
  const types: string[] = [];
  for await (const { type } of client.follow({ runId, after: 0 })) {
    types.push(type);
    if (type === 'attempt.started') {
      t.same(await client.cancel({ runId, requestedBy: 'cli' }), { kind: 'requested' });
    }
  }
  t.equal(types.at(-1), 'workflow.cancelled');
  t.same(await client.cancel({ runId, requestedBy: 'cli' }), { kind: 'settled', status: 'cancelled' });
});

t.test('mistakes in a package and unknown runs come back as they are', async (t) => {
  const { directory, client, holder } = await openHeld(t);
  const broken = path.join(directory, 'broken');
  mkdirSync(broken);
  writeFileSync(path.join(broken, 'qinglong.json'), '{"schema":"qinglong/package@v1","name":"A B"}');
  const through = (await rejection(client.install({ path: broken }))) as EdgeError;
  const direct = (await rejection(holder.verbs.install({ path: broken }))) as EdgeError;
  t.equal(through.code, 'invalid');
  t.ok(through.mistakes.length > 1);
  t.same(through.mistakes, direct.mistakes);
  t.match(await rejection(collect(client.follow({ runId: 'run-x', after: 0 }))), { code: 'not-found' });
  t.same(await client.cancel({ runId: 'run-x', requestedBy: 'cli' }), { kind: 'not-found' });
  t.match(await client.admit({ plan: {}, requestedBy: 'cli' }).catch((error: EdgeError) => error), { code: 'invalid' });
});

t.test('holder.json names the socket, which is private, and says who answers', async (t) => {
  const { directory, holder } = await openHeld(t);
  const named = JSON.parse(readFileSync(path.join(directory, 'data', 'holder.json'), 'utf8'));
  t.match(named, { pid: process.pid, socket: holder.socketPath, command: 'test' });
  t.equal(holder.socketPath, path.join(directory, 'run', 'sock'));
  t.equal(statSync(holder.socketPath).mode & 0o777, 0o600);
  const health = await ask(named.socket, { target: '/v1/health' });
  t.match(health.document, { status: 'ok', phase: 'open', pid: process.pid, command: 'test', version: /^\d/ });
});

t.test('a holder tells the settings in force, also while it opens', async (t) => {
  const directory = makeDirectory(t);
  const settings = { ...defaultSettings('edge'), concurrency: 3, stopLimitMs: 60_000 };
  const options = optionsFor(directory, { settings });
  const opening = Promise.withResolvers<HolderStatus>();
  const holder = await openHolder({
    ...options,
    openStore: async (ports, identity) => {
      const store = await options.openStore(ports, identity);
      const attach = store.attach.bind(store);
      store.attach = (hooks) => {
        askStatus(path.join(directory, 'run', 'sock')).then(opening.resolve, opening.reject);
        attach(hooks);
      };
      return store;
    },
  });
  t.match(await opening.promise, { pid: process.pid, command: 'test', settings });
  t.match(await askStatus(holder.socketPath), { phase: 'open', settings });
  await holder.close('stop');
});

t.test('a request to stop is answered before anything ends, and passed on with what it says', async (t) => {
  const directory = makeDirectory(t);
  const asked: (string | null)[] = [];
  const stopped = Promise.withResolvers<void>();
  const holder = await openHolder(
    optionsFor(directory, {
      settings: { ...defaultSettings('edge'), onStop: 'detach' },
      onStopRequest: (onStop) => {
        asked.push(onStop);
        holder.close(onStop ?? 'stop').then(stopped.resolve, stopped.reject);
      },
    }),
  );
  t.same(await askToStop(holder.socketPath, null), {
    kind: 'stopping',
    pid: process.pid,
    onStop: 'detach',
    stopLimitMs: 5_000,
  });
  await stopped.promise;
  t.same(asked, [null]);
  t.match(await rejection(askToStop(holder.socketPath, 'stop')), { code: 'unavailable' });
});

t.test('a holder that is no daemon is not ended by a request', async (t) => {
  const { holder, client } = await openHeld(t);
  t.same(await askToStop(holder.socketPath, 'stop'), { kind: 'not-allowed', pid: process.pid, command: 'test' });
  t.match(await client.advance({ limit: 1 }), { hasMore: false }, 'it goes on');
});

t.test('who follows and leaves is let go at once, though no event comes', async (t) => {
  const { directory, client, holder } = await openHeld(t);
  await client.install({ path: writePackage(directory) });
  const started = await client.start({ ...nightly, workflowId: 'endless' });
  const { runId } = (started as Extract<typeof started, { kind: 'created' }>).receipt;
  for (const { follow } of [holder.verbs, client]) {
    const events = follow({ runId, after: 0 })[Symbol.asyncIterator]();
    for (let step = await events.next(); !step.done && step.value.type !== 'attempt.started'; ) {
      step = await events.next();
    }
    const waiting = events.next();
    t.same(await events.return?.(), { done: true, value: undefined });
    t.match(await waiting, { done: true });
    t.match(await events.next(), { done: true });
  }
});

t.test('a second holder is refused with the name of the first, which goes on', async (t) => {
  const { directory, client } = await openHeld(t);
  const error = await rejection(openHolder(optionsFor(directory)));
  t.match(error, { code: 'busy', message: new RegExp(`process ${process.pid} \\(test\\)`) });
  t.match(await client.advance({ limit: 1 }), { hasMore: false });
});

t.test('two data directories with one run directory are refused, and nothing is left', async (t) => {
  const { directory, client } = await openHeld(t);
  const data = path.join(directory, 'other');
  const second = optionsFor(directory, {
    data,
    openStore: async (ports, identity) => openStore(data, ports, identity),
  });
  t.match(await rejection(openHolder(second)), { code: 'busy', message: /is that of the data directory/ });
  t.notOk(existsSync(path.join(data, 'holder.json')), 'its lock is free again');
  t.match(await client.advance({ limit: 1 }), { hasMore: false });
  const third = await openHolder({ ...second, runDirectory: path.join(directory, 'run-2') });
  await third.close('stop');
});

t.test('closing takes the socket and holder.json away, and the directory can be held again', async (t) => {
  const { directory, holder, client } = await openHeld(t);
  await holder.close('stop');
  t.notOk(existsSync(holder.socketPath));
  t.notOk(existsSync(path.join(directory, 'data', 'holder.json')));
  t.match(await rejection(client.advance({ limit: 1 })), { code: 'unavailable' });
  const again = await openHolder(optionsFor(directory));
  t.match(await client.advance({ limit: 1 }), { hasMore: false });
  await again.close('stop');
});

t.test('closing ends streams with the reason, also while a command runs', async (t) => {
  const { directory, client, holder } = await openHeld(t);
  await client.install({ path: writePackage(directory) });
  const started = await client.start({ ...nightly, workflowId: 'endless' });
  const { runId } = (started as Extract<typeof started, { kind: 'created' }>).receipt;
  const running = Promise.withResolvers<void>();
  const followed = rejection(
    (async () => {
      for await (const { type } of client.follow({ runId, after: 0 })) {
        if (type === 'attempt.started') {
          running.resolve();
        }
      }
    })(),
  );
  await running.promise;
  await holder.close('stop');
  t.match(await followed, { code: 'unavailable', message: 'the holder is stopping' });
});

t.test('who asks while the engine opens waits for it', async (t) => {
  const directory = makeDirectory(t);
  const answers: Promise<unknown>[] = [];
  const options = optionsFor(directory);
  const socketPath = path.join(directory, 'run', 'sock');
  const client = createSocketClient({ socketPath });
  let isOpen = false;
  const openStoreLate: HolderOptions['openStore'] = async (ports, identity) => {
    const store = await options.openStore(ports, identity);
    // `attach` comes after the socket has opened and before the runs are taken over.
    const attach = store.attach.bind(store);
    store.attach = (hooks) => {
      t.ok(existsSync(socketPath));
      answers.push(client.advance({ limit: 1 }).then((report) => ({ report, isOpen })));
      attach(hooks);
    };
    return store;
  };
  const holder = await openHolder({ ...options, openStore: openStoreLate });
  isOpen = true;
  t.same(await Promise.all(answers), [{ report: { outcomes: [], hasMore: false }, isOpen: true }]);
  await holder.close('stop');
});

t.test('an engine that does not open leaves nothing, and says so to who waited', async (t) => {
  const directory = makeDirectory(t);
  const options = optionsFor(directory);
  const socketPath = path.join(directory, 'run', 'sock');
  const waiting: Promise<unknown>[] = [];
  const failing: HolderOptions['openStore'] = async (ports, identity) => {
    const store = await options.openStore(ports, identity);
    store.attach = () => {
      waiting.push(askJson(socketPath, '/v1/advance', { limit: 1 }).catch((error: unknown) => error));
      throw new EdgeError('damaged', 'no engine today', { hint: 'see the test' });
    };
    return store;
  };
  t.match(await rejection(openHolder({ ...options, openStore: failing })), { code: 'damaged' });
  t.notOk(existsSync(socketPath));
  t.equal((await Promise.all(waiting)).length, 1, 'and who waited has an answer or a lost connection');
  const holder = await openHolder(options);
  await holder.close('stop');
});
