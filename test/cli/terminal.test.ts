import t from 'tap';
import { createPaint, describeTerminal, glyphsOf } from '../../src/cli/terminal.ts';

function describe(environment: Readonly<Record<string, string>>, isTty = true) {
  return describeTerminal({ isTty, columns: 100, rows: 30, environment: (name) => environment[name] ?? null });
}

t.test('colour and redrawing need a terminal that can do both', async (t) => {
  t.match(describe({ TERM: 'xterm' }), { canRedraw: true, hasColour: true });
  t.match(describe({ TERM: 'xterm' }, false), { canRedraw: false, hasColour: false });
  t.match(describe({ TERM: 'dumb' }), { canRedraw: false, hasColour: false });
  t.match(describe({}), { canRedraw: false, hasColour: false });
});

t.test('NO_COLOR takes colour away and leaves the tree', async (t) => {
  t.match(describe({ TERM: 'xterm', NO_COLOR: '1' }), { canRedraw: true, hasColour: false });
  t.match(describe({ TERM: 'xterm', NO_COLOR: '' }), { canRedraw: true, hasColour: true });
});

t.test('the first locale variable that is set decides about UTF-8', async (t) => {
  t.ok(describe({ LANG: 'de_DE.UTF-8' }).isUnicode);
  t.ok(describe({ LC_ALL: '', LC_CTYPE: 'C.utf8', LANG: 'C' }).isUnicode);
  t.notOk(describe({ LC_ALL: 'C', LANG: 'de_DE.UTF-8' }).isUnicode);
  t.notOk(describe({}).isUnicode);
});

t.test('only a locale that is set can say that nothing beyond ASCII is shown', async (t) => {
  t.match(describe({ LANG: 'C' }), { isAsciiOnly: true, isUnicode: false });
  t.match(describe({ LANG: 'de_DE.ISO-8859-1' }), { isAsciiOnly: true });
  t.match(describe({ LANG: 'C.UTF-8' }), { isAsciiOnly: false, isUnicode: true });
  // Most routers: musl takes everything for UTF-8, and a serial console may do with ASCII branches.
  t.match(describe({}), { isAsciiOnly: false, isUnicode: false });
});

t.test('a terminal that does not tell its size is taken for 80 by 24', async (t) => {
  const terminal = describeTerminal({ isTty: true, columns: 0, rows: null, environment: () => null });
  t.match(terminal, { columns: 80, rows: 24 });
});

t.test('without UTF-8 every glyph is ASCII', async (t) => {
  const { states, ...glyphs } = glyphsOf({ isUnicode: false });
  const all = [...Object.values(states), ...Object.values(glyphs)].join('');
  t.match(all, /^[\x20-\x7e]+$/);
});

t.test('paint is plain without colour', async (t) => {
  t.equal(createPaint({ hasColour: false })('x', 'red'), 'x');
  t.equal(createPaint({ hasColour: true })('x', 'red'), '\x1b[31mx\x1b[0m');
  t.equal(createPaint({ hasColour: true })('x', null), 'x');
});
