import fc from 'fast-check';
import t from 'tap';
import { draft, type EventDraft } from '../../../src/core/events.ts';
import { decideFrontier } from '../../../src/core/frontier.ts';
import type { RunCursor } from '../../../src/protocol/reads.ts';
import { createReads } from '../../../src/store/sqlite/reads.ts';
import { endDraft, tellStory } from '../../core/run-driver.ts';
import { admittedAtMs, attemptHead, edgeErrorOf, type Shape } from '../../core/samples.ts';
import { admitRun, openSample, planRun, type Sample, tellEvents } from './sample-database.ts';

const shape: Shape = { a: [], b: ['a'], c: ['a', 'b'], d: [] };

function stepOf({ reads }: Sample, runId: string, stepKey: string) {
  return [...reads.run({ runId })!.steps.values()].find((step) => step.stepKey === stepKey)!;
}

function append({ reads, append }: Sample, runId: string, ...events: EventDraft[]): void {
  append({ rows: reads.run({ runId })!, events }, admittedAtMs + 1_000);
}

function endStep(sample: Sample, runId: string, stepKey: string, type: 'failed' | 'skipped' | 'cancelled'): void {
  const payload = { resultCode: 'some_code', errorSummary: null };
  append(sample, runId, draft(`step.${type}`, payload, { stepRunId: stepOf(sample, runId, stepKey).id }));
}

function claim(sample: Sample, runId: string, stepKey: string): void {
  const step = stepOf(sample, runId, stepKey);
  const number = sample.reads.step({ runId, stepRunId: step.id })!.lastAttemptNumber + 1;
  const payload = { number, stepRunVersion: step.version, executorType: 'process' as const };
  append(sample, runId, draft('attempt.claimed', { ...payload, executionDigest: 'e'.repeat(64) }, attemptHead(step)));
}

const cancel = draft('workflow.cancel_requested', { reason: 'user' });
const setAside = (runId: string) => ({ runId, code: 'damaged', summary: 'altered', atMs: 1 });

/** All pages of a read, each with its length. */
function readAll(read: (after: RunCursor | null) => { runIds: readonly string[]; next: RunCursor | null }) {
  const pages: (readonly string[])[] = [];
  let after: RunCursor | null = null;
  do {
    const page = read(after);
    pages.push(page.runIds);
    after = page.next;
  } while (after !== null);
  return pages;
}

t.test('a run is a candidate exactly while the frontier would move it', async (t) => {
  const sample = openSample(t, shape);
  const { db, reads } = sample;
  const choice = fc.record({ action: fc.nat(10_000), clockMs: fc.nat(1_000) });
  const seen = new Set<boolean>();
  fc.assert(
    fc.property(fc.array(choice, { maxLength: 40, size: 'max' }), (picked) => {
      const story = tellStory(planRun(sample, 0), picked);
      const decision = decideFrontier(story.plan, story.rows).kind;
      const isMoving = decision === 'advanced' || decision === 'terminal';
      db.exec('BEGIN');
      try {
        tellEvents(sample, admitRun(sample, 0, { idempotencyKey: 'key-1' }), story.events);
        const { runIds } = reads.candidates({ limit: 64, after: null });
        seen.add(isMoving);
        return runIds.includes('run-0') === isMoving;
      } finally {
        db.exec('ROLLBACK');
      }
    }),
    { numRuns: 150 },
  );
  t.equal(seen.size, 2, 'both happened');
});

t.test('pages of candidates go on past what only waits, and end when there is nothing more', async (t) => {
  const sample = openSample(t, shape);
  sample.db.exec('BEGIN');
  for (let run = 1; run <= 40; run += 1) {
    admitRun(sample, run);
    // Every fourth run moves; the others wait for their first step.
    if (run % 4 === 0) {
      endStep(sample, `run-${run}`, 'a', 'failed');
    }
  }
  append(sample, 'run-8', cancel);
  sample.ledger({ write: 'set-aside', setAside: setAside('run-16') });
  sample.db.exec('COMMIT');
  const moving = ['run-4', 'run-12', 'run-20', 'run-24', 'run-28', 'run-32', 'run-36', 'run-40'];
  const pages = readAll((after) => sample.reads.candidates({ limit: 3, after }));
  t.same(pages, [moving.slice(0, 3), moving.slice(3, 6), moving.slice(6)]);
  t.same(
    readAll((after) => sample.reads.candidates({ limit: 4, after })),
    [moving.slice(0, 4), moving.slice(4), []],
  );
  t.same(
    readAll((after) => sample.reads.candidates({ limit: 64, after })),
    [moving],
  );
  for (const limit of [0, 65]) {
    t.throws(() => sample.reads.candidates({ limit, after: null }), /1 to 64/);
  }
});

t.test('running runs come oldest first, without those that ended or were set aside', async (t) => {
  const sample = openSample(t, { a: [], b: [] });
  const ids = Array.from({ length: 7 }, (_, index) => `run-${7 - index}`);
  for (let run = 7; run >= 1; run -= 1) {
    admitRun(sample, run);
  }
  t.same(readAll((after) => sample.reads.runningRuns({ limit: 3, after })).flat(), [...ids].reverse());
  const end = draft('workflow.failed', { errorCode: 'workflow_step_failed', errorSummary: null });
  endStep(sample, 'run-2', 'a', 'failed');
  endStep(sample, 'run-2', 'b', 'skipped');
  append(sample, 'run-2', end);
  append(sample, 'run-3', cancel);
  sample.ledger({ write: 'set-aside', setAside: setAside('run-4') });
  t.same(sample.reads.runningRuns({ limit: 64, after: null }).runIds, ['run-1', 'run-3', 'run-5', 'run-6', 'run-7']);
  sample.ledger({ write: 'clear-set-aside', runId: 'run-4' });
  t.equal(sample.reads.runningRuns({ limit: 64, after: null }).runIds.length, 6);
});

t.test('runs that were admitted in the same millisecond each stand on one page', async (t) => {
  const sample = openSample(t, { a: [] });
  const { db } = sample;
  for (let run = 1; run <= 9; run += 1) {
    admitRun(sample, run);
  }
  db.exec(`UPDATE RunRecords SET createdAtMs = ${admittedAtMs} WHERE number = 0`);
  const pages = readAll((after) => sample.reads.runningRuns({ limit: 2, after }));
  t.same(
    pages.flat().sort(),
    Array.from({ length: 9 }, (_, index) => `run-${index + 1}`),
  );
});

t.test('ready steps are those without an attempt in their epoch, in whole runs, oldest run first', async (t) => {
  const sample = openSample(t, { a: [], b: [], c: ['a'], d: [] });
  const { reads } = sample;
  for (let run = 1; run <= 5; run += 1) {
    admitRun(sample, run);
  }
  append(sample, 'run-2', cancel);
  sample.ledger({ write: 'set-aside', setAside: setAside('run-4') });
  const keysOf = (steps: readonly { runId: string; stepRunId: string }[]) =>
    steps.map(
      ({ runId, stepRunId }) =>
        `${runId} ${planRun(sample, Number(runId.slice(4))).steps.find((it) => it.stepRunId === stepRunId)?.stepKey}`,
    );
  const whole = ['run-1 a', 'run-1 b', 'run-1 d', 'run-3 a', 'run-3 b', 'run-3 d', 'run-5 a', 'run-5 b', 'run-5 d'];
  t.same(keysOf(reads.readySteps({ limit: 64, after: null }).steps), whole);
  t.match(reads.readySteps({ limit: 1, after: null }).steps[0], { packageName: 'net-watch', workflowId: 'watch' });
  const first = reads.readySteps({ limit: 1, after: null });
  t.same(keysOf(first.steps), whole.slice(0, 3), 'a page ends with the run in which it is full');
  const second = reads.readySteps({ limit: 4, after: first.next });
  t.same(keysOf(second.steps), whole.slice(3));
  t.same(reads.readySteps({ limit: 4, after: second.next }), { steps: [], next: null });
  claim(sample, 'run-1', 'a');
  endStep(sample, 'run-3', 'b', 'cancelled');
  t.same(
    keysOf(reads.readySteps({ limit: 64, after: null }).steps),
    whole.filter((it) => it !== 'run-1 a' && it !== 'run-3 b'),
  );
  const attempt = [...reads.run({ runId: 'run-1' })!.attempts.values()][0]!;
  const stepDue = { startMs: admittedAtMs, startUptimeMs: 1, bootId: 'boot-1', lengthMs: 1_000 };
  append(sample, 'run-1', endDraft(attempt, 'lost', { stepStatus: 'ready', stepDue }));
  t.same(keysOf(reads.readySteps({ limit: 2, after: null }).steps), whole.slice(0, 3), 'a new epoch, due or not');
});

t.test('128 ready steps of one run are one page', async (t) => {
  const wide = Object.fromEntries(Array.from({ length: 128 }, (_, index) => [`s${index}`, []]));
  const sample = openSample(t, wide);
  admitRun(sample, 1);
  admitRun(sample, 2);
  const first = sample.reads.readySteps({ limit: 1, after: null });
  t.equal(first.steps.length, 128);
  t.ok(first.steps.every(({ runId }) => runId === 'run-1'));
  t.equal(sample.reads.readySteps({ limit: 64, after: first.next }).steps.length, 128);
});

t.test('a run whose needs are no JSON is a candidate, so that its damage is found, and stops no other', async (t) => {
  const sample = openSample(t, shape);
  const { db, reads } = sample;
  admitRun(sample, 1);
  admitRun(sample, 2);
  endStep(sample, 'run-2', 'a', 'failed');
  db.exec('DROP TRIGGER QingLong3PluginPackageWorkflowAdmissionStepsNeverChange; PRAGMA ignore_check_constraints = ON');
  db.exec("UPDATE QingLong3PluginPackageWorkflowAdmissionSteps SET needs = '[' WHERE runKey = 1 AND number = 2");
  t.same(reads.candidates({ limit: 64, after: null }).runIds, ['run-1', 'run-2']);
  const error = edgeErrorOf(() => createReads(db).plan({ runId: 'run-1' }));
  t.match(error, { code: 'damaged', message: /AdmissionSteps\.needs/ });
});

t.test('a quarantine or a revocation reaches the running runs of exactly what it forbids', async (t) => {
  const sample = openSample(t, shape);
  for (let run = 1; run <= 4; run += 1) {
    admitRun(sample, run);
  }
  append(sample, 'run-2', cancel);
  sample.ledger({ write: 'set-aside', setAside: setAside('run-3') });
  const { db, ledger, reads, target } = sample;
  const condemned = (limit = 64) => reads.condemnedRuns({ limit, after: null });
  t.same(condemned(), { runIds: [], next: null });
  db.exec(
    "INSERT INTO Publishers VALUES ('key-a', zeroblob(32), 1, 2, 'leaked'), ('key-b', zeroblob(32), 1, NULL, NULL)",
  );
  db.exec("UPDATE PackageInstallations SET publisherKeyId = 'key-b', signature = zeroblob(64)");
  t.same(condemned().runIds, [], 'a key that is trusted');
  db.exec("UPDATE PackageInstallations SET publisherKeyId = 'key-a'");
  t.same(condemned().runIds, ['run-1', 'run-4'], 'neither cancelled ones nor those set aside');
  db.exec('UPDATE PackageInstallations SET publisherKeyId = NULL, signature = NULL');
  const { projectId, packageName, installationId, lockDigest } = target;
  const quarantine = { projectId, packageName, installationId, lockDigest, reason: 'bad', atMs: 1 };
  ledger({ write: 'quarantine', quarantine: { ...quarantine, installationId: 'inst-2' } });
  t.same(condemned().runIds, [], 'the same bytes in another installation');
  ledger({ write: 'quarantine', quarantine });
  t.same(condemned().runIds, ['run-1', 'run-4']);
  const first = condemned(1);
  t.same(first.runIds, ['run-1']);
  t.same(reads.condemnedRuns({ limit: 1, after: first.next }).runIds, ['run-4'], 'the cursor goes on behind it');
});

t.test('the list of runs is newest first, in pages, and by status and package', async (t) => {
  const sample = openSample(t, { a: [] });
  const { reads } = sample;
  for (let run = 1; run <= 6; run += 1) {
    admitRun(sample, run);
  }
  const end = (runId: string, type: 'succeeded' | 'failed' | 'cancelled') => {
    if (type === 'succeeded') {
      claim(sample, runId, 'a');
      const head = attemptHead(stepOf(sample, runId, 'a'));
      append(sample, runId, draft('attempt.started', { deadline: null, bootId: 'boot-1' }, head));
      const attempt = [...reads.run({ runId })!.attempts.values()][0]!;
      append(sample, runId, endDraft(attempt, 'succeeded', { exitCode: 0 }));
    } else {
      endStep(sample, runId, 'a', type);
    }
    append(sample, runId, draft(`workflow.${type}`, { errorCode: null, errorSummary: null }));
  };
  end('run-1', 'succeeded');
  end('run-2', 'failed');
  end('run-3', 'cancelled');
  end('run-4', 'succeeded');
  sample.ledger({ write: 'set-aside', setAside: setAside('run-5') });
  type Filter = Partial<Parameters<typeof reads.runs>[0]>;
  const list = (filter: Filter) => {
    const page = reads.runs({ limit: 10, beforeRunId: null, status: null, packageName: null, ...filter });
    return page.map(({ runId }) => runId);
  };
  t.same(list({}), ['run-6', 'run-5', 'run-4', 'run-3', 'run-2', 'run-1']);
  t.same(list({ limit: 2, beforeRunId: 'run-4' }), ['run-3', 'run-2']);
  t.same(list({ beforeRunId: 'run-9' }), [], 'behind a run that was pruned there is nothing older');
  t.same(list({ status: 'running' }), ['run-6', 'run-5']);
  t.same(list({ status: 'running', beforeRunId: 'run-6', limit: 1 }), ['run-5']);
  t.same(list({ status: 'succeeded' }), ['run-4', 'run-1']);
  t.same(list({ status: 'failed' }), ['run-2']);
  t.same(list({ status: 'cancelled', beforeRunId: 'run-3' }), []);
  t.same(list({ status: 'timed_out' }), []);
  t.same(list({ packageName: 'net-watch', status: 'running' }), ['run-6', 'run-5']);
  t.same(list({ packageName: 'other' }), []);
  const [entry] = reads.runs({ limit: 1, beforeRunId: 'run-6', status: null, packageName: null });
  t.same(entry, { runId: 'run-5', run: reads.run({ runId: 'run-5' })?.run, setAside: setAside('run-5') });
});
