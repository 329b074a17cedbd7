// The steps of a run as a tree: in dependency order, each below the need that it waits for longest. From state to
// lines; no terminal, no clock, no colour codes.
import type { RunInspection, StepInspection } from '../runtime/inspection.ts';
import { type Line, type Piece, piece } from './line.ts';
import { cutToWidth, displayWidth, neutralize, padToWidth } from './plain-text.ts';
import { describeRun, describeStep, elapsedOf, elapsedOfStep, reasonOf } from './step-state.ts';
import type { Glyphs } from './terminal.ts';

export type TreeOptions = {
  /** Wall time. */
  readonly nowMs: number;
  readonly glyphs: Glyphs;
  /** The last line that a step's command wrote, by step run. */
  readonly lastLines: ReadonlyMap<string, string>;
  /** What the package calls a step, by step key. */
  readonly titles: ReadonlyMap<string, string>;
  /** Of a line; null where lines may have any width. Names give way to states, and details are left to whoever fits. */
  readonly widthMax: number | null;
};

export type TreeRow = { readonly step: StepInspection; readonly line: Line };

type PlacedStep = {
  readonly step: StepInspection;
  readonly prefix: string;
  /** Its key, as far as there is room. */
  readonly name: string;
  readonly parentKey: string | null;
};

/** Deeper levels are drawn at the last: a chain of 128 steps would leave no room for its names. */
const levelsMax = 10;
/** Cells of one level, and of the glyph with its blank before a name. */
const levelWidth = 3;
const glyphWidth = 2;
/** A name that is shorter than this tells nothing, however narrow the terminal is. */
const nameWidthMin = 8;
const gap = '  ';
/** Of most words that a step comes to: so that the columns stay where they are while it goes on. */
const stateWidthMin = 'succeeded'.length;

/** `package/workflow  running  3.1s  run ID`. */
export function headLine(
  { run }: Pick<RunInspection, 'run'>,
  { nowMs, glyphs, widthMax }: Pick<TreeOptions, 'nowMs' | 'glyphs' | 'widthMax'>,
): Line {
  const { word, tone } = describeRun(run);
  const elapsed = elapsedOf(run, nowMs) ?? '';
  const nameMax = nameRoom(widthMax, [word, elapsed]);
  return [
    piece(cutToWidth(`${run.packageName}/${run.workflowId}`, { widthMax: nameMax, mark: glyphs.cut }), 'bold'),
    piece(gap),
    piece(word, tone),
    piece(`${gap}${elapsed}`),
    piece(`${gap}run ${run.id}`, 'dim'),
  ];
}

/** What the columns behind a name leave to it. */
function nameRoom(widthMax: number | null, columns: readonly string[]): number {
  const taken = columns.reduce((sum, text) => sum + gap.length + displayWidth(text), 0);
  return widthMax === null ? Number.POSITIVE_INFINITY : Math.max(nameWidthMin, widthMax - taken);
}

/** One row a step. */
export function treeRows(inspection: Pick<RunInspection, 'run' | 'steps'>, options: TreeOptions): readonly TreeRow[] {
  const { nowMs, glyphs } = options;
  const isCancelling = inspection.run.cancelRequestedAtMs !== null;
  const states = new Map(inspection.steps.map((step) => [step, describeStep(step, { nowMs, isCancelling })]));
  const times = new Map(inspection.steps.map((step) => [step, elapsedOfStep(step, nowMs) ?? '']));
  const stateWidth = Math.max(stateWidthMin, ...[...states.values()].map(({ word }) => word.length));
  const elapsedWidth = Math.max(...[...times.values()].map((elapsed) => elapsed.length));
  const nameMax = nameRoom(options.widthMax, [' '.repeat(stateWidth), ' '.repeat(elapsedWidth)]) - glyphWidth;
  const placed = placeSteps(inspection.steps, glyphs, nameMax);
  const nameWidth = Math.max(...placed.map(({ prefix, name }) => displayWidth(prefix + name)));
  return placed.map(({ step, prefix, name, parentKey }) => {
    const state = states.get(step)!;
    const columns: Piece[] = [
      piece(prefix, 'dim'),
      piece(`${glyphs.states[state.glyph]} `, state.tone),
      piece(padToWidth(name, nameWidth - displayWidth(prefix)), step.status === 'pending' ? 'dim' : null),
      piece(`${gap}${padToWidth(state.word, stateWidth)}`, state.tone),
      piece(`${gap}${times.get(step)!.padStart(elapsedWidth)}`),
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

/** `nameMax` is of a name with the branches before it, which take half of it at most. */
function placeSteps(steps: readonly StepInspection[], glyphs: Glyphs, nameMax: number): readonly PlacedStep[] {
  const deepest = Math.min(levelsMax, Math.max(0, Math.floor(nameMax / 2 / levelWidth) - 1));
  const parents = findParents(steps);
  const children = Map.groupBy(steps, ({ stepKey }) => parents.get(stepKey) ?? null);
  const placed: PlacedStep[] = [];
  const place = (parentKey: string | null, trunks: readonly string[]) => {
    const siblings = children.get(parentKey) ?? [];
    siblings.forEach((step, index) => {
      const isLast = index === siblings.length - 1;
      const isDeep = trunks.length >= deepest;
      const prefix = trunks.join('') + (isLast ? glyphs.lastBranch : glyphs.branch);
      const name = cutToWidth(step.stepKey, { widthMax: nameMax - displayWidth(prefix), mark: glyphs.cut });
      placed.push({ step, prefix, name, parentKey });
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
