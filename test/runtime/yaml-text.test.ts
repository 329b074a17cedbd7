import fc from 'fast-check';
import t from 'tap';
import { parseYamlText } from '../../src/runtime/yaml-text.ts';

const parsedValue = async (text: string) => (await parseYamlText(text)).value;
const rulesOf = async (text: string) =>
  (await parseYamlText(text)).mistakes.map(({ line, rule }) => `${line}: ${rule}`);

t.test(
  'YAML is that of version 1.2: yes and on are text, octals have an o, versions with two dots are text',
  async (t) => {
    const text = 'a: yes\non: off\nb: 1.2.0\nc: 1.2\nd: 0o17\ne: 017\nf: ~\ng: true\nh: 12:30:00\ni: 2026-01-01';
    t.strictSame(await parsedValue(text), {
      a: 'yes',
      on: 'off',
      b: '1.2.0',
      c: 1.2,
      d: 15,
      e: 17,
      f: null,
      g: true,
      h: '12:30:00',
      i: '2026-01-01',
    });
  },
);

t.test('JSON is YAML: any value written as JSON is read the same', async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.jsonValue({ maxDepth: 3 }), async (value) => {
      const text = JSON.stringify(value);
      t.strictSame(await parsedValue(text), JSON.parse(text));
    }),
    { numRuns: 60 },
  );
});

t.test('each part has the line on which it stands, a field that of its key', async (t) => {
  const { lines } = await parseYamlText('# comment\na:\n  b: [1,\n    2]\n\n"小 c":\n  - x\n  - y\n');
  t.strictSame(Object.fromEntries(lines), {
    '': 1,
    a: 2,
    'a.b': 3,
    'a.b[0]': 3,
    'a.b[1]': 4,
    '["小 c"]': 6,
    '["小 c"][0]': 7,
    '["小 c"][1]': 8,
  });
});

t.test('a key that is there twice is a mistake with both lines', async (t) => {
  t.strictSame(await rulesOf('a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\na: 2\n'), [
    '5: is here for the second time (the first is on line 3)',
    '6: is here for the second time (the first is on line 1)',
  ]);
});

t.test('a syntax error is a mistake with its line', async (t) => {
  t.match(await rulesOf('a: 1\n  b: 2\n'), [/^1: is no YAML as a package has it: /]);
  t.match(await rulesOf('a: [1\nb: 2\n'), [/^[12]: is no YAML/]);
  t.match(await rulesOf('a: "x\n'), [/^[12]: is no YAML/]);
  t.match(await rulesOf('a: 1\n---\nb: 2\n'), [/^[23]: is no YAML/]);
  t.strictSame(await rulesOf('b: 1\na: *x\n'), ['2: is *x, but no anchor of that name stands before it']);
});

t.test('tags beyond the core schema, and other versions of YAML, are refused', async (t) => {
  for (const text of [
    'a: !custom x',
    'a: !!binary aGk=',
    'a: !!set {x}',
    '!!js/function "x"',
    '%YAML 1.1\n---\na: yes',
  ]) {
    const { isReadable, mistakes } = await parseYamlText(text);
    t.notOk(isReadable, text);
    t.ok(mistakes.length > 0 && mistakes[0]!.line !== null, text);
  }
  t.strictSame(await parsedValue('a: !!str 5'), { a: '5' });
});

t.test('keys must be text', async (t) => {
  t.strictSame(await rulesOf('1: a\ntrue: b\n~: c\n[x]: d\n"1": e\n'), [
    '1: must have keys that are text: put them in quotes',
    '2: must have keys that are text: put them in quotes',
    '3: must have keys that are text: put them in quotes',
    '4: must have keys that are text: put them in quotes',
  ]);
});

t.test('an alias stands for what its anchor names, with the lines of the anchor', async (t) => {
  const { value, lines } = await parseYamlText('a: &x\n  k: [1]\nb: *x\nc: &x 2\nd: *x\n');
  t.strictSame(value, { a: { k: [1] }, b: { k: [1] }, c: 2, d: 2 });
  t.equal(lines.get('b'), 3);
  t.equal(lines.get('b.k[0]'), 2);
});

t.test('an alias inside of repeated content keeps its first meaning', async (t) => {
  t.strictSame(await parsedValue('a: &x 1\nb: &y [*x]\nc: &x 2\nd: *y\ne: *x\n'), { a: 1, b: [1], c: 2, d: [1], e: 2 });
});

t.test('aliases that unfold without end or beyond the bound are refused, quickly', async (t) => {
  const laughs = ['a: &a [x, x, x, x, x, x, x, x, x, x]'];
  for (const [name, before] of ['ba', 'cb', 'dc', 'ed', 'fe', 'gf', 'hg', 'ih']) {
    laughs.push(`${name}: &${name} [${Array(10).fill(`*${before}`).join(', ')}]`);
  }
  t.match(await rulesOf(laughs.join('\n')), [/one value too many: 200000 are allowed, aliases followed/]);
  t.match(await rulesOf('a: &a [*a]'), [/nested too deeply/]);
});

t.test('nesting is bounded, also where the parser itself would go to the end of its stack', async (t) => {
  t.match(await rulesOf(`a: ${'['.repeat(40)}${']'.repeat(40)}`), [/nested too deeply: 32 levels/]);
  t.match(await rulesOf('['.repeat(30_000)), [/nested too deeply|is no YAML/]);
  t.match(await rulesOf('['.repeat(200_000)), [/too large for YAML/]);
});

t.test('many keys in one map are read in linear time', async (t) => {
  const { value, isReadable } = await parseYamlText(
    Array.from({ length: 13_000 }, (_, index) => `k${index}: 1`).join('\n'),
  );
  t.ok(isReadable);
  t.equal(Object.keys(value as object).length, 13_000);
});

t.test('a text with too many keys and values is refused before the library makes anything of it', async (t) => {
  const texts = {
    'one key again and again': 'a: 1234\n'.repeat(90_000),
    'one list': `a: [${'a,'.repeat(500_000)}a]`,
    'entries without a value': '-\n'.repeat(500_000),
    'keys without a value': '? \n'.repeat(300_000),
    'quoted values': `a: ['${"','".repeat(200_000)}']`,
    aliases: `a: &a 1\nb: [${'*a,'.repeat(300_000)}*a]`,
  };
  for (const [name, text] of Object.entries(texts)) {
    const rule = 'is too large for YAML: 40000 keys and values are allowed; write it as qinglong.json';
    t.strictSame(await rulesOf(text), [`null: ${rule}`], name);
  }
});

t.test('an empty text is an empty value', async (t) => {
  t.equal(await parsedValue(''), null);
  t.equal(await parsedValue('# nothing\n'), null);
});
