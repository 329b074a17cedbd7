import { deepStrictEqual as deepEqual } from 'node:assert/strict';
import { statSync } from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import { draft, type EventDraft } from '../../../src/core/events.ts';
import type { RunAttempt, RunRows } from '../../../src/core/records.ts';
import { isTerminalAttempt } from '../../../src/core/states.ts';
import { tellStory } from '../../core/run-driver.ts';
import { admittedAtMs, attemptHead, chainOf, type Shape } from '../../core/samples.ts';
import { admitRun, openSample, planRun, type Sample, tellEvents } from './sample-database.ts';

const comb: Shape = { a: [], b: [], c: [], d: [], e: ['a'], f: ['b'], g: ['c'], h: ['e', 'f', 'g'] };
const runId = 'run-0';
const choices = fc.array(fc.record({ action: fc.nat(10_000), clockMs: fc.integer({ min: -500, max: 5_000 }) }), {
  minLength: 20,
  maxLength: 100,
  size: 'max',
});

function inOrder(attempts: Iterable<RunAttempt>): RunAttempt[] {
  return [...attempts].sort((left, right) => left.number - right.number);
}

/** Rows as plain data: steps in the order of the plan, attempts by number. */
function plain({ run, steps, attempts }: RunRows) {
  return { run, steps: [...steps.values()], attempts: inOrder(attempts.values()) };
}

function readHistory({ reads }: Sample, pageMax: number) {
  const events = [];
  for (let page = reads.events({ runId, after: 0, limit: pageMax }); page.length > 0; ) {
    events.push(...page);
    page = reads.events({ runId, after: events.length, limit: pageMax });
  }
  return events;
}

t.test('whatever happens to a run, what is read back is exactly what the fold yields', async (t) => {
  const sample = openSample(t, comb);
  const { db, reads } = sample;
  let longest = 0;
  const check = (picked: Parameters<typeof tellStory>[1], pageMax: number) => {
    const story = tellStory(planRun(sample, 0), picked);
    const attempts = inOrder(story.rows.attempts.values());
    const told = tellEvents(sample, admitRun(sample, 0, { idempotencyKey: 'key-1' }), story.events);
    deepEqual(plain(told), plain(story.rows), 'what append answers');
    deepEqual(plain(reads.wholeRun({ runId })!), plain(story.rows), 'the whole run');
    const live = attempts.filter(({ status }) => !isTerminalAttempt(status));
    deepEqual(plain(reads.run({ runId })!), { ...plain(story.rows), attempts: live }, 'the run with what still lives');
    deepEqual(readHistory(sample, pageMax), story.events, 'its history');
    for (const step of story.rows.steps.values()) {
      const context = reads.step({ runId, stepRunId: step.id })!;
      deepEqual(context.step, step);
      deepEqual(
        context.attempts,
        attempts.filter(({ stepRunId }) => stepRunId === step.id),
      );
      deepEqual(context.lastAttemptNumber, attempts.length);
    }
    deepEqual(reads.admission({ planId: 'plan-0' })?.events, story.events.slice(0, 9), 'its admission');
    longest = Math.max(longest, story.events.length);
  };
  fc.assert(
    fc.property(choices, fc.integer({ min: 1, max: 40 }), (picked, pageMax) => {
      db.exec('BEGIN');
      try {
        check(picked, pageMax);
      } finally {
        db.exec('ROLLBACK');
      }
    }),
    { numRuns: 60 },
  );
  t.ok(longest > 32, 'some history is longer than the distance between two anchors');
});

t.test('several events of one append are numbered on, stamped with one time and written together', async (t) => {
  const sample = openSample(t, chainOf(2));
  const { rows } = admitRun(sample, 0);
  const cancel = draft(
    'workflow.cancel_requested',
    { reason: 'user' },
    { actorType: 'operator', actorId: 'operator:root' },
  );
  const ends = [...rows.steps.values()].map(({ id }) =>
    draft('step.cancelled', { resultCode: 'run_cancelled', errorSummary: null }, { stepRunId: id }),
  );
  const end = draft('workflow.cancelled', { errorCode: 'workflow_cancelled', errorSummary: 'cancelled (user)' });
  const after = sample.append({ rows, events: [cancel, ...ends, end] }, admittedAtMs - 60_000);
  t.equal(after.run.version, 7);
  t.equal(after.run.updatedAtMs, rows.run.updatedAtMs, 'a wall clock that stepped back does not take the run with it');
  t.same(sample.reads.wholeRun({ runId }), after);
  t.same(
    sample.reads.events({ runId, after: 3, limit: 10 }).map(({ sequence, type }) => `${sequence} ${type}`),
    ['4 workflow.cancel_requested', '5 step.cancelled', '6 step.cancelled', '7 workflow.cancelled'],
  );
});

t.test('a decision on rows that have moved on is a broken invariant, and writes nothing', async (t) => {
  const sample = openSample(t, { a: [], b: [] });
  const { rows } = admitRun(sample, 0);
  const skip = (stepKey: string) => {
    const step = [...rows.steps.values()].find((it) => it.stepKey === stepKey)!;
    return draft('step.skipped', { resultCode: 'some_code', errorSummary: null }, { stepRunId: step.id });
  };
  const moved = sample.append({ rows, events: [skip('a')] }, admittedAtMs);
  t.throws(() => sample.append({ rows, events: [skip('b')] }, admittedAtMs), /still at version 3/);
  t.same(sample.reads.wholeRun({ runId }), moved);
  const stale = { ...moved, steps: rows.steps };
  sample.db.exec('BEGIN');
  t.throws(() => sample.append({ rows: stale, events: [skip('a')] }, admittedAtMs), /step a of run run-0 is still/);
  sample.db.exec('ROLLBACK');
  t.same(sample.reads.wholeRun({ runId }), moved);
});

t.test('what is said of a run that has moved on writes nothing, whichever columns it touches', async (t) => {
  const ended = { errorCode: 'workflow_step_failed', errorSummary: null };
  const words: Readonly<Record<string, readonly EventDraft[]>> = {
    'it goes on': [],
    'it is to be cancelled': [draft('workflow.cancel_requested', { reason: 'user' })],
    'it has ended': [draft('workflow.failed', ended)],
  };
  for (const [what, said] of Object.entries(words)) {
    const sample = openSample(t, { a: [], b: [] });
    const { rows } = admitRun(sample, 0);
    const skips = [...rows.steps.values()].map(({ id: stepRunId }) =>
      draft('step.skipped', { resultCode: 'some_code', errorSummary: null }, { stepRunId }),
    );
    const moved = sample.append({ rows, events: skips.slice(0, 1) }, admittedAtMs);
    // Only the run is written over: both steps are as they are known.
    const stale = { ...moved, run: rows.run };
    sample.db.exec('BEGIN');
    t.throws(
      () => sample.append({ rows: stale, events: [...skips.slice(1), ...said] }, admittedAtMs),
      /still at version 3/,
      what,
    );
    sample.db.exec('ROLLBACK');
    t.same(sample.reads.wholeRun({ runId }), moved);
  }
});

t.test('an append to a run that does not exist, or to a step of another run, is a broken invariant', async (t) => {
  const sample = openSample(t, { a: [] });
  const { rows } = admitRun(sample, 0);
  const cancel = draft('workflow.cancel_requested', { reason: 'user' });
  const stranger = { ...rows, run: { ...rows.run, id: 'run-9' } };
  t.throws(() => sample.append({ rows: stranger, events: [cancel] }, admittedAtMs), /run-9 exists/);
});

t.test('an append writes few pages: the run with its steps, its attempts, and the end of the history', async (t) => {
  const sample = openSample(t, chainOf(8));
  const { db, reads } = sample;
  for (let run = 1; run <= 12; run += 1) {
    admitRun(sample, run);
  }
  admitRun(sample, 0);
  db.exec('PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0');
  const walBytes = () => statSync(`${db.location()}-wal`).size;
  const pagesOf = (write: () => void) => {
    const before = walBytes();
    db.exec('BEGIN');
    write();
    db.exec('COMMIT');
    return (walBytes() - before) / (1024 + 24);
  };
  const step = [...reads.run({ runId })!.steps.values()][0]!;
  const head = attemptHead(step);
  const claim = { number: 1, stepRunVersion: 1, executorType: 'process' as const, executionDigest: 'e'.repeat(64) };
  const deadline = { startMs: 1, startUptimeMs: 1, bootId: 'boot-1', lengthMs: 1 };
  const write = (event: EventDraft) => () =>
    sample.append({ rows: reads.run({ runId })!, events: [event] }, admittedAtMs);
  // Page 1 counts the pages of the file; a new page of the history changes the page above it too.
  t.ok(pagesOf(write(draft('attempt.claimed', claim, head))) <= 6, 'the first attempt begins a table');
  t.ok(pagesOf(write(draft('attempt.started', { deadline, bootId: 'boot-1' }, head))) <= 5);
  t.ok(pagesOf(write(draft('attempt.observed', {}, head))) <= 5);
  t.ok(pagesOf(write(draft('workflow.cancel_requested', { reason: 'user' }))) <= 4, 'no index, no other run');
});
