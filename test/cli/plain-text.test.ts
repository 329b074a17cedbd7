import fc from 'fast-check';
import t from 'tap';
import {
  asciiOnly,
  cutInput,
  cutToWidth,
  displayWidth,
  neutralize,
  neutralizeLines,
  padToWidth,
  quoteInput,
} from '../../src/cli/plain-text.ts';

t.test('control characters and escape sequences are shown, never obeyed', async (t) => {
  t.equal(neutralize('a\x1b[2Jb\x07\x9b31m\u202ec'), 'a\\x1b[2Jb\\x07\\x9b31m\\u202ec');
  t.equal(neutralize('two\nlines\tand a tab'), 'two lines and a tab');
  t.equal(neutralizeLines('two\r\nlines\tand\rmore'), 'two\nlines\tand\\x0dmore');
  t.equal(neutralize('\ud800'), '\ufffd');
});

t.test('text of any script is left as it is', async (t) => {
  const text = 'Ist die Leitung da? 线路是否正常 — ok ✓ é';
  t.equal(neutralize(text), text);
});

t.test('no text at all can bring a control character through', async (t) => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 40 }), (text) => {
      t.notOk(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/u.test(neutralize(text)));
      t.notOk(/[\p{Cc}]/u.test(neutralizeLines(text).replaceAll(/[\n\t]/g, '')));
    }),
    { numRuns: 200 },
  );
});

t.test('wide characters count two cells, combining ones none', async (t) => {
  t.equal(displayWidth('abc'), 3);
  t.equal(displayWidth('青龙'), 4);
  t.equal(displayWidth('e\u0301'), 1);
  t.equal(displayWidth('한글'), 4);
  t.equal(displayWidth('🚀'), 2);
  t.equal(displayWidth('✓│└─'), 4);
});

t.test('what is cut says so and fits', async (t) => {
  t.equal(cutToWidth('abcdef', { widthMax: 6, mark: '…' }), 'abcdef');
  t.equal(cutToWidth('abcdef', { widthMax: 5, mark: '…' }), 'abcd…');
  t.equal(cutToWidth('青龙青龙', { widthMax: 6, mark: '…' }), '青龙…');
  t.equal(cutToWidth('abcdef', { widthMax: 2, mark: '...' }), '');
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 30 }), fc.nat(20), (text, widthMax) => {
      t.ok(displayWidth(cutToWidth(neutralize(text), { widthMax, mark: '…' })) <= Math.max(widthMax, 0));
    }),
    { numRuns: 200 },
  );
});

t.test('what the locale cannot show becomes a mark for each cell, so that nothing moves', async (t) => {
  t.equal(asciiOnly('ok 线路 é ✓ \x1b[1m'), 'ok ???? ? ? \x1b[1m');
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 30 }), (text) => {
      t.match(asciiOnly(neutralize(text)), /^[\x20-\x7e]*$/);
      t.equal(displayWidth(asciiOnly(neutralize(text))), displayWidth(neutralize(text)));
    }),
    { numRuns: 200 },
  );
});

t.test('input is quoted whole where it may be a name, and cut where it is longer than any', async (t) => {
  t.equal(quoteInput('Bad Name'), '"Bad Name"');
  t.equal(cutInput('x'.repeat(64)), 'x'.repeat(64));
  t.equal(cutInput('x'.repeat(300)), `${'x'.repeat(40)}... (300 characters)`);
  t.equal(cutInput('青'.repeat(65)), `${'青'.repeat(40)}... (65 characters)`);
});

t.test('padding counts cells, not characters', async (t) => {
  t.equal(padToWidth('青', 4), '青  ');
  t.equal(padToWidth('long', 2), 'long');
});

t.test('of all characters exactly the controls, and what reorders or hides text, are escaped', (t) => {
  const expected = /[\p{Cc}\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/u;
  const isTag = (code: number) => code >= 0xe0000 && code <= 0xe007f;
  const wrong: number[] = [];
  for (let code = 0; code <= 0x10ffff; code += 1) {
    const character = String.fromCodePoint(code);
    const mayChange = expected.test(character) || isTag(code) || !character.isWellFormed();
    if ((neutralize(character) !== character) !== mayChange) {
      wrong.push(code);
    }
  }
  t.same(wrong, []);
  t.end();
});
