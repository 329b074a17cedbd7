// A terminal as small as the screen needs it: cells, a cursor, wrapping, scrolling, and the few sequences that are
// written. It refuses any other sequence, so that nothing reaches a real terminal unseen.
import { assert } from '../../src/core/errors.ts';

export type TinyTerminal = {
  write(text: string): void;
  /** What an operator sees, blank lines at the end left out. */
  lines(): string[];
  resize(columns: number): void;
  isCursorShown(): boolean;
};

const sequencePattern = /^\p{Cc}\[(\??)([0-9;]*)([A-Za-z])/u;

export function createTinyTerminal(size: { readonly columns: number; readonly rows: number }): TinyTerminal {
  const { rows } = size;
  let { columns } = size;
  // Each row with whether it goes on in the next one because the text was too wide.
  let cells: string[] = Array.from({ length: rows }, () => '');
  let [row, column] = [0, 0];
  let isCursorShown = true;
  const set = (character: string) => {
    if (column === columns) {
      newLine();
      column = 0;
    }
    cells[row] = cells[row]!.padEnd(column).slice(0, column) + character + cells[row]!.slice(column + 1);
    column += 1;
  };
  const newLine = () => {
    row += 1;
    if (row === rows) {
      cells = [...cells.slice(1), ''];
      row -= 1;
    }
  };
  const obey = (isPrivate: boolean, parameters: string, letter: string) => {
    const count = Number(parameters || '1');
    if (letter === 'A') {
      row = Math.max(0, row - count);
    } else if (letter === 'K' || letter === 'J') {
      cells[row] = cells[row]!.slice(0, column);
      cells = letter === 'J' ? cells.map((text, index) => (index > row ? '' : text)) : cells;
    } else if (isPrivate && parameters === '25') {
      isCursorShown = letter === 'h';
    } else {
      assert(letter === 'm', `a tiny terminal does not know ${letter}`);
    }
  };
  return {
    write(text) {
      for (let index = 0; index < text.length; ) {
        const sequence = sequencePattern.exec(text.slice(index));
        const character = String.fromCodePoint(text.codePointAt(index)!);
        if (sequence !== null) {
          obey(sequence[1] !== '', sequence[2]!, sequence[3]!);
        } else if (character === '\r') {
          column = 0;
        } else if (character === '\n') {
          newLine();
        } else {
          assert(character >= ' ', 'a tiny terminal is given no other control character');
          set(character);
        }
        index += sequence?.[0].length ?? character.length;
      }
    },
    lines: () =>
      cells.map((text) => text.trimEnd()).filter((_text, index, all) => all.slice(index).some((x) => x !== '')),
    resize(wanted) {
      columns = wanted;
    },
    isCursorShown: () => isCursorShown,
  };
}
