import type { Socket } from 'node:net';
import t from 'tap';
import { EdgeError } from '../../src/core/errors.ts';
import type { RunEvent } from '../../src/core/events.ts';
import { limits } from '../../src/core/limits.ts';
import { readMessages } from '../../src/http/event-stream-reader.ts';
import { ask, connectTo, openScene, readToEnd, rejection, sampleEvent, simulateTime } from './scene.ts';

const target = '/v1/runs/run-1/events';

async function collect(events: AsyncIterable<RunEvent>): Promise<readonly RunEvent[]> {
  const collected: RunEvent[] = [];
  for await (const event of events) {
    collected.push(event);
  }
  return collected;
}

/** Resolves when it has seen this text among what a socket sends. */
function seen(socket: Socket, text: string): Promise<void> {
  let received = '';
  return new Promise((resolve) => {
    socket.on('data', (chunk) => {
      received += chunk;
      if (received.includes(text)) {
        resolve();
      }
    });
  });
}

/** Events that come when the test gives them; notes when nobody wants more. */
function openTap(first: readonly RunEvent[] = []) {
  const stopped = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  let waiting = Promise.withResolvers<IteratorResult<RunEvent>>();
  const ready = [...first];
  const events: AsyncIterable<RunEvent> = {
    [Symbol.asyncIterator]: () => ({
      next: () => {
        const value = ready.shift();
        if (value !== undefined) {
          return Promise.resolve({ done: false, value });
        }
        asked.resolve();
        return waiting.promise;
      },
      return: async () => {
        stopped.resolve();
        return { done: true, value: undefined };
      },
    }),
  };
  const give = (value: RunEvent) => {
    const { resolve } = waiting;
    waiting = Promise.withResolvers();
    resolve({ done: false, value });
  };
  return { events, give, stopped: stopped.promise, asked: asked.promise };
}

t.test('events come as messages with their sequence as id, and an end', async (t) => {
  const scene = await openScene(t);
  const { status, headers, text } = await ask(scene.socketPath, { target });
  t.equal(status, 200);
  t.equal(headers['content-type'], 'text/event-stream');
  const messages = [1, 2, 3].map((sequence) => `id: ${sequence}\ndata: ${JSON.stringify(sampleEvent(sequence))}\n\n`);
  t.equal(text, `${messages.join('')}event: end\ndata: {}\n\n`);
});

t.test('after says where to begin, and Last-Event-ID goes before it', async (t) => {
  const scene = await openScene(t);
  const ids = (text: string) => [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => id);
  const get = async (query: string, headers = {}) =>
    ids((await ask(scene.socketPath, { target: `${target}${query}`, headers })).text);
  t.same(await get('?after=1'), ['2', '3']);
  t.same(await get('?after=1', { 'last-event-id': '2' }), ['3']);
  t.same(await get('', { 'last-event-id': '3' }), []);
  t.same(
    scene.calls.map(({ request }) => request),
    [1, 2, 3].map((after) => ({ runId: 'run-1', after })),
  );
});

t.test('events that say anything arrive unchanged', async (t) => {
  const texts = ['two\nlines', 'event: end\n\ndata: x', 'id: 9', '“ja” 日本 🚀', '\u2028\r\n\0', 'x'.repeat(16_000)];
  const events = texts.map((text, index) => sampleEvent(index + 1, text));
  const scene = await openScene(t, {
    follow: async function* () {
      yield* events;
    },
  });
  t.same(await collect(scene.client.follow({ runId: 'run-1', after: 0 })), events);
});

t.test('an error before the first event has its own status', async (t) => {
  const scene = await openScene(t, {
    follow: () => ({
      [Symbol.asyncIterator]: () => ({
        next: () => Promise.reject(new EdgeError('not-found', 'run run-1 is unknown', { hint: 'see `runs list`' })),
      }),
    }),
  });
  const reply = await ask(scene.socketPath, { target });
  t.same([reply.status, reply.headers['content-type']], [404, 'application/json']);
  const error = await rejection(collect(scene.client.follow({ runId: 'run-1', after: 0 })));
  t.match(error, { code: 'not-found', message: 'run run-1 is unknown', hint: 'see `runs list`' });
});

t.test('an error between events is the last message', async (t) => {
  const scene = await openScene(t, {
    follow: async function* () {
      yield sampleEvent(1);
      throw new EdgeError('damaged', 'event 2 is damaged', { hint: 'run `verify`' });
    },
  });
  t.match(
    (await ask(scene.socketPath, { target })).text,
    /^id: 1\n[\s\S]*\n\nevent: error\ndata: \{"error":[^\n]*\n\n$/,
  );
  const followed: number[] = [];
  const error = await rejection(
    (async () => {
      for await (const { sequence } of scene.client.follow({ runId: 'run-1', after: 0 })) {
        followed.push(sequence);
      }
    })(),
  );
  t.same(followed, [1]);
  t.match(error, { code: 'damaged', message: 'event 2 is damaged', hint: 'run `verify`' });
});

t.test('an event that comes later is sent when it comes', async (t) => {
  const source = openTap([sampleEvent(1)]);
  const scene = await openScene(t, { follow: () => source.events });
  const events = scene.client.follow({ runId: 'run-1', after: 0 })[Symbol.asyncIterator]();
  t.match(await events.next(), { value: { sequence: 1 } });
  const next = events.next();
  source.give(sampleEvent(2));
  t.match(await next, { value: { sequence: 2 } });
  await events.return?.();
  await source.stopped;
});

t.test('a client that goes away stops the iteration, also before the first event', async (t) => {
  for (const first of [[], [sampleEvent(1)]]) {
    const source = openTap(first);
    const scene = await openScene(t, { follow: () => source.events });
    const socket = await connectTo(scene.socketPath);
    socket.write(`GET ${target} HTTP/1.1\r\nHost: h\r\n\r\n`);
    await source.asked;
    socket.destroy();
    await source.stopped;
    t.equal((await ask(scene.socketPath, { target: '/v1/health' })).status, 200);
  }
});

t.test('who stops following while an event is waited for is free at once', async (t) => {
  const source = openTap();
  const scene = await openScene(t, { follow: () => source.events });
  const events = scene.client.follow({ runId: 'run-1', after: 0 })[Symbol.asyncIterator]();
  const next = events.next();
  await source.asked;
  t.match(await events.return?.(), { done: true });
  t.match(await next, { done: true });
  await source.stopped;
});

t.test('events are taken from the run only as fast as the client takes them', async (t) => {
  const time = simulateTime();
  let given = 0;
  const stopped = Promise.withResolvers<void>();
  const scene = await openScene(t, {
    time,
    follow: async function* () {
      try {
        for (;;) {
          given += 1;
          yield sampleEvent(given, 'x'.repeat(16_000));
        }
      } finally {
        stopped.resolve();
      }
    },
  });
  const socket = await connectTo(scene.socketPath);
  socket.pause();
  socket.write(`GET ${target} HTTP/1.1\r\nHost: h\r\n\r\n`);
  // A stalled client has an alarm on it; each request in between gives the server a turn.
  while (time.count() === 0 || given === 0) {
    await ask(scene.socketPath, { target: '/v1/health' });
  }
  await ask(scene.socketPath, { target: '/v1/health' });
  const stalledAt = given;
  t.ok(stalledAt < 200, `stalled after ${stalledAt} events, not after all that there are`);
  const more = seen(socket, `id: ${stalledAt + 50}\n`);
  socket.resume();
  await more;
  socket.pause();
  socket.destroy();
  await stopped.promise;
  t.pass('went on once it took more, and stopped when it went');
});

t.test('a client that takes nothing for too long is dropped', async (t) => {
  const time = simulateTime();
  const stopped = Promise.withResolvers<void>();
  const scene = await openScene(t, {
    time,
    follow: async function* () {
      try {
        for (let sequence = 1; ; sequence += 1) {
          yield sampleEvent(sequence, 'x'.repeat(16_000));
        }
      } finally {
        stopped.resolve();
      }
    },
  });
  const socket = await connectTo(scene.socketPath);
  socket.pause();
  socket.write(`GET ${target} HTTP/1.1\r\nHost: h\r\n\r\n`);
  let isStopped = false;
  stopped.promise.then(() => {
    isStopped = true;
  });
  while (!isStopped) {
    await ask(scene.socketPath, { target: '/v1/health' });
    time.advance(limits.httpAnswerMsMax);
  }
  const text = await readToEnd(socket.resume());
  t.notMatch(text.slice(-100), 'event: end');
  t.equal(time.count(), 0);
});

t.test('messages are read whatever the pieces they come in', async (t) => {
  const text = 'id: 1\ndata: {"a":"日本🚀"}\n\nevent: end\ndata: {}\n\nid: 2\ndata: cut';
  const bytes = Buffer.from(text);
  for (const size of [1, 2, 3, 7, bytes.length]) {
    const chunks = async function* () {
      for (let at = 0; at < bytes.length; at += size) {
        yield bytes.subarray(at, at + size);
      }
    };
    const messages = [];
    for await (const message of readMessages(chunks())) {
      messages.push(message);
    }
    t.same(messages, [
      { event: 'message', data: '{"a":"日本🚀"}' },
      { event: 'end', data: '{}' },
    ]);
  }
});

t.test('a message without end is not collected for ever', async (t) => {
  let sent = 0;
  const chunks = async function* () {
    for (;;) {
      sent += 16_384;
      yield Buffer.alloc(16_384, 'x');
    }
  };
  const error = await rejection(
    (async () => {
      for await (const _ of readMessages(chunks())) {
        t.fail('a message');
      }
    })(),
  );
  t.match(error, { code: 'unavailable' });
  t.ok(sent < 1_048_576);
});
