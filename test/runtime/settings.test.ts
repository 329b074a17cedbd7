import t from 'tap';
import { EdgeError } from '../../src/core/errors.ts';
import {
  type ConfigFile,
  defaultSettings,
  describeSettings,
  type GivenSettings,
  readRuntimeSettings,
  type SettingsSources,
  settingFlag,
  settingNames,
  settingRule,
  settingVariable,
} from '../../src/runtime/settings.ts';

const KIB = 1024;
const MIB = 1024 * KIB;

type Sources = {
  readonly given?: GivenSettings;
  readonly environment?: Readonly<Record<string, string>>;
  readonly config?: ConfigFile['values'] | null;
} & Partial<Pick<SettingsSources, 'profile' | 'onStopDefault'>>;

function readAll({ given = {}, environment = {}, config = null, profile = null, onStopDefault }: Sources) {
  return readRuntimeSettings({
    given,
    environment: (name) => environment[name] ?? null,
    config: config === null ? null : { path: '/data/config.json', values: config },
    profile,
    ...(onStopDefault === undefined ? {} : { onStopDefault }),
  });
}

function refusalOf(sources: Sources): EdgeError {
  try {
    readAll(sources);
  } catch (error) {
    if (error instanceof EdgeError) {
      return error;
    }
    throw error;
  }
  throw new TypeError('it was accepted');
}

t.test('without a word from anybody the settings are those of the profile', async (t) => {
  const common = {
    onStop: 'stop',
    stopLimitMs: 5_000,
    keepOutput: 'failures',
    allowUnsigned: true,
    shell: ['/bin/sh'],
    bootId: null,
  };
  t.match(readAll({}), { ...common, concurrency: 1, outputBytesMax: 256 * KIB, outputQuotaBytes: 4 * MIB });
  const standalone = { ...common, concurrency: 4, outputBytesMax: 4 * MIB, outputQuotaBytes: 64 * MIB };
  t.match(readAll({ profile: 'standalone' }), standalone);
  t.match(readAll({ config: { profile: 'standalone' } }), standalone, 'the directory says it');
  t.match(readAll({ config: { durability: 'wal-full' } }), standalone, 'or its durability');
  t.same(readAll({}), defaultSettings('edge'));
});

t.test('a flag comes before the environment, that before config.json, that before the default', async (t) => {
  const config = { concurrency: 2, stopLimit: '20s', onStop: 'detach', keepOutput: 'never' };
  const environment = { QINGLONG_EDGE_CONCURRENCY: '3', QINGLONG_EDGE_STOP_LIMIT: '30s' };
  const given = { concurrency: '5' };
  t.match(readAll({ given, environment, config }), {
    concurrency: 5,
    stopLimitMs: 30_000,
    onStop: 'detach',
    keepOutput: 'never',
    allowUnsigned: true,
  });
  t.match(
    readAll({ config, environment: { QINGLONG_EDGE_CONCURRENCY: '' } }),
    { concurrency: 2 },
    'empty is not given',
  );
  t.match(readAll({ config: { concurrency: null }, given: { concurrency: undefined } }), { concurrency: 1 });
});

t.test('a command may have a default of its own for what becomes of what runs', async (t) => {
  t.equal(readAll({ onStopDefault: 'detach' }).onStop, 'detach');
  t.equal(readAll({ onStopDefault: 'detach', config: { onStop: 'stop' } }).onStop, 'stop');
});

t.test('every setting has one name in three spellings, and reads back as it is described', async (t) => {
  t.equal(settingFlag('outputBytesMax'), 'output-bytes-max');
  t.equal(settingVariable('outputBytesMax'), 'QINGLONG_EDGE_OUTPUT_BYTES_MAX');
  const config = {
    concurrency: 7,
    onStop: 'detach',
    stopLimit: '90s',
    keepOutput: 'always',
    outputBytesMax: '1m',
    outputQuota: '3m',
    packagesQuota: '2g',
    allowUnsigned: false,
    shell: ['busybox', 'ash'],
    bootId: 'another-boot',
  };
  t.same(Object.keys(config), settingNames);
  const settings = readAll({ config });
  t.same(describeSettings(settings), { ...config, stopLimit: '90s' });
  const texts = { ...config, concurrency: '7', allowUnsigned: 'false', shell: 'busybox  ash' };
  t.same(readAll({ given: texts }), settings, 'as words of a command line');
  const environment = Object.fromEntries(settingNames.map((name) => [settingVariable(name), `${texts[name]}`]));
  t.same(readAll({ environment }), settings, 'as environment variables');
});

t.test('all mistakes are told at once, each with its file, its key and its rule', async (t) => {
  const error = refusalOf({
    given: { stopLimit: '5' },
    environment: { QINGLONG_EDGE_KEEP_OUTPUT: 'sometimes' },
    config: { concurrency: 0, allowUnsigned: 'no', shell: [], extra: 'kept', outputQuota: '0k' },
  });
  t.match(error, { code: 'invalid', message: '6 settings are wrong' });
  t.match(error.mistakes, [
    { file: '/data/config.json', path: 'concurrency', rule: 'must be a whole number from 1 to 256' },
    { file: null, path: 'stopLimit', rule: 'must be a whole number and one unit, such as 5s' },
    { file: null, path: 'environment variable QINGLONG_EDGE_KEEP_OUTPUT', rule: /one of failures, always, never/ },
    { file: '/data/config.json', path: 'outputQuota' },
    { file: '/data/config.json', path: 'allowUnsigned', rule: 'must be true or false' },
    { file: '/data/config.json', path: 'shell' },
  ]);
  const only = refusalOf({ config: { onStop: 'wait' } });
  t.equal(only.message, '/data/config.json: onStop must be one of stop, detach');
});

t.test('a mistake that does not count now is told all the same', async (t) => {
  const error = refusalOf({ given: { concurrency: 2 }, config: { concurrency: 'many' } });
  t.match(error.mistakes, [{ file: '/data/config.json', path: 'concurrency' }]);
});

t.test('bounds are part of a rule', async (t) => {
  t.equal(settingRule('stopLimit', '1s'), null);
  t.match(settingRule('stopLimit', '999ms'), /from 1s to/);
  t.match(settingRule('outputBytesMax', '65m'), /from 4k to 64m/);
  t.equal(settingRule('concurrency', 256), null);
  t.match(settingRule('concurrency', '257'), /1 to 256/);
  t.match(settingRule('concurrency', 1.5), /whole number/);
  t.match(settingRule('shell', ' '), /words of a shell/);
  t.equal(settingRule('allowUnsigned', 'true'), null);
});

t.test('the kept output of one attempt fits the quota, or that is a mistake', async (t) => {
  t.equal(readAll({ config: { outputBytesMax: '8m' } }).outputQuotaBytes, 128 * MIB, 'the default grows with it');
  const error = refusalOf({ config: { outputBytesMax: '8m', outputQuota: '4m' } });
  t.match(error.message, /outputQuota must be at least outputBytesMax, which is 8m/);
});
