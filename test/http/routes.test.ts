import t from 'tap';
import { EdgeError, errorTable, InvariantError } from '../../src/core/errors.ts';
import { limits } from '../../src/core/limits.ts';
import { askStatus } from '../../src/http/holder-client.ts';
import { defaultSettings } from '../../src/runtime/settings.ts';
import { ask, askJson, openScene, sampleTarget, sendBytes } from './scene.ts';

type Case = { readonly target: string; readonly body: unknown; readonly verb: string; readonly request: unknown };

const cases: readonly Case[] = [
  { target: '/v1/packages', body: { path: '/p' }, verb: 'install', request: { path: '/p' } },
  {
    target: '/v1/packages/net-watch/lifecycle',
    body: { to: 'disabled', reason: 'noisy: “ja”' },
    verb: 'changeLifecycle',
    request: { packageName: 'net-watch', to: 'disabled', reason: 'noisy: “ja”' },
  },
  {
    target: '/v1/packages/net-watch/lifecycle',
    body: { to: 'active' },
    verb: 'changeLifecycle',
    request: { packageName: 'net-watch', to: 'active', reason: null },
  },
  {
    target: '/v1/packages/net-watch/quarantine',
    body: { reason: 'bad', requestedBy: 'operator:root' },
    verb: 'quarantine',
    request: { packageName: 'net-watch', reason: 'bad', requestedBy: 'operator:root' },
  },
  {
    target: '/v1/publishers',
    body: { publicKey: 'ab'.repeat(32) },
    verb: 'addPublisher',
    request: { publicKey: 'ab'.repeat(32) },
  },
  {
    target: '/v1/publishers/pk_1/revocation',
    body: { reason: 'leaked', requestedBy: 'cli' },
    verb: 'revokePublisher',
    request: { keyId: 'pk_1', reason: 'leaked', requestedBy: 'cli' },
  },
  {
    target: '/v1/packages/net-watch/settings',
    body: { name: 'TOKEN', value: '密 "x"\n' },
    verb: 'changeSetting',
    request: { packageName: 'net-watch', name: 'TOKEN', value: '密 "x"\n' },
  },
  {
    target: '/v1/packages/net-watch/settings',
    body: { name: 'TOKEN', value: null },
    verb: 'changeSetting',
    request: { packageName: 'net-watch', name: 'TOKEN', value: null },
  },
  {
    target: '/v1/runs',
    body: { packageName: 'net-watch', workflowId: 'nightly', idempotencyKey: 'k-1', requestedBy: 'cli' },
    verb: 'start',
    request: { packageName: 'net-watch', workflowId: 'nightly', idempotencyKey: 'k-1', requestedBy: 'cli' },
  },
  {
    target: '/v1/runs',
    body: { packageName: 'net-watch', workflowId: 'nightly', requestedBy: 'cli' },
    verb: 'start',
    request: { packageName: 'net-watch', workflowId: 'nightly', idempotencyKey: null, requestedBy: 'cli' },
  },
  {
    target: '/v1/admissions',
    body: { plan: { schema: 'x', any: [1, { deep: null }] }, requestedBy: 'cli' },
    verb: 'admit',
    request: { plan: { schema: 'x', any: [1, { deep: null }] }, requestedBy: 'cli' },
  },
  { target: '/v1/advance', body: { limit: 64 }, verb: 'advance', request: { limit: 64 } },
  {
    target: '/v1/runs/run-1/cancel',
    body: { requestedBy: 'cli' },
    verb: 'cancel',
    request: { runId: 'run-1', requestedBy: 'cli' },
  },
  {
    target: '/v1/runs/run-1/retry',
    body: { idempotencyKey: 'k-1', requestedBy: 'cli' },
    verb: 'retry',
    request: { runId: 'run-1', idempotencyKey: 'k-1', requestedBy: 'cli' },
  },
  {
    target: '/v1/runs/run-1/retry',
    body: { requestedBy: 'cli' },
    verb: 'retry',
    request: { runId: 'run-1', idempotencyKey: null, requestedBy: 'cli' },
  },
  { target: '/v1/runs/run-1/clear', body: {}, verb: 'clearSetAside', request: { runId: 'run-1' } },
];

t.test('each route calls its verb with exactly the fields of the request', async (t) => {
  const scene = await openScene(t);
  for (const { target, body } of cases) {
    const reply = await askJson(scene.socketPath, target, body);
    t.equal(reply.status, 200, target);
    t.equal(reply.headers['content-type'], 'application/json');
  }
  t.same(
    scene.calls,
    cases.map(({ verb, request }) => ({ verb, request })),
  );
});

t.test('an outcome is a document, also where nothing was done', async (t) => {
  const scene = await openScene(t);
  const admitted = await askJson(scene.socketPath, '/v1/admissions', { plan: {}, requestedBy: 'cli' });
  t.same([admitted.status, admitted.document], [200, { kind: 'conflict', reason: 'another plan has this id' }]);
  const disabled = await askJson(scene.socketPath, '/v1/packages/net-watch/lifecycle', { to: 'disabled' });
  t.same(disabled.document, { kind: 'changed', target: sampleTarget });
});

t.test('health says ok and what the process says of itself', async (t) => {
  const scene = await openScene(t);
  const { status, document } = await ask(scene.socketPath, { target: '/v1/health' });
  t.same([status, document], [200, { status: 'ok', command: 'test' }]);
});

t.test('status says who the process is and what its settings are', async (t) => {
  const scene = await openScene(t);
  const { status, document } = await ask(scene.socketPath, { target: '/v1/status' });
  t.equal(status, 200);
  t.match(document, { pid: 1, command: 'test', phase: 'open', settings: defaultSettings('edge') });
  t.same(await askStatus(scene.socketPath), document);
});

t.test('a stop is asked for with or without what becomes of the commands, and its outcome is a document', async (t) => {
  const scene = await openScene(t);
  for (const body of [{}, { onStop: null }, { onStop: 'stop' }, { onStop: 'detach' }]) {
    const { status, document } = await askJson(scene.socketPath, '/v1/stop', body);
    t.same([status, document], [200, { kind: 'not-allowed', pid: 1, command: 'test' }]);
  }
  t.equal((await askJson(scene.socketPath, '/v1/stop', { onStop: 'wait' })).status, 400);
  t.equal((await ask(scene.socketPath, { target: '/v1/stop' })).status, 405);
});

t.test('every error of the table has its status, its hint and its mistakes', async (t) => {
  for (const [code, { httpStatus }] of Object.entries(errorTable)) {
    const mistakes = [{ file: 'qinglong.yaml', path: 'tasks.a', line: 3, rule: 'is missing' }];
    const error = new EdgeError(code as keyof typeof errorTable, `it is ${code}`, { hint: 'do this', mistakes });
    const scene = await openScene(t, { advance: () => Promise.reject(error) });
    const { status, document } = await askJson(scene.socketPath, '/v1/advance', { limit: 1 });
    t.equal(status, httpStatus, code);
    t.same(document, { error: { code, message: `it is ${code}`, hint: 'do this', mistakes } });
  }
});

t.test('a defect is told as internal, and its details only to the log', async (t) => {
  const thrown = new InvariantError('broken invariant: secret of the row');
  const scene = await openScene(t, {
    cancel: () => Promise.reject(thrown),
    advance: () => {
      throw thrown;
    },
  });
  for (const [target, body] of [
    ['/v1/runs/run-1/cancel', { requestedBy: 'cli' }],
    ['/v1/advance', { limit: 1 }],
  ] as const) {
    const { status, text } = await askJson(scene.socketPath, target, body);
    t.equal(status, 500);
    t.match(text, '"code":"internal"');
    t.notMatch(text, 'secret');
  }
  t.equal(scene.lines.length, 2);
  t.match(scene.lines[0], 'secret of the row');
});

t.test('every mistake of a request is told at once, and no verb is called', async (t) => {
  const scene = await openScene(t);
  const reply = await askJson(scene.socketPath, '/v1/packages/Net_Watch/lifecycle', {
    to: 'gone',
    reason: '',
    extra: 1,
    packageName: 'net-watch',
  });
  t.equal(reply.status, 400);
  const { error } = reply.document as { error: { code: string; mistakes: { path: string; rule: string }[] } };
  t.equal(error.code, 'invalid');
  t.same(
    error.mistakes.map(({ path }) => path),
    ['packageName', 'extra', 'packageName', 'to', 'reason'],
  );
  t.same(scene.calls, []);
});

const long = 'x'.repeat(limits.identifierBytesMax);
const wrongFields: readonly (readonly [string, unknown, string])[] = [
  ['/v1/packages', { path: 'relative' }, 'path'],
  ['/v1/packages', { path: '/nul\0' }, 'path'],
  ['/v1/packages', { path: `/${'d'.repeat(4096)}` }, 'path'],
  ['/v1/packages', { path: '/half\ud800' }, 'path'],
  ['/v1/packages', {}, 'path'],
  ['/v1/publishers', { publicKey: 'AB'.repeat(32) }, 'publicKey'],
  ['/v1/publishers/pk_1/revocation', { reason: ' ', requestedBy: 'cli' }, 'reason'],
  ['/v1/packages', [], ''],
  ['/v1/packages', null, ''],
  ['/v1/packages', 'text', ''],
  ['/v1/packages', JSON.parse('{"path":"/p","__proto__":{"path":"/q"}}'), '__proto__'],
  ['/v1/packages/net-watch/quarantine', { reason: '   ', requestedBy: 'cli' }, 'reason'],
  ['/v1/packages/net-watch/quarantine', { reason: 'é'.repeat(1025), requestedBy: 'cli' }, 'reason'],
  ['/v1/packages/net-watch/quarantine', { reason: null, requestedBy: 'cli' }, 'reason'],
  ['/v1/packages/net-watch/quarantine', { reason: 'r', requestedBy: `${long}x` }, 'requestedBy'],
  ['/v1/packages/net-watch/quarantine', { reason: 'r', requestedBy: 'a b' }, 'requestedBy'],
  ['/v1/packages/net-watch/quarantine', { reason: 'r', requestedBy: '' }, 'requestedBy'],
  ['/v1/packages/net-watch/settings', { name: 'a-b', value: 'x' }, 'name'],
  ['/v1/packages/net-watch/settings', { name: 'QL_X', value: 'x' }, 'name'],
  ['/v1/packages/net-watch/settings', { name: 'A' }, 'value'],
  ['/v1/packages/net-watch/settings', { name: 'A', value: 5 }, 'value'],
  ['/v1/runs', { packageName: 'p', workflowId: 'W', requestedBy: 'cli' }, 'workflowId'],
  ['/v1/runs', { packageName: 'p', workflowId: 'w', requestedBy: 'cli', idempotencyKey: '' }, 'idempotencyKey'],
  ['/v1/runs', { packageName: 'p', workflowId: 'w', requestedBy: 'cli', idempotencyKey: '-k' }, 'idempotencyKey'],
  ['/v1/admissions', { plan: [], requestedBy: 'cli' }, 'plan'],
  ['/v1/admissions', { plan: 'text', requestedBy: 'cli' }, 'plan'],
  ['/v1/admissions', { requestedBy: 'cli' }, 'plan'],
  ['/v1/advance', { limit: 0 }, 'limit'],
  ['/v1/advance', { limit: 1.5 }, 'limit'],
  ['/v1/advance', { limit: '1' }, 'limit'],
  ['/v1/advance', { limit: 2 ** 31 }, 'limit'],
  [`/v1/runs/${long}x/cancel`, { requestedBy: 'cli' }, 'runId'],
];

t.test('a field that breaks its rule is named', async (t) => {
  const scene = await openScene(t);
  for (const [target, body, path] of wrongFields) {
    const { status, document } = await askJson(scene.socketPath, target, body);
    t.equal(status, 400, `${target} ${JSON.stringify(body).slice(0, 80)}`);
    t.match(document, { error: { code: 'invalid', mistakes: [{ path, rule: /./ }] } });
  }
  t.same(scene.calls, []);
});

t.test('no answer repeats the value of a setting, however wrong the request is', async (t) => {
  const scene = await openScene(t);
  const target = '/v1/packages/net-watch/settings';
  const bodies = [
    JSON.stringify({ name: 'a-b', value: 'hunter2' }),
    JSON.stringify({ name: 'A', value: ['hunter2'] }),
    JSON.stringify({ name: 'A', value: 4711_4711 }),
    '{"name":"A","value":"hunter2"',
    '{"name":"A","value":hunter2}',
    '{"name":"A","value":"hunter2\n"}',
  ];
  for (const body of bodies) {
    const head = `POST ${target} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n`;
    const text = await sendBytes(scene.socketPath, `${head}Content-Length: ${body.length}\r\n\r\n${body}`);
    t.match(text, /^HTTP\/1\.1 400 .*"code":"invalid"/s, body);
    t.notMatch(text, /hunter|4711/);
  }
  t.same([scene.calls, scene.lines], [[], []]);
});

t.test('many mistakes are cut to what a person reads', async (t) => {
  const scene = await openScene(t);
  const body = Object.fromEntries(Array.from({ length: 3000 }, (_, index) => [`key${index}`, 1]));
  const { status, document } = await askJson(scene.socketPath, '/v1/packages', body);
  t.equal(status, 400);
  t.equal((document as { error: { mistakes: unknown[] } }).error.mistakes.length, limits.mistakesMax);
});
