import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ask, call, createSite, newestRun, printed, type Refused, type Site, start, writeSteps } from './program.ts';

const secret = 'hunter2 密"\\';

/** A package whose step `a` writes what it was given to a file, and so does the next try of a failed one. */
function writeAsking(site: Site, more = ''): string {
  const shell = 'printf "%s" "$TOKEN/$ZONE" >"$TRACE"; [ "$ZONE" = fine ]';
  const asked = 'TOKEN: { setting: API_TOKEN }, ZONE: { setting: zone, default: here }';
  const env = `env: { TRACE: ${join(site.root, 'trace')}, ${asked} }`;
  return writeSteps(site, 'demo', { a: { shell, more: `${env}${more}` } });
}

const traceOf = (site: Site) => readFileSync(join(site.root, 'trace'), 'utf8');

type Listed = { readonly settings: readonly { readonly name: string; readonly state: string }[] };

async function statesOf(t: Test, site: Site): Promise<Readonly<Record<string, string>>> {
  const { settings } = await ask<Listed>(t, site, 'settings', 'list', 'demo');
  return Object.fromEntries(settings.map(({ name, state }) => [name, state]));
}

t.test('an attempt without a setting that it needs fails, and says which and what to do', async (t) => {
  const site = createSite(t);
  const { code, out } = await call(t, site, 'run', writeAsking(site));
  t.equal(code, 1);
  t.match(out, /setting API_TOKEN has neither a value .*`settings set demo API_TOKEN VALUE`/);
  const { run, steps } = await newestRun(t, site);
  t.match(
    [run.status, steps[0]?.attempts],
    ['failed', [{ status: 'failed', errorCode: 'setting_missing', exitCode: null }]],
  );
  t.same(await statesOf(t, site), { API_TOKEN: 'missing', zone: 'default' });
});

t.test('a setting is given from standard input, reaches the command as it is, and is told nowhere', async (t) => {
  const site = createSite(t);
  await call(t, site, 'package', 'install', writeAsking(site));
  const setting = await start(t, site, ['settings', 'set', 'demo', 'API_TOKEN', '-'], `${secret}\n\n`).ended;
  t.same([setting.code, setting.out, setting.err], [0, 'set API_TOKEN of demo\n', '']);
  t.match(await call(t, site, 'settings', 'set', 'demo', 'zone', 'fine'), { code: 0 });
  const { code, out, err } = await call(t, site, 'run', writeAsking(site), '--json');
  t.equal(code, 0, err);
  t.equal(traceOf(site), `${secret}\n/fine`, 'less its one final newline');
  const { run } = await newestRun(t, site);
  const told = [out, err];
  for (const args of [
    ['runs', 'show', run.id],
    ['runs', 'show', run.id, '--json'],
    ['runs', 'events', run.id, '--json'],
    ['runs', 'events', run.id, '--verbose'],
    ['runs', 'logs', run.id],
    ['package', 'show', 'demo'],
    ['package', 'show', 'demo', '--json'],
    ['settings', 'list', 'demo'],
    ['settings', 'list', 'demo', '--json'],
    ['verify', '--json'],
    ['doctor', '--json'],
  ]) {
    const shown = await call(t, site, ...args);
    t.equal(shown.code, 0, args.join(' '));
    told.push(shown.out, shown.err);
  }
  t.notMatch(told.join(''), 'hunter2');
});

t.test('a value changes the execution digest of the next attempt, and setting it twice does not', async (t) => {
  const site = createSite(t);
  await call(t, site, 'package', 'install', writeAsking(site));
  const digests: string[] = [];
  for (const value of ['fine', 'fine', 'other']) {
    await call(t, site, 'settings', 'set', 'demo', 'API_TOKEN', value);
    await call(t, site, 'run', writeAsking(site));
    const { run } = await newestRun(t, site);
    const { out } = await call(t, site, 'runs', 'events', run.id, '--json');
    digests.push(/"executionDigest":"([0-9a-f]{64})"/.exec(out)?.[1] ?? '');
  }
  t.equal(digests[0]?.length, 64);
  t.equal(digests[1], digests[0]);
  t.not(digests[2], digests[0]);
});

t.test('settings are listed with their state and the variables that ask for them, values on demand', async (t) => {
  const site = createSite(t);
  await call(t, site, 'package', 'install', writeAsking(site));
  await call(t, site, 'settings', 'set', 'demo', 'API_TOKEN', '--', '-5\x1b[31m');
  const misspelled = await call(t, site, 'settings', 'set', 'demo', 'API_TOKNE', 'hunter2');
  t.same(
    [misspelled.code, misspelled.out, misspelled.err],
    [0, 'set API_TOKNE of demo\n', 'no task of demo asks for API_TOKNE; did you mean API_TOKEN?\n'],
  );
  const time = /\d{4}-\d\d-\d\d \S{8}/g;
  const listed = await call(t, site, 'settings', 'list', 'demo');
  t.same(listed.out.replaceAll(time, 'TIME').split('\n'), [
    'SETTING    STATE    CHANGED              VARIABLES',
    'API_TOKEN  set      TIME  a.TOKEN',
    'API_TOKNE  unused   TIME',
    'zone       default                       a.ZONE',
    '',
  ]);
  const { out } = await call(t, site, 'settings', 'list', 'demo', '--values');
  t.match(out, /^API_TOKEN .* a\.TOKEN +"-5\\u001b\[31m"$/m, 'safe on a terminal');
  t.match(out, /^zone .* a\.ZONE +here$/m);
  t.match(await ask<Listed>(t, site, 'settings', 'list', 'demo', '--values'), {
    packageName: 'demo',
    settings: [
      {
        name: 'API_TOKEN',
        state: 'set',
        value: '-5\x1b[31m',
        uses: [{ taskId: 'a', variable: 'TOKEN', default: null }],
      },
      { name: 'API_TOKNE', state: 'unused', value: 'hunter2', uses: [] },
      { name: 'zone', state: 'default', value: null, updatedAtMs: null, uses: [{ default: 'here' }] },
    ],
  });
});

t.test('what cannot be set is refused without repeating it', async (t) => {
  const site = createSite(t);
  await call(t, site, 'package', 'install', writeAsking(site));
  const long = 'hunter2'.repeat(20_000);
  for (const [args, input, expected] of [
    [['demo', 'A'], '', /VALUE is missing/],
    [['demo', 'A', 'one', 'hunter2'], '', /argument 4 is one argument too many/],
    [['demo', 'a-b', 'hunter2'], '', /NAME must be a name of letters/],
    [['demo', 'hunter2 x'], '', /NAME must be a name of letters/],
    [['demo', 'A', '--hunter2'], '', /what begins with - is no option; a value like that is given behind --/],
    [['demo', 'QL_A', 'hunter2'], '', /NAME .* reserved/],
    [['demo', 'A', long.slice(0, 131_070)], '', /VALUE must have at most 131071 bytes/],
    [['demo', 'A', '-'], long, /standard input has more than 131072 bytes/],
    [['demo', 'A', '-'], 'hunter2\0', /VALUE must not hold a NUL/],
  ] as const) {
    const { code, out, err } = await start(t, site, ['settings', 'set', ...args], input).ended;
    t.same([code, out], [2, ''], args.slice(0, 2).join(' '));
    t.match(err, expected);
    t.notMatch(err, 'hunter2');
  }
  const unknown = await call(t, site, 'settings', 'set', 'other', 'A', 'hunter2', '--json');
  t.equal(unknown.code, 3);
  t.match(JSON.parse(unknown.err) as Refused, {
    error: { code: 'not-found', message: 'package other is not installed' },
  });
  t.match(await call(t, site, 'settings', 'list', 'other'), { code: 3 });
  t.same(await statesOf(t, site), { API_TOKEN: 'missing', zone: 'default' });
});

t.test('a serve takes settings at once: the next attempt of a step has the new value', async (t) => {
  const site = createSite(t);
  const serving = start(t, site, ['serve', '--verbose']);
  await printed(serving, 'serves');
  await call(t, site, 'package', 'install', writeAsking(site, ', retry: { limit: 60, backoff: 100ms, factor: 1 }'));
  t.match(await call(t, site, 'settings', 'set', 'demo', 'API_TOKEN', 'hunter2'), { code: 0 });
  const { runId } = await ask<{ runId: string }>(t, site, 'workflow', 'start', 'demo/main');
  const following = start(t, site, ['runs', 'events', runId, '--follow', '--json']);
  await printed(following, 'attempt.failed');
  const changed = {
    outcome: 'changed',
    packageName: 'demo',
    name: 'zone',
    isSet: true,
    isAsked: true,
    nearestName: null,
  };
  t.same(await ask(t, site, 'settings', 'set', 'demo', 'zone', 'fine'), changed);
  const { code, out } = await following.ended;
  t.equal(code, 0);
  t.match(out, 'workflow.succeeded');
  t.equal(traceOf(site), 'hunter2/fine');
  t.equal(new Set(out.match(/"executionDigest":"[0-9a-f]{64}"/g)).size, 2);
  t.match(await call(t, site, 'settings', 'unset', 'demo', 'zone'), { code: 0, out: 'unset zone of demo\n' });
  t.match(await call(t, site, 'settings', 'unset', 'demo', 'zone'), { code: 0, out: 'zone of demo is not set\n' });
  serving.process.kill('SIGTERM');
  const ended = await serving.ended;
  t.notMatch([out, ended.out, ended.err].join(''), 'hunter2');
});

t.test('upgrading and uninstalling leave what was set', async (t) => {
  const site = createSite(t);
  await call(t, site, 'package', 'install', writeAsking(site));
  await call(t, site, 'settings', 'set', 'demo', 'API_TOKEN', 'x');
  await call(t, site, 'package', 'install', writeAsking(site, ', nice: 1'));
  t.match(await statesOf(t, site), { API_TOKEN: 'set' });
  await call(t, site, 'package', 'uninstall', 'demo');
  t.match(await statesOf(t, site), { API_TOKEN: 'set' });
  t.match(await call(t, site, 'settings', 'unset', 'demo', 'API_TOKEN'), { code: 0 });
  t.match(await statesOf(t, site), { API_TOKEN: 'missing' });
});

t.test('an empty standard input makes an empty value, which is told', async (t) => {
  const site = createSite(t);
  const more = 'env: { TOKEN: { setting: TOKEN } }';
  const { err } = await call(t, site, 'package', 'install', writeSteps(site, 'demo', { a: { shell: 'true', more } }));
  t.match(err, /settings set demo TOKEN - \(reads it from standard input\)/);
  const { code, out, err: told } = await start(t, site, ['settings', 'set', 'demo', 'TOKEN', '-'], '').ended;
  t.same([code, out], [0, 'set TOKEN of demo\n']);
  t.equal(told, 'standard input is empty: so is the value\n');
  t.notMatch((await start(t, site, ['settings', 'set', 'demo', 'TOKEN', '-'], 'x\n').ended).err, 'empty');
});
