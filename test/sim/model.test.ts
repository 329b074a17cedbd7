// The model follows a history that is right without a word, and complains of each that is not.
import t from 'tap';
import type { EventType, RunEvent } from '../../src/core/events.ts';
import { type Circumstance, RunModel } from './model.ts';
import type { WorkflowRule } from './rules.ts';

const retry = { limit: 1, backoffMs: 1_000, factor: 2, maxMs: 9_000, on: ['failed'] };
const step = { taskId: 'work', retry, timeoutMs: 10_000 };
const rule: WorkflowRule = {
  id: 'main',
  steps: new Map([
    ['a', { key: 'a', needs: [], ...step }],
    ['b', { key: 'b', needs: ['a'], ...step }],
  ]),
  timeoutMs: null,
  concurrency: null,
};
const now = { wallMs: 5_000_000, uptimeMs: 70_000, bootId: 'boot-1' };
const span = (lengthMs: number) => ({ startMs: now.wallMs, startUptimeMs: now.uptimeMs, bootId: now.bootId, lengthMs });
const calm: Circumstance = {
  now,
  trustedFromMs: 0,
  outcomesOf: () => ['success'],
  stopsOf: () => [false],
  isForbidden: false,
};

type Told = readonly [type: EventType, place: { readonly step?: string; readonly attempt?: string }, payload?: object];

const admitted: readonly Told[] = [
  ['workflow.admitted', {}, { planId: 'plan', packageName: 'sample', deadline: null, idempotencyKey: null }],
  ['step.created', { step: 'a' }, { stepKey: 'a', status: 'ready' }],
  ['step.created', { step: 'b' }, { stepKey: 'b', status: 'pending' }],
];
const started: readonly Told[] = [
  ['attempt.claimed', { step: 'a', attempt: 'at-1' }, { number: 1, executorType: 'process' }],
  ['attempt.started', { step: 'a', attempt: 'at-1' }, { deadline: span(10_000), bootId: 'boot-1' }],
];
const succeeded: Told = [
  'attempt.succeeded',
  { step: 'a', attempt: 'at-1' },
  { stepStatus: 'succeeded', stepDue: null },
];

/** What the model says of a history, and of how it is left. */
function tell(history: readonly Told[], around: Partial<Circumstance> = {}): string {
  let model: RunModel | null = null;
  const complaints: string[] = [];
  history.forEach(([type, place, payload = {}], index) => {
    const event = {
      type,
      id: `ev-${index}`,
      runId: 'run-1',
      sequence: index + 1,
      stepRunId: place.step ?? null,
      attemptId: place.attempt ?? null,
      createdAtMs: now.wallMs,
      payload,
    } as unknown as RunEvent;
    model ??= new RunModel(rule, event as ConstructorParameters<typeof RunModel>[1]);
    complaints.push(...model.observe(event, { ...calm, ...around }));
  });
  return [...complaints, ...((model as RunModel | null)?.findUnfinished() ?? [])].join('; ');
}

t.test('a history that is right is followed without a word', async (t) => {
  t.equal(tell([...admitted, ...started, succeeded, ['step.readied', { step: 'b' }, { due: null }]]), '');
  const failed: Told = [
    'attempt.failed',
    { step: 'a', attempt: 'at-1' },
    { stepStatus: 'ready', stepDue: span(1_000) },
  ];
  t.equal(tell([...admitted, ...started, failed], { outcomesOf: () => ['failure'] }), '');
});

t.test('what should have followed in the same commit is missed', async (t) => {
  t.match(tell([...admitted, ...started, succeeded]), /step b is pending and should have become ready/);
  t.match(tell(admitted.slice(0, 2)), /it has 1 of 2 steps/);
  const cancelled: Told = ['workflow.cancel_requested', {}, { reason: 'user' }];
  t.match(tell([...admitted, cancelled]), /goes on after a cancel/);
});

t.test('an end that is not true is told', async (t) => {
  t.match(tell([...admitted, ...started, succeeded], { outcomesOf: () => ['failure'] }), /true is failure/);
  t.match(tell([...admitted, ...started, succeeded], { outcomesOf: () => [] }), /its command lives/);
});

t.test('what starts too early, too often or against an intent is told', async (t) => {
  const again: Told = ['attempt.claimed', { step: 'a', attempt: 'at-2' }, { number: 2, executorType: 'process' }];
  t.match(tell([...admitted, ...started, again]), /one an epoch/);
  const early: Told = ['attempt.claimed', { step: 'b', attempt: 'at-1' }, { number: 1, executorType: 'process' }];
  t.match(tell([...admitted, early]), /step b is pending/);
  const cancelled: Told = ['workflow.cancel_requested', {}, { reason: 'user' }];
  t.match(tell([...admitted, started[0]!, cancelled, started[1]!]), /nothing starts after a cancel/);
  t.match(tell([...admitted, ...started], { isForbidden: true }), /forbidden/);
  const failed: Told = [
    'attempt.failed',
    { step: 'a', attempt: 'at-1' },
    { stepStatus: 'ready', stepDue: span(1_000) },
  ];
  const outcomesOf = () => ['failure'] as const;
  t.match(tell([...admitted, ...started, failed, again], { outcomesOf }), /the step is not due/);
  const hasty: Told = ['attempt.failed', { step: 'a', attempt: 'at-1' }, { stepStatus: 'ready', stepDue: null }];
  t.match(tell([...admitted, ...started, hasty], { outcomesOf }), /it is due after 0 ms, the rule says 1000/);
});

t.test('a timeout that has not come is told', async (t) => {
  const stop: Told = ['workflow.task_timeout_requested', { step: 'a', attempt: 'at-1' }];
  t.match(tell([...admitted, ...started, stop]), /it has run for 0 of 10000 ms/);
  const timedOut: Told = ['workflow.cancel_requested', {}, { reason: 'timeout' }];
  t.match(tell([...admitted, timedOut]), /its timeout is not over/);
});
