import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { durationPattern, sizePattern } from '../../src/core/duration.ts';
import { limits } from '../../src/core/limits.ts';
import {
  environmentNamePattern,
  packageNamePattern,
  resourceIdPattern,
  userPattern,
  versionPattern,
} from '../../src/core/manifest-rules.ts';
import {
  limitsShape,
  packageShape,
  retryShape,
  settingShape,
  stepShape,
  taskShape,
  unsupportedRule,
  workflowShape,
} from '../../src/core/manifest-shape.ts';
import { retryCauses } from '../../src/core/revision.ts';
import { accepts, resolve, type Schema } from './json-schema.ts';
import { mistakesOf, sampleManifest, withSteps, withTask } from './manifest-samples.ts';

const schema = JSON.parse(
  readFileSync(join(import.meta.dirname, '../../schema/package.schema.json'), 'utf8'),
) as Schema;
const definition = (name: string) => resolve(schema, `#/$defs/${name}`);
const at = (place: string) => resolve(schema, `#/${place}`);

/** The keys of a shape that are supported: the others are refused, and so are not in the schema. */
function supportedKeys(shape: Readonly<Record<string, unknown>>): readonly string[] {
  const isSupported = (key: string) => {
    const fields = [mistakesOf(withTask({ [key]: 1 })), mistakesOf(sampleManifest({ workflows: { w: { [key]: 1 } } }))];
    return !fields.flat().some((line) => line.endsWith(`.${key}: ${unsupportedRule}`));
  };
  return Object.keys(shape).filter(isSupported).sort();
}

t.test('the schema for editors has exactly the keys that the manifest has and this version supports', async (t) => {
  const keysOf = ({ properties }: Schema) => Object.keys(properties as object).sort();
  t.strictSame(keysOf(schema), supportedKeys(packageShape));
  t.strictSame(keysOf(definition('task')), supportedKeys(taskShape));
  t.strictSame(keysOf(definition('retry')), supportedKeys(retryShape));
  t.strictSame(keysOf(definition('limits')), supportedKeys(limitsShape));
  t.strictSame(keysOf(definition('workflow')), supportedKeys(workflowShape));
  t.strictSame(keysOf(definition('step')), supportedKeys(stepShape));
  t.strictSame(keysOf(definition('setting')), supportedKeys(settingShape));
  t.ok(Object.hasOwn(workflowShape, 'schedule') && !supportedKeys(workflowShape).includes('schedule'));
});

t.test('patterns and bounds of the schema are those of the code', async (t) => {
  const found = {
    name: at('properties/name'),
    version: at('properties/version'),
    title: definition('title')['maxLength'],
    resourceId: definition('resourceId'),
    duration: definition('duration')['pattern'],
    size: definition('size')['pattern'],
    environment: at('$defs/environment/propertyNames')['pattern'],
    environmentEntries: definition('environment')['maxProperties'],
    setting: at('$defs/setting/properties/setting'),
    user: at('$defs/task/properties/user')['oneOf'] as readonly unknown[],
    concurrency: at('$defs/workflow/properties/concurrency'),
    counts: [at('properties/tasks'), at('properties/workflows'), at('$defs/workflow/properties/steps')].map(
      ({ maxProperties }) => maxProperties,
    ),
    retryOn: at('$defs/retry/properties/on/items')['enum'],
  };
  t.match(found, {
    name: { pattern: packageNamePattern, maxLength: limits.packageNameBytesMax },
    version: { pattern: versionPattern, maxLength: limits.versionBytesMax },
    title: limits.titleCharactersMax,
    resourceId: { pattern: resourceIdPattern, maxLength: limits.resourceIdBytesMax },
    duration: durationPattern.source,
    size: sizePattern.source,
    environment: environmentNamePattern,
    environmentEntries: limits.environmentEntriesMax,
    setting: { pattern: environmentNamePattern, maxLength: limits.settingNameBytesMax },
    user: [{ pattern: userPattern }, { minimum: 0, maximum: limits.userIdMax }],
    concurrency: { minimum: 1, maximum: limits.concurrencyMax },
    counts: [limits.tasksMax, limits.workflowsMax, limits.stepsMax],
    retryOn: [...retryCauses],
  });
});

t.test('what the manifest accepts, the schema accepts; what breaks its shape, both refuse', async (t) => {
  const steps = { a: { task: 'probe' } };
  const samples: readonly unknown[] = [
    sampleManifest(),
    sampleManifest({ title: '小 工具', workflows: {} }),
    sampleManifest({ extra: 1 }),
    sampleManifest({ name: 'Wan' }),
    sampleManifest({ name: 'wan-' }),
    sampleManifest({ version: 1.2 }),
    sampleManifest({ version: '1.2.0+build~1' }),
    sampleManifest({ title: '  ' }),
    sampleManifest({ title: '😀'.repeat(200) }),
    sampleManifest({ title: '😀'.repeat(201) }),
    sampleManifest({ tasks: {} }),
    sampleManifest({ tasks: { Probe: { run: ['x'] } } }),
    sampleManifest({ workflows: { w: { steps: {} } } }),
    sampleManifest({ workflows: { w: { steps, timeout: '1h', enabled: false, title: 'x' } } }),
    sampleManifest({ workflows: { w: { steps, schedule: '@daily' } } }),
    ...[1, 256, 0, 257, 1.5, '2', null].map((concurrency) =>
      sampleManifest({ workflows: { w: { steps, concurrency } } }),
    ),
    sampleManifest({ workflows: { w: { steps: { a: {} } } } }),
    withSteps({ a: [], b: ['a'] }),
    withSteps({ a: [], b: ['a', 'a'] }),
    withTask({ run: [] }),
    withTask({ run: 'x' }),
    withTask({ shell: 'x' }),
    withTask({ run: ['x'], shell: 'x' }),
    withTask({ shell: ' ' }),
    withTask({ env: { A: 'x', _B: '' } }),
    withTask({ env: { 'A-B': 'x' } }),
    withTask({ env: { QL_A: 'x' } }),
    withTask({ env: { A: 1 } }),
    withTask({ env: { A: { setting: 'A' } } }),
    withTask({ env: { A: { setting: 'A', default: '' } } }),
    withTask({ env: { A: { setting: 'A-B' } } }),
    ...[63, 64].map((length) => withTask({ env: { A: { setting: 'a'.repeat(length) } } })),
    withTask({ env: { A: { setting: 'A', default: 1 } } }),
    withTask({ env: { A: { setting: 'A', defualt: 'x' } } }),
    withTask({ env: { A: { default: 'x' } } }),
    withTask({ env: { A: ['x'] } }),
    withTask({ user: 'nobody' }),
    withTask({ user: '_www-data' }),
    withTask({ user: 'host$' }),
    withTask({ user: 'Root' }),
    withTask({ user: `u${'x'.repeat(32)}` }),
    ...[0, '65534', 4_294_967_294, 4_294_967_295, -1, 1.5, '007', true].map((user) => withTask({ user })),
    withTask({ timeout: '30' }),
    withTask({ timeout: '30s', grace: '0s', nice: -20, enabled: true, cwd: '.' }),
    withTask({ nice: 20 }),
    withTask({ retry: {} }),
    withTask({ retry: { limit: 2, backoff: '1s', factor: 2, max: '1m', on: ['lost'] } }),
    withTask({ retry: { limit: 63 } }),
    withTask({ retry: { limit: 1, on: ['lost', 'lost'] } }),
    withTask({ retry: { limit: 1, on: ['skipped'] } }),
    withTask({ limits: { memory: '64m', cpu: '30s', files: 64 } }),
    withTask({ limits: { memory: '64M' } }),
    withTask({ limits: { files: 8 } }),
  ];
  for (const sample of samples) {
    t.equal(accepts(schema, sample), mistakesOf(sample).length === 0, JSON.stringify(sample));
  }
});

t.test('the schema never refuses a value at any place that the manifest accepts there', async () => {
  const value = fc.oneof(
    fc.constantFrom(
      null,
      true,
      0,
      1,
      17,
      -3,
      1.5,
      '',
      ' ',
      'probe',
      '30s',
      '64m',
      '1.0',
      './x',
      {},
      [],
      ['probe'],
      ['lost'],
    ),
    fc.dictionary(fc.constantFrom('limit', 'files', 'A', 'probe'), fc.constantFrom(1, 64, 'x', '5s'), { maxKeys: 2 }),
  );
  const place = fc.constantFrom(...Object.keys(taskShape));
  fc.assert(
    fc.property(place, value, (key, entry) => {
      const sample = withTask({ [key]: entry });
      return mistakesOf(sample).length > 0 || accepts(schema, sample);
    }),
    { numRuns: 500 },
  );
});
