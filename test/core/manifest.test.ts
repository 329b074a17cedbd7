import fc from 'fast-check';
import t from 'tap';
import { limits } from '../../src/core/limits.ts';
import { readManifest } from '../../src/core/manifest.ts';
import { acceptedManifest, mistakesOf, sampleManifest, withTask } from './manifest-samples.ts';

t.test('a manifest is normalized: defaults filled in, times in milliseconds, a shell line as its argv', async (t) => {
  const manifest = acceptedManifest(sampleManifest({ tasks: { probe: { shell: 'ping -c1 192.0.2.1 | tail -1' } } }));
  t.strictSame(manifest, {
    schema: 'qinglong/package@v1',
    name: 'wan-watch',
    version: '1.2.0',
    title: null,
    tasks: [
      {
        id: 'probe',
        title: null,
        enabled: true,
        argv: ['/bin/sh', '-c', 'ping -c1 192.0.2.1 | tail -1'],
        env: {},
        cwd: '.',
        timeoutMs: 3_600_000,
        graceMs: 10_000,
        retry: { limit: 0, backoffMs: 5_000, factor: 2, maxMs: 60_000, on: ['failed', 'timed_out'] },
        user: null,
        nice: 0,
        limits: { memoryBytes: null, cpuMs: null, files: null },
      },
    ],
    workflows: [
      {
        id: 'nightly',
        title: null,
        enabled: true,
        timeoutMs: null,
        concurrency: null,
        steps: [{ stepKey: 'probe', title: null, taskId: 'probe', needs: [] }],
      },
    ],
  });
});

t.test('every field of the format that is supported arrives', async (t) => {
  const task = {
    title: 'Is the line up?',
    run: ['./scripts/probe.sh', '--fast', ''],
    env: { B: '2', C: { setting: 'TOKEN' }, A: { setting: 'B', default: '' } },
    cwd: 'tools/../scripts/./',
    timeout: '30s',
    grace: '0s',
    retry: { limit: 2, backoff: '5s', factor: 3, max: '1m', on: ['timed_out', 'lost'] },
    user: 'nobody',
    nice: -5,
    limits: { memory: '64m', cpu: '30s', files: 64 },
    enabled: false,
  };
  const steps = { a: { title: 'First', task: 'probe' } };
  const workflow = { title: 'Nightly', timeout: '1h', concurrency: 2, enabled: false, steps };
  const manifest = acceptedManifest(
    sampleManifest({ title: 'Watch', tasks: { probe: task }, workflows: { nightly: workflow } }),
  );
  t.equal(manifest.title, 'Watch');
  t.strictSame(manifest.tasks[0], {
    id: 'probe',
    title: 'Is the line up?',
    enabled: false,
    argv: ['./scripts/probe.sh', '--fast', ''],
    env: { A: { setting: 'B', default: '' }, B: '2', C: { setting: 'TOKEN', default: null } },
    cwd: 'scripts',
    timeoutMs: 30_000,
    graceMs: 0,
    retry: { limit: 2, backoffMs: 5_000, factor: 3, maxMs: 60_000, on: ['lost', 'timed_out'] },
    user: 'nobody',
    nice: -5,
    limits: { memoryBytes: 67_108_864, cpuMs: 30_000, files: 64 },
  });
  t.match(manifest.workflows[0], { title: 'Nightly', timeoutMs: 3_600_000, concurrency: 2, enabled: false });
  t.equal(manifest.workflows[0]!.steps[0]!.title, 'First');
});

t.test('a back-off above the default maximum raises it, one above a written maximum is refused', async (t) => {
  const manifest = acceptedManifest(withTask({ retry: { limit: 1, backoff: '5m' } }));
  t.equal(manifest.tasks[0]!.retry.maxMs, 300_000);
  t.strictSame(mistakesOf(withTask({ retry: { limit: 1, backoff: '5m', max: '1m' } })), [
    'tasks.probe.retry.max: must not be below backoff',
  ]);
});

t.test('C017 a title is any text, and stays exactly as it was written', async (t) => {
  const manifest = acceptedManifest(withTask({ title: '小 工具', run: ['./scripts/签到 copy.py', '世界'] }));
  t.equal(manifest.tasks[0]!.title, '小 工具');
  t.strictSame(manifest.tasks[0]!.argv, ['./scripts/签到 copy.py', '世界']);
});

t.test('a title has at most 200 characters, however many bytes they take, and is not blank', async (t) => {
  t.strictSame(mistakesOf(withTask({ title: '😀'.repeat(200) })), []);
  t.strictSame(mistakesOf(withTask({ title: '😀'.repeat(201) })), [
    'tasks.probe.title: must have at most 200 characters, but has 201',
  ]);
  t.strictSame(mistakesOf(withTask({ title: ' \t' })), ['tasks.probe.title: must not be blank: leave it out instead']);
});

t.test('all mistakes are told at once, each with its path', async (t) => {
  const manifest = {
    schema: 1,
    nmae: 'x',
    version: 1.2,
    tasks: { Probe: { run: 'x', timout: '30s', env: { QL_X: 'a', PORT: 8080 } }, empty: null },
    workflows: { n: { steps: {} }, f: {} },
  };
  t.strictSame(mistakesOf(manifest), [
    'nmae: is not a known key; did you mean name?',
    'schema: must be qinglong/package@v1, but is the number 1',
    'name: is missing',
    'version: must be text, but is the number 1.2: put it in quotes',
    'tasks.Probe: must be 1 to 63 of a-z, 0-9 and -, beginning with a letter; a title may be any text',
    'tasks.Probe.timout: is not a known key; did you mean timeout?',
    'tasks.Probe.run: must be a list of words, but is the text "x"',
    'tasks.Probe.env.PORT: must be text, but is the number 8080: put it in quotes',
    'tasks.Probe.env.QL_X: is a name that qinglong-edge sets itself: names with QL_ are reserved',
    'tasks.empty: must be a map, but is empty',
    'workflows.f.steps: is missing',
    'workflows.n.steps: must have 1 to 128 steps, but has 0',
  ]);
});

t.test('what this version does not carry out is refused, never ignored', async (t) => {
  const rule = 'is not supported in this version';
  const steps = { probe: { task: 'probe' } };
  const workflow = { schedule: '30 2 * * *', overlap: null, steps };
  t.strictSame(mistakesOf(sampleManifest({ workflows: { nightly: workflow } })), [
    `workflows.nightly.schedule: ${rule}`,
    // Present but empty is present.
    `workflows.nightly.overlap: ${rule}`,
  ]);
});

t.test('a user is a name or a number, and a number is the same in either form', async (t) => {
  const userOf = (user: unknown) => acceptedManifest(withTask({ user })).tasks[0]!.user;
  t.strictSame(['nobody', '_ntp', 'host$', 0, 65_534, '4294967294'].map(userOf), [
    'nobody',
    '_ntp',
    'host$',
    '0',
    '65534',
    '4294967294',
  ]);
  const rule = 'tasks.probe.user: must be a user name such as nobody, or a number from 0 to 4294967294';
  for (const user of ['', 'Root', 'a b', '-u', '0x10', '007', '4294967295', 4_294_967_295, -1, 1.5, 'n'.repeat(33)]) {
    t.strictSame(mistakesOf(withTask({ user })), [rule], `${user}`);
  }
  t.strictSame(mistakesOf(withTask({ user: null })), [
    'tasks.probe.user: must be a user name, or the number of a user, but is empty',
  ]);
});

t.test('a variable may be left to a setting of the device, whose name and default have bounds', async (t) => {
  const env = (entry: unknown) => mistakesOf(withTask({ env: { A: entry } }));
  t.strictSame(env({ setting: 'x'.repeat(63), default: 'y'.repeat(131_069) }), []);
  t.strictSame(env({ setting: 'x'.repeat(64) }), ['tasks.probe.env.A.setting: must have at most 63 characters']);
  t.match(env({ setting: 'A', default: 'y'.repeat(131_070) }), [/^tasks\.probe\.env\.A\.default: .* at most 131071/]);
  t.strictSame(env({ setting: 'A', default: 'a\0b' }), ['tasks.probe.env.A.default: must not hold a NUL character']);
  t.strictSame(env({ setting: 'A', default: 8080 }), [
    'tasks.probe.env.A.default: must be text, but is the number 8080: put it in quotes',
  ]);
  t.strictSame(env({ setting: 'A', defualt: 'x' }), [
    'tasks.probe.env.A.defualt: is not a known key; did you mean default?',
  ]);
  t.strictSame(env({ default: 'x' }), ['tasks.probe.env.A.setting: is missing']);
  t.strictSame(env(null), ['tasks.probe.env.A: must be text or { setting: NAME }, but is empty']);
  for (const setting of ['a-b', '1a', '', 'QL_TOKEN', '__proto__', 'Ä']) {
    t.equal(env({ setting }).length, 1, setting);
  }
});

t.test('the commands of a workflow at the same time are 1 to 256', async (t) => {
  const steps = { a: { task: 'probe' } };
  for (const concurrency of [0, 257, 1.5, '2', null]) {
    const mistakes = mistakesOf(sampleManifest({ workflows: { nightly: { steps, concurrency } } }));
    t.match(mistakes, [/^workflows\.nightly\.concurrency: must be a whole number from 1 to 256, but is /]);
  }
});

t.test('a task has exactly one of run and shell', async (t) => {
  const rule = 'tasks.probe: must have exactly one of run (a list of words) and shell (a line for /bin/sh)';
  t.strictSame(mistakesOf(sampleManifest({ tasks: { probe: {} } })), [rule]);
  t.strictSame(mistakesOf(sampleManifest({ tasks: { probe: { run: ['a'], shell: 'a' } } })), [rule]);
});

t.test('commands and working directories stay inside the package', async (t) => {
  for (const run of [['../x'], ['a/../../x'], ['./..//../x']]) {
    t.match(mistakesOf(withTask({ run })), [/^tasks\.probe\.run\[0\]: must stay inside the package/], `${run}`);
  }
  t.strictSame(mistakesOf(withTask({ run: ['../x'], cwd: 'scripts' })), [], 'seen from its working directory');
  for (const run of [['/bin/true'], ['true'], ['./a/../x'], ['..']]) {
    t.strictSame(mistakesOf(withTask({ run })), [], `${run}`);
  }
  for (const cwd of ['/', '/tmp', '..', 'a/../..', '']) {
    t.match(mistakesOf(withTask({ cwd })), [/^tasks\.probe\.cwd: must be a directory inside the package/], cwd);
  }
});

t.test('arguments are bounded by what Linux takes, hold no NUL, and have a UTF-8 form', async (t) => {
  const longest = 'x'.repeat(limits.argumentBytesMax);
  t.strictSame(mistakesOf(withTask({ run: ['echo', longest] })), []);
  t.match(mistakesOf(withTask({ run: ['echo', `${longest}x`] })), [
    /^tasks\.probe\.run\[1\]: must have at most 131071/,
  ]);
  t.match(mistakesOf(withTask({ shell: `${longest}x` })), [/^tasks\.probe\.shell: must have at most 131071 bytes/]);
  t.match(mistakesOf(withTask({ run: ['', 'a\0b', '\ud800'] })), [
    'tasks.probe.run[1]: must not hold a NUL character',
    /^tasks\.probe\.run\[2\]: must not hold half of a surrogate pair/,
    'tasks.probe.run[0]: must name a command, but is empty',
  ]);
  t.match(mistakesOf(withTask({ run: Array(257).fill('x') })), [/run: must have 1 to 256 entries, but has 257/]);
});

t.test('an environment entry is bounded with its name, and names are those that a shell keeps', async (t) => {
  // C015: the limit counts NAME=, the value and a NUL.
  t.strictSame(mistakesOf(withTask({ env: { A: 'x'.repeat(131_069) } })), []);
  t.match(mistakesOf(withTask({ env: { A: 'x'.repeat(131_070) } })), [
    /^tasks\.probe\.env\.A: .* at most 131071 bytes/,
  ]);
  t.strictSame(mistakesOf(withTask({ env: { _a1: '', PATH: '/bin' } })), []);
  for (const name of ['1A', 'A-B', 'A B', '', 'Ä', 'QL_RUN_ID', '__proto__']) {
    const env = Object.fromEntries([[name, 'x']]);
    t.equal(mistakesOf(withTask({ env })).length, 1, JSON.stringify(name));
  }
  t.match(mistakesOf(withTask({ env: { A: 'a\0b', B: null, C: true } })).length, 3);
});

t.test('durations, sizes and numbers have bounds', async (t) => {
  const refused = (fields: Readonly<Record<string, unknown>>) => mistakesOf(withTask(fields)).length;
  for (const timeout of ['0s', '30', '25d', '999999999999999999999d', '1h30m', 30, null]) {
    t.equal(refused({ timeout }), 1, `timeout ${timeout}`);
  }
  for (const memory of ['1k', '64', '64M', 64, '99999999999999999999g']) {
    t.equal(refused({ limits: { memory } }), 1, `memory ${memory}`);
  }
  for (const cpu of ['500ms', '1500ms', '0s']) {
    t.equal(refused({ limits: { cpu } }), 1, `cpu ${cpu}`);
  }
  for (const nice of [-21, 20, 1.5, '10']) {
    t.equal(refused({ nice }), 1, `nice ${nice}`);
  }
  for (const retry of [{}, { limit: 63 }, { limit: -1 }, { limit: 1, on: [] }, { limit: 1, on: ['lost', 'lost'] }]) {
    t.equal(refused({ retry }), 1, JSON.stringify(retry));
  }
  t.equal(refused({ retry: { limit: 1, on: ['broken'], factor: 0, backoff: 5 } }), 3);
  t.equal(refused({ limits: { files: 3, cpus: 2 } }), 2);
});

t.test('a package has at most 512 tasks and 128 workflows, and at least one task', async (t) => {
  const named = (count: number, value: unknown) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`n${index}`, value]));
  const workflow = { steps: { a: { task: 'n0' } } };
  const full = sampleManifest({ tasks: named(512, { run: ['true'] }), workflows: named(128, workflow) });
  t.strictSame(mistakesOf(full), []);
  t.strictSame(mistakesOf({ ...full, tasks: named(513, { run: ['true'] }) }), [
    'tasks: must have 1 to 512 tasks, but has 513',
  ]);
  t.strictSame(mistakesOf({ ...full, workflows: named(129, workflow) }), [
    'workflows: must have 0 to 128 workflows, but has 129',
  ]);
  t.strictSame(mistakesOf(sampleManifest({ tasks: {}, workflows: {} })), [
    'tasks: must have 1 to 512 tasks, but has 0',
  ]);
  t.strictSame(mistakesOf(sampleManifest({ workflows: {} })), [], 'a package without workflows says so');
});

t.test('names that objects have by themselves are ordinary ids, or ordinary mistakes', async (t) => {
  const tasks = { constructor: { run: ['true'] }, prototype: { run: ['true'] } };
  const workflows = { constructor: { steps: { constructor: { task: 'constructor' } } } };
  const manifest = acceptedManifest(sampleManifest({ tasks, workflows }));
  t.strictSame(
    manifest.tasks.map(({ id }) => id),
    ['constructor', 'prototype'],
  );
  t.equal(manifest.workflows[0]!.steps[0]!.taskId, 'constructor');
  const hidden = JSON.parse('{ "run": ["true"], "__proto__": {}, "constructor": 1, "toString": 1 }');
  t.strictSame(
    mistakesOf(withTask(hidden)).map((line) => line.split(':')[0]),
    ['tasks.probe.__proto__', 'tasks.probe.constructor', 'tasks.probe.toString'],
  );
  const steps = { a: { task: 'toString', needs: ['valueOf'] } };
  t.equal(mistakesOf(sampleManifest({ workflows: { nightly: { steps } } })).length, 2);
});

t.test('what is no map at all is one mistake, whatever it is', async (t) => {
  for (const value of [null, undefined, 1, 'text', true, [], [{}]]) {
    const reading = readManifest(value);
    t.ok('mistakes' in reading && reading.mistakes.length === 1, JSON.stringify(value) ?? 'undefined');
  }
});

t.test('beyond a hundred mistakes the others are counted', async (t) => {
  const keys = Array.from({ length: 150 }, (_, index) => [`key${index}`, 1]);
  const mistakes = mistakesOf({ ...sampleManifest(), ...Object.fromEntries(keys) });
  t.equal(mistakes.length, 101);
  t.equal(mistakes[100], ': has 50 more mistakes');
});

t.test('a value never makes the reader throw, whatever stands where', async (t) => {
  const values = [null, 0, '', 'x', true, [], {}, [[]], { a: null }];
  const names = ['schema', 'name', 'version', 'title', 'tasks', 'workflows'];
  for (const name of names) {
    for (const value of values) {
      readManifest({ ...sampleManifest(), [name]: value });
      readManifest({ ...sampleManifest(), tasks: { probe: { run: value, env: value, retry: value, limits: value } } });
      readManifest({ ...sampleManifest(), workflows: { nightly: { steps: { [name]: value } } } });
      readManifest({ ...sampleManifest(), workflows: { nightly: { steps: { a: { task: value, needs: value } } } } });
    }
  }
  t.pass('none did');
});

t.test('whatever is given, the answer is a manifest or at least one mistake', async () => {
  const anything = fc.anything({ maxDepth: 3, withBigInt: false, withNullPrototype: true });
  const names = fc.constantFrom('schema', 'name', 'version', 'title', 'tasks', 'workflows', 'extra');
  fc.assert(
    fc.property(names, anything, (name, value) => {
      const reading = readManifest({ ...sampleManifest(), [name]: value });
      return 'manifest' in reading || reading.mistakes.length > 0;
    }),
  );
});
