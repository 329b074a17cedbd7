import t from 'tap';
import { draft, type RunEndStatus } from '../../src/core/events.ts';
import { aggregateStatus, decideFrontier, dependencyNotSucceeded } from '../../src/core/frontier.ts';
import type { Run, RunRows, StepRun } from '../../src/core/records.ts';
import type { StepStatus } from '../../src/core/states.ts';
import { plainPlan, rowsOf, type Statuses } from './frontier-reference.ts';
import { endDraft } from './run-driver.ts';
import {
  admitStory,
  append,
  attemptHead,
  chainOf,
  changeRun,
  changeStep,
  edgeErrorOf,
  planOf,
  type Shape,
  type Story,
  stepOf,
} from './samples.ts';

const shape: Shape = { a: [], b: ['a'], c: ['a'], d: ['b', 'c'] };
const plan = planOf(shape);

/** Claims and starts the present epoch of a step, and ends it this way. */
function runStep(story: Story, stepKey: string, end: 'succeeded' | 'failed' | 'timed_out' | null): void {
  const step = stepOf(story, stepKey);
  const head = attemptHead(step);
  const number = story.rows.attempts.size + 1;
  const claim = { number, stepRunVersion: step.version, executorType: 'process' as const };
  append(story, draft('attempt.claimed', { ...claim, executionDigest: 'e'.repeat(64) }, head));
  append(story, draft('attempt.started', { deadline: null, bootId: 'boot-1' }, head));
  if (end !== null) {
    endStep(story, stepKey, end);
  }
}

function endStep(story: Story, stepKey: string, status: 'succeeded' | 'failed' | 'timed_out'): void {
  const attempt = [...story.rows.attempts.values()].find(({ stepRunId }) => stepRunId === stepOf(story, stepKey).id)!;
  const change = { stepStatus: status, stepResultCode: status === 'succeeded' ? null : 'some_code' };
  append(story, endDraft(attempt, status, change));
}

/** One pass: what was decided is appended, and its kind answered. */
function advance(story: Story): string {
  const decision = decideFrontier(story.plan, story.rows);
  if (decision.kind === 'advanced' || decision.kind === 'terminal') {
    append(story, ...decision.events);
  }
  return decision.kind;
}

const statusesOf = (story: Story) => {
  return Object.fromEntries([...story.rows.steps.values()].map(({ stepKey, status }) => [stepKey, status]));
};

t.test('a diamond runs from its root to its end, pass by pass, and is settled then', async (t) => {
  const story = admitStory(plan);
  t.equal(advance(story), 'unchanged', 'the root was ready from the start');
  runStep(story, 'a', 'succeeded');
  t.equal(advance(story), 'advanced');
  t.same(statusesOf(story), { a: 'succeeded', b: 'ready', c: 'ready', d: 'pending' });
  runStep(story, 'b', 'succeeded');
  t.equal(advance(story), 'unchanged', 'd still waits for c');
  runStep(story, 'c', 'succeeded');
  t.equal(advance(story), 'advanced');
  runStep(story, 'd', 'succeeded');
  t.equal(advance(story), 'terminal');
  t.match(story.rows.run, { status: 'succeeded', errorCode: null, errorSummary: null, finishedAtMs: story.wallMs });
  const { version } = story.rows.run;
  t.equal(advance(story), 'settled');
  t.equal(story.rows.run.version, version);
});

t.test(
  'D04: a failure in one arm skips what needs it at once, the slow arm finishes, then the run fails',
  async (t) => {
    const story = admitStory(planOf({ A: [], B: ['A'], C: ['A'], D: ['B'], E: ['D'] }));
    runStep(story, 'A', 'succeeded');
    advance(story);
    runStep(story, 'C', null);
    runStep(story, 'B', 'succeeded');
    advance(story);
    runStep(story, 'D', 'failed');
    t.equal(advance(story), 'advanced');
    t.same(statusesOf(story), { A: 'succeeded', B: 'succeeded', C: 'running', D: 'failed', E: 'skipped' });
    t.equal(advance(story), 'unchanged');
    endStep(story, 'C', 'succeeded');
    t.equal(advance(story), 'terminal');
    t.match(story.rows.run, { status: 'failed', errorCode: 'workflow_step_failed', errorSummary: 'step D failed' });
  },
);

t.test('why a run failed names the step that ended badly first, never one that only missed it', async (t) => {
  const blamed = admitStory(planOf({ a: ['z'], z: [] }));
  runStep(blamed, 'z', 'timed_out');
  advance(blamed);
  t.equal(blamed.rows.run.errorSummary, 'step z timed out');
  t.equal(
    [...blamed.rows.steps.values()].find(({ stepKey }) => stepKey === 'a')?.errorSummary,
    'needs z, which is timed out',
  );
  const first = admitStory(planOf({ a: [], b: [], c: ['b'] }));
  runStep(first, 'b', 'timed_out');
  first.wallMs += 5;
  advance(first);
  runStep(first, 'a', 'failed');
  advance(first);
  t.match(first.rows.run, { status: 'failed', errorSummary: 'step b timed out' });
});

t.test('D05: a diamond whose root is written last runs it first', async (t) => {
  const story = admitStory(planOf({ b: ['a'], c: ['a'], d: ['b', 'c'], a: [] }));
  t.same(statusesOf(story), { a: 'ready', b: 'pending', c: 'pending', d: 'pending' });
  runStep(story, 'a', 'succeeded');
  advance(story);
  t.same(statusesOf(story), { a: 'succeeded', b: 'ready', c: 'ready', d: 'pending' });
});

t.test(
  'a timed-out step that others need makes the run failed, one that nobody needs makes it timed out',
  async (t) => {
    const needed = admitStory(planOf({ a: [], b: ['a'] }));
    runStep(needed, 'a', 'timed_out');
    advance(needed);
    t.match(needed.rows.run, { status: 'failed', errorCode: 'workflow_step_failed' });
    t.equal(needed.rows.run.errorSummary, 'step a timed out', 'not: step b skipped');
    const alone = admitStory(planOf({ a: [], b: [] }));
    runStep(alone, 'a', 'timed_out');
    t.equal(advance(alone), 'unchanged');
    runStep(alone, 'b', 'succeeded');
    advance(alone);
    t.match(alone.rows.run, {
      status: 'timed_out',
      errorCode: 'workflow_step_timed_out',
      errorSummary: 'step a timed out',
    });
  },
);

t.test(
  'a chain of 128 whose first step fails is skipped to its end in one pass, whatever the order of its keys',
  async (t) => {
    const keys = Object.keys(chainOf(128));
    const backwards = Object.fromEntries(keys.map((key, index) => [key, index === 127 ? [] : [keys[index + 1]!]]));
    for (const [chain, root] of [
      [chainOf(128), 's000'],
      [backwards, 's127'],
    ] as const) {
      const story = admitStory(planOf(chain));
      runStep(story, root, 'failed');
      const decision = decideFrontier(story.plan, story.rows);
      if (decision.kind !== 'terminal') {
        t.fail(`it says ${decision.kind}`);
        return;
      }
      t.equal(decision.events.length, 128, '127 skipped, and the end of the run');
      const skipped = decision.events.slice(0, -1);
      t.ok(skipped.every(({ type }) => type === 'step.skipped'));
      t.ok(skipped.every(({ payload }) => 'resultCode' in payload && payload.resultCode === dependencyNotSucceeded));
      const ids = story.plan.steps.filter(({ stepKey }) => stepKey !== root).map(({ stepRunId }) => stepRunId);
      t.same(
        skipped.map(({ stepRunId }) => stepRunId),
        ids,
        'in the order of the step keys',
      );
      append(story, ...decision.events);
      t.equal(advance(story), 'settled');
      t.equal(story.rows.run.status, 'failed');
    }
  },
);

t.test('a need that failed wins over needs that still run', async (t) => {
  const wide = plainPlan({ a: [], b: [], c: ['a', 'b'] });
  const decision = decideFrontier(wide, rowsOf(wide, { a: 'failed', b: 'running', c: 'pending' }));
  t.match(decision, {
    kind: 'advanced',
    events: [{ type: 'step.skipped', payload: { errorSummary: 'needs a, which is failed' } }],
  });
});

t.test('a lost step is not an end: what needs it waits', async (t) => {
  const two = plainPlan({ a: [], b: ['a'] });
  t.match(decideFrontier(two, rowsOf(two, { a: 'lost', b: 'pending' })), { kind: 'unchanged', readyStepRunIds: [] });
});

t.test('with a cancel intent the frontier stands still, whatever it could move', async (t) => {
  const intent = { cancelRequestedAtMs: 1, cancelReason: 'user' as const };
  const states: readonly Statuses[] = [
    { a: 'succeeded', b: 'pending', c: 'pending', d: 'pending' },
    { a: 'failed', b: 'pending', c: 'pending', d: 'pending' },
    { a: 'succeeded', b: 'succeeded', c: 'succeeded', d: 'succeeded' },
    { a: 'ready', b: 'pending', c: 'pending', d: 'pending' },
  ];
  const diamond = plainPlan(shape);
  for (const statuses of states) {
    t.same(decideFrontier(diamond, rowsOf(diamond, statuses, intent)), { kind: 'unchanged', readyStepRunIds: [] });
  }
});

t.test('a cancelled run is settled once all its steps have ended, however they did', async (t) => {
  const two = plainPlan({ a: [], b: ['a'] });
  const intent = { cancelRequestedAtMs: 1, cancelReason: 'user' as const, status: 'cancelled' as const };
  t.same(decideFrontier(two, rowsOf(two, { a: 'succeeded', b: 'cancelled' }, intent)), {
    kind: 'settled',
    status: 'cancelled',
  });
  for (const ends of [
    { a: 'succeeded', b: 'succeeded' },
    { a: 'failed', b: 'skipped' },
  ] as const) {
    t.equal(decideFrontier(two, rowsOf(two, ends, intent)).kind, 'settled', 'the intent decided, not the steps');
  }
  const open = rowsOf(two, { a: 'succeeded', b: 'pending' }, intent);
  t.equal(edgeErrorOf(() => decideFrontier(two, open)).code, 'damaged');
});

t.test('the arguments are not changed, and the answer is the same each time', async (t) => {
  const two = plainPlan({ a: [], b: ['a'] });
  const rows = rowsOf(two, { a: 'failed', b: 'pending' });
  const before = structuredClone(rows);
  const first = decideFrontier(two, rows);
  t.same(rows, before);
  t.same(decideFrontier(two, rows), first);
});

t.test('the worst end of a step decides: failed or skipped, then timed out, then cancelled', async (t) => {
  const cases: readonly (readonly [readonly StepStatus[], RunEndStatus])[] = [
    [['succeeded'], 'succeeded'],
    [['succeeded', 'cancelled'], 'cancelled'],
    [['cancelled', 'timed_out', 'succeeded'], 'timed_out'],
    [['timed_out', 'skipped'], 'failed'],
    [['cancelled', 'failed', 'timed_out'], 'failed'],
  ];
  for (const [statuses, expected] of cases) {
    t.equal(aggregateStatus(statuses), expected);
    t.equal(aggregateStatus(statuses.toReversed()), expected);
  }
  for (const open of ['pending', 'ready', 'running', 'lost', 'waiting_approval'] as const) {
    t.throws(() => aggregateStatus(['succeeded', open]), { name: 'InvariantError' });
  }
});

const sound = admitStory(plan).rows;

function withStep(rows: RunRows, stepRun: StepRun, key = stepRun.id): RunRows {
  return { ...rows, steps: new Map(rows.steps).set(key, stepRun) };
}

const isDamaged = (rows: RunRows) => edgeErrorOf(() => decideFrontier(plan, rows)).code === 'damaged';

t.test('a run that is not the one of its plan is damaged', async (t) => {
  const changes: readonly Partial<Run>[] = [
    ...[{ id: 'run-2' }, { planId: 'plan-2' }, { planDigest: '0'.repeat(64) }, { projectId: 'other' }],
    ...[{ workflowId: 'other' }, { publicationDigest: '0'.repeat(64) }],
    ...[{ eventSequence: sound.run.version + 1 }, { version: sound.run.version - 1 }],
  ];
  for (const change of changes) {
    t.ok(isDamaged({ ...sound, run: changeRun(sound.run, change) }), JSON.stringify(change));
  }
});

t.test('a run that was altered without its digest is damaged, whichever field it is', async (t) => {
  for (const [key, value] of Object.entries(sound.run)) {
    const other = typeof value === 'number' ? value + 1 : typeof value === 'string' ? `${value}x` : 'x';
    t.ok(isDamaged({ ...sound, run: { ...sound.run, [key]: other } }), key);
  }
});

t.test('a step run that is missing, too many, or not that of its plan is damaged', async (t) => {
  const step = [...sound.steps.values()][1]!;
  const without = new Map(sound.steps);
  without.delete(step.id);
  t.ok(isDamaged({ ...sound, steps: without }), 'missing');
  t.ok(isDamaged(withStep(sound, changeStep(step, { id: 'st_other' }), 'st_other')), 'too many');
  t.ok(isDamaged({ ...sound, steps: new Map([...without, ['st_other', step]]) }), 'under another id');
  const changes: readonly Partial<StepRun>[] = [
    ...[{ runId: 'run-2' }, { stepKey: 'z' }, { taskRef: 'other' }, { taskSourceDigest: '0'.repeat(64) }],
    { required: false },
  ];
  for (const change of changes) {
    t.ok(isDamaged(withStep(sound, changeStep(step, change))), JSON.stringify(change));
  }
});

t.test('a step run that was altered without its digest is damaged, whichever field it is', async (t) => {
  const step = [...sound.steps.values()][0]!;
  for (const [key, value] of Object.entries(step)) {
    const other =
      typeof value === 'number' ? value + 1 : typeof value === 'string' ? `${value}x` : value === true ? false : 'x';
    t.ok(isDamaged(withStep(sound, { ...step, [key]: other } as StepRun, step.id)), key);
  }
});

t.test('an ended run that does not follow from its steps is damaged', async (t) => {
  const two = plainPlan({ a: [], b: [] });
  const end = (status: RunEndStatus, statuses: Statuses) => {
    return edgeErrorOf(() => decideFrontier(two, rowsOf(two, statuses, { status })));
  };
  const wrong: readonly (readonly [RunEndStatus, StepStatus, StepStatus])[] = [
    ...([
      ['succeeded', 'failed', 'succeeded'],
      ['failed', 'succeeded', 'succeeded'],
    ] as const),
    ...([
      ['cancelled', 'timed_out', 'succeeded'],
      ['timed_out', 'cancelled', 'cancelled'],
    ] as const),
    ...([
      ['succeeded', 'running', 'succeeded'],
      ['failed', 'failed', 'lost'],
      ['failed', 'failed', 'ready'],
    ] as const),
  ];
  for (const [status, a, b] of wrong) {
    t.match(end(status, { a, b }), { code: 'damaged', message: new RegExp(`has ended ${status}`) });
  }
  t.same(decideFrontier(two, rowsOf(two, { a: 'failed', b: 'succeeded' }, { status: 'failed' })), {
    kind: 'settled',
    status: 'failed',
  });
});
