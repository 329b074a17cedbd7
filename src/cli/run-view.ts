// How a run is shown while it goes on: as JSON, as plain lines, or as a tree that is drawn in place (tree-view.ts).
import type { AdmissionEvidence } from '../core/admission.ts';
import type { RunEvent } from '../core/events.ts';
import type { RunRows } from '../core/records.ts';
import { createEventInspector, type RunInspection } from '../runtime/inspection.ts';
import type { AttemptOutputs } from './attempt-outputs.ts';
import type { Context } from './command.ts';
import { describeEvent } from './event-line.ts';
import type { Excerpt } from './excerpt.ts';
import { paintLine } from './line.ts';
import { displayWidth, padToWidth } from './plain-text.ts';
import { nextSteps, resultLine } from './result.ts';
import { formatBytes, formatClock, formatCount } from './times.ts';

export type RunView = {
  /** After each committed event; `rows` are the records after it, folded from the first one. */
  event(event: RunEvent, rows: RunRows): void;
  /** Something to know that is no event. */
  note(text: string): void;
  /** The run has ended. */
  end(inspection: RunInspection): void;
  /** Shows nothing any more; also without an end. */
  close(): void;
};

export type RunViewOptions = {
  readonly context: Context;
  readonly evidence: AdmissionEvidence;
  /** What the package calls a step, by step key. */
  readonly titles: ReadonlyMap<string, string>;
  readonly outputs: AttemptOutputs;
};

/** One object an event, then the result. */
export function createJsonView({ context, evidence }: Omit<RunViewOptions, 'titles' | 'outputs'>): RunView {
  const { output } = context;
  const inspect = createEventInspector(evidence.plan.planId);
  return {
    event: (event) => output.printJson(inspect(event)),
    note: (text) => output.note(text),
    end: (inspection) => output.printJson({ type: 'result', ...inspection }),
    close: () => {},
  };
}

const endTypes: readonly RunEvent['type'][] = [
  'attempt.succeeded',
  'attempt.failed',
  'attempt.cancelled',
  'attempt.timed_out',
  'attempt.lost',
];

export function isAttemptEnd(event: RunEvent): boolean {
  return endTypes.includes(event.type);
}

/** One line an event that matters, and under the end of an attempt what its command wrote. */
export function createPlainView({ context, evidence, outputs }: RunViewOptions): RunView {
  const { output } = context;
  const nameWidth = Math.max('run'.length, ...evidence.plan.steps.map(({ stepKey }) => displayWidth(stepKey)));
  const indent = `${' '.repeat('12:03:01 '.length)}| `;
  return {
    event(event, rows) {
      const told = describeEvent(event, rows);
      if (told !== null) {
        const name = padToWidth(told.subject, nameWidth);
        output.print(`${formatClock(event.createdAtMs)} ${name}  ${output.paint(told.text, told.tone)}`);
      }
      const { runId, attemptId } = event;
      const excerpt = isAttemptEnd(event) && attemptId !== null ? outputs.excerpt({ runId, attemptId }) : null;
      if (excerpt !== null) {
        output.print(...excerptLines(excerpt).map((line) => `${indent}${line}`));
      }
    },
    note: (text) => output.note(text),
    end(inspection) {
      // Why steps failed was told with their events.
      printEnd(context, inspection, { hasId: true });
    },
    close: () => {},
  };
}

/** Says how many lines come before those that are shown. */
export function excerptLines({ lines, before }: Excerpt): readonly string[] {
  if (before === null) {
    return lines;
  }
  const what = 'lines' in before ? formatCount(before.lines, 'line') : formatBytes(before.bytes);
  return [`(${what} before)`, ...lines];
}

/** How the run ended and what to do next. */
export function printEnd(context: Context, inspection: RunInspection, { hasId }: { readonly hasId: boolean }): void {
  const { output, clock, self } = context;
  const id = hasId ? output.paint(`  run ${inspection.run.id}`, 'dim') : '';
  output.print(paintLine(resultLine(inspection, clock.observe().wallMs), output.paint) + id);
  output.print(...nextSteps(inspection, self).map((line) => output.paint(line, 'dim')));
}
