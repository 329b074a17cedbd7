import t from 'tap';
import { sha256 } from '../../src/core/hash.ts';
import {
  deriveAttemptId,
  deriveEventId,
  deriveMutationId,
  deriveStepRunId,
  isDigest,
  isIdentifier,
  isPackageName,
  isPortableId,
  isResourceId,
} from '../../src/core/ids.ts';

const event = { runId: 'run-1', sequence: 2, type: 'step.created' };
const mutation = { planId: 'plan-1', stepRunId: 'st_1', version: 3, status: 'running' };
const attempt = { runId: 'run-1', stepRunId: 'st_1', epoch: 3 };
const stepRun = { runId: 'run-1', stepKey: 'probe' };

t.test('derived ids are the golden ones (computed with Python)', async (t) => {
  t.equal(deriveEventId(event), 'ev_7d831d7cc05b699ac6d0009b2530f978');
  t.equal(deriveMutationId(mutation), 'mu_2ec660f520ac5a5e1a5fb8674ed185e2');
  t.equal(deriveAttemptId(attempt), 'at_c82fd67966fccb9aabc9cb253dd0854c');
  t.equal(deriveStepRunId(stepRun), 'st_7e2a45bbe63bb1519546188ea5aa2317');
});

t.test('a derived id depends on every part of its key', async (t) => {
  const eventIds = [event, { ...event, runId: 'run-2' }, { ...event, sequence: 3 }, { ...event, type: 'step.readied' }];
  t.equal(new Set(eventIds.map(deriveEventId)).size, 4);
  const mutations = [
    mutation,
    { ...mutation, planId: 'plan-2' },
    { ...mutation, stepRunId: 'st_2' },
    { ...mutation, version: 4 },
    { ...mutation, status: 'ready' },
  ];
  t.equal(new Set(mutations.map(deriveMutationId)).size, 5);
  const attempts = [
    attempt,
    { ...attempt, runId: 'run-2' },
    { ...attempt, stepRunId: 'st_2' },
    { ...attempt, epoch: 4 },
  ];
  t.equal(new Set(attempts.map(deriveAttemptId)).size, 4);
  t.equal(new Set([stepRun, { ...stepRun, runId: 'r' }, { ...stepRun, stepKey: 'k' }].map(deriveStepRunId)).size, 3);
});

t.test('every derived id is a portable id', async (t) => {
  for (const id of [
    deriveEventId(event),
    deriveMutationId(mutation),
    deriveAttemptId(attempt),
    deriveStepRunId(stepRun),
  ]) {
    t.match(id, /^[a-z]{2}_[0-9a-f]{32}$/);
    t.ok(isPortableId(id));
  }
});

const classes = [
  {
    name: 'identifier',
    accepts: isIdentifier,
    bytesMax: 128,
    good: ['a', 'A', '0', 'a.b_c:d-e'],
    bad: ['.a', '-a', ':a', '_a', 'a b', 'ä', 'a/b'],
  },
  {
    name: 'portable id',
    accepts: isPortableId,
    bytesMax: 36,
    good: ['0198c0de-0000-7000-8000-000000000000'],
    bad: ['-a', 'a/b', 'ä'],
  },
  {
    name: 'resource id',
    accepts: isResourceId,
    bytesMax: 63,
    good: ['a', 'a0', 'a-', 'a-b-c'],
    bad: ['A', '0a', '-a', 'a_b', 'a.b', 'ä', 'aB'],
  },
  {
    name: 'package name',
    accepts: isPackageName,
    bytesMax: 63,
    good: ['a', '0', 'a-b', '0-0'],
    bad: ['a-', '-a', 'A', 'a_b', 'a.b', 'ä'],
  },
];

for (const { name, accepts, bytesMax, good, bad } of classes) {
  t.test(`a ${name} has 1 to ${bytesMax} bytes of its class`, async (t) => {
    for (const value of [...good, 'a'.repeat(bytesMax)]) {
      t.ok(accepts(value), value);
    }
    for (const value of [...bad, '', ' a', 'a ', 'a\n', 'a\0', 'a'.repeat(bytesMax + 1)]) {
      t.notOk(accepts(value), JSON.stringify(value));
    }
  });
}

t.test('a digest is 64 lowercase hex digits', async (t) => {
  t.ok(isDigest(sha256('')));
  for (const value of ['', 'a'.repeat(63), 'a'.repeat(65), 'A'.repeat(64), 'g'.repeat(64), `${'a'.repeat(64)}\n`]) {
    t.notOk(isDigest(value), value);
  }
});
