import { chmodSync, writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import path from 'node:path';
import t from 'tap';
import { EdgeError } from '../../src/core/errors.ts';
import { createSocketClient } from '../../src/http/client.ts';
import type { Verbs } from '../../src/runtime/verbs.ts';
import { createVerbs, makeDirectory, openScene, rejection } from './scene.ts';

type Teardown = { teardown(action: () => unknown): void };
type Ask = (client: Verbs) => Promise<unknown>;

const changes: Readonly<Record<string, Ask>> = {
  install: (client) => client.install({ path: '/p' }),
  changeLifecycle: (client) => client.changeLifecycle({ packageName: 'net-watch', to: 'active', reason: null }),
  quarantine: (client) => client.quarantine({ packageName: 'net-watch', reason: 'r', requestedBy: 'cli' }),
  changeSetting: (client) => client.changeSetting({ packageName: 'net-watch', name: 'TOKEN', value: '日\n' }),
  addPublisher: (client) => client.addPublisher({ publicKey: 'ab'.repeat(32) }),
  revokePublisher: (client) => client.revokePublisher({ keyId: 'pk_1', reason: 'r', requestedBy: 'cli' }),
  start: (client) =>
    client.start({ packageName: 'net-watch', workflowId: 'w', idempotencyKey: 'k', requestedBy: 'cli' }),
  admit: (client) => client.admit({ plan: { planId: 'p', text: '日本' }, requestedBy: 'cli' }),
  advance: (client) => client.advance({ limit: 3 }),
  cancel: (client) => client.cancel({ runId: 'run-1', requestedBy: 'cli' }),
  clearSetAside: (client) => client.clearSetAside({ runId: 'run-1' }),
};

async function firstEvent(client: Verbs): Promise<unknown> {
  for await (const event of client.follow({ runId: 'run-1', after: 0 })) {
    return event;
  }
  return null;
}

/** A stand-in for a holder that does to a connection what the test says, once it has the request. */
async function openStandIn(t: Teardown, onRequest: (socket: Socket) => void): Promise<Verbs> {
  const socketPath = path.join(makeDirectory(t), 'sock');
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => onRequest(socket));
  });
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  t.teardown(() => new Promise((resolve) => server.close(resolve)));
  return createSocketClient({ socketPath });
}

t.test('every verb gives through the socket what it gives directly', async (t) => {
  const scene = await openScene(t);
  const { verbs, calls } = createVerbs();
  for (const [name, change] of Object.entries(changes)) {
    t.same(await change(scene.client), await change(verbs), name);
  }
  t.same(scene.calls, calls);
  t.same(await firstEvent(scene.client), await firstEvent(verbs));
});

t.test('a path is that of the client, not of the holder', async (t) => {
  const scene = await openScene(t);
  await scene.client.install({ path: 'packages/wan-watch' });
  t.same(scene.calls, [{ verb: 'install', request: { path: path.resolve('packages/wan-watch') } }]);
});

t.test('an error comes back as it was thrown', async (t) => {
  const mistakes = [
    { file: 'qinglong.yaml', path: 'tasks.a', line: 3, rule: 'is missing' },
    { file: null, path: '', line: null, rule: 'is no map' },
  ];
  const thrown = new EdgeError('invalid', 'two mistakes', { hint: 'correct them', mistakes });
  const scene = await openScene(t, { install: () => Promise.reject(thrown) });
  const error = await rejection(scene.client.install({ path: '/p' }));
  t.ok(error instanceof EdgeError);
  t.match(error, { code: 'invalid', message: 'two mistakes', hint: 'correct them' });
  t.same((error as EdgeError).mistakes, mistakes);
});

t.test('a name that is none never becomes part of a path', async (t) => {
  const scene = await openScene(t);
  for (const packageName of ['x/quarantine', '..', '', 'a b', 'a\r\nb', 'x?y', '%2e']) {
    const error = await rejection(scene.client.changeLifecycle({ packageName, to: 'active', reason: null }));
    t.match(error, { code: 'invalid', mistakes: [{ path: 'packageName' }] });
  }
  for (const runId of ['a/cancel', '', '..', 'é']) {
    t.match(await rejection(scene.client.cancel({ runId, requestedBy: 'cli' })), { code: 'invalid' });
    const events = scene.client.follow({ runId, after: 0 })[Symbol.asyncIterator]();
    t.match(await rejection(events.next()), { code: 'invalid', mistakes: [{ path: 'runId' }] });
  }
  t.same(scene.calls, []);
});

t.test('a holder that is not there is unavailable, and nothing was done', async (t) => {
  const directory = makeDirectory(t);
  const stale = path.join(directory, 'stale');
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(stale, resolve));
  const plain = path.join(directory, 'plain');
  writeFileSync(plain, '');
  await new Promise((resolve) => server.close(resolve));
  const long = path.join(directory, 'x'.repeat(120), 'sock');
  for (const socketPath of [path.join(directory, 'none'), stale, plain, long]) {
    const client = createSocketClient({ socketPath });
    for (const [name, change] of Object.entries(changes)) {
      t.match(await rejection(change(client)), { code: 'unavailable', hint: /try again/ }, name);
    }
    t.match(await rejection(firstEvent(client)), { code: 'unavailable' });
  }
});

t.test(
  'a socket of another user says so',
  { skip: process.getuid?.() === 0 && 'root may use every socket' },
  async (t) => {
    const scene = await openScene(t);
    chmodSync(scene.socketPath, 0o000);
    const error = await rejection(scene.client.advance({ limit: 1 }));
    t.match(error, { code: 'unavailable', message: 'this user may not talk to the holder' });
  },
);

const losses: Readonly<Record<string, (socket: Socket) => void>> = {
  'the end of the connection': (socket) => socket.end(),
  'a reset': (socket) => socket.destroy(),
  'half a head': (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-le'),
  'half a body': (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"kind":'),
};

t.test(
  'an answer that is lost after the request went out leaves open what was done, and says how to find out',
  async (t) => {
    for (const [name, lose] of Object.entries(losses)) {
      const client = await openStandIn(t, lose);
      for (const [verb, change] of Object.entries(changes)) {
        const error = await rejection(change(client));
        t.match(error, { code: 'unknown-outcome', hint: /^it may have been done all the same: / }, `${verb}: ${name}`);
      }
      t.match(await rejection(firstEvent(client)), { code: 'unavailable' }, `follow: ${name}`);
    }
  },
);

t.test('the hint names what to look up', async (t) => {
  const client = await openStandIn(t, (socket) => socket.destroy());
  const start = { packageName: 'net-watch', workflowId: 'w', requestedBy: 'cli' };
  t.match(await rejection(client.start({ ...start, idempotencyKey: 'k-7' })), { hint: /again with the key k-7/ });
  t.match(await rejection(client.start({ ...start, idempotencyKey: null })), { hint: /`runs list`/ });
  t.match(await rejection(client.cancel({ runId: 'run-9', requestedBy: 'cli' })), { hint: /`runs show run-9`/ });
});

t.test('a request that never went out whole was certainly not carried out', async (t) => {
  const client = await openStandIn(t, (socket) => socket.destroy());
  // More than a socket holds, to a reader that stops after the first piece.
  const plan = { text: 'x'.repeat(4_000_000) };
  t.match(await rejection(client.admit({ plan, requestedBy: 'cli' })), { code: 'unavailable' });
});

t.test('answers that mean nothing are refused', async (t) => {
  const answers = {
    'no HTTP': 'hello\r\n\r\n',
    'no JSON': 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{]',
    'an error that is none': 'HTTP/1.1 500 X\r\ncontent-length: 2\r\n\r\n{}',
    'a code that is none':
      'HTTP/1.1 500 X\r\ncontent-length: 56\r\n\r\n{"error":{"code":"toString","message":"m","hint":"h"}}  ',
  };
  for (const [name, answer] of Object.entries(answers)) {
    const client = await openStandIn(t, (socket) => socket.end(answer));
    t.match(await rejection(client.advance({ limit: 1 })), { code: 'unavailable', hint: /another version/ }, name);
  }
});

t.test('an answer without end is not collected for ever', async (t) => {
  const client = await openStandIn(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\n\r\n');
    const send = () => {
      if (!socket.destroyed) {
        socket.write(Buffer.alloc(65_536, 'x'), send);
      }
    };
    send();
  });
  t.match(await rejection(client.advance({ limit: 1 })), { code: 'unavailable', message: /too long/ });
});

t.test('a stream that breaks off is unavailable, and one that ends is over', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n';
  const event = 'id: 1\ndata: {"sequence":1}\n\n';
  const follow = async (text: string) => {
    const sequences: number[] = [];
    const client = await openStandIn(t, (socket) => socket.end(head + text));
    try {
      for await (const { sequence } of client.follow({ runId: 'run-1', after: 0 })) {
        sequences.push(sequence);
      }
      return { sequences, code: null };
    } catch (error) {
      return { sequences, code: (error as EdgeError).code };
    }
  };
  t.same(await follow(`${event}event: end\ndata: {}\n\n`), { sequences: [1], code: null });
  t.same(await follow(event), { sequences: [1], code: 'unavailable' });
  t.same(await follow(`${event}id: 2\ndata: {"seq`), { sequences: [1], code: 'unavailable' });
  t.same(await follow(`${event}id: 2\ndata: {]\n\n`), { sequences: [1], code: 'unavailable' });
});
