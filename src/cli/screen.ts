// A block of lines at the bottom of a terminal that is drawn again in place. Owns the cursor while it is open, and
// gives it back. Frames are made by a pure function; each is one write, so that nothing flickers.
import { type Line, lineWidth, paintLine } from './line.ts';
import type { Paint } from './terminal.ts';

const hideCursor = '\x1b[?25l';
const showCursor = '\x1b[?25h';
const eraseLineEnd = '\x1b[K';
const eraseBelow = '\x1b[J';

export type FrameOptions = {
  /** What stands there now, from the last frame; the cursor is behind its last line. */
  readonly previous: readonly Line[];
  readonly next: readonly Line[];
  /** Now: a terminal that was made narrower has wrapped the lines of the last frame. */
  readonly columns: number;
  readonly paint: Paint;
};

/** What to write so that `next` stands in place of `previous`. The lines of `next` must fit the terminal. */
export function makeFrame({ previous, next, columns, paint }: FrameOptions): string {
  const rows = previous.reduce((sum, line) => sum + Math.max(1, Math.ceil(lineWidth(line) / columns)), 0);
  const up = rows > 1 ? `\x1b[${rows - 1}A` : '';
  const lines = next.map((line) => `${paintLine(line, paint)}${eraseLineEnd}`);
  return `${rows > 0 ? '\r' : ''}${up}${lines.join('\r\n')}${eraseBelow}`;
}

export type Screen = {
  draw(lines: readonly Line[]): void;
  /** Takes the block away, so that something else can be printed where it was. */
  clear(): void;
  /** Leaves the block as it is, with the cursor below it, and gives the cursor back. */
  close(): void;
};

export function createScreen(options: {
  readonly write: (text: string) => void;
  readonly columns: () => number;
  readonly paint: Paint;
}): Screen {
  const { write, columns, paint } = options;
  let previous: readonly Line[] = [];
  let isOpen = false;
  const replace = (next: readonly Line[]) => {
    const frame = makeFrame({ previous, next, columns: columns(), paint });
    write(isOpen ? frame : `${hideCursor}${frame}`);
    isOpen = true;
    previous = next;
  };
  return {
    draw: replace,
    clear() {
      if (previous.length > 0) {
        replace([]);
      }
    },
    close() {
      if (isOpen) {
        write(`${previous.length > 0 ? '\r\n' : ''}${showCursor}`);
        previous = [];
        isOpen = false;
      }
    },
  };
}
