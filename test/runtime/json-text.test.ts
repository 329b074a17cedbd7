import fc from 'fast-check';
import t from 'tap';
import { limits } from '../../src/core/limits.ts';
import { parseJsonText } from '../../src/runtime/json-text.ts';

/** What JSON.parse makes of a text, or `refused`. */
function reference(text: string): unknown {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return 'refused';
  }
}

function parsed(text: string): unknown {
  const { value, isReadable } = parseJsonText(text);
  return isReadable ? { value } : 'refused';
}

t.test('every JSON value is read as JSON.parse reads it, however it is spaced', async (t) => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), fc.constantFrom(undefined, 1, '\t', ' \r\n'), (value, space) => {
      const text = JSON.stringify(value, null, space);
      t.strictSame(parsed(text), reference(text));
    }),
  );
});

t.test('a text that is altered anywhere is accepted or refused as JSON.parse does', async () => {
  const base = '{"a": [1, -2.5e3, "x\\u00e4\\n", true, null], "b": {"c": "世界", "d": []}, "e": 0}';
  const marks = fc.constantFrom(
    '',
    '"',
    '\\',
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '0',
    '-',
    '.',
    'e',
    ' ',
    '\n',
    '\u0007',
    'u',
    't',
    'x',
  );
  fc.assert(
    fc.property(fc.nat(base.length), fc.nat(2), marks, (at, length, mark) => {
      const text = base.slice(0, at) + mark + base.slice(at + length);
      const { mistakes } = parseJsonText(text);
      // The one thing that is refused beyond JSON.parse.
      const isDuplicate = mistakes.some(({ rule }) => rule.startsWith('is here for the second time'));
      return isDuplicate || JSON.stringify(parsed(text)) === JSON.stringify(reference(text));
    }),
    { numRuns: 2_000 },
  );
});

t.test('each part has the line on which it stands, a field that of its key', async (t) => {
  const { lines } = parseJsonText('{\n  "a": {\n    "b":\n      [1,\n       2]\n  },\n  "小 c": 3\n}');
  t.strictSame(Object.fromEntries(lines), { '': 1, a: 2, 'a.b': 3, 'a.b[0]': 4, 'a.b[1]': 5, '["小 c"]': 7 });
});

t.test('a key that is there twice is a mistake with both lines, at any depth', async (t) => {
  const { mistakes, isReadable } = parseJsonText('{"a": {"x": 1,\n"x": 2},\n"b": 1,\n\n"b": 2, "__proto__": 1}');
  t.strictSame(mistakes, [
    { path: 'a.x', line: 2, rule: 'is here for the second time (the first is on line 1)' },
    { path: 'b', line: 5, rule: 'is here for the second time (the first is on line 3)' },
  ]);
  t.ok(isReadable, 'what else is wrong can still be told');
});

t.test('a syntax error says what was expected, what was found, and on which line', async (t) => {
  const first = (text: string) => parseJsonText(text).mistakes[0];
  t.strictSame(first('{\n"a": 1\n"b": 2}'), {
    path: '',
    line: 3,
    rule: 'is no JSON: , or } expected, but "\\"" found',
  });
  t.strictSame(first('{"a": [1,\n\n'), {
    path: 'a[1]',
    line: 3,
    rule: 'is no JSON: a value expected, but the end of the file found',
  });
  t.match(first('{"a": 1}\n{'), { line: 2, rule: /the end of the file expected/ });
  t.match(first("{'a': 1}"), { rule: /a key in double quotes expected, but "'" found/ });
  t.match(first('["a\nb"]'), { path: '[0]', line: 1, rule: /a line end/ });
  t.match(first(''), { line: 1, rule: /a value expected/ });
});

t.test('nesting and size are bounded, and end the reading', async (t) => {
  const deep = '['.repeat(200_000);
  t.match(parseJsonText(deep), { isReadable: false, mistakes: [{ rule: /nested too deeply: 32 levels/ }] });
  const large = `[${'1,'.repeat(limits.manifestNodesMax)}1]`;
  t.match(parseJsonText(large), { isReadable: false, mistakes: [{ rule: /one value too many/ }] });
  t.equal(parseJsonText(large).mistakes.length, 1);
  t.match(parseJsonText(`"${'x'.repeat(1_000_000)}`), { isReadable: false });
});

t.test('a key __proto__ is a key', async (t) => {
  const { value } = parseJsonText('{"__proto__": {"polluted": true}}');
  t.ok(Object.hasOwn(value as object, '__proto__'));
  t.equal((value as { polluted?: unknown }).polluted, undefined);
});
