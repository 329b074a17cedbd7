// One moment of a run with chosen statuses: rows for the tests that put every status before every event.
import { draft, type EventDraft, type EventType, type RunEvent, stampEvents } from '../../src/core/events.ts';
import { deriveStepRunId } from '../../src/core/ids.ts';
import { sealAttempt } from '../../src/core/record-seal.ts';
import type { RunAttempt, RunRows } from '../../src/core/records.ts';
import type { AttemptStatus, RunStatus, StepStatus } from '../../src/core/states.ts';
import { endDraft } from './run-driver.ts';
import { admitStory, admittedAtMs, attemptHead, changeRun, changeStep, planOf, stepOf } from './samples.ts';

export type Statuses = {
  readonly run: RunStatus;
  readonly step: StepStatus;
  readonly attempt: AttemptStatus | null;
  /** Of step `z`: by default ready while the run is running. */
  readonly sibling?: StepStatus;
};

const story = admitStory(planOf({ a: [], z: [] }));
const step = stepOf(story, 'a');
const sibling = stepOf(story, 'z');
export const sceneStep = step;
export const sceneHead = attemptHead(step);

/** A run with step `a` and perhaps one attempt of it; step `z` is ready, or succeeded once the run has ended. */
export function sceneOf({ run, step: stepStatus, attempt: attemptStatus, sibling: given }: Statuses): RunRows {
  const rows = story.rows;
  const moved = changeStep(step, { status: stepStatus });
  const other = changeStep(sibling, { status: given ?? (run === 'running' ? 'ready' : 'succeeded') });
  return {
    run: changeRun(rows.run, { status: run, finishedAtMs: run === 'running' ? null : admittedAtMs }),
    steps: new Map([
      [moved.id, moved],
      [other.id, other],
    ]),
    attempts: attemptStatus === null ? new Map() : new Map([[sceneHead.attemptId, sceneAttempt(attemptStatus)]]),
  };
}

export function sceneAttempt(status: AttemptStatus): RunAttempt {
  return sealAttempt({
    id: sceneHead.attemptId,
    runId: step.runId,
    stepRunId: step.id,
    number: 1,
    stepRunVersion: step.version,
    status,
    executorType: 'process',
    taskRef: step.taskRef,
    executionDigest: 'e'.repeat(64),
    deadline: null,
    bootId: status === 'claimed' ? null : 'boot-1',
    stopReason: null,
    startedAtMs: status === 'claimed' ? null : admittedAtMs,
    finishedAtMs: null,
    exitCode: null,
    signal: null,
    outputBytes: null,
    outputTruncated: null,
    durationMs: null,
    errorCode: null,
    errorSummary: null,
    claimedAtMs: admittedAtMs,
  });
}

/** The next event of a scene's run. */
export function next(rows: RunRows, entry: EventDraft): RunEvent {
  return stampEvents(rows.run, [entry], admittedAtMs + 5)[0]!;
}

const onStep = { stepRunId: step.id };
const stepEnd = { resultCode: 'some_code', errorSummary: 'some reason' };
const runEnd = { errorCode: null, errorSummary: null };
const news = { summary: 'pid 7' };
const attempt = sceneAttempt('running');
const coded = { stepResultCode: 'some_code' };

/** An event of every type, as it would be written about step `a` and its attempt. */
export const sceneDrafts: { readonly [T in EventType]: EventDraft } = {
  'workflow.admitted': draft('workflow.admitted', admitPayload()),
  'step.created': draft('step.created', createPayload(), {
    stepRunId: deriveStepRunId({ runId: step.runId, stepKey: 'other' }),
  }),
  'step.readied': draft('step.readied', { due: null }, onStep),
  'step.skipped': draft('step.skipped', stepEnd, onStep),
  'step.failed': draft('step.failed', stepEnd, onStep),
  'step.cancelled': draft('step.cancelled', stepEnd, onStep),
  'step.timed_out': draft('step.timed_out', stepEnd, onStep),
  'attempt.claimed': draft(
    'attempt.claimed',
    { number: 1, stepRunVersion: 1, executorType: 'process', executionDigest: 'e'.repeat(64) },
    sceneHead,
  ),
  'attempt.started': draft('attempt.started', { deadline: null, bootId: 'boot-1' }, sceneHead),
  'attempt.observed': draft('attempt.observed', {}, sceneHead),
  'attempt.succeeded': endDraft(attempt, 'succeeded', {}),
  'attempt.failed': endDraft(attempt, 'failed', { ...coded, stepStatus: 'failed' }),
  'attempt.cancelled': endDraft(attempt, 'cancelled', { ...coded, stepStatus: 'cancelled' }),
  'attempt.timed_out': endDraft(attempt, 'timed_out', { ...coded, stepStatus: 'timed_out' }),
  'attempt.lost': endDraft(attempt, 'lost', { stepStatus: 'ready' }),
  'workflow.task_timeout_requested': draft('workflow.task_timeout_requested', {}, sceneHead),
  'workflow.attempt_stop_requested': draft('workflow.attempt_stop_requested', { reason: 'shutdown' }, sceneHead),
  'workflow.cancel_requested': draft('workflow.cancel_requested', { reason: 'user' }),
  'workflow.succeeded': draft('workflow.succeeded', runEnd),
  'workflow.failed': draft('workflow.failed', { ...runEnd, errorCode: 'workflow_step_failed' }),
  'workflow.cancelled': draft('workflow.cancelled', { ...runEnd, errorCode: 'workflow_step_cancelled' }),
  'workflow.timed_out': draft('workflow.timed_out', { ...runEnd, errorCode: 'workflow_step_timed_out' }),
  'workflow.leftover_found': draft('workflow.leftover_found', news),
  'workflow.stop_forced': draft('workflow.stop_forced', news),
  'workflow.late_receipt_found': draft('workflow.late_receipt_found', news),
};

function admitPayload() {
  const admitted = story.events[0]!;
  return (admitted as Extract<RunEvent, { type: 'workflow.admitted' }>).payload;
}

function createPayload() {
  const created = story.events[1]!;
  return { ...(created as Extract<RunEvent, { type: 'step.created' }>).payload, stepKey: 'other' };
}
