import { existsSync } from 'node:fs';
import t from 'tap';
import { limits } from '../../src/core/limits.ts';
import type { Verbs } from '../../src/runtime/verbs.ts';
import { ask, connectTo, openScene, readToEnd, rejection, sampleEvent, simulateTime } from './scene.ts';

/** A verb that is under way until the test says so. */
function holdAdvance() {
  const begun = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<Awaited<ReturnType<Verbs['advance']>>>();
  const advance: Verbs['advance'] = () => {
    begun.resolve();
    return answer.promise;
  };
  return { advance, begun: begun.promise, finish: () => answer.resolve({ outcomes: [], hasMore: false }) };
}

t.test('closing lets a request that reached its verb be answered, and accepts no other', async (t) => {
  const held = holdAdvance();
  const scene = await openScene(t, { advance: held.advance });
  const answer = scene.client.advance({ limit: 1 });
  await held.begun;
  const closed = scene.server.close();
  t.notOk(existsSync(scene.socketPath), 'the socket is gone');
  t.match(await rejection(scene.client.cancel({ runId: 'run-1', requestedBy: 'cli' })), { code: 'unavailable' });
  held.finish();
  t.same(await answer, { outcomes: [], hasMore: false });
  await closed;
  t.same(scene.calls, []);
});

t.test('closing drops who has not sent a whole request', async (t) => {
  const scene = await openScene(t);
  const silent = await connectTo(scene.socketPath);
  const half = await connectTo(scene.socketPath);
  half.write(
    'POST /v1/advance HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{"li',
  );
  await ask(scene.socketPath, { target: '/v1/health' });
  const ends = [silent, half].map(readToEnd);
  await scene.server.close();
  t.same(await Promise.all(ends), ['', '']);
  t.same(scene.calls, []);
});

t.test('closing ends a stream with the reason', async (t) => {
  const waiting = Promise.withResolvers<void>();
  const stopped = Promise.withResolvers<void>();
  const scene = await openScene(t, {
    follow: () => {
      let sequence = 0;
      return {
        [Symbol.asyncIterator]: () => ({
          next: async () => {
            sequence += 1;
            if (sequence > 2) {
              waiting.resolve();
              return new Promise(() => {});
            }
            return { done: false, value: sampleEvent(sequence) };
          },
          return: async () => {
            stopped.resolve();
            return { done: true, value: undefined };
          },
        }),
      };
    },
  });
  const sequences: number[] = [];
  const followed = rejection(
    (async () => {
      for await (const { sequence } of scene.client.follow({ runId: 'run-1', after: 0 })) {
        sequences.push(sequence);
      }
    })(),
  );
  await waiting.promise;
  await scene.server.close();
  t.match(await followed, { code: 'unavailable', message: 'the holder is stopping' });
  t.same(sequences, [1, 2]);
  await stopped.promise;
});

t.test('a stream that has not begun is refused when the server closes', async (t) => {
  const waiting = Promise.withResolvers<void>();
  const scene = await openScene(t, {
    follow: () => ({
      [Symbol.asyncIterator]: () => ({
        next: () => {
          waiting.resolve();
          return new Promise(() => {});
        },
      }),
    }),
  });
  const reply = ask(scene.socketPath, { target: '/v1/runs/run-1/events' });
  await waiting.promise;
  await scene.server.close();
  t.match(await reply, { status: 503, document: { error: { code: 'unavailable' } } });
});

t.test('a verb that takes too long does not keep the server from closing', async (t) => {
  const time = simulateTime();
  const held = holdAdvance();
  const scene = await openScene(t, { time, advance: held.advance });
  const answer = rejection(scene.client.advance({ limit: 1 }));
  await held.begun;
  const closed = scene.server.close();
  time.advance(limits.httpDrainMsMax);
  await closed;
  t.match(await answer, { code: 'unknown-outcome', hint: /advance again/ });
  held.finish();
  t.equal(time.count(), 0);
});

t.test('a client that takes nothing does not keep the server from closing', async (t) => {
  const time = simulateTime();
  const answered = Promise.withResolvers<void>();
  const scene = await openScene(t, {
    time,
    advance: async () => {
      answered.resolve();
      const text = 'x'.repeat(4_000_000);
      return { outcomes: [{ runId: text, kind: 'not-found' }], hasMore: false };
    },
  });
  const socket = await connectTo(scene.socketPath);
  socket.pause();
  const body = '{"limit":1}';
  socket.write(
    `POST /v1/advance HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n${body}`,
  );
  await answered.promise;
  await ask(scene.socketPath, { target: '/v1/health' });
  const closed = scene.server.close();
  time.advance(limits.httpDrainMsMax);
  await closed;
  socket.destroy();
});

t.test('closing twice is closing once', async (t) => {
  const scene = await openScene(t);
  await Promise.all([scene.server.close(), scene.server.close()]);
  await scene.server.close();
  t.notOk(existsSync(scene.socketPath));
});

t.test('a client that dies while its verb runs loses only its answer', async (t) => {
  const held = holdAdvance();
  const scene = await openScene(t, { advance: held.advance });
  const socket = await connectTo(scene.socketPath);
  socket.write(
    'POST /v1/advance HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{"limit":1}',
  );
  await held.begun;
  socket.destroy();
  await ask(scene.socketPath, { target: '/v1/health' });
  held.finish();
  t.equal((await ask(scene.socketPath, { target: '/v1/health' })).status, 200);
  t.same(scene.lines, []);
});

t.test('clients that die at every byte of a request harm nobody', async (t) => {
  const scene = await openScene(t);
  const request =
    'POST /v1/advance HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{"limit":1}';
  for (let length = 0; length < request.length; length += 1) {
    const socket = await connectTo(scene.socketPath);
    await new Promise((resolve) => socket.write(request.slice(0, length), resolve));
    socket.destroy();
  }
  t.equal((await ask(scene.socketPath, { target: '/v1/health' })).status, 200);
  t.same([scene.calls, scene.lines], [[], []]);
});
