// A run as a tree that is drawn in place on a terminal: what runs ticks, what a command writes last stands behind its
// step. Owns the screen and one alarm, both only while it is open.
import type { CancelAlarm } from '../core/ports.ts';
import type { RunRows } from '../core/records.ts';
import { inspectRun, type RunInspection, type StepInspection } from '../runtime/inspection.ts';
import type { KeptPlace } from '../runtime/kept-file.ts';
import type { AttemptOutputs } from './attempt-outputs.ts';
import type { Context } from './command.ts';
import { fitLine, type Line, paintLine } from './line.ts';
import { failedSteps, failureLine } from './result.ts';
import { excerptLines, isAttemptEnd, printEnd, type RunView, type RunViewOptions } from './run-view.ts';
import { createScreen } from './screen.ts';
import { glyphsOf, type Terminal } from './terminal.ts';
import { headLine, treeRows } from './tree.ts';
import { fitRows } from './window.ts';

/** Events come in bursts, one for each row of a commit: drawn once. */
const drawAfterMs = 50;
/** Durations tick in seconds. */
const tickMs = 1_000;

/** Behind every line: a terminal shows an interrupt as `^C` where the cursor is, and that must not wrap. */
const spareColumns = '^C'.length + 1;

/** Drawn at every burst of events and once a second; at its end it is printed whole, to be scrolled to. */
export function createTreeView(options: RunViewOptions): RunView {
  const { context, evidence, titles, outputs } = options;
  const { output } = context;
  const screen = createScreen({
    write: output.printText,
    columns: () => output.terminal().columns,
    paint: output.paint,
  });
  const restoreCursor = () => screen.close();
  process.on('exit', restoreCursor);
  const lastLines = createLastLines(outputs);
  let rows: RunRows | null = null;

  const draw = () => {
    // The steps are created one by one; a tree of some of them would jump.
    if (rows !== null && rows.steps.size === evidence.plan.steps.length) {
      const inspection = inspectRun(rows, evidence);
      lastLines.noteRunning(inspection.steps);
      screen.draw(liveLines(inspection, { ...shown(), terminal: output.terminal() }));
    }
    timer.drawWithin(tickMs);
  };
  const timer = createDrawTimer(context, draw);
  const shown = () => ({ nowMs: context.clock.observe().wallMs, lastLines: lastLines.lines, titles });
  /** The last frame stays where it is. */
  const close = () => {
    timer.stop();
    screen.close();
    process.off('exit', restoreCursor);
  };
  return {
    event(event, after) {
      rows = after;
      if (isAttemptEnd(event) && event.stepRunId !== null && event.attemptId !== null) {
        lastLines.noteEnd(event.stepRunId, { runId: event.runId, attemptId: event.attemptId });
      }
      if (event.type === 'attempt.started' && event.stepRunId !== null) {
        lastLines.lines.delete(event.stepRunId);
      }
      timer.drawWithin(drawAfterMs);
    },
    note(text) {
      screen.clear();
      output.note(text);
      draw();
    },
    end(inspection) {
      // Printed whole in its place: the block may have been cut to the height of the terminal.
      screen.clear();
      close();
      const lines = wholeTree(inspection, { ...shown(), terminal: output.terminal() });
      output.print(...[lines.head, ...lines.rows.map(({ line }) => line)].map((line) => paintLine(line, output.paint)));
      printFailedOutputs(context, { inspection, outputs });
      // The head of the tree has it.
      printEnd(context, inspection, { hasId: false });
    },
    close,
  };
}

type Shown = {
  readonly nowMs: number;
  readonly lastLines: ReadonlyMap<string, string>;
  readonly titles: ReadonlyMap<string, string>;
  readonly terminal: Terminal;
};

/** Every line fits the width, so that none wraps. */
function wholeTree(inspection: RunInspection, shown: Shown) {
  const { terminal } = shown;
  const glyphs = glyphsOf(terminal);
  const fit = { widthMax: terminal.columns - spareColumns, mark: glyphs.cut };
  const options = { ...shown, glyphs, widthMax: fit.widthMax };
  const rows = treeRows(inspection, options).map((row) => ({ ...row, line: fitLine(row.line, fit) }));
  return { glyphs, rows, head: fitLine(headLine(inspection, options), fit) };
}

function liveLines(inspection: RunInspection, shown: Shown): readonly Line[] {
  const { glyphs, rows, head } = wholeTree(inspection, shown);
  // One line for the head, and one that stays free, so that nothing scrolls.
  return [head, ...fitRows(rows, { rowsMax: Math.max(1, shown.terminal.rows - 2), glyphs })];
}

/** The last line of each step's command, by step run. */
function createLastLines(outputs: AttemptOutputs) {
  const lines = new Map<string, string>();
  return {
    lines,
    /** What was seen last while it ran may not be the last that it wrote: shown only if that is known. */
    noteEnd(stepRunId: string, place: KeptPlace) {
      const line = outputs.endLine(place);
      if (line === null) {
        lines.delete(stepRunId);
      } else {
        lines.set(stepRunId, line);
      }
    },
    noteRunning(steps: readonly StepInspection[]) {
      for (const { status, stepRunId, attempts } of steps) {
        const attempt = attempts.at(-1);
        const line = status === 'running' && attempt !== undefined ? outputs.liveLine(attempt.id) : null;
        if (line !== null) {
          lines.set(stepRunId, line);
        }
      }
    },
  };
}

/** One alarm for the nearest drawing that was asked for. */
function createDrawTimer({ clock, alarm }: Context, draw: () => void) {
  let cancel: CancelAlarm | null = null;
  let drawsAtMs = Number.POSITIVE_INFINITY;
  const ring = () => {
    drawsAtMs = Number.POSITIVE_INFINITY;
    draw();
  };
  return {
    drawWithin(delayMs: number) {
      const atMs = clock.observe().uptimeMs + delayMs;
      if (atMs < drawsAtMs) {
        cancel?.();
        drawsAtMs = atMs;
        cancel = alarm.set(atMs, ring);
      }
    },
    stop() {
      cancel?.();
      drawsAtMs = Number.NEGATIVE_INFINITY;
    },
  };
}

/** Of each step that failed, why, and the end of what its command wrote. */
function printFailedOutputs(
  { output }: Context,
  { inspection, outputs }: { readonly inspection: RunInspection; readonly outputs: AttemptOutputs },
): void {
  for (const step of failedSteps(inspection)) {
    const attempt = step.attempts.at(-1);
    const place = attempt === undefined ? null : { runId: inspection.run.id, attemptId: attempt.id };
    const excerpt = place === null ? null : outputs.excerpt(place);
    output.print('', paintLine(failureLine(step), output.paint));
    output.print(...(excerpt === null ? [] : excerptLines(excerpt)).map((line) => `  ${line}`));
  }
  output.print('');
}
