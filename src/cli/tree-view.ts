// A run as a tree that is drawn in place on a terminal: what runs ticks, what a command writes last stands behind its step.
// Owns the screen and one alarm, both only while it is open.
import type { CancelAlarm } from '../core/ports.ts';
import type { RunRows } from '../core/records.ts';
import { inspectRun, type RunInspection, type StepInspection } from '../runtime/inspection.ts';
import { fitLine, type Line, paintLine, piece } from './line.ts';
import { failedSteps } from './result.ts';
import { excerptLines, isAttemptEnd, printEnd, type RunView, type RunViewOptions } from './run-view.ts';
import { createScreen } from './screen.ts';
import { glyphsOf, type Terminal } from './terminal.ts';
import { headLine, treeRows } from './tree.ts';
import { fitRows } from './window.ts';

/** Events come in bursts, one for each row of a commit: drawn once. */
const drawAfterMs = 50;
/** Durations tick in seconds. */
const tickMs = 1_000;

/** Drawn at every burst of events and once a second; at its end it is printed whole, to be scrolled to. */
export function createTreeView({ context, evidence, titles, outputs }: RunViewOptions): RunView {
  const { output, clock, alarm } = context;
  const screen = createScreen({ write: output.write, columns: () => output.terminal().columns, paint: output.paint });
  const restoreCursor = () => screen.close();
  process.on('exit', restoreCursor);
  const lastLines = new Map<string, string>();
  let rows: RunRows | null = null;
  let cancelAlarm: CancelAlarm | null = null;
  let drawsAtMs = Number.POSITIVE_INFINITY;

  const draw = () => {
    drawsAtMs = Number.POSITIVE_INFINITY;
    // The steps are created one by one; a tree of some of them would jump.
    if (rows !== null && rows.steps.size === evidence.plan.steps.length) {
      const inspection = inspectRun(rows, evidence);
      noteRunning(inspection.steps);
      screen.draw(liveLines(inspection, output.terminal()));
    }
    drawAfter(tickMs);
  };
  const drawAfter = (delayMs: number) => {
    const atMs = clock.observe().uptimeMs + delayMs;
    if (atMs < drawsAtMs) {
      cancelAlarm?.();
      drawsAtMs = atMs;
      cancelAlarm = alarm.set(atMs, draw);
    }
  };
  const noteLastLine = (stepRunId: string, attemptId: string) => {
    const line = outputs.lastLine(attemptId);
    if (line !== null) {
      lastLines.set(stepRunId, line);
    }
  };
  const noteRunning = (steps: readonly StepInspection[]) => {
    for (const { status, stepRunId, attempts } of steps) {
      const attempt = attempts.at(-1);
      if (status === 'running' && attempt !== undefined) {
        noteLastLine(stepRunId, attempt.id);
      }
    }
  };
  const viewOf = (inspection: RunInspection, terminal: Terminal) => {
    const glyphs = glyphsOf(terminal);
    const options = { nowMs: clock.observe().wallMs, glyphs, lastLines, titles };
    const fit = { widthMax: terminal.columns - 1, mark: glyphs.cut };
    const all = treeRows(inspection, options).map((row) => ({ ...row, line: fitLine(row.line, fit) }));
    return { glyphs, rows: all, head: fitLine(headLine(inspection, options), fit) };
  };
  const liveLines = (inspection: RunInspection, terminal: Terminal): readonly Line[] => {
    const view = viewOf(inspection, terminal);
    return [view.head, ...fitRows(view.rows, { rowsMax: Math.max(1, terminal.rows - 2), glyphs: view.glyphs })];
  };
  const close = () => {
    cancelAlarm?.();
    cancelAlarm = null;
    screen.close();
    process.off('exit', restoreCursor);
  };
  return {
    event(event, after) {
      rows = after;
      if (isAttemptEnd(event) && event.stepRunId !== null && event.attemptId !== null) {
        noteLastLine(event.stepRunId, event.attemptId);
      }
      drawAfter(drawAfterMs);
    },
    note(text) {
      screen.clear();
      output.note(text);
      draw();
    },
    end(inspection) {
      close();
      const view = viewOf(inspection, output.terminal());
      const lines = [view.head, ...view.rows.map(({ line }) => line)];
      output.print(...lines.map((line) => paintLine(line, output.paint)));
      printFailedOutputs(inspection);
      printEnd(context, inspection);
    },
    close,
  };

  function printFailedOutputs(inspection: RunInspection): void {
    for (const { stepKey, attempts } of failedSteps(inspection)) {
      const excerpt = outputs.excerpt(attempts.at(-1)?.id ?? '');
      if (excerpt !== null && excerpt.lines.length > 0) {
        output.print('', paintLine([piece(`output of ${stepKey}:`, 'bold')], output.paint));
        output.print(...excerptLines(excerpt).map((line) => `  ${line}`));
      }
    }
    output.print('');
  }
}
