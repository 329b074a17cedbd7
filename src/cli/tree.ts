// The steps of a run as a tree: in dependency order, each below the need that it waits for longest. From state to
// lines; no terminal, no clock, no colour codes.
import type { RunInspection, StepInspection } from '../runtime/inspection.ts';
import { type Line, type Piece, piece } from './line.ts';
import { displayWidth, neutralize, padToWidth } from './plain-text.ts';
import { describeRun, describeStep, elapsedOf, elapsedOfStep, reasonOf, type StateText } from './step-state.ts';
import type { Glyphs } from './terminal.ts';

export type TreeOptions = {
  /** Wall time. */
  readonly nowMs: number;
  readonly glyphs: Glyphs;
  /** The last line that a step's command wrote, by step run. */
  readonly lastLines: ReadonlyMap<string, string>;
  /** What the package calls a step, by step key. */
  readonly titles: ReadonlyMap<string, string>;
};

export type TreeRow = { readonly step: StepInspection; readonly line: Line };

type PlacedStep = { readonly step: StepInspection; readonly prefix: string; readonly parentKey: string | null };

/** Deeper levels are drawn at the last: a chain of 128 steps would leave no room for its names. */
const levelsMax = 10;
/** Of most words that a step comes to: so that the columns stay where they are while it goes on. */
const stateWidthMin = 'succeeded'.length;

/** `package/workflow  running  3.1s  run ID`. */
export function headLine({ run }: Pick<RunInspection, 'run'>, { nowMs }: Pick<TreeOptions, 'nowMs'>): Line {
  const { word, tone } = describeRun(run);
  return [
    piece(`${run.packageName}/${run.workflowId}`, 'bold'),
    piece('  '),
    piece(word, tone),
    piece(`  ${elapsedOf(run, nowMs)}`),
    piece(`  run ${run.id}`, 'dim'),
  ];
}

/** One row a step. */
export function treeRows(inspection: Pick<RunInspection, 'run' | 'steps'>, options: TreeOptions): readonly TreeRow[] {
  const isCancelling = inspection.run.cancelRequestedAtMs !== null;
  const rows = placeSteps(inspection.steps, options.glyphs).map((placed) => {
    const { step, prefix } = placed;
    const name = `${prefix}${options.glyphs.states[stateOf(step).glyph]} ${step.stepKey}`;
    return { ...placed, name, state: stateOf(step), elapsed: elapsedOfStep(step, options.nowMs) ?? '' };
  });
  function stateOf(step: StepInspection): StateText {
    return describeStep(step, { nowMs: options.nowMs, isCancelling });
  }
  const nameWidth = Math.max(...rows.map(({ name }) => displayWidth(name)));
  const stateWidth = Math.max(stateWidthMin, ...rows.map(({ state }) => state.word.length));
  const elapsedWidth = Math.max(...rows.map(({ elapsed }) => elapsed.length));
  return rows.map(({ step, prefix, name, state, elapsed, parentKey }) => {
    const columns: Piece[] = [
      piece(prefix, 'dim'),
      piece(name.slice(prefix.length, name.length - step.stepKey.length), state.tone),
      piece(step.stepKey + ' '.repeat(nameWidth - displayWidth(name)), step.status === 'pending' ? 'dim' : null),
      piece(`  ${padToWidth(state.word, stateWidth)}`, state.tone),
      piece(`  ${elapsed.padStart(elapsedWidth)}`),
    ];
    return { step, line: [...columns, ...detailOf(step, parentKey, options)] };
  });
}

/** What there is to say behind a step: which try, why it ended, what it wrote last; else what it is. */
function detailOf(step: StepInspection, parentKey: string | null, options: TreeOptions): Line {
  const details: Piece[] = [];
  const add = (text: string, tone: Piece['tone']) => details.push(piece('  '), piece(text, tone));
  if (step.attempts.length > 1) {
    add(`(attempt ${step.attempts.length})`, 'yellow');
  }
  const reason = reasonOf(step);
  if (reason !== null) {
    add(reason, step.status === 'failed' || step.status === 'timed_out' ? 'red' : 'dim');
  }
  const otherNeeds = step.status === 'pending' ? step.needs.filter((need) => need !== parentKey) : [];
  if (otherNeeds.length > 0) {
    add(`also needs ${otherNeeds.join(', ')}`, 'dim');
  }
  const lastLine = options.lastLines.get(step.stepRunId);
  const title = options.titles.get(step.stepKey);
  if (lastLine !== undefined) {
    add(neutralize(lastLine), 'dim');
  } else if (title !== undefined && details.length === 0) {
    add(neutralize(title), 'dim');
  }
  return details;
}

function placeSteps(steps: readonly StepInspection[], glyphs: Glyphs): readonly PlacedStep[] {
  const parents = findParents(steps);
  const children = Map.groupBy(steps, ({ stepKey }) => parents.get(stepKey) ?? null);
  const placed: PlacedStep[] = [];
  const place = (parentKey: string | null, trunks: readonly string[]) => {
    const siblings = children.get(parentKey) ?? [];
    siblings.forEach((step, index) => {
      const isLast = index === siblings.length - 1;
      const isDeep = trunks.length >= levelsMax;
      placed.push({ step, prefix: trunks.join('') + (isLast ? glyphs.lastBranch : glyphs.branch), parentKey });
      place(step.stepKey, isDeep ? trunks : [...trunks, isLast ? '   ' : glyphs.trunk]);
    });
  };
  place(null, []);
  return placed;
}

/** The need that ends a longest chain: what a step most likely waits for. The first of equals. */
function findParents(steps: readonly StepInspection[]): ReadonlyMap<string, string | null> {
  const byKey = new Map(steps.map((step) => [step.stepKey, step]));
  const depths = new Map<string, number>();
  const depthOf = (key: string): number => {
    const known = depths.get(key);
    if (known !== undefined) {
      return known;
    }
    const depth = 1 + Math.max(0, ...(byKey.get(key)?.needs ?? []).map(depthOf));
    depths.set(key, depth);
    return depth;
  };
  return new Map(
    steps.map(({ stepKey, needs }) => {
      const deepest = Math.max(0, ...needs.map(depthOf));
      return [stepKey, needs.find((need) => depthOf(need) === deepest) ?? null];
    }),
  );
}
