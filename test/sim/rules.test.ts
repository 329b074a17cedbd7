// The model's own rules, each against the words of the design.
import t from 'tap';
import { type EndFacts, expectEnd, expectRunEnd, spreadNeeds, unstartedDelayMs, type WorkflowRule } from './rules.ts';

const policy = { limit: 2, backoffMs: 1_000, factor: 3, maxMs: 5_000, on: ['failed'] };
const facts: EndFacts = {
  outcome: 'success',
  stopReason: null,
  isStopped: false,
  cancelReason: null,
  used: 1,
  policy,
};

function endOf(changes: Partial<EndFacts>): string {
  const { attempt, step, delayMs } = expectEnd({ ...facts, ...changes });
  return `${attempt}/${step}${delayMs === null ? '' : ` after ${delayMs}`}`;
}

function workflow(needs: Readonly<Record<string, readonly string[]>>): WorkflowRule {
  const steps = new Map(
    Object.entries(needs).map(([key, ofKey]) => [
      key,
      { key, taskId: 'work', needs: ofKey, retry: policy, timeoutMs: 1 },
    ]),
  );
  return { id: 'main', steps, timeoutMs: null, concurrency: null };
}

t.test('the command has the word where nobody else has', async (t) => {
  t.equal(endOf({}), 'succeeded/succeeded');
  t.equal(endOf({ outcome: 'failure' }), 'failed/ready after 1000');
  t.equal(endOf({ outcome: 'failure', policy: { ...policy, on: ['lost'] } }), 'failed/failed');
  t.equal(endOf({ outcome: 'lost' }), 'lost/lost');
});

t.test('a limit of 2 means three commands, and the back-off grows up to its maximum', async (t) => {
  t.equal(endOf({ outcome: 'failure', used: 2 }), 'failed/ready after 3000');
  t.equal(endOf({ outcome: 'failure', used: 3 }), 'failed/failed');
  t.equal(endOf({ outcome: 'failure', used: 3, policy: { ...policy, limit: 5 } }), 'failed/ready after 5000');
  t.equal(endOf({ outcome: 'failure', policy: { ...policy, backoffMs: 0 } }), 'failed/ready');
});

t.test('a durable intent decides over the exit code', async (t) => {
  t.equal(endOf({ cancelReason: 'user' }), 'cancelled/cancelled');
  t.equal(endOf({ cancelReason: 'timeout' }), 'timed_out/timed_out');
  t.equal(endOf({ stopReason: 'timeout' }), 'timed_out/timed_out');
  t.equal(endOf({ stopReason: 'timeout', policy: { ...policy, on: ['timed_out'] } }), 'timed_out/ready after 1000');
  t.equal(endOf({ stopReason: 'timeout', cancelReason: 'user' }), 'timed_out/timed_out', 'the first one wins');
  t.equal(endOf({ stopReason: 'shutdown', isStopped: true }), 'lost/lost');
  t.equal(endOf({ stopReason: 'shutdown', isStopped: false }), 'succeeded/succeeded', 'nobody had stopped it');
});

t.test('what never started uses up no try', async (t) => {
  t.equal(endOf({ outcome: 'unstarted', used: 9 }), 'lost/ready');
  t.equal(endOf({ outcome: 'unstarted', cancelReason: 'policy' }), 'cancelled/cancelled');
  t.same([0, 1, 5, 6, 60].map(unstartedDelayMs), [1_000, 2_000, 32_000, 60_000, 60_000]);
});

t.test('a run ends as its intent says, else as the worst of its steps', async (t) => {
  t.equal(expectRunEnd(['succeeded', 'timed_out', 'skipped'], null), 'failed');
  t.equal(expectRunEnd(['succeeded', 'timed_out', 'cancelled'], null), 'timed_out');
  t.equal(expectRunEnd(['succeeded', 'cancelled'], null), 'cancelled');
  t.equal(expectRunEnd(['succeeded', 'succeeded'], null), 'succeeded');
  t.equal(expectRunEnd(['failed'], 'user'), 'cancelled');
  t.equal(expectRunEnd(['succeeded'], 'timeout'), 'timed_out');
});

t.test('a step waits for all its needs, and a skip goes as deep as it can', async (t) => {
  const rule = workflow({ a: [], b: ['a'], c: ['a', 'b'], d: ['c'] });
  const after = (statuses: Readonly<Record<string, string>>) =>
    Object.fromEntries(spreadNeeds(rule, new Map(Object.entries(statuses))));
  const pending = { b: 'pending', c: 'pending', d: 'pending' };
  t.same(after({ a: 'running', ...pending }), { a: 'running', ...pending });
  t.same(after({ a: 'succeeded', ...pending }), { a: 'succeeded', b: 'ready', c: 'pending', d: 'pending' });
  t.same(after({ a: 'timed_out', ...pending }), { a: 'timed_out', b: 'skipped', c: 'skipped', d: 'skipped' });
  const late = { a: 'succeeded', b: 'failed', c: 'pending', d: 'pending' };
  t.same(after(late), { ...late, c: 'skipped', d: 'skipped' });
});
