import { deepStrictEqual as deepEqual } from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { isEdgeError } from '../../../src/core/errors.ts';
import { limits } from '../../../src/core/limits.ts';
import type { RunRows } from '../../../src/core/records.ts';
import { isTerminalRun } from '../../../src/core/states.ts';
import { createAppend } from '../../../src/store/sqlite/append.ts';
import { createLedger } from '../../../src/store/sqlite/ledger.ts';
import { createReads, type SqliteReads } from '../../../src/store/sqlite/reads.ts';
import { RunMemory } from '../../../src/store/sqlite/run-memory.ts';
import { tellStory } from '../../core/run-driver.ts';
import { admittedAtMs, chainOf, type Shape } from '../../core/samples.ts';
import { admitRun, draftOf, openSample, planRun, type Sample } from './sample-database.ts';

const runId = 'run-0';
const shape: Shape = { a: [], b: ['a'], c: ['a'], d: ['b', 'c'], e: [] };
const choices = fc.array(fc.record({ action: fc.nat(10_000), clockMs: fc.integer({ min: -500, max: 5_000 }) }), {
  minLength: 10,
  maxLength: 60,
  size: 'max',
});

type Warm = Sample & {
  readonly memory: RunMemory;
  readonly cold: SqliteReads;
  readonly inside: <T>(work: () => T) => T;
};

/** A sample whose connection remembers, with reads of the same connection that do not. */
function openWarm(t: Test, of: Shape): Warm {
  const sample = openSample(t, of);
  const { db } = sample;
  const memory = new RunMemory(db);
  const inside = <T>(work: () => T): T => {
    db.exec('BEGIN');
    memory.began();
    try {
      memory.enter();
      return work();
    } finally {
      db.exec('COMMIT');
      memory.committed();
    }
  };
  const parts = {
    reads: createReads(db, memory),
    append: createAppend(db, memory),
    ledger: createLedger(db, memory),
  };
  return { ...sample, ...parts, memory, cold: sample.reads, inside };
}

/** Everything that is read of a run, step by step and page by page. */
function readAll(reads: SqliteReads, { run, steps }: RunRows, limit: number) {
  const rows = reads.run({ runId })!;
  const contexts = [...steps.keys()].map((stepRunId) => reads.step({ runId, stepRunId })!);
  const attempts = (some: RunRows['attempts']) => [...some.values()].sort((left, right) => left.number - right.number);
  return {
    plan: reads.plan({ runId }),
    rows: { run: rows.run, steps: [...rows.steps], attempts: attempts(rows.attempts) },
    contexts: contexts.map((context) => ({ ...context, number: null })),
    news: reads.events({ runId, after: Math.max(0, run.version - limit), limit }),
    page: reads.events({ runId, after: 2, limit }),
    none: reads.events({ runId, after: run.version, limit }),
    stranger: reads.step({ runId, stepRunId: 'st_none' }),
  };
}

/** Whether a read says that a run's evidence is damaged. */
function isDamaged(read: () => unknown): boolean {
  try {
    read();
    return false;
  } catch (error) {
    if (!isEdgeError(error) || error.code !== 'damaged') {
      throw error;
    }
    return true;
  }
}

t.test('whatever happens to a run, what is remembered of it is what would be read', async (t) => {
  const warm = openWarm(t, shape);
  let ended = 0;
  fc.assert(
    fc.property(choices, fc.integer({ min: 1, max: 30 }), fc.nat(6), (picked, limit, forgetEvery) => {
      const story = tellStory(planRun(warm, 0), picked);
      warm.db.exec('BEGIN');
      try {
        const { rows: admitted, events } = admitRun(warm, 0, { idempotencyKey: 'key-1' });
        let rows = admitted;
        story.events.slice(events.length).forEach((event, index) => {
          rows = warm.append({ rows, events: [draftOf(event)] }, event.createdAtMs);
          if (index % 7 === forgetEvery) {
            warm.memory.forgetAll();
          }
          deepEqual(readAll(warm.reads, rows, limit), readAll(warm.cold, rows, limit));
        });
        ended += Number(isTerminalRun(rows.run.status));
      } finally {
        warm.db.exec('ROLLBACK');
        warm.memory.forgetAll();
      }
    }),
    { numRuns: 60 },
  );
  t.ok(ended > 0, 'some run has ended');
});

for (const journal of ['DELETE', 'WAL']) {
  t.test(`what another connection has written is seen at the next look, damage included (${journal})`, async (t) => {
    const warm = openWarm(t, chainOf(2));
    warm.db.exec(`PRAGMA journal_mode = ${journal}`);
    const { rows } = warm.inside(() => admitRun(warm, 0));
    t.same(
      warm.inside(() => warm.reads.run({ runId })),
      rows,
    );
    const other = new DatabaseSync(warm.db.location()!);
    other.exec('UPDATE RunRecords SET updatedAtMs = updatedAtMs + 1 WHERE number = 2');
    other.close();
    t.ok(warm.inside(() => isDamaged(() => warm.reads.run({ runId }))));
  });
}

t.test('a package that changes is seen at once, by whichever connection it was changed', async (t) => {
  const warm = openWarm(t, chainOf(1));
  const { projectId, packageName, installationId, lockDigest } = warm.target;
  const place = { projectId, packageName };
  const facts = () => {
    const found = warm.reads.startFacts({ ...place, installationId, lockDigest });
    return [found.isQuarantined, found.head!.isQuarantined, warm.reads.package(place)!.isQuarantined];
  };
  t.same(warm.inside(facts), [false, false, false]);
  const quarantine = { ...place, installationId, lockDigest, reason: 'some reason', atMs: 1 };
  warm.inside(() => {
    warm.ledger({ write: 'quarantine', quarantine });
    t.same(facts(), [true, true, true]);
  });
  t.same(warm.inside(facts), [true, true, true]);
  const other = new DatabaseSync(warm.db.location()!);
  other.exec('DROP TRIGGER PackageQuarantinesStay; DELETE FROM PackageQuarantines');
  other.close();
  t.same(warm.inside(facts), [false, false, false]);
});

t.test('what was rolled back is forgotten, also where nobody says so', async (t) => {
  const warm = openWarm(t, chainOf(2));
  const { rows } = warm.inside(() => admitRun(warm, 0));
  const [step] = rows.steps.values();
  const cancel = { type: 'workflow.cancel_requested', payload: { reason: 'user' } } as const;
  const draft = { actorType: 'operator', actorId: 'me', stepRunId: null, attemptId: null, ...cancel } as const;
  warm.db.exec('BEGIN');
  warm.memory.began();
  warm.memory.enter();
  const moved = warm.append({ rows, events: [draft] }, admittedAtMs);
  t.same(warm.reads.run({ runId }), moved);
  // Of what an undone savepoint made it forget, it learns again what is not durable yet.
  warm.memory.forgetAll();
  t.same(warm.reads.run({ runId }), moved);
  warm.db.exec('ROLLBACK');
  warm.inside(() => {
    t.same(warm.reads.run({ runId }), rows);
    t.equal(warm.reads.events({ runId, after: 0, limit: 10 }).length, 3);
    t.equal(warm.reads.step({ runId, stepRunId: step!.id })!.rows.run.version, 3);
  });
});

t.test('an event that was handed out is nobody else’s', async (t) => {
  const warm = openWarm(t, chainOf(1));
  warm.inside(() => admitRun(warm, 0));
  const read = () => warm.inside(() => warm.reads.events({ runId, after: 0, limit: 10 }));
  const [first] = read();
  Object.assign(first!.payload, { generation: 99 });
  t.same(read(), warm.cold.events({ runId, after: 0, limit: 10 }));
});

t.test('a row that is not as it is remembered is not written over', async (t) => {
  const warm = openWarm(t, chainOf(1));
  const { rows } = warm.inside(() => admitRun(warm, 0));
  const [step] = rows.steps.values();
  // By the same connection, which no counter tells of.
  warm.db.exec('UPDATE RunRecords SET digest = zeroblob(32) WHERE number = 1');
  const head = { actorType: 'runtime', actorId: null, attemptId: null, stepRunId: step!.id } as const;
  const payload = { resultCode: 'some_code', errorSummary: null };
  const skip = { ...head, type: 'step.skipped', payload } as const;
  t.throws(() => warm.inside(() => warm.append({ rows, events: [skip] }, admittedAtMs)), /is still at version 1/);
});

t.test('the runs that were used last are remembered, within the bound', async (t) => {
  const warm = openWarm(t, chainOf(20));
  const count = Math.ceil(limits.knownRecordsMax / 20);
  for (let number = 1; number <= count; number += 1) {
    warm.inside(() => admitRun(warm, number));
  }
  warm.db.exec('UPDATE RunRecords SET updatedAtMs = updatedAtMs + 1 WHERE number = 1');
  const isRemembered = (number: number) =>
    warm.inside(() => !isDamaged(() => warm.reads.run({ runId: `run-${number}` })));
  const remembered = Array.from({ length: count }, (_, index) => isRemembered(count - index));
  const last = remembered.lastIndexOf(true) + 1;
  t.ok(last > 5 && last < count, `${last} of ${count} are remembered`);
  t.notOk(remembered.slice(0, last).includes(false), 'they are the last ones');
});
