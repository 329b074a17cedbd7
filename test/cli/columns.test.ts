import t from 'tap';
import { formatPairs, formatTable } from '../../src/cli/columns.ts';
import { createPaint } from '../../src/cli/terminal.ts';

const plain = createPaint({ hasColour: false });

t.test('columns are as wide as their widest cell, and nothing trails', async (t) => {
  const lines = formatTable(
    ['NAME', 'STATE', 'TITLE'],
    [
      ['青龙', { text: 'active', tone: 'green' }, 'x'],
      ['long-name', 'off', ''],
    ],
    plain,
  );
  t.same(lines, ['NAME       STATE   TITLE', '青龙       active  x', 'long-name  off']);
});

t.test('colour does not move a column', async (t) => {
  const [, first] = formatTable(['A', 'B'], [[{ text: 'x', tone: 'red' }, 'y']], createPaint({ hasColour: true }));
  t.equal(first, '\x1b[31mx\x1b[0m  y');
});

t.test('what a cell says is neutralized', async (t) => {
  t.same(formatTable(['A'], [['a\x1b[31m\nb']], plain), ['A', 'a\\x1b[31m b']);
});

t.test('pairs without a value are left out', async (t) => {
  const pairs = [
    ['run', 'r'],
    ['reason', null],
    ['workflow', 'w'],
  ] as const;
  t.same(formatPairs(pairs, plain), ['run       r', 'workflow  w']);
});
