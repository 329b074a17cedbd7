import { connect } from 'node:net';
import t from 'tap';
import { limits } from '../../src/core/limits.ts';
import { ask, askJson, connectTo, openScene, readToEnd, sendBytes, simulateTime } from './scene.ts';

/** The head of a POST with a JSON body of so many bytes. */
function headOf(target: string, bytes: number): string {
  return `POST ${target} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: ${bytes}\r\n\r\n`;
}

function statusOf(text: string): number {
  return Number(/^HTTP\/1\.1 (\d+) /.exec(text)?.[1] ?? 0);
}

const oddPaths = [
  '/',
  '/v1',
  '/v1/',
  '/v2/health',
  '/V1/health',
  '/v1/Health',
  '/v1/health/',
  '/v1//health',
  '//v1/health',
  '/v1/./health',
  '/v1/runs/../health',
  '/v1/%68ealth',
  '/v1/runs/run%2F1/cancel',
  '/v1/runs/run-1%00/cancel',
  '/v1/runs//cancel',
  '/v1/runs/run-1/cancel/',
  '/v1/runs/.run/cancel',
  '/v1/runs/run;a=1/cancel',
  '/v1/health#x',
  '/v1/runs/run-1/toString',
  '/v1/constructor',
  '/v1/__proto__',
  'http://localhost/v1/health',
  '*',
  '\\v1\\health',
];

t.test('a path in any other spelling does not exist', async (t) => {
  const scene = await openScene(t);
  for (const path of oddPaths) {
    for (const method of ['GET', 'POST']) {
      const text = await sendBytes(
        scene.socketPath,
        `${method} ${path} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n`,
      );
      t.ok([400, 404].includes(statusOf(text)), `${method} ${path} gets ${statusOf(text)}`);
      t.match(text, /"code":"(not-found|invalid)"/, path);
    }
  }
  t.same(scene.calls, []);
});

t.test('the wrong method is told which are right', async (t) => {
  const scene = await openScene(t);
  for (const [method, target, allow] of [
    ['POST', '/v1/health', 'GET'],
    ['DELETE', '/v1/runs/run-1/events', 'GET'],
    ['GET', '/v1/runs', 'POST'],
    ['PUT', '/v1/packages', 'POST'],
    ['HEAD', '/v1/health', 'GET'],
    ['OPTIONS', '/v1/advance', 'POST'],
  ] as const) {
    const reply = await ask(scene.socketPath, { method, target });
    t.same([reply.status, reply.headers.allow], [405, allow], `${method} ${target}`);
  }
  t.same(scene.calls, []);
});

t.test('a body is JSON in UTF-8, and says so', async (t) => {
  const scene = await openScene(t);
  const target = '/v1/advance';
  const body = '{"limit":1}';
  for (const type of ['text/plain', 'application/json; charset=latin1', 'application/jsonx', 'text/json', '']) {
    const reply = await ask(scene.socketPath, { target, body, headers: { 'content-type': type } });
    t.equal(reply.status, 415, `“${type}”`);
  }
  const zipped = await ask(scene.socketPath, { target, body, headers: { 'content-encoding': 'gzip' } });
  t.equal(zipped.status, 415);
  for (const wrong of ['', '{', '{"limit":1}x', "{'limit':1}", 'NaN', Buffer.from('{"limit":"\xff"}', 'latin1')]) {
    const reply = await ask(scene.socketPath, { target, method: 'POST', body: wrong });
    t.equal(reply.status, 400);
  }
  t.same(scene.calls, []);
  for (const type of ['application/json', 'Application/JSON; charset=UTF-8', 'application/json;charset="utf-8"']) {
    const reply = await ask(scene.socketPath, { target, body, headers: { 'content-type': type } });
    t.equal(reply.status, 200, type);
  }
});

t.test('nesting without end is refused or taken, and never ends the process', async (t) => {
  const scene = await openScene(t);
  const deep = '['.repeat(500_000) + ']'.repeat(500_000);
  const reply = await ask(scene.socketPath, {
    target: '/v1/admissions',
    body: `{"plan":{"a":${deep}},"requestedBy":"c"}`,
  });
  t.ok([200, 400].includes(reply.status));
  t.equal((await ask(scene.socketPath, { target: '/v1/health' })).status, 200);
});

t.test('a body at its bound is taken, and one byte more is refused although it was sent', async (t) => {
  const scene = await openScene(t);
  for (const [target, bytesMax] of [
    ['/v1/admissions', limits.httpPlanBodyBytesMax],
    ['/v1/packages', limits.httpBodyBytesMax],
  ] as const) {
    const fill = (bytes: number) => `{"path":"/p"}`.padEnd(bytes);
    const fits = await ask(scene.socketPath, { target, body: fill(bytesMax) });
    t.not(fits.status, 413, `${target} takes ${bytesMax}`);
    const declared = await ask(scene.socketPath, { target, body: fill(bytesMax + 1) });
    t.equal(declared.status, 413, `${target} refuses one more`);
    const chunked = await ask(scene.socketPath, {
      target,
      body: fill(bytesMax + 1),
      headers: { 'transfer-encoding': 'chunked' },
    });
    t.equal(chunked.status, 413, `${target} refuses one more in chunks`);
  }
});

t.test('a request that takes no body refuses one', async (t) => {
  const scene = await openScene(t);
  const headers = { 'content-length': '2' };
  const reply = await ask(scene.socketPath, { method: 'GET', target: '/v1/health', body: '{}', headers });
  t.equal(reply.status, 413);
});

t.test('who asks whether to go on is told no before sending', async (t) => {
  const scene = await openScene(t);
  const head = (path: string, more: string) =>
    `POST ${path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n${more}`;
  const declared = `Content-Length: ${limits.httpPlanBodyBytesMax + 1}\r\nExpect: 100-continue\r\n\r\n`;
  const refused = await sendBytes(scene.socketPath, head('/v1/admissions', declared));
  t.equal(statusOf(refused), 413);
  const other = await sendBytes(
    scene.socketPath,
    head('/v1/advance', 'Content-Length: 11\r\nExpect: tea\r\n\r\n{"limit":1}'),
  );
  t.equal(statusOf(other), 417);
  t.same(scene.calls, []);
  const expected = head('/v1/advance', 'Content-Length: 11\r\nExpect: 100-continue\r\n\r\n{"limit":1}');
  t.match(await sendBytes(scene.socketPath, expected), /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n/);
});

t.test('queries are plain, known and given once', async (t) => {
  const scene = await openScene(t);
  for (const query of [
    'after=x',
    'after=-1',
    'after=01',
    'after=1&after=2',
    'x=1',
    'after=%31',
    '?',
    'after=9999999999',
  ]) {
    const { status } = await ask(scene.socketPath, { target: `/v1/runs/run-1/events?${query}` });
    t.equal(status, 400, query);
  }
  t.equal((await ask(scene.socketPath, { target: '/v1/health?x=1' })).status, 400);
  const headers = { 'last-event-id': 'abc' };
  t.equal((await ask(scene.socketPath, { target: '/v1/runs/run-1/events', headers })).status, 400);
  t.same(scene.calls, []);
});

const unreadable: readonly (readonly [string, string | Uint8Array, number])[] = [
  ['no HTTP', 'hello\r\n\r\n', 400],
  ['TLS', Uint8Array.from([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]), 400],
  [
    'both lengths',
    'POST /v1/advance HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    400,
  ],
  ['two lengths', 'POST /v1/advance HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd', 400],
  ['a length that is none', 'POST /v1/advance HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n', 400],
  ['a chunk that is none', 'POST /v1/advance HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n', 400],
  ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
  ['a bare line feed', 'GET /v1/health HTTP/1.1\nHost: h\n\n', 400],
  ['a NUL in a header', 'GET /v1/health HTTP/1.1\r\nHost: h\0\r\n\r\n', 400],
  ['a space before the colon', 'GET /v1/health HTTP/1.1\r\nHost : h\r\n\r\n', 400],
  ['endless headers', `GET /v1/health HTTP/1.1\r\nX: ${'x'.repeat(limits.httpHeaderBytesMax)}\r\n\r\n`, 431],
  ['an endless path', `GET /v1/${'x'.repeat(limits.httpHeaderBytesMax)} HTTP/1.1\r\nHost: h\r\n\r\n`, 431],
];

t.test('what is no proper HTTP gets one refusal and the end of the connection', async (t) => {
  const scene = await openScene(t);
  for (const [name, bytes, status] of unreadable) {
    const text = await sendBytes(scene.socketPath, bytes);
    t.equal(statusOf(text), status, name);
    t.equal(text.match(/^HTTP/gm)?.length, 1, `${name}: one answer`);
  }
  t.same(scene.calls, []);
  t.equal((await ask(scene.socketPath, { target: '/v1/health' })).status, 200);
});

t.test('methods that take a connection over get none', async (t) => {
  const scene = await openScene(t);
  t.equal(await sendBytes(scene.socketPath, 'CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n'), '');
  const upgrade = 'GET /v1/health HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';
  t.equal(statusOf(await sendBytes(scene.socketPath, upgrade)), 200, 'an upgrade is not heard');
});

t.test('of several requests on a connection only the first is carried out', async (t) => {
  const scene = await openScene(t);
  const one = (limit: number) => `${headOf('/v1/advance', 11)}{"limit":${limit}}`;
  for (const bytes of [one(1) + one(2), one(1) + one(2) + one(3), `${one(1)}garbage\r\n\r\n`]) {
    const text = await sendBytes(scene.socketPath, bytes);
    t.equal(statusOf(text), 200);
    t.match(text, /\r\nconnection: close\r\n/i);
    t.equal(text.match(/^HTTP/gm)?.length, 1);
  }
  t.same(
    scene.calls.map(({ request }) => request),
    [{ limit: 1 }, { limit: 1 }, { limit: 1 }],
  );
});

t.test('a request that comes byte by byte is understood', async (t) => {
  const scene = await openScene(t);
  const socket = await connectTo(scene.socketPath);
  const body = Buffer.from('{"reason":"é","requestedBy":"cli"}');
  const head = headOf('/v1/packages/p/quarantine', body.length);
  for (const byte of Buffer.concat([Buffer.from(head), body])) {
    await new Promise((resolve) => socket.write(Uint8Array.from([byte]), resolve));
  }
  t.equal(statusOf(await readToEnd(socket)), 200);
  t.match(scene.calls, [{ request: { reason: 'é' } }]);
});

t.test('a request that does not arrive in time is refused', async (t) => {
  const time = simulateTime();
  const scene = await openScene(t, { time });
  for (const start of ['', 'GET /v1/hea', `${headOf('/v1/advance', 11)}{"li`]) {
    const socket = await connectTo(scene.socketPath);
    socket.write(start);
    // Answered after the one before has been accepted: the server takes connections in their order.
    await ask(scene.socketPath, { target: '/v1/health' });
    time.advance(limits.httpRequestMsMax);
    t.equal(statusOf(await readToEnd(socket)), 408);
  }
  t.equal(time.count(), 0, 'no alarm is left');
  t.same(scene.calls, []);
});

t.test('more clients than are served are told so', async (t) => {
  const scene = await openScene(t);
  const sockets = await Promise.all(
    Array.from({ length: limits.httpConnectionsMax }, () => connectTo(scene.socketPath)),
  );
  const { status, document } = await askJson(scene.socketPath, '/v1/advance', { limit: 1 });
  t.equal(status, 503);
  t.match(document, { error: { code: 'busy' } });
  t.same(scene.calls, []);
  const closed = Promise.all(sockets.map(readToEnd));
  for (const socket of sockets) {
    socket.end();
  }
  await closed;
  t.equal((await askJson(scene.socketPath, '/v1/advance', { limit: 1 })).status, 200);
});

t.test('bodies of many requests together are bounded', async (t) => {
  const scene = await openScene(t);
  const bytes = limits.httpPlanBodyBytesMax;
  const head = headOf('/v1/admissions', bytes);
  // Each sends all but the last byte, which holds its body there.
  const sockets = await Promise.all(
    Array.from({ length: limits.httpBodiesBytesMax / bytes }, async () => {
      const socket = connect(scene.socketPath);
      await new Promise((resolve) => socket.write(head + ' '.repeat(bytes - 1), resolve));
      return socket;
    }),
  );
  const plan = { plan: { text: 'x'.repeat(bytes / 2) }, requestedBy: 'cli' };
  t.match((await askJson(scene.socketPath, '/v1/admissions', plan)).document, { error: { code: 'busy' } });
  const ended = sockets.map(readToEnd);
  for (const socket of sockets) {
    socket.write(' ');
  }
  t.same((await Promise.all(ended)).map(statusOf), [400, 400, 400, 400]);
  t.equal((await askJson(scene.socketPath, '/v1/admissions', plan)).status, 200, 'and free again');
});

t.test('many requests at once are each answered with their own', async (t) => {
  const scene = await openScene(t, {
    cancel: async ({ runId }) => ({ kind: 'settled', status: 'failed', runId }) as never,
  });
  const replies = await Promise.all(
    Array.from({ length: 200 }, (_, index) =>
      askJson(scene.socketPath, `/v1/runs/run-${index}/cancel`, { requestedBy: 'cli' }),
    ),
  );
  t.same(
    replies.map(({ document }) => (document as { runId: string }).runId),
    Array.from({ length: 200 }, (_, index) => `run-${index}`),
  );
});
