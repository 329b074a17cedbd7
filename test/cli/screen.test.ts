import t from 'tap';
import { type Line, piece } from '../../src/cli/line.ts';
import { createScreen } from '../../src/cli/screen.ts';
import { createPaint } from '../../src/cli/terminal.ts';
import { createTinyTerminal } from './tiny-terminal.ts';

const paint = createPaint({ hasColour: true });
const linesOf = (...texts: readonly string[]): Line[] => texts.map((text) => [piece(text, 'green')]);

function openScreen(size: { readonly columns: number; readonly rows: number }) {
  const terminal = createTinyTerminal(size);
  const frames: string[] = [];
  let { columns } = size;
  const write = (text: string) => {
    frames.push(text);
    terminal.write(text);
  };
  const screen = createScreen({ write, columns: () => columns, paint });
  const resize = (wanted: number) => {
    columns = wanted;
    terminal.resize(wanted);
  };
  return { terminal, screen, frames, resize };
}

t.test('a block is drawn again in place, whether it grows or shrinks', async (t) => {
  const { terminal, screen, frames } = openScreen({ columns: 20, rows: 10 });
  terminal.write('$ run\r\n');
  screen.draw(linesOf('one', 'two'));
  t.same(terminal.lines(), ['$ run', 'one', 'two']);
  screen.draw(linesOf('uno', 'dos', 'tres'));
  t.same(terminal.lines(), ['$ run', 'uno', 'dos', 'tres']);
  screen.draw(linesOf('x'));
  t.same(terminal.lines(), ['$ run', 'x']);
  t.equal(frames.length, 3, 'each drawing is one write');
});

t.test('at the bottom of a terminal a block scrolls what is above it, and stays whole', async (t) => {
  const { terminal, screen } = openScreen({ columns: 20, rows: 4 });
  terminal.write('a\r\nb\r\nc\r\n');
  screen.draw(linesOf('1', '2', '3'));
  t.same(terminal.lines(), ['c', '1', '2', '3']);
  screen.draw(linesOf('4', '5', '6'));
  t.same(terminal.lines(), ['c', '4', '5', '6']);
});

t.test(
  'the cursor is hidden while a block stands; at the end the block stays and the cursor is below it',
  async (t) => {
    const { terminal, screen } = openScreen({ columns: 20, rows: 6 });
    screen.draw(linesOf('one', 'two'));
    t.notOk(terminal.isCursorShown());
    screen.clear();
    t.same(terminal.lines(), []);
    terminal.write('note\r\n');
    screen.draw(linesOf('one', 'two'));
    t.same(terminal.lines(), ['note', 'one', 'two']);
    screen.close();
    t.ok(terminal.isCursorShown());
    screen.close();
    terminal.write('after\r\n');
    t.same(terminal.lines(), ['note', 'one', 'two', 'after']);
  },
);

t.test('a block that was cleared leaves nothing at the end', async (t) => {
  const { terminal, screen } = openScreen({ columns: 20, rows: 6 });
  screen.draw(linesOf('one', 'two'));
  screen.clear();
  screen.close();
  terminal.write('after\r\n');
  t.same(terminal.lines(), ['after']);
});

t.test('a screen that never drew writes nothing at its end', async (t) => {
  const { screen, frames } = openScreen({ columns: 20, rows: 6 });
  screen.clear();
  screen.close();
  t.same(frames, []);
});

t.test('after the terminal was made narrower, the rows that wrapped are counted', async (t) => {
  const { screen, frames, resize } = openScreen({ columns: 20, rows: 6 });
  screen.draw(linesOf('0123456789abcdef', 'x'));
  resize(10);
  screen.draw(linesOf('y'));
  t.match(frames.at(-1)!, '\r\x1b[2A', 'two rows up: the first line takes two of three');
});
