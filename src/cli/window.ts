// A tree that is taller than the terminal, cut to the rows that matter now; what lies between them is counted. Pure.
import type { StepStatus } from '../core/states.ts';
import { type Line, piece } from './line.ts';
import type { Glyphs } from './terminal.ts';
import type { TreeRow } from './tree.ts';

// What an operator looks for first. Of equals, the later in the tree.
const ranks: Readonly<Record<StepStatus, number>> = {
  running: 0,
  failed: 1,
  timed_out: 1,
  lost: 1,
  ready: 2,
  waiting_approval: 2,
  pending: 4,
  succeeded: 3,
  cancelled: 4,
  skipped: 4,
};

/** At most `rowsMax` lines, in the order of the tree. */
export function fitRows(
  rows: readonly TreeRow[],
  { rowsMax, glyphs }: { readonly rowsMax: number; readonly glyphs: Glyphs },
): readonly Line[] {
  if (rows.length <= rowsMax) {
    return rows.map(({ line }) => line);
  }
  const ranked = rows
    .map((row, index) => ({ index, rank: ranks[row.step.status] }))
    .sort((left, right) => left.rank - right.rank || right.index - left.index)
    .map(({ index }) => index);
  // Each row that is shown may open one more gap, so that few rows may still be too many lines.
  for (let shownMax = Math.max(0, rowsMax - 1); shownMax > 0; shownMax -= 1) {
    const lines = withGaps(rows, new Set(ranked.slice(0, shownMax)), glyphs);
    if (lines.length <= rowsMax) {
      return lines;
    }
  }
  return withGaps(rows, new Set(), glyphs);
}

function withGaps(rows: readonly TreeRow[], shown: ReadonlySet<number>, glyphs: Glyphs): readonly Line[] {
  const lines: Line[] = [];
  let hidden: StepStatus[] = [];
  const closeGap = () => {
    if (hidden.length > 0) {
      lines.push([piece(`${glyphs.skipped} ${countStatuses(hidden)}`, 'dim')]);
      hidden = [];
    }
  };
  rows.forEach((row, index) => {
    if (shown.has(index)) {
      closeGap();
      lines.push(row.line);
    } else {
      hidden.push(row.step.status);
    }
  });
  closeGap();
  return lines;
}

/** `12 succeeded, 3 waiting`. */
export function countStatuses(statuses: readonly StepStatus[]): string {
  const counts = Map.groupBy(statuses, (status) => (status === 'pending' ? 'waiting' : status.replaceAll('_', ' ')));
  return [...counts].map(([word, members]) => `${members.length} ${word}`).join(', ');
}
