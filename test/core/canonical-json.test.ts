import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import t from 'tap';
import { canonicalJson, utf8Bytes } from '../../src/core/canonical-json.ts';
import { isEdgeError } from '../../src/core/errors.ts';

const refusalOf = (value: unknown): { path: string; rule: string } | null => {
  try {
    canonicalJson(value);
    return null;
  } catch (error) {
    if (!isEdgeError(error) || error.code !== 'invalid') {
      throw error;
    }
    return { path: error.mistakes[0]!.path, rule: error.mistakes[0]!.rule };
  }
};

t.test('keys stand in UTF-16 code-unit order (the sorting vector of RFC 8785, 3.2.3)', async (t) => {
  const value = {
    '\u20ac': 'Euro Sign',
    '\r': 'Carriage Return',
    '\ufb33': 'Hebrew Letter Dalet With Dagesh',
    '1': 'One',
    '\ud83d\ude00': 'Emoji: Grinning Face',
    '\u0080': 'Control',
    '\u00f6': 'Latin Small Letter O With Diaeresis',
  };
  const expected =
    '{"\\r":"Carriage Return","1":"One","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis",' +
    '"\u20ac":"Euro Sign","\ud83d\ude00":"Emoji: Grinning Face","\ufb33":"Hebrew Letter Dalet With Dagesh"}';
  t.equal(canonicalJson(value), expected);
});

t.test(
  'a surrogate pair sorts by its first unit, below the private use area, though its code point is above',
  async (t) => {
    t.equal(canonicalJson({ '\uffff': 1, '\u{10000}': 2 }), '{"\u{10000}":2,"\uffff":1}');
  },
);

t.test('keys that look like numbers sort as text, and a prefix stands first', async (t) => {
  t.equal(
    canonicalJson({ '10': 1, '9': 2, '1': 3, a: 4, 'a-b': 5, ab: 6, '': 7, A: 8 }),
    '{"":7,"1":3,"10":1,"9":2,"A":8,"a":4,"a-b":5,"ab":6}',
  );
});

t.test('keys never sort by locale', async (t) => {
  t.equal(canonicalJson({ z: 1, ä: 2, a: 3, B: 4 }), '{"B":4,"a":3,"z":1,"ä":2}');
});

t.test('strings have the escapes of RFC 8785, 3.2.2.2, and no other', async (t) => {
  t.equal(canonicalJson('\u20ac$\u000f\u000aA\'\u0042\u0022\u005c\\"/'), '"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"');
  t.equal(canonicalJson('\b\t\n\f\r'), '"\\b\\t\\n\\f\\r"');
  for (let code = 0; code < 0x20; code += 1) {
    const short = new Map([
      [8, '\\b'],
      [9, '\\t'],
      [10, '\\n'],
      [12, '\\f'],
      [13, '\\r'],
    ]).get(code);
    const expected = short ?? `\\u${code.toString(16).padStart(4, '0')}`;
    t.equal(canonicalJson(String.fromCharCode(code)), `"${expected}"`);
  }
  t.equal(canonicalJson('\u007f\u0080\u2028\u2029'), '"\u007f\u0080\u2028\u2029"', 'these stand for themselves');
});

t.test('integers have no fraction, exponent or negative zero (RFC 8785, appendix B)', async (t) => {
  t.equal(canonicalJson(0), '0');
  t.equal(canonicalJson(-0), '0');
  t.equal(canonicalJson(9007199254740991), '9007199254740991');
  t.equal(canonicalJson(-9007199254740991), '-9007199254740991');
  t.equal(canonicalJson(1e3), '1000');
  t.equal(canonicalJson([-1, 10, 2 ** 31 - 1]), '[-1,10,2147483647]');
});

t.test('literals and nesting have no white space (the arrays and structures of the vectors)', async (t) => {
  const value = [56, { d: true, '10': null, '1': [], é: {} }, 'x', [[[]]]];
  t.equal(canonicalJson(value), '[56,{"1":[],"10":null,"d":true,"é":{}},"x",[[[]]]]');
  t.equal(canonicalJson(Object.create(null)), '{}');
});

t.test('what is outside the subset is refused with its path', async (t) => {
  const at = (value: unknown) => ({ steps: [{ key: 'a' }, { key: value }] });
  const path = 'steps[1].key';
  for (const value of [1.5, Number.NaN, Infinity, -Infinity, 2 ** 53, -(2 ** 53), 1e21]) {
    t.same(refusalOf(at(value)), { path, rule: 'is not a safe integer' }, `${value}`);
  }
  t.match(refusalOf(at(undefined)), { path, rule: /undefined/ });
  t.match(refusalOf(at(1n)), { path, rule: /bigint/ });
  t.match(refusalOf(at(() => 1)), { path, rule: /function/ });
  t.match(refusalOf(at(Symbol('s'))), { path, rule: /symbol/ });
  for (const value of [new Date(0), new Map(), new Set(), Buffer.from('a'), /a/, new Error('e'), new Number(1)]) {
    t.match(refusalOf(at(value)), { path, rule: /plain object/ }, `${value}`);
  }
  t.match(refusalOf({ list: Array(2) }), { path: 'list[0]', rule: /undefined/ }, 'a hole in an array');
});

t.test('a lone surrogate is refused, in a value and in a key', async (t) => {
  t.match(refusalOf({ a: ['\ud83d'] }), { path: 'a[0]', rule: /lone surrogate/ });
  t.match(refusalOf({ a: '\ude00\ud83d' }), { path: 'a', rule: /lone surrogate/ });
  t.match(refusalOf({ a: { '\ud83d': 1 } }), { rule: /lone surrogate/ });
});

t.test('a refused document itself has the empty path', async (t) => {
  t.same(refusalOf(undefined)?.path, '');
  t.same(refusalOf(0.5)?.path, '');
});

const json = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom(null, true, false),
    fc.maxSafeInteger(),
    fc.string({ unit: 'binary' }),
    fc.array(tie('value'), { maxLength: 5 }),
    fc.dictionary(fc.string({ unit: 'binary' }), tie('value'), { maxKeys: 5, noNullPrototype: true }),
  ),
})).value;

t.test('canonical text parses back to the same value, whose canonical text is the same', async () => {
  fc.assert(
    fc.property(json, (value) => {
      const canonical = canonicalJson(value);
      const parsed: unknown = JSON.parse(canonical);
      return canonicalJson(parsed) === canonical && isDeepStrictEqual(parsed, value);
    }),
  );
});

t.test('the order in which keys were added does not matter', async () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.tuple(fc.string({ unit: 'binary' }), fc.nat()), { selector: ([key]) => key }),
      (entries) => {
        const forwards = canonicalJson(Object.fromEntries(entries));
        return forwards === canonicalJson(Object.fromEntries(entries.toReversed()));
      },
    ),
  );
});

t.test('bytes are counted in UTF-8', async (t) => {
  t.equal(utf8Bytes('aé€😀'), 1 + 2 + 3 + 4);
});
