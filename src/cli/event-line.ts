// One line for each committed event that matters to whoever watches a run. Pure.
import { assert } from '../core/errors.ts';
import type { EventOf, RunEvent } from '../core/events.ts';
import type { RunRows } from '../core/records.ts';
import { neutralize } from './plain-text.ts';
import { elapsedOf, nameLimit } from './step-state.ts';
import type { Tone } from './terminal.ts';
import { formatElapsed } from './times.ts';

export type EventText = {
  /** Step key, or `run`. */
  readonly subject: string;
  readonly text: string;
  readonly tone: Tone | null;
};

type AttemptEnd = EventOf<
  'attempt.succeeded' | 'attempt.failed' | 'attempt.cancelled' | 'attempt.timed_out' | 'attempt.lost'
>;

const runSubject = 'run';

/** `rows` are the run's records after the event, folded from its first one. Null for what only the records need. */
export function describeEvent(event: RunEvent, rows: RunRows): EventText | null {
  switch (event.type) {
    case 'workflow.admitted': {
      const { packageName, workflowId } = event.payload;
      return ofRun(`${event.runId} admitted: ${packageName}/${workflowId}`, null);
    }
    case 'attempt.started':
      return ofStep(event, rows, `running (attempt ${attemptOrdinal(event, rows)})`, 'cyan');
    case 'attempt.succeeded':
    case 'attempt.failed':
    case 'attempt.cancelled':
    case 'attempt.timed_out':
    case 'attempt.lost':
      return describeAttemptEnd(event, rows);
    case 'step.skipped':
    case 'step.failed':
    case 'step.cancelled':
    case 'step.timed_out': {
      const why = event.payload.errorSummary ?? event.payload.resultCode.replaceAll('_', ' ');
      const tone = event.type === 'step.skipped' ? 'dim' : event.type === 'step.cancelled' ? 'yellow' : 'red';
      return ofStep(event, rows, `${event.type.slice('step.'.length).replaceAll('_', ' ')}: ${why}`, tone);
    }
    case 'workflow.task_timeout_requested':
      return ofStep(event, rows, 'has reached its timeout and is being stopped', 'yellow');
    case 'workflow.attempt_stop_requested':
      return ofStep(event, rows, `is being stopped (${event.payload.reason})`, 'yellow');
    case 'workflow.cancel_requested':
      return ofRun(`is being cancelled (${event.payload.reason})`, 'yellow');
    case 'workflow.leftover_found':
    case 'workflow.stop_forced':
    case 'workflow.late_receipt_found':
      return ofRun(event.payload.summary, 'yellow');
    default:
      return null;
  }
}

function describeAttemptEnd(event: AttemptEnd, rows: RunRows): EventText {
  const status = event.type.slice('attempt.'.length).replaceAll('_', ' ');
  const { errorSummary, stepStatus, stepDue } = event.payload;
  const attempt = rows.attempts.get(event.attemptId ?? '');
  const elapsed = attempt === undefined ? null : elapsedOf(attempt, event.createdAtMs);
  const took = elapsed === null ? '' : ` after ${elapsed}`;
  const why = errorSummary === null ? '' : `: ${errorSummary}`;
  const next =
    stepStatus === 'ready' ? `; again ${stepDue === null ? 'now' : `in ${formatElapsed(stepDue.lengthMs)}`}` : '';
  const tones: Readonly<Record<AttemptEnd['type'], Tone>> = {
    'attempt.succeeded': 'green',
    'attempt.failed': 'red',
    'attempt.cancelled': 'yellow',
    'attempt.timed_out': 'red',
    'attempt.lost': 'yellow',
  };
  return ofStep(event, rows, `${status}${took}${why}${next}`, tones[event.type]);
}

function ofRun(text: string, tone: Tone | null): EventText {
  return { subject: runSubject, text: neutralize(text), tone };
}

function ofStep(event: RunEvent, rows: RunRows, text: string, tone: Tone | null): EventText {
  const step = rows.steps.get(event.stepRunId ?? '');
  assert(step !== undefined, 'an event of a step names one that was created');
  return { subject: step.stepKey, text: neutralize(nameLimit(text)), tone };
}

/** Counted from 1 within the step, as `runs show` and `runs logs --attempt` count. */
export function attemptOrdinal(event: Pick<RunEvent, 'stepRunId' | 'attemptId'>, rows: RunRows): number {
  const own = [...rows.attempts.values()]
    .filter(({ stepRunId }) => stepRunId === event.stepRunId)
    .sort((left, right) => left.number - right.number);
  return own.findIndex(({ id }) => id === event.attemptId) + 1;
}
