// Tables for people: columns as wide as their widest cell, aligned, the last one ragged. Pure.
import { displayWidth, neutralize, padToWidth } from './plain-text.ts';
import type { Paint, Tone } from './terminal.ts';

export type Cell = string | { readonly text: string; readonly tone: Tone | null };

const gap = '  ';

/** One line a row, under a heading. Cells are neutralized here. */
export function formatTable(
  heading: readonly string[],
  rows: readonly (readonly Cell[])[],
  paint: Paint,
): readonly string[] {
  const cells = [heading.map((text) => ({ text, tone: 'dim' as const })), ...rows.map((row) => row.map(toCell))];
  const widths = heading.map((_, column) => Math.max(...cells.map((row) => displayWidth(row[column]?.text ?? ''))));
  return cells.map((row) => formatRow(row, widths, paint));
}

/** Names and values, one pair a line; pairs without a value are left out. */
export function formatPairs(pairs: readonly (readonly [string, Cell | null])[], paint: Paint): readonly string[] {
  const known = pairs.filter((pair): pair is readonly [string, Cell] => pair[1] !== null);
  const width = Math.max(0, ...known.map(([name]) => displayWidth(name)));
  return known.map(([name, value]) => {
    const { text, tone } = toCell(value);
    return `${paint(padToWidth(name, width), 'dim')}${gap}${paint(text, tone)}`;
  });
}

function toCell(cell: Cell): { readonly text: string; readonly tone: Tone | null } {
  return typeof cell === 'string'
    ? { text: neutralize(cell), tone: null }
    : { text: neutralize(cell.text), tone: cell.tone };
}

function formatRow(
  row: readonly { readonly text: string; readonly tone: Tone | null }[],
  widths: readonly number[],
  paint: Paint,
): string {
  const last = row.findLastIndex(({ text }) => text !== '');
  return row
    .slice(0, last + 1)
    .map(({ text, tone }, column) => {
      const padding = column === last ? '' : ' '.repeat(widths[column]! - displayWidth(text));
      return paint(text, tone) + padding;
    })
    .join(gap);
}
