import fc from 'fast-check';
import t from 'tap';
import { isEdgeError } from '../../src/core/errors.ts';
import { draft, type EventDraft, type EventType, eventTypes, type RunEvent } from '../../src/core/events.ts';
import { evolve, extendHistory, foldEvents } from '../../src/core/evolve.ts';
import { isIntact } from '../../src/core/record-seal.ts';
import type { RunRows } from '../../src/core/records.ts';
import type { AttemptStatus, RunStatus, StepStatus } from '../../src/core/states.ts';
import { choices, shapesUpTo } from './arbitraries.ts';
import { endDraft, tellStory } from './run-driver.ts';
import { admitStory, append, attemptHead, planOf, type Story, stepOf } from './samples.ts';
import { next, type Statuses, sceneAttempt, sceneDrafts, sceneHead, sceneOf, sceneStep } from './scenes.ts';

/** Whether an event is taken in a scene; anything but a broken invariant is a fault of its own. */
function isTaken(statuses: Statuses, entry: EventDraft): boolean {
  const rows = sceneOf(statuses);
  try {
    evolve(rows, next(rows, entry));
    return true;
  } catch (error) {
    if (error instanceof Error && error.name === 'InvariantError' && !isEdgeError(error)) {
      return false;
    }
    throw error;
  }
}

const words = (text: string) => new Set(text.split(' '));
const runStatuses: readonly RunStatus[] = ['running', 'succeeded', 'failed', 'cancelled', 'timed_out'];
const stepStatuses: readonly StepStatus[] = [
  ...(['pending', 'ready', 'waiting_approval', 'running', 'lost'] as const),
  ...(['succeeded', 'failed', 'skipped', 'cancelled', 'timed_out'] as const),
];
const attemptStatuses: readonly AttemptStatus[] = [
  ...(['claimed', 'starting', 'running', 'succeeded', 'failed', 'cancelled', 'timed_out', 'lost'] as const),
];

/** The statuses of step and attempt in which an event of this type is legal, if the run is. */
function usualPlace(type: EventType): Omit<Statuses, 'run'> {
  if (type === 'attempt.started') {
    return { step: 'ready', attempt: 'claimed' };
  }
  if (type === 'attempt.claimed' || type.startsWith('step.')) {
    return { step: 'ready', attempt: null };
  }
  const isAttempt = type.startsWith('attempt.') || type.endsWith('_requested');
  return isAttempt
    ? { step: 'running', attempt: 'starting' }
    : { step: 'succeeded', attempt: 'succeeded', sibling: 'succeeded' };
}

const news = words('workflow.leftover_found workflow.stop_forced workflow.late_receipt_found');

t.test(
  'every run status × event type: a running run takes all but an admission and news, an ended one news alone',
  async (t) => {
    t.same(Object.keys(sceneDrafts).sort(), [...eventTypes].sort(), 'there is a scene for every type');
    for (const type of eventTypes) {
      for (const run of runStatuses) {
        const expected = run === 'running' ? !news.has(type) && type !== 'workflow.admitted' : news.has(type);
        t.equal(isTaken({ run, ...usualPlace(type) }, sceneDrafts[type]), expected, `${run} × ${type}`);
      }
    }
  },
);

t.test('a run ends after all its steps', async (t) => {
  for (const type of ['workflow.succeeded', 'workflow.failed', 'workflow.cancelled', 'workflow.timed_out'] as const) {
    for (const sibling of ['pending', 'ready', 'running', 'lost'] as const) {
      const scene = { run: 'running', step: 'succeeded', attempt: null, sibling } as const;
      t.notOk(isTaken(scene, sceneDrafts[type]), `${sibling} × ${type}`);
    }
  }
});

const attempt = sceneAttempt('starting');
const coded = { stepResultCode: 'some_code' };
// By hand from the design: the step statuses in which each event that changes a step is legal.
const stepEvents: readonly { name: string; entry: EventDraft; legal: ReadonlySet<string>; attempt?: AttemptStatus }[] =
  [
    {
      name: 'readied',
      entry: sceneDrafts['step.readied'],
      legal: words('pending ready waiting_approval running lost'),
    },
    { name: 'skipped', entry: sceneDrafts['step.skipped'], legal: words('pending ready') },
    { name: 'failed', entry: sceneDrafts['step.failed'], legal: words('ready running lost') },
    {
      ...{ name: 'cancelled', entry: sceneDrafts['step.cancelled'] },
      legal: words('pending ready waiting_approval running lost'),
    },
    { name: 'timed out', entry: sceneDrafts['step.timed_out'], legal: words('ready waiting_approval running') },
    { name: 'claimed', entry: sceneDrafts['attempt.claimed'], legal: words('ready') },
    {
      ...{ name: 'started', entry: sceneDrafts['attempt.started'], attempt: 'claimed' },
      legal: words('ready waiting_approval'),
    },
    {
      name: 'attempt succeeded',
      entry: endDraft(attempt, 'succeeded', {}),
      legal: words('running'),
      attempt: 'starting',
    },
    {
      ...{ name: 'attempt lost', entry: endDraft(attempt, 'lost', { ...coded, stepStatus: 'lost' }) },
      ...{ legal: words('running'), attempt: 'starting' },
    },
  ];

t.test('every step status × event: exactly what the machine allows is taken', async (t) => {
  for (const { name, entry, legal, attempt: attemptStatus = null } of stepEvents) {
    for (const step of stepStatuses) {
      const taken = isTaken({ run: 'running', step, attempt: attemptStatus }, entry);
      t.equal(taken, legal.has(step), `${step} × ${name}`);
    }
  }
});

t.test('an ended step takes no event at all that would change it', async (t) => {
  for (const step of ['succeeded', 'failed', 'skipped', 'cancelled', 'timed_out'] as const) {
    for (const type of eventTypes.filter((name) => name.startsWith('step.') && name !== 'step.created')) {
      t.notOk(isTaken({ run: 'running', step, attempt: null }, sceneDrafts[type]), `${step} × ${type}`);
    }
    for (const type of ['succeeded', 'failed', 'cancelled', 'timed_out', 'lost'] as const) {
      t.notOk(
        isTaken({ run: 'running', step, attempt: 'running' }, sceneDrafts[`attempt.${type}`]),
        `${step} × ${type}`,
      );
    }
  }
});

// By hand from the design: the attempt statuses in which each event about an attempt is legal.
const attemptEvents: Readonly<Record<string, ReadonlySet<string>>> = {
  'attempt.claimed': words(''),
  'attempt.started': words('claimed'),
  'attempt.observed': words('starting'),
  'attempt.succeeded': words('starting running'),
  'attempt.failed': words('starting running'),
  'attempt.cancelled': words('claimed starting running'),
  'attempt.timed_out': words('claimed starting running'),
  'attempt.lost': words('claimed starting running'),
  'workflow.task_timeout_requested': words('starting running'),
  'workflow.attempt_stop_requested': words('starting running'),
};

t.test('every attempt status × event: exactly what the machine allows is taken', async (t) => {
  for (const [type, legal] of Object.entries(attemptEvents)) {
    for (const status of attemptStatuses) {
      const step = status === 'claimed' ? 'ready' : 'running';
      const taken = isTaken({ run: 'running', step, attempt: status }, sceneDrafts[type as EventType]);
      t.equal(taken, legal.has(status), `${status} × ${type}`);
    }
  }
});

t.test('an event about a step or attempt that does not exist is a broken invariant', async (t) => {
  const place = { run: 'running', step: 'running', attempt: 'starting' } as const;
  for (const type of Object.keys(attemptEvents) as EventType[]) {
    for (const change of [
      { attemptId: 'at_other' },
      { attemptId: null },
      { stepRunId: null },
      { stepRunId: 'st_other' },
    ]) {
      t.notOk(
        isTaken({ ...place, ...usualPlace(type) }, { ...sceneDrafts[type], ...change }),
        `${type} ${JSON.stringify(change)}`,
      );
    }
  }
  for (const type of eventTypes.filter((name) => name.startsWith('step.'))) {
    for (const stepRunId of [null, 'st_other']) {
      t.notOk(isTaken({ ...place, ...usualPlace(type) }, { ...sceneDrafts[type], stepRunId }), `${type} ${stepRunId}`);
    }
  }
});

t.test('an attempt is admitted in the present epoch alone, once, under its derived id', async (t) => {
  const place = { run: 'running', step: 'ready', attempt: null } as const;
  const claim = (change: { stepRunVersion?: number; attemptId?: string }) => {
    const { attemptId = sceneHead.attemptId, stepRunVersion = sceneStep.version } = change;
    const payload = { number: 1, stepRunVersion, executorType: 'process' as const, executionDigest: 'e'.repeat(64) };
    return draft('attempt.claimed', payload, { stepRunId: sceneStep.id, attemptId });
  };
  t.ok(isTaken(place, claim({})));
  t.notOk(isTaken(place, claim({ stepRunVersion: 2 })));
  t.notOk(isTaken(place, claim({ attemptId: `at_${'0'.repeat(32)}` })));
  t.notOk(isTaken({ ...place, attempt: 'claimed' }, claim({})));
});

t.test('an attempt whose epoch has moved on does not start', async (t) => {
  const told = admitStory(planOf({ a: [] }));
  const head = attemptHead(stepOf(told, 'a'));
  const claim = { number: 1, stepRunVersion: 1, executorType: 'process' as const, executionDigest: 'e'.repeat(64) };
  append(told, draft('attempt.claimed', claim, head));
  append(told, draft('step.readied', { due: null }, { stepRunId: head.stepRunId }));
  const start = draft('attempt.started', { deadline: null, bootId: 'boot-1' }, head);
  t.throws(() => append(told, start), { name: 'InvariantError' });
});

const story = tellStory(planOf({ a: [], b: ['a'] }), Array(12).fill({ action: 0, clockMs: 1 }));

function isRefused(events: readonly RunEvent[]): boolean {
  try {
    foldEvents(null, events);
    return false;
  } catch (error) {
    return error instanceof Error && error.name === 'InvariantError';
  }
}

t.test('a history begins with its admission and has no gap, repetition, stranger or step back in time', async (t) => {
  const events = story.events;
  t.ok(events.length >= 8);
  t.equal(foldEvents(null, []), null, 'nothing folds to nothing');
  t.ok(isRefused(events.slice(1)), 'without its first event');
  for (const [index, event] of events.entries()) {
    if (index < events.length - 1) {
      t.ok(isRefused(events.toSpliced(index, 1)), `without event ${index + 1}`);
      t.ok(isRefused(events.with(index, events[index + 1]!)), `event ${index + 2} twice`);
    }
    t.ok(isRefused(events.with(index, { ...event, runId: 'run-2' })), `event ${index + 1} of another run`);
    t.ok(isRefused(events.with(index, { ...event, sequence: event.sequence + 1 })), `event ${index + 1} misnumbered`);
    if (index > 0) {
      const createdAtMs = events[index - 1]!.createdAtMs - 1;
      t.ok(isRefused(events.with(index, { ...event, createdAtMs })), `event ${index + 1} before the one before it`);
    }
  }
});

t.test('a step is created once: its creation never replaces a step that is there', async (t) => {
  const told = admitStory(planOf({ a: [], b: ['a'] }));
  const created = told.events[1]!;
  const again = { ...(created as EventDraft) };
  t.throws(() => append(told, again), { name: 'InvariantError' }, 'right after the admission');
  const later = admitStory(planOf({ a: [], b: ['a'] }));
  append(later, draft('step.cancelled', { resultCode: 'x', errorSummary: null }, { stepRunId: created.stepRunId }));
  t.throws(() => append(later, again), { name: 'InvariantError' }, 'after the step ended');
});

function claimAndStart(told: Story, stepKey: string) {
  const step = stepOf(told, stepKey);
  const head = attemptHead(step);
  const payload = { number: told.rows.attempts.size + 1, stepRunVersion: step.version };
  const claim = { ...payload, executorType: 'process' as const, executionDigest: 'e'.repeat(64) };
  append(told, draft('attempt.claimed', claim, head), draft('attempt.started', { deadline: null, bootId: 'b' }, head));
  return told.rows.attempts.get(head.attemptId)!;
}

t.test('a step is counted at the start barrier, and a retry begins a new epoch with its due time', async (t) => {
  const told = admitStory(planOf({ a: [] }));
  const due = { startMs: 1, startUptimeMs: 2, bootId: 'b', lengthMs: 3 };
  const first = claimAndStart(told, 'a');
  t.match(stepOf(told, 'a'), { status: 'running', version: 2, attemptCount: 1, due: null, finishedAtMs: null });
  told.wallMs += 10;
  append(told, endDraft(first, 'failed', { exitCode: 1, errorSummary: 'exit 1', stepStatus: 'ready', stepDue: due }));
  const ready = { status: 'ready', version: 3, attemptCount: 1, due, readyAtMs: told.wallMs, resultCode: null };
  t.match(stepOf(told, 'a'), { ...ready, errorSummary: null });
  t.match(told.rows.attempts.get(first.id), { status: 'failed', exitCode: 1, finishedAtMs: told.wallMs });
  const second = claimAndStart(told, 'a');
  t.match(second, { number: 2, stepRunVersion: 3 });
  t.match(stepOf(told, 'a'), { attemptCount: 2, due: null });
  append(told, endDraft(second, 'succeeded', { exitCode: 0 }));
  t.match(stepOf(told, 'a'), { status: 'succeeded', version: 5, finishedAtMs: told.wallMs, resultCode: null });
});

t.test('an end that was recorded late keeps its own time, which lies between start and record', async (t) => {
  const told = admitStory(planOf({ a: [] }));
  const attempt = claimAndStart(told, 'a');
  const startedAtMs = told.wallMs;
  told.wallMs += 60_000;
  for (const finishedAtMs of [startedAtMs - 1, told.wallMs + 1]) {
    const end = endDraft(attempt, 'succeeded', { exitCode: 0, finishedAtMs, durationMs: 4_990 });
    t.throws(() => append(told, end), { name: 'InvariantError' }, `${finishedAtMs - startedAtMs}`);
  }
  const finishedAtMs = startedAtMs + 5_000;
  append(told, endDraft(attempt, 'succeeded', { exitCode: 0, finishedAtMs, durationMs: 4_990 }));
  t.match(told.rows.attempts.get(attempt.id), { finishedAtMs, durationMs: 4_990 });
  t.match(stepOf(told, 'a'), { finishedAtMs, updatedAtMs: told.wallMs });
});

t.test('a lost step has a result code as long as it is lost, and no longer', async (t) => {
  const told = admitStory(planOf({ a: [] }));
  const lost = { errorSummary: 'nobody knows', stepStatus: 'lost', stepResultCode: 'lost' } as const;
  append(told, endDraft(claimAndStart(told, 'a'), 'lost', lost));
  t.match(stepOf(told, 'a'), { status: 'lost', resultCode: 'lost', errorSummary: 'nobody knows', finishedAtMs: null });
  append(told, draft('step.readied', { due: null }, { stepRunId: stepOf(told, 'a').id }));
  t.match(stepOf(told, 'a'), { status: 'ready', resultCode: null, errorSummary: null });
});

t.test('a cancel intent and a stop request are kept as they were made first', async (t) => {
  const told = admitStory(planOf({ a: [] }));
  const { id, stepRunId } = claimAndStart(told, 'a');
  const head = { stepRunId, attemptId: id };
  append(told, draft('workflow.task_timeout_requested', {}, head));
  t.equal(told.rows.attempts.get(id)!.stopReason, 'timeout');
  append(told, draft('workflow.cancel_requested', { reason: 'user' }));
  t.match(told.rows.run, { cancelReason: 'user', cancelRequestedAtMs: told.wallMs, status: 'running' });
});

t.test('the chain of a history is golden (computed with Python)', async (t) => {
  const admitted = admitStory(planOf({ fetch: [], merge: ['fetch'] })).events;
  const chain = admitted.reduce<string | null>((previous, event) => extendHistory(previous, event), null);
  t.equal(chain, '16028a5449a13c554d7624705c8c1295e9bca116c0c3d83a34b03779a1d36727');
});

function freeze(rows: RunRows): RunRows {
  for (const record of [rows.run, ...rows.steps.values(), ...rows.attempts.values()]) {
    Object.freeze(record);
  }
  return Object.freeze(rows);
}

t.test(
  'random histories: rows are sealed, counted and never changed in place, however the history is cut',
  async () => {
    fc.assert(
      fc.property(shapesUpTo(8), choices, fc.nat(), (shape, actions, cut) => {
        const told = tellStory(planOf(shape), actions);
        const at = cut % (told.events.length + 1);
        const before = foldEvents(null, told.events.slice(0, at));
        const rows = foldEvents(
          before === null ? null : freeze(before),
          told.events.slice(at).map((event) => Object.freeze(event)),
        )!;
        const records = [rows.run, ...rows.steps.values(), ...rows.attempts.values()];
        return (
          records.every((record) => isIntact({ ...record })) &&
          rows.run.version === told.events.length &&
          rows.run.eventSequence === told.events.length &&
          rows.run.updatedAtMs === told.events.at(-1)!.createdAtMs &&
          rows.run.digest === told.rows.run.digest &&
          [...rows.steps.values()].every((step) => step.digest === told.rows.steps.get(step.id)!.digest)
        );
      }),
      { numRuns: 150 },
    );
  },
);
