import t from 'tap';
import { environmentOf, executionDigestOf } from '../../src/core/execution.ts';
import {
  fillEnvironment,
  listAskedSettings,
  listSettingUses,
  type PackageSetting,
} from '../../src/core/package-setting.ts';
import { materialize } from '../../src/core/revision.ts';
import { acceptedManifest, withTask } from './manifest-samples.ts';

const lockDigest = '1'.repeat(64);
const env = {
  MODE: 'fast',
  TOKEN: { setting: 'API_TOKEN' },
  COPY: { setting: 'API_TOKEN', default: 'none' },
  ZONE: { setting: 'zone', default: '' },
};
const [task] = materialize(acceptedManifest(withTask({ env, user: 'nobody', timeout: '1s' })), lockDigest).tasks;

function setTo(name: string, value: string, salt = 'ab'.repeat(16)): PackageSetting {
  return { name, value, salt, updatedAtMs: 1 };
}

const digestWith = (...settings: readonly PackageSetting[]) => executionDigestOf({ task: task!, settings, lockDigest });

t.test('every use of a setting is found, by name, task and variable; each name is asked for once', async (t) => {
  const other = { id: 'alpha', env: { Z: { setting: 'zone', default: null } } };
  t.same(listSettingUses([task!, other]), [
    { name: 'API_TOKEN', taskId: 'probe', variable: 'COPY', default: 'none' },
    { name: 'API_TOKEN', taskId: 'probe', variable: 'TOKEN', default: null },
    { name: 'zone', taskId: 'alpha', variable: 'Z', default: null },
    { name: 'zone', taskId: 'probe', variable: 'ZONE', default: '' },
  ]);
  t.same(listAskedSettings([task!, other]), ['API_TOKEN', 'zone']);
});

t.test(
  'what is set wins over a default, also where it is empty, and reaches every variable that asks for it',
  async (t) => {
    t.same(fillEnvironment(task!.env, [setTo('API_TOKEN', 'geheim 密\n'), setTo('zone', ''), setTo('other', 'x')]), {
      kind: 'complete',
      variables: { MODE: 'fast', TOKEN: 'geheim 密\n', COPY: 'geheim 密\n', ZONE: '' },
    });
  },
);

t.test('what has neither a value nor a default is named, each once', async (t) => {
  t.same(fillEnvironment(task!.env, []), { kind: 'lacking', settingNames: ['API_TOKEN'] });
  const both = { B: { setting: 'b', default: null }, A: { setting: 'a', default: null }, C: task!.env['TOKEN']! };
  const again = { ...both, D: { setting: 'b', default: null } };
  t.same(fillEnvironment(again, [setTo('API_TOKEN', 'x')]), { kind: 'lacking', settingNames: ['a', 'b'] });
});

t.test('the variables that say who is running cannot be overridden, the base can', async (t) => {
  const found = environmentOf({
    base: { PATH: '/bin', HOME: '/' },
    variables: { PATH: '/opt/bin', QL_RUN_ID: 'forged' },
    runId: 'run-1',
    attemptId: 'at_1',
    stepKey: 'a',
    attemptNumber: 2,
    packageDirectory: '/p',
  });
  t.strictSame(found, {
    PATH: '/opt/bin',
    HOME: '/',
    QL_RUN_ID: 'run-1',
    QL_ATTEMPT_ID: 'at_1',
    QL_STEP_KEY: 'a',
    QL_ATTEMPT_NUMBER: '2',
    QL_PACKAGE_DIR: '/p',
  });
});

// Computed apart from this code, with another language's JSON and SHA-256.
t.test('the execution digest of a task with and without a setting is the golden one', async (t) => {
  t.equal(digestWith(setTo('API_TOKEN', 'geheim')), 'c15155491cb24fc4e3707b1270e8aea537e8c6f17ef3db22d7c55e1b706d21c3');
  t.equal(digestWith(), 'a54021c5b5eba35621fc41fdaa111ed8c54ae402226f7c4adf41c6db3ba6c11c');
});

t.test(
  'the execution digest follows value and salt of what the task asks for, and nothing else that is set',
  async (t) => {
    const digests = [
      digestWith(),
      digestWith(setTo('API_TOKEN', 'none')),
      digestWith(setTo('API_TOKEN', 'other')),
      digestWith(setTo('API_TOKEN', 'other', 'cd'.repeat(16))),
      digestWith(setTo('zone', '')),
    ];
    t.equal(new Set(digests).size, digests.length, 'a default is told apart from the same text that was set');
    t.equal(digestWith(setTo('unused', 'x')), digests[0]);
    t.equal(digestWith({ ...setTo('API_TOKEN', 'other'), updatedAtMs: 9 }), digests[2]);
  },
);
