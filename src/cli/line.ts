// One line for a terminal as pieces of text with a tone, so that it is measured and cut before it is painted. Pure.
import { cutToWidth, displayWidth } from './plain-text.ts';
import type { Paint, Tone } from './terminal.ts';

/** The text must be neutralized. */
export type Piece = { readonly text: string; readonly tone: Tone | null };
export type Line = readonly Piece[];

export function piece(text: string, tone: Tone | null = null): Piece {
  return { text, tone };
}

export function lineWidth(line: Line): number {
  return line.reduce((width, { text }) => width + displayWidth(text), 0);
}

/** Less of a piece than this tells nothing: it is left out whole. */
const shownCellsMin = 4;

/** The line cut to a width, with `mark` where a piece was cut; what would be only a mark is left out. */
export function fitLine(line: Line, options: { readonly widthMax: number; readonly mark: string }): Line {
  let room = options.widthMax;
  const kept: Piece[] = [];
  for (const { text, tone } of line) {
    const width = displayWidth(text);
    if (width > room) {
      const isWorthCutting = kept.length === 0 || room >= shownCellsMin + displayWidth(options.mark);
      kept.push(...(isWorthCutting ? [{ text: cutToWidth(text, { widthMax: room, mark: options.mark }), tone }] : []));
      break;
    }
    kept.push({ text, tone });
    room -= width;
  }
  return kept;
}

export function paintLine(line: Line, paint: Paint): string {
  return line.map(({ text, tone }) => paint(text, tone)).join('');
}
