// Contract: every order of what may happen to one attempt. Operations meet in an inbox in any order; whichever comes
// first, a run has one end, and nothing that comes later changes it. What is expected is a model, written from the
// design.
import type { Test } from 'tap';
import type { AttemptFacts } from '../../src/core/completion.ts';
import { isTerminalAttempt } from '../../src/core/states.ts';
import { advance } from '../../src/protocol/advance.ts';
import { type AttemptPlace, admitAttempt, complete, requestStop, startAttempt } from '../../src/protocol/attempt.ts';
import { cancel } from '../../src/protocol/cancel.ts';
import { type Operation, operation } from '../../src/protocol/protocol.ts';
import { assertBothFolds } from './news.ts';
import {
  type ContractCase,
  exitZero,
  installRevision,
  rowsOf,
  sampleRevision,
  startRun,
  stepOf,
  type World,
} from './world.ts';

type Step = 'start' | 'complete' | 'cancel' | 'timeout' | 'shutdown' | 'advance';

/** What the model knows: the attempt's status, and which intents came before its end. */
type Model = {
  attempt: 'claimed' | 'starting' | 'succeeded' | 'failed' | 'cancelled' | 'timed_out' | 'lost';
  intent: 'cancel' | 'timeout' | 'shutdown' | null;
  isCancelled: boolean;
  /** The run has ended with it: its only other step needs this one. */
  isOver: boolean;
};

const factsOf: Readonly<Record<string, AttemptFacts>> = {
  'exit 0': { ...exitZero, isStopped: true },
  'exit 2': { ...exitZero, isStopped: true, exitCode: 2 },
  'exit 0 before any stop': exitZero,
  'exit 2 before any stop': { ...exitZero, exitCode: 2 },
  lost: { kind: 'lost', errorSummary: null },
  'taken back': { kind: 'withdrawn' },
};

function next(model: Model, step: Step, facts: string): Model {
  const isOpen = model.attempt === 'claimed' || model.attempt === 'starting';
  switch (step) {
    case 'start':
      return model.attempt === 'claimed' && !model.isCancelled ? { ...model, attempt: 'starting' } : model;
    case 'timeout':
    case 'shutdown':
      return model.attempt === 'starting' && !model.isCancelled && model.intent === null
        ? { ...model, intent: step }
        : model;
    case 'cancel':
      if (model.isOver || model.isCancelled) {
        return model;
      }
      return model.attempt === 'claimed'
        ? { attempt: 'cancelled', intent: 'cancel', isCancelled: true, isOver: true }
        : { ...model, intent: model.intent ?? 'cancel', isCancelled: true, isOver: !isOpen };
    case 'complete': {
      const attempt = endOf(model, facts);
      // What certainly never started goes back to being ready; with success the other step does.
      const isUnstarted = model.attempt === 'claimed' || facts === 'taken back';
      const goesOn = (attempt === 'lost' && isUnstarted) || attempt === 'succeeded';
      return isOpen ? { ...model, attempt, isOver: !goesOn } : model;
    }
    case 'advance':
      return model;
  }
}

function endOf({ attempt, intent, isCancelled }: Model, facts: string): Model['attempt'] {
  if (intent === 'timeout') {
    return 'timed_out';
  }
  if (isCancelled) {
    return 'cancelled';
  }
  const isStopped = intent === 'shutdown' && !facts.endsWith('before any stop');
  if (attempt === 'claimed' || facts === 'taken back' || facts === 'lost' || isStopped) {
    return 'lost';
  }
  return facts.startsWith('exit 0') ? 'succeeded' : 'failed';
}

function permute<T>(items: readonly T[]): readonly (readonly T[])[] {
  return items.length <= 1
    ? [items]
    : items.flatMap((item, index) => {
        return permute(items.filter((_other, place) => place !== index)).map((rest) => [item, ...rest]);
      });
}

const orders = [
  ...permute<Step>(['start', 'complete', 'cancel', 'timeout', 'advance']),
  ...permute<Step>(['start', 'complete', 'cancel', 'shutdown']),
  ...permute<Step>(['start', 'complete', 'timeout', 'shutdown']),
];

function operationOf(step: Step, place: AttemptPlace, facts: AttemptFacts): Operation {
  const { runId } = place;
  switch (step) {
    case 'start':
      return operation(startAttempt, place);
    case 'complete':
      return operation(complete, { ...place, facts });
    case 'cancel':
      return operation(cancel, { runId, reason: 'user', requestedBy: 'tester' });
    case 'timeout':
    case 'shutdown':
      return operation(requestStop, { ...place, reason: step });
    case 'advance':
      return operation(advance, { runId });
  }
}

/** Claims an attempt, carries the steps out in one turn in their order, and answers what came of it. */
async function tell(t: Test, world: World, order: readonly Step[], facts: string): Promise<void> {
  const { store } = world;
  const runId = await startRun(world);
  const { id: stepRunId } = await stepOf(world, runId, 'one');
  const claim = operation(admitAttempt, { runId, stepRunId, handlerNames: [], busyOfWorkflow: 0 });
  const claimed = await store.submit(claim);
  const attemptId = claimed.kind === 'claimed' ? claimed.attemptId : '';
  const operations = order.map((step) => operationOf(step, { runId, stepRunId, attemptId }, factsOf[facts]!));
  await Promise.all(operations.map((each) => store.submit(each)));
  const start: Model = { attempt: 'claimed', intent: null, isCancelled: false, isOver: false };
  const expected = order.reduce((model, step) => next(model, step, facts), start);
  const name = `${facts}: ${order.join(', ')}`;
  const { run, attempts } = await rowsOf(world, runId);
  t.equal(attempts.get(attemptId)?.status, expected.attempt, name);
  t.equal(run.cancelRequestedAtMs !== null, expected.isCancelled, name);
  // To its end, whatever is missing; then everything once more.
  const rest = (['start', 'complete', 'cancel'] as const).map(
    (step) => operations[order.indexOf(step)] ?? cancelOf(runId),
  );
  await Promise.all([...rest, operations[order.indexOf('complete')]!].map((each) => store.submit(each)));
  const ended = await rowsOf(world, runId);
  t.not(ended.run.status, 'running', name);
  t.ok(
    [...ended.attempts.values()].every(({ status }) => isTerminalAttempt(status)),
    name,
  );
  await Promise.all([...operations, cancelOf(runId), claim].map((each) => store.submit(each as Operation)));
  t.same(await rowsOf(world, runId), ended, `${name}: an end is final`);
  await assertBothFolds(t, world, runId);
}

const runsAtOnce = 24;

const cancelOf = (runId: string) => operation(cancel, { runId, reason: 'user', requestedBy: 'tester' });

/** `step` 1 takes all orders; 5 takes every fifth, others with each of the facts. */
export const createOrdersContract = (step: number): readonly ContractCase[] =>
  Object.keys(factsOf).map((facts, first) => ({
    name: `${facts}: whatever order start, end, cancel, timeout, shutdown and advance come in, there is one end`,
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision({ steps: { one: [], two: ['one'] } }));
      // Several runs at a time share their commits; each has its own turn of the inbox for its own order.
      const chosen = orders.filter((_order, index) => index % step === first % step);
      for (let index = 0; index < chosen.length; index += runsAtOnce) {
        await Promise.all(chosen.slice(index, index + runsAtOnce).map((order) => tell(t, world, order, facts)));
      }
    },
  }));
