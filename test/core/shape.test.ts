import t from 'tap';
import {
  boolean,
  counter,
  digestText,
  identifier,
  integer,
  list,
  normalize,
  nullable,
  object,
  oneOf,
  packageName,
  portableId,
  type Reader,
  resourceId,
  text,
  timeMs,
} from '../../src/core/shape.ts';
import { edgeErrorOf } from './samples.ts';

const subject = { what: 'sample', code: 'invalid' } as const;
const mistakesOf = (reader: Reader<unknown>, value: unknown) =>
  edgeErrorOf(() => normalize(reader, value, subject)).mistakes.map(({ path, rule }) => `${path}: ${rule}`);

const entry = object({ name: resourceId, count: nullable(counter) });
const sample = object({ id: portableId, entries: list(entry, { min: 1, max: 3 }), on: boolean });
const good = {
  id: 'a',
  entries: [
    { name: 'x', count: null },
    { name: 'y', count: 2 },
  ],
  on: false,
};

t.test('what a reader accepts comes back equal, and normalizing it again changes nothing', async (t) => {
  const once = normalize(sample, good, subject);
  t.same(once, good);
  t.same(normalize(sample, once, subject), once);
  t.same(Object.keys(normalize(sample, { on: true, entries: good.entries, id: 'a' }, subject)), [
    'id',
    'entries',
    'on',
  ]);
});

t.test('every mistake is named by its path, all of them in one error', async (t) => {
  const value = { id: 1, entries: [{ name: 'X', count: -1 }, { name: 'y' }, null], on: 'yes', more: 1 };
  t.same(mistakesOf(sample, value), [
    'more: is not a known field',
    'id: must be an identifier of 1 to 36 bytes',
    'entries[0].name: must be a name of 1 to 63 of a-z, 0-9, -',
    'entries[0].count: must be an integer from 0 to 2147483647',
    'entries[1].count: is missing',
    'entries[2]: must be an object',
    'on: must be true or false',
  ]);
});

t.test('the error says what was read, where it is wrong, and carries the code it was asked for', async (t) => {
  const invalid = edgeErrorOf(() => normalize(sample, { ...good, on: 1 }, subject));
  t.match(invalid, { code: 'invalid', message: 'sample: on must be true or false', hint: /correct/ });
  const damaged = edgeErrorOf(() => normalize(sample, 7, { what: 'row', code: 'damaged' }));
  t.match(damaged, { code: 'damaged', message: 'row: the document must be an object', hint: /verify/ });
});

t.test('an object is a plain one: no array, no null, and no inherited field counts', async (t) => {
  t.same(mistakesOf(entry, []), [': must be an object']);
  t.same(mistakesOf(entry, null), [': must be an object']);
  const inherited: unknown = Object.create({ name: 'x', count: 1 });
  t.same(mistakesOf(entry, inherited), ['name: is missing', 'count: is missing']);
  t.same(mistakesOf(entry, JSON.parse('{"name":"x","count":1,"__proto__":{}}')), ['__proto__: is not a known field']);
});

t.test('undefined is never a value, also not of a nullable field', async (t) => {
  t.same(mistakesOf(entry, { name: 'x', count: undefined }), ['count: must be an integer from 0 to 2147483647']);
});

t.test('lists have bounds, and a string is no list', async (t) => {
  const two = list(counter, { min: 2, max: 3 });
  t.same(normalize(two, [1, 2], subject), [1, 2]);
  for (const value of [[], [1], [1, 2, 3, 4], '12', { 0: 1, 1: 2, length: 2 }, null]) {
    t.same(mistakesOf(two, value), [': must be a list of 2 to 3 entries']);
  }
});

t.test('integers are safe integers within their bounds, never coerced', async (t) => {
  t.equal(normalize(integer(-1, 1), -1, subject), -1);
  for (const value of [-2, 2, 0.5, Number.NaN, Infinity, '1', 1n, null, true, undefined]) {
    t.same(mistakesOf(integer(-1, 1), value), [': must be an integer from -1 to 1']);
  }
  t.equal(normalize(counter, 2 ** 31 - 1, subject), 2 ** 31 - 1);
  t.equal(mistakesOf(counter, 2 ** 31).length, 1);
  t.equal(normalize(timeMs, 2 ** 53 - 1, subject), 2 ** 53 - 1);
  t.equal(mistakesOf(timeMs, 2 ** 53).length, 1);
  t.equal(mistakesOf(timeMs, -1).length, 1);
});

t.test('text is well-formed text that its rule accepts', async (t) => {
  const any = text({ rule: 'must be text', accepts: () => true });
  t.equal(normalize(any, '', subject), '');
  t.same(mistakesOf(any, '\ud800'), [': must be text']);
  for (const reader of [identifier, portableId, resourceId, packageName, digestText]) {
    for (const value of ['', 'ä', 'a b', 1, null, ['a'], new String('a')]) {
      t.equal(mistakesOf(reader, value).length, 1, `${String(value)}`);
    }
  }
});

t.test('one of a closed set is compared exactly', async (t) => {
  t.equal(normalize(oneOf(['a', 'b']), 'b', subject), 'b');
  for (const value of ['', 'A', 'a ', ['a'], null]) {
    t.same(mistakesOf(oneOf(['a', 'b']), value), [': must be one of a, b']);
  }
});
