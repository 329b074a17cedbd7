// The fold: `evolve(rows, event)` is the only function that changes a run's records. History folds to the present by
// construction, because the store saves exactly what this yields. It decides nothing; an illegal event is a defect of
// whoever drafted it, or damage if it was read back.
import { digestLabels, digestOfText } from './digest.ts';
import { assert } from './errors.ts';
import { type EventOf, type EventType, newsTypes, type RunEvent } from './events.ts';
import { deriveAttemptId, deriveMutationId, deriveStepRunId } from './ids.ts';
import { sealAttempt, sealRun, sealStepRun } from './record-seal.ts';
import { historyText } from './record-text.ts';
import { type Run, type RunAttempt, type RunRows, runTriggerType, type StepRun } from './records.ts';
import {
  type AttemptStatus,
  attemptTransitions,
  hasTransition,
  isTerminalRun,
  isTerminalStep,
  type RunStatus,
  runTransitions,
  type StepStatus,
  stepTransitions,
} from './states.ts';

type Changes = {
  readonly run?: Partial<Run>;
  readonly step?: StepRun;
  readonly attempt?: RunAttempt;
};

type Evolver<T extends EventType> = (rows: RunRows, event: EventOf<T>) => Changes;

const evolvers: { readonly [T in EventType]: Evolver<T> } = {
  'workflow.admitted': () => ({}),
  'step.created': (rows, event) => ({ step: createStep(rows, event) }),
  'step.readied': (rows, event) => ({
    // A step that comes back from `lost` leaves its result behind.
    step: moveStep(rows, event, 'ready', {
      readyAtMs: event.createdAtMs,
      due: event.payload.due,
      resultCode: null,
      errorSummary: null,
    }),
  }),
  'step.skipped': (rows, event) => ({ step: endStep(rows, event, 'skipped') }),
  'step.failed': (rows, event) => ({ step: endStep(rows, event, 'failed') }),
  'step.cancelled': (rows, event) => ({ step: endStep(rows, event, 'cancelled') }),
  'step.timed_out': (rows, event) => ({ step: endStep(rows, event, 'timed_out') }),
  'attempt.claimed': (rows, event) => ({ attempt: claimAttempt(rows, event) }),
  'attempt.started': (rows, event) => startAttempt(rows, event),
  'attempt.observed': (rows, event) => ({ attempt: moveAttempt(rows, event, 'running', {}) }),
  'attempt.succeeded': (rows, event) => endAttempt(rows, event, 'succeeded'),
  'attempt.failed': (rows, event) => endAttempt(rows, event, 'failed'),
  'attempt.cancelled': (rows, event) => endAttempt(rows, event, 'cancelled'),
  'attempt.timed_out': (rows, event) => endAttempt(rows, event, 'timed_out'),
  'attempt.lost': (rows, event) => endAttempt(rows, event, 'lost'),
  'workflow.task_timeout_requested': (rows, event) => ({ attempt: stopAttempt(rows, event, 'timeout') }),
  'workflow.attempt_stop_requested': (rows, event) => ({ attempt: stopAttempt(rows, event, event.payload.reason) }),
  'workflow.cancel_requested': (rows, event) => ({ run: requestCancel(rows.run, event) }),
  'workflow.succeeded': (rows, event) => ({ run: endRun(rows, event, 'succeeded') }),
  'workflow.failed': (rows, event) => ({ run: endRun(rows, event, 'failed') }),
  'workflow.cancelled': (rows, event) => ({ run: endRun(rows, event, 'cancelled') }),
  'workflow.timed_out': (rows, event) => ({ run: endRun(rows, event, 'timed_out') }),
  'workflow.leftover_found': () => ({}),
  'workflow.stop_forced': () => ({}),
  'workflow.late_receipt_found': () => ({}),
};

/**
 * The records after one more event. `rows` is null before the first, and may otherwise be the slice of a run that the
 * event touches. Throws `InvariantError` for an event that the state machines do not allow.
 */
export function evolve(rows: RunRows | null, event: RunEvent): RunRows {
  return sealed(apply(rows, event));
}

/** All but the digest of the run: of several events, only the last one's is ever asked for. */
function apply(rows: RunRows | null, event: RunEvent): RunRows {
  if (rows === null) {
    assert(event.type === 'workflow.admitted', 'a history begins with workflow.admitted');
    return { run: chain(admitRun(event), event, {}), steps: new Map(), attempts: new Map() };
  }
  assert(event.type !== 'workflow.admitted', 'a run is admitted once');
  assert(event.runId === rows.run.id, 'an event belongs to its run');
  assert(event.sequence === rows.run.eventSequence + 1, 'events are numbered without gaps');
  assert(event.createdAtMs >= rows.run.updatedAtMs, 'times within a run never go backwards');
  assert(
    isTerminalRun(rows.run.status) === newsTypes.includes(event.type),
    'after its end a run has news only, and before it none',
  );
  const evolver = evolvers[event.type] as Evolver<EventType>;
  const changes = evolver(rows, event);
  const { step, attempt } = changes;
  return {
    run: chain(rows.run, event, changes.run ?? {}),
    steps: step === undefined ? rows.steps : new Map(rows.steps).set(step.id, step),
    attempts: attempt === undefined ? rows.attempts : new Map(rows.attempts).set(attempt.id, attempt),
  };
}

/** Folds events in sequence, from nothing or on from rows. */
export function foldEvents(rows: RunRows | null, events: Iterable<RunEvent>): RunRows | null {
  let folded = rows;
  for (const event of events) {
    folded = apply(folded, event);
  }
  return folded === null || folded === rows ? folded : sealed(folded);
}

function sealed(rows: RunRows): RunRows {
  return { ...rows, run: sealRun(rows.run) };
}

/** historyDigest(n) covers historyDigest(n−1) and event n, so that one digest vouches for a whole history. */
export function extendHistory(previous: string | null, event: RunEvent): string {
  return digestOfText(digestLabels.runHistory, historyText(previous, event));
}

function chain(run: Run, event: RunEvent, changes: Partial<Run>): Run {
  return {
    ...run,
    ...changes,
    version: event.sequence,
    eventSequence: event.sequence,
    updatedAtMs: event.createdAtMs,
    historyDigest: extendHistory(run.historyDigest === '' ? null : run.historyDigest, event),
  };
}

function admitRun(event: EventOf<'workflow.admitted'>): Run {
  assert(event.sequence === 1, 'workflow.admitted is event 1');
  const { payload } = event;
  return {
    ...payload,
    id: event.runId,
    triggerType: runTriggerType,
    status: 'running',
    version: 0,
    eventSequence: 0,
    createdAtMs: event.createdAtMs,
    startedAtMs: event.createdAtMs,
    updatedAtMs: event.createdAtMs,
    finishedAtMs: null,
    cancelRequestedAtMs: null,
    cancelReason: null,
    errorCode: null,
    errorSummary: null,
    historyDigest: '',
    digest: '',
  };
}

function requestCancel(run: Run, event: EventOf<'workflow.cancel_requested'>): Partial<Run> {
  assert(run.cancelRequestedAtMs === null, 'the first cancel intent wins');
  return { cancelRequestedAtMs: event.createdAtMs, cancelReason: event.payload.reason };
}

type RunEndEvent = EventOf<'workflow.succeeded' | 'workflow.failed' | 'workflow.cancelled' | 'workflow.timed_out'>;

function endRun({ run, steps }: RunRows, event: RunEndEvent, status: Exclude<RunStatus, 'running'>): Partial<Run> {
  const haveEnded = [...steps.values()].every((step) => isTerminalStep(step.status));
  assert(haveEnded, 'a run ends after all its steps');
  assert(hasTransition(runTransitions, run.status, status), `a run goes from ${run.status} to ${status}`);
  return { status, finishedAtMs: event.createdAtMs, ...event.payload };
}

function createStep({ run, steps }: RunRows, event: EventOf<'step.created'>): StepRun {
  const { payload } = event;
  const id = deriveStepRunId({ runId: run.id, stepKey: payload.stepKey });
  assert(event.stepRunId === id, 'a step run has the id of its run and key');
  assert(!steps.has(id), 'a step is created once');
  return sealStepRun({
    ...payload,
    schema: 'qinglong/step-run@v1',
    id,
    runId: run.id,
    version: 1,
    attemptCount: 0,
    readyAtMs: payload.status === 'ready' ? event.createdAtMs : null,
    due: null,
    startedAtMs: null,
    finishedAtMs: null,
    resultCode: null,
    errorSummary: null,
    inputRef: null,
    outputRef: null,
    createdAtMs: event.createdAtMs,
    updatedAtMs: event.createdAtMs,
    lastMutationId: deriveMutationId({ planId: run.planId, stepRunId: id, version: 1, status: payload.status }),
  });
}

function touchedStep(rows: RunRows, event: RunEvent): StepRun {
  const step = event.stepRunId === null ? undefined : rows.steps.get(event.stepRunId);
  assert(step !== undefined, `${event.type} names a step run of its run`);
  return step;
}

function touchedAttempt(rows: RunRows, event: RunEvent): RunAttempt {
  const attempt = event.attemptId === null ? undefined : rows.attempts.get(event.attemptId);
  assert(attempt !== undefined && attempt.stepRunId === event.stepRunId, `${event.type} names an attempt of its step`);
  return attempt;
}

function moveStep(rows: RunRows, event: RunEvent, status: StepStatus, changes: Partial<StepRun>): StepRun {
  const step = touchedStep(rows, event);
  assert(hasTransition(stepTransitions, step.status, status), `a step goes from ${step.status} to ${status}`);
  const version = step.version + 1;
  const moved = { ...step, ...changes };
  const hasResult = status === 'lost' || (isTerminalStep(status) && status !== 'succeeded');
  assert((moved.resultCode !== null) === hasResult, 'a result code is present exactly where a step did not succeed');
  return sealStepRun({
    ...moved,
    status,
    version,
    updatedAtMs: event.createdAtMs,
    finishedAtMs: isTerminalStep(status) ? (changes.finishedAtMs ?? event.createdAtMs) : null,
    lastMutationId: deriveMutationId({ planId: rows.run.planId, stepRunId: step.id, version, status }),
  });
}

type StepEndEvent = EventOf<'step.skipped' | 'step.failed' | 'step.cancelled' | 'step.timed_out'>;

function endStep(rows: RunRows, event: StepEndEvent, status: StepStatus): StepRun {
  return moveStep(rows, event, status, { due: null, ...event.payload });
}

function claimAttempt(rows: RunRows, event: EventOf<'attempt.claimed'>): RunAttempt {
  const step = touchedStep(rows, event);
  const { payload } = event;
  const id = deriveAttemptId({ runId: rows.run.id, stepRunId: step.id, epoch: payload.stepRunVersion });
  assert(event.attemptId === id && !rows.attempts.has(id), 'one attempt is admitted in an epoch');
  assert(step.status === 'ready' && step.version === payload.stepRunVersion, 'an attempt is bound to a ready epoch');
  return sealAttempt({
    ...payload,
    id,
    runId: rows.run.id,
    stepRunId: step.id,
    status: 'claimed',
    taskRef: step.taskRef,
    deadline: null,
    bootId: null,
    stopReason: null,
    startedAtMs: null,
    finishedAtMs: null,
    exitCode: null,
    signal: null,
    outputBytes: null,
    outputTruncated: null,
    durationMs: null,
    errorCode: null,
    errorSummary: null,
    claimedAtMs: event.createdAtMs,
  });
}

function moveAttempt(rows: RunRows, event: RunEvent, status: AttemptStatus, changes: Partial<RunAttempt>): RunAttempt {
  const attempt = touchedAttempt(rows, event);
  assert(
    hasTransition(attemptTransitions, attempt.status, status),
    `an attempt goes from ${attempt.status} to ${status}`,
  );
  return sealAttempt({ ...attempt, ...changes, status });
}

function startAttempt(rows: RunRows, event: EventOf<'attempt.started'>): Changes {
  const step = touchedStep(rows, event);
  assert(touchedAttempt(rows, event).stepRunVersion === step.version, 'the start barrier is bound to the epoch');
  return {
    attempt: moveAttempt(rows, event, 'starting', { ...event.payload, startedAtMs: event.createdAtMs }),
    step: moveStep(rows, event, 'running', {
      attemptCount: step.attemptCount + 1,
      due: null,
      startedAtMs: event.createdAtMs,
    }),
  };
}

function stopAttempt(rows: RunRows, event: RunEvent, stopReason: 'timeout' | 'shutdown'): RunAttempt {
  const attempt = touchedAttempt(rows, event);
  assert(attempt.status === 'starting' || attempt.status === 'running', 'only an attempt that may run is stopped');
  assert(attempt.stopReason === null, 'the first stop intent of an attempt wins');
  return sealAttempt({ ...attempt, stopReason });
}

type AttemptEndEvent = EventOf<
  'attempt.succeeded' | 'attempt.failed' | 'attempt.cancelled' | 'attempt.timed_out' | 'attempt.lost'
>;

function endAttempt(rows: RunRows, event: AttemptEndEvent, status: AttemptStatus): Changes {
  const { stepStatus, stepResultCode, stepDue, ...known } = event.payload;
  const isReady = stepStatus === 'ready';
  const finishedAtMs = known.finishedAtMs ?? event.createdAtMs;
  const { startedAtMs, claimedAtMs } = touchedAttempt(rows, event);
  assert(finishedAtMs >= (startedAtMs ?? claimedAtMs), 'an attempt ends after its start');
  assert(finishedAtMs <= event.createdAtMs, 'an end is recorded after it');
  const stepChanges = {
    due: stepDue,
    resultCode: stepResultCode,
    errorSummary: isReady ? null : known.errorSummary,
    ...(isReady ? { readyAtMs: event.createdAtMs } : { finishedAtMs }),
  };
  return {
    attempt: moveAttempt(rows, event, status, { ...known, finishedAtMs }),
    step: moveStep(rows, event, stepStatus, stepChanges),
  };
}
