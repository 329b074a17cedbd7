import t from 'tap';
import { draft, type EventType } from '../../../src/core/events.ts';
import { deriveAttemptId } from '../../../src/core/ids.ts';
import { endDraft } from '../../core/run-driver.ts';
import { admittedAtMs, edgeErrorOf } from '../../core/samples.ts';
import { type Admitted, admitRun, openSample, type Sample } from './sample-database.ts';

/** One more attempt of the run's one step, which is given back: three events. */
function tryAgain({ reads, append }: Sample, { plan }: Admitted, attempt: number): void {
  const { runId } = plan;
  const { stepRunId } = plan.steps[0]!;
  const step = reads.step({ runId, stepRunId })!;
  const epoch = step.step.version;
  const head = { stepRunId, attemptId: deriveAttemptId({ runId, stepRunId, epoch }) };
  const claim = { number: step.lastAttemptNumber + 1, stepRunVersion: epoch, executorType: 'process' as const };
  const nowMs = admittedAtMs + attempt;
  const claimed = draft('attempt.claimed', { ...claim, executionDigest: 'e'.repeat(64) }, head);
  const started = draft('attempt.started', { deadline: null, bootId: 'boot-1' }, head);
  const rows = append({ rows: step.rows, events: [claimed, started] }, nowMs);
  const taken = rows.attempts.get(head.attemptId)!;
  append({ rows, events: [endDraft(taken, 'failed', { exitCode: 1, stepStatus: 'ready' })] }, nowMs);
}

/** Two runs of one step whose histories lie between each other: 2 + 3 × 40 events each. */
function tellTwo(sample: Sample): void {
  sample.db.exec('BEGIN');
  const runs = [admitRun(sample, 1), admitRun(sample, 2)];
  for (let attempt = 1; attempt <= 40; attempt += 1) {
    for (const run of runs) {
      tryAgain(sample, run, attempt);
    }
  }
  sample.db.exec('COMMIT');
}

t.test('a history reads the same in pages of any length, from any place in it', async (t) => {
  const sample = openSample(t, { only: [] });
  tellTwo(sample);
  const { reads } = sample;
  const whole = reads.events({ runId: 'run-1', after: 0, limit: 1_000 });
  t.same(
    whole.map(({ sequence }) => sequence),
    Array.from({ length: 122 }, (_, index) => index + 1),
  );
  for (const limit of [1, 2, 31, 32, 33, 64, 121, 122, 123]) {
    for (const after of [0, 1, 30, 31, 32, 33, 63, 64, 65, 120, 121, 122, 200]) {
      const page = reads.events({ runId: 'run-1', after, limit });
      t.same(page, whole.slice(after, after + limit), `${limit} after ${after}`);
    }
  }
});

t.test('events of some types are counted over a whole history', async (t) => {
  const sample = openSample(t, { only: [] });
  tellTwo(sample);
  const count = (...types: EventType[]) => sample.reads.eventCount({ runId: 'run-2', types });
  t.equal(count('attempt.claimed'), 40);
  t.equal(count('attempt.claimed', 'attempt.failed', 'workflow.admitted'), 81);
  t.equal(count('workflow.late_receipt_found'), 0);
  t.equal(sample.reads.eventCount({ runId: 'run-9', types: ['attempt.claimed'] }), 0);
});

t.test('a run that does not exist has no history', async (t) => {
  const sample = openSample(t, { only: [] });
  t.same(sample.reads.events({ runId: 'run-9', after: 0, limit: 10 }), []);
});

t.test('an event that is missing, or linked to another, is damage of exactly that run', async (t) => {
  const sample = openSample(t, { only: [] });
  tellTwo(sample);
  const { db, reads } = sample;
  const damages = [
    'DELETE FROM RunEvents WHERE runKey = 1 AND sequence = 50',
    'DELETE FROM RunEvents WHERE runKey = 1 AND sequence = 122',
    'DELETE FROM RunEvents WHERE runKey = 1 AND sequence = 64',
    'UPDATE RunEvents SET previousKey = previousKey - 1 WHERE runKey = 1 AND sequence = 70',
    'UPDATE RunEvents SET previousKey = eventKey WHERE runKey = 1 AND sequence = 70',
    'UPDATE RunEvents SET runKey = 2 WHERE runKey = 1 AND sequence = 50',
    'UPDATE RunEvents SET sequence = 51 WHERE runKey = 1 AND sequence = 50',
    'UPDATE RunRecords SET lastEventKey = lastEventKey - 6 WHERE recordKey = 256',
    'UPDATE RunRecords SET lastEventKey = lastEventKey + 3 WHERE recordKey = 256',
  ];
  db.exec('DROP TRIGGER RunEventsNeverChange; INSERT INTO RetentionGate VALUES (1)');
  const sound = reads.events({ runId: 'run-2', after: 0, limit: 1_000 });
  for (const damage of damages) {
    db.exec('BEGIN');
    db.exec(damage);
    const error = edgeErrorOf(() => reads.events({ runId: 'run-1', after: 0, limit: 1_000 }));
    t.match(error, { code: 'damaged', message: /^run run-1: RunEvents lacks event \d+ of 122$/ }, damage);
    t.same(reads.events({ runId: 'run-2', after: 0, limit: 1_000 }), sound);
    db.exec('ROLLBACK');
  }
});
