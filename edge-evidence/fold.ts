// The second fold: a run's events, interpreted one after another over mutable records, written apart from
// src/core/evolve.ts (types alone are shared). It checks the first one, so it is the stricter of the two: it has the
// whole history before it, and also refuses what no protocol may write though each single transition is legal (a start
// after a cancel intent, a run that ends before its steps). Never used by the product itself.
import type { EventOf, EventType, RunEvent } from '../src/core/events.ts';
import type { Run, RunAttempt, RunRows, StepRun } from '../src/core/records.ts';
import { canonicalText, derivedIds, findFormFault, labelledDigest } from './fold-form.ts';
import {
  attemptArrows,
  attemptsPerStepMax,
  codedSteps,
  finalSteps,
  jointEnds,
  newsMax,
  openAttempts,
  type RunEnd,
  runErrorCodes,
  stepArrows,
  stepsMax,
} from './fold-tables.ts';

/** A history that no run can have. The message names the event and the rule. */
export class FoldError extends Error {
  override readonly name = 'FoldError';
}

/** The present that a history folds to: steps by key, attempts by number. */
export type FoldedHistory = {
  readonly run: Run;
  readonly steps: readonly StepRun[];
  readonly attempts: readonly RunAttempt[];
};

type Unsealed<T> = { -readonly [K in Exclude<keyof T, 'digest'>]: T[K] };
type World = {
  run: Unsealed<Run>;
  readonly steps: Map<string, Unsealed<StepRun>>;
  readonly attempts: Map<string, Unsealed<RunAttempt>>;
  newsCount: number;
};
type Rule<T extends EventType> = (world: World, event: EventOf<T>) => void;
type AttemptEnd = 'succeeded' | 'failed' | 'cancelled' | 'timed_out' | 'lost';
type StepEnd = 'skipped' | 'failed' | 'cancelled' | 'timed_out';

const rules: { readonly [T in EventType]: Rule<T> } = {
  'workflow.admitted': (_, event) => refuse(event, 'a run is admitted once, by its first event'),
  'step.created': createStep,
  'step.readied': (world, event) => {
    demand(!isCancelling(world), event, 'nothing becomes ready after a cancel intent');
    moveStep(world, idleStepOf(world, event), event, { status: 'ready', due: event.payload.due });
  },
  'step.skipped': (world, event) => {
    demand(!isCancelling(world), event, 'a cancel intent freezes the frontier: a step is cancelled, not skipped');
    endStep(world, event, 'skipped');
  },
  'step.failed': (world, event) => endStep(world, event, 'failed'),
  'step.cancelled': (world, event) => endStep(world, event, 'cancelled'),
  'step.timed_out': (world, event) => endStep(world, event, 'timed_out'),
  'attempt.claimed': claim,
  'attempt.started': start,
  'attempt.observed': (world, event) => moveAttempt(attemptOf(world, event), event, 'running'),
  'attempt.succeeded': (world, event) => {
    const isStopping = isCancelling(world) || attemptOf(world, event).stopReason === 'timeout';
    demand(!isStopping, event, 'a durable stop decides over what the command answered');
    endAttempt(world, event, 'succeeded');
  },
  'attempt.failed': (world, event) => endAttempt(world, event, 'failed'),
  'attempt.cancelled': (world, event) => endAttempt(world, event, 'cancelled'),
  'attempt.timed_out': (world, event) => endAttempt(world, event, 'timed_out'),
  'attempt.lost': (world, event) => endAttempt(world, event, 'lost'),
  'workflow.task_timeout_requested': (world, event) => requestStop(world, event, 'timeout'),
  'workflow.attempt_stop_requested': (world, event) => requestStop(world, event, event.payload.reason),
  'workflow.cancel_requested': (world, event) => {
    demand(!isCancelling(world), event, 'the first cancel intent wins, there is no second');
    world.run.cancelRequestedAtMs = event.createdAtMs;
    world.run.cancelReason = event.payload.reason;
  },
  'workflow.succeeded': (world, event) => endRun(world, event, 'succeeded'),
  'workflow.failed': (world, event) => endRun(world, event, 'failed'),
  'workflow.cancelled': (world, event) => endRun(world, event, 'cancelled'),
  'workflow.timed_out': (world, event) => endRun(world, event, 'timed_out'),
  'workflow.leftover_found': tellNews,
  'workflow.stop_forced': tellNews,
  'workflow.late_receipt_found': tellNews,
};

/**
 * Folds a whole history, from its first event on, to the records that it makes, digests included.
 * Throws FoldError at the first event that has no place in it; the events are not changed.
 */
export function foldHistory(events: readonly RunEvent[]): FoldedHistory {
  let world: World | null = null;
  for (const [index, event] of events.entries()) {
    verifyPlace(event, index, world?.run ?? null);
    if (world === null) {
      world = admit(event);
    } else {
      demand(world.run.status === 'running' || isNews(event.type), event, `the run has ended ${world.run.status}`);
      (rules[event.type] as Rule<EventType>)(world, event);
      const previous: string = world.run.historyDigest;
      world.run.historyDigest = labelledDigest('history', { previous, event });
    }
    world.run.version = event.sequence;
    world.run.eventSequence = event.sequence;
    world.run.updatedAtMs = event.createdAtMs;
  }
  if (world === null) {
    throw new FoldError('a history begins with workflow.admitted; there is no event');
  }
  return seal(world);
}

/** Puts the rows that the product holds into the order of a fold, so that the two can be compared. */
export function arrangeRows(rows: RunRows): FoldedHistory {
  return {
    run: rows.run,
    steps: [...rows.steps.values()].sort((a, b) => (a.stepKey < b.stepKey ? -1 : 1)),
    attempts: [...rows.attempts.values()].sort((a, b) => a.number - b.number),
  };
}

/** Paths of the fields in which two presents differ, such as `steps.probe.version`; empty if they are the same. */
export function compareRecords(a: FoldedHistory, b: FoldedHistory): string[] {
  return differences(byName(a), byName(b), '');
}

function byName(records: FoldedHistory): Record<string, unknown> {
  return {
    run: records.run,
    steps: Object.fromEntries(records.steps.map((step) => [step.stepKey, step])),
    attempts: Object.fromEntries(records.attempts.map((attempt) => [`${attempt.number}`, attempt])),
  };
}

function differences(a: unknown, b: unknown, path: string): string[] {
  const isTree = (value: unknown) => typeof value === 'object' && value !== null;
  if (!isTree(a) || !isTree(b)) {
    return Object.is(a, b) ? [] : [path];
  }
  const left = new Map<string, unknown>(Object.entries(a as object));
  const right = new Map<string, unknown>(Object.entries(b as object));
  return [...new Set([...left.keys(), ...right.keys()])].sort().flatMap((key) => {
    const at = path === '' ? key : `${path}.${key}`;
    return left.has(key) && right.has(key) ? differences(left.get(key), right.get(key), at) : [at];
  });
}

function refuse(event: RunEvent, rule: string): never {
  throw new FoldError(`event ${event.sequence} (${event.type}): ${rule}`);
}

function demand(holds: boolean, event: RunEvent, rule: string): asserts holds {
  if (!holds) {
    refuse(event, rule);
  }
}

const isNews = (type: EventType) => rules[type] === tellNews;
const isCancelling = (world: World) => world.run.cancelRequestedAtMs !== null;

function verifyPlace(event: RunEvent, index: number, run: Unsealed<Run> | null): void {
  const fault = findFormFault(event);
  demand(fault === null, event, `${fault}`);
  demand(event.sequence === index + 1, event, `sequences rise by one from 1, this is place ${index + 1}`);
  demand(
    event.id === derivedIds.event(event.runId, event.sequence, event.type),
    event,
    'its id is not derived from it',
  );
  demand(run === null || event.runId === run.id, event, `it belongs to run ${event.runId}`);
  demand(run === null || event.createdAtMs >= run.updatedAtMs, event, 'time goes back');
}

function admit(event: RunEvent): World {
  if (event.type !== 'workflow.admitted') {
    refuse(event, 'a history begins with workflow.admitted');
  }
  demand(event.stepRunId === null && event.attemptId === null, event, 'an admission concerns no step or attempt');
  const run: Unsealed<Run> = {
    ...event.payload,
    id: event.runId,
    triggerType: 'plugin_package_workflow',
    status: 'running',
    version: 1,
    eventSequence: 1,
    createdAtMs: event.createdAtMs,
    startedAtMs: event.createdAtMs,
    updatedAtMs: event.createdAtMs,
    finishedAtMs: null,
    cancelRequestedAtMs: null,
    cancelReason: null,
    errorCode: null,
    errorSummary: null,
    historyDigest: labelledDigest('history', { previous: null, event }),
  };
  return { run, steps: new Map(), attempts: new Map(), newsCount: 0 };
}

function createStep(world: World, event: EventOf<'step.created'>): void {
  const { run, steps } = world;
  const { status, ...definition } = event.payload;
  const id = derivedIds.stepRun(run.id, definition.stepKey);
  const previousKey = [...steps.values()].at(-1)?.stepKey ?? '';
  // Nothing else has happened yet exactly as long as every event but the first made a step.
  demand(run.version === steps.size + 1, event, 'steps are created by the admission alone');
  demand(event.stepRunId === id && event.attemptId === null, event, `the id of this step is ${id}`);
  demand(previousKey < definition.stepKey, event, 'steps are created once each, in the order of their keys');
  demand(steps.size < stepsMax, event, `a run has at most ${stepsMax} steps`);
  const step: Unsealed<StepRun> = {
    schema: 'qinglong/step-run@v1',
    ...definition,
    id,
    runId: run.id,
    status,
    version: 1,
    attemptCount: 0,
    readyAtMs: status === 'ready' ? event.createdAtMs : null,
    due: null,
    startedAtMs: null,
    finishedAtMs: null,
    resultCode: null,
    errorSummary: null,
    inputRef: null,
    outputRef: null,
    createdAtMs: event.createdAtMs,
    updatedAtMs: event.createdAtMs,
    lastMutationId: '',
  };
  step.lastMutationId = derivedIds.mutation(run.planId, step);
  steps.set(id, step);
}

function stepOf(world: World, event: RunEvent): Unsealed<StepRun> {
  const step = event.stepRunId === null ? undefined : world.steps.get(event.stepRunId);
  return step ?? refuse(event, `step run ${event.stepRunId} does not exist`);
}

/** The step of an event that is not about an attempt. A step with an open attempt ends and retries with it alone. */
function idleStepOf(world: World, event: RunEvent): Unsealed<StepRun> {
  const step = stepOf(world, event);
  const isBusy = [...world.attempts.values()].some((it) => it.stepRunId === step.id && openAttempts.has(it.status));
  demand(event.attemptId === null, event, 'it concerns no attempt');
  demand(!isBusy, event, `step ${step.stepKey} has an open attempt`);
  return step;
}

function attemptOf(world: World, event: RunEvent): Unsealed<RunAttempt> {
  const attempt = event.attemptId === null ? undefined : world.attempts.get(event.attemptId);
  if (attempt === undefined) {
    return refuse(event, `attempt ${event.attemptId} does not exist`);
  }
  demand(event.stepRunId === attempt.stepRunId, event, `attempt ${attempt.number} is of another step`);
  return attempt;
}

type StepChange = Pick<StepRun, 'status'> & Partial<Pick<StepRun, 'due' | 'resultCode' | 'errorSummary'>>;

function moveStep(world: World, step: Unsealed<StepRun>, event: RunEvent, change: StepChange): void {
  const { status, due = null, resultCode = null, errorSummary = null } = change;
  demand(stepArrows.has(`${step.status}>${status}`), event, `step ${step.stepKey}: no ${step.status} → ${status}`);
  demand((resultCode !== null) === codedSteps.has(status), event, `a result code of ${resultCode} for ${status}`);
  demand(due === null || status === 'ready', event, `only a ready step is due, this one is ${status}`);
  const nowMs = event.createdAtMs;
  Object.assign(step, { status, due, resultCode, errorSummary, updatedAtMs: nowMs, version: step.version + 1 });
  step.finishedAtMs = finalSteps.has(status) ? nowMs : null;
  if (status === 'ready') {
    step.readyAtMs = nowMs;
  }
  if (status === 'running') {
    step.startedAtMs = nowMs;
    step.attemptCount += 1;
  }
  step.lastMutationId = derivedIds.mutation(world.run.planId, step);
}

function endStep(world: World, event: EventOf<`step.${StepEnd}`>, status: StepEnd): void {
  moveStep(world, idleStepOf(world, event), event, { status, ...event.payload });
}

function claim(world: World, event: EventOf<'attempt.claimed'>): void {
  const { run, attempts } = world;
  const { number, stepRunVersion, executorType, executionDigest } = event.payload;
  const step = stepOf(world, event);
  const id = derivedIds.attempt(run.id, step.id, stepRunVersion);
  demand(!isCancelling(world), event, 'nothing is claimed after a cancel intent');
  demand(step.status === 'ready', event, `step ${step.stepKey} is ${step.status}, not ready`);
  demand(step.version === stepRunVersion, event, `the epoch is ${step.version}, not ${stepRunVersion}`);
  demand(event.attemptId === id && !attempts.has(id), event, `the one attempt of this epoch is ${id}`);
  demand(number === attempts.size + 1, event, `this is attempt ${attempts.size + 1} of the run`);
  const earlier = [...attempts.values()].filter((attempt) => attempt.stepRunId === step.id).length;
  demand(earlier < attemptsPerStepMax, event, `step ${step.stepKey} had ${earlier} attempts`);
  const nothingYet = {
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
  };
  const bound = { id, runId: run.id, stepRunId: step.id, number, stepRunVersion, executorType, executionDigest };
  attempts.set(id, {
    ...nothingYet,
    ...bound,
    taskRef: step.taskRef,
    status: 'claimed',
    claimedAtMs: event.createdAtMs,
  });
}

function moveAttempt(attempt: Unsealed<RunAttempt>, event: RunEvent, status: RunAttempt['status']): void {
  const arrow = `${attempt.status}>${status}`;
  demand(attemptArrows.has(arrow), event, `attempt ${attempt.number}: no ${attempt.status} → ${status}`);
  attempt.status = status;
}

function start(world: World, event: EventOf<'attempt.started'>): void {
  const attempt = attemptOf(world, event);
  const step = stepOf(world, event);
  demand(!isCancelling(world), event, 'nothing starts after a cancel intent');
  demand(step.version === attempt.stepRunVersion, event, `the epoch is ${step.version}, not ${attempt.stepRunVersion}`);
  moveAttempt(attempt, event, 'starting');
  Object.assign(attempt, event.payload, { startedAtMs: event.createdAtMs });
  moveStep(world, step, event, { status: 'running' });
}

function requestStop(world: World, event: RunEvent, reason: NonNullable<RunAttempt['stopReason']>): void {
  const attempt = attemptOf(world, event);
  const isStarted = attempt.status === 'starting' || attempt.status === 'running';
  demand(isStarted, event, `attempt ${attempt.number} is ${attempt.status}, there is nothing to stop`);
  demand(attempt.stopReason === null, event, `attempt ${attempt.number} is stopped already: ${attempt.stopReason}`);
  attempt.stopReason = reason;
}

function endAttempt(world: World, event: EventOf<`attempt.${AttemptEnd}`>, status: AttemptEnd): void {
  const attempt = attemptOf(world, event);
  const step = stepOf(world, event);
  const { stepStatus, stepResultCode, stepDue, ...outcome } = event.payload;
  const isTogether = attempt.status === 'claimed' ? step.version === attempt.stepRunVersion : step.status === 'running';
  demand(isTogether, event, `step ${step.stepKey} has moved on without attempt ${attempt.number}`);
  demand(jointEnds.has(`${status}>${stepStatus}`), event, `an attempt ${status} does not leave its step ${stepStatus}`);
  demand(stepStatus !== 'ready' || !isCancelling(world), event, 'nothing becomes ready after a cancel intent');
  moveAttempt(attempt, event, status);
  const finishedAtMs = outcome.finishedAtMs ?? event.createdAtMs;
  const sinceMs = attempt.startedAtMs ?? attempt.claimedAtMs;
  demand(sinceMs <= finishedAtMs && finishedAtMs <= event.createdAtMs, event, 'the end lies between start and record');
  Object.assign(attempt, outcome, { finishedAtMs });
  const errorSummary = stepStatus === 'ready' ? null : outcome.errorSummary;
  moveStep(world, step, event, { status: stepStatus, due: stepDue, resultCode: stepResultCode, errorSummary });
  if (step.finishedAtMs !== null) {
    step.finishedAtMs = finishedAtMs;
  }
}

function endRun(world: World, event: EventOf<`workflow.${RunEnd}`>, status: RunEnd): void {
  const { run } = world;
  const statuses = new Set([...world.steps.values()].map((step) => step.status));
  const { errorCode, errorSummary } = event.payload;
  demand(statuses.size > 0 && [...statuses].every((end) => finalSteps.has(end)), event, 'a run ends after its steps');
  demand(status === expectedEnd(run, statuses), event, `the steps make it ${expectedEnd(run, statuses)}`);
  const isCoded = isCancelling(world) || errorCode === runErrorCodes[status];
  demand(isCoded, event, `the error code of ${status} is ${runErrorCodes[status]}`);
  Object.assign(run, { status, errorCode, errorSummary, finishedAtMs: event.createdAtMs });
}

/** An intent decides; without one the worst end of a step does. */
function expectedEnd(run: Unsealed<Run>, statuses: ReadonlySet<string>): RunEnd {
  if (run.cancelReason !== null) {
    return run.cancelReason === 'timeout' ? 'timed_out' : 'cancelled';
  }
  if (statuses.has('failed') || statuses.has('skipped')) {
    return 'failed';
  }
  return (['timed_out', 'cancelled'] as const).find((end) => statuses.has(end)) ?? 'succeeded';
}

function tellNews(world: World, event: RunEvent): void {
  world.newsCount += 1;
  demand(world.run.status !== 'running', event, 'news come after the end of a run');
  demand(world.newsCount <= newsMax, event, `there are at most ${newsMax} news after a run's end`);
}

function seal(world: World): FoldedHistory {
  const steps = [...world.steps.values()].map((step) => ({ ...step, digest: labelledDigest('step', step) }));
  const attempts = [...world.attempts.values()].map((it) => ({ ...it, digest: labelledDigest('attempt', it) }));
  for (const step of steps) {
    if (Buffer.byteLength(canonicalText(step)) > 16_384) {
      throw new FoldError(`step ${step.stepKey} has more than 16 KiB`);
    }
  }
  return { run: { ...world.run, digest: labelledDigest('run', world.run) }, steps, attempts };
}
