// Contract: retrying a run that has ended. Run against every store.
import { operation } from '../../src/protocol/protocol.ts';
import { read } from '../../src/protocol/reads.ts';
import { type RetryOutcome, retry } from '../../src/protocol/retry.ts';
import {
  type ContractCase,
  cancelRun,
  exitZero,
  finishStep,
  installRevision,
  moveLifecycle,
  packageName,
  projectId,
  quarantinePackage,
  rowsOf,
  sampleRevision,
  startRun,
  statusesOf,
  type World,
} from './world.ts';

function retryRun({ store }: World, runId: string, idempotencyKey: string | null = null): Promise<RetryOutcome> {
  return store.submit(operation(retry, { projectId, runId, idempotencyKey, requestedBy: 'tester' }));
}

/** A run that has failed at its first step. */
async function failRun(world: World): Promise<string> {
  const runId = await startRun(world);
  await finishStep(world, runId, 'one', { ...exitZero, exitCode: 3 });
  return runId;
}

async function retriedRun(world: World, runId: string, idempotencyKey: string | null = null) {
  const outcome = await retryRun(world, runId, idempotencyKey);
  if (outcome.kind !== 'created') {
    throw new TypeError(`not created: ${JSON.stringify(outcome)}`);
  }
  return outcome;
}

function retriesOf({ store }: World, runId: string): Promise<readonly string[]> {
  return store.read(read('retriesOfRun', { runId, limit: 64 }));
}

async function runCount({ store }: World): Promise<number> {
  return (await store.read(read('runs', { limit: 64, beforeRunId: null, status: null, packageName: null }))).length;
}

export const retryContract: readonly ContractCase[] = [
  {
    name: 'a retry is a new run that names the old one, and changes nothing of it',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world);
      const runId = await failRun(world);
      const before = await rowsOf(world, runId);
      const { receipt, generation, retriedGeneration } = await retriedRun(world, runId);
      t.not(receipt.runId, runId);
      t.same([generation, retriedGeneration], [before.run.generation, before.run.generation]);
      t.match(await rowsOf(world, receipt.runId), {
        run: { status: 'running', retryOfRunId: runId, requestedBy: 'tester', workflowId: 'main', packageName },
      });
      t.same(await statusesOf(world, receipt.runId), { run: 'running', one: 'ready', two: 'pending' });
      t.same(await rowsOf(world, runId), before, 'every row of the old run is as it was');
      t.same(await retriesOf(world, runId), [receipt.runId], 'the old one tells by which run it was retried');
      t.same(await retriesOf(world, receipt.runId), []);
    },
  },

  {
    name: 'every end may be retried, more than once, and a retry may be retried',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world);
      const succeeded = await startRun(world);
      await finishStep(world, succeeded, 'one');
      await finishStep(world, succeeded, 'two');
      const cancelled = await startRun(world);
      await cancelRun(world, cancelled);
      t.same((await statusesOf(world, cancelled))['run'], 'cancelled');

      const first = (await retriedRun(world, succeeded)).receipt.runId;
      const second = (await retriedRun(world, succeeded)).receipt.runId;
      t.same(await retriesOf(world, succeeded), [first, second], 'oldest first');
      t.equal((await retryRun(world, cancelled)).kind, 'created');
      await cancelRun(world, first);
      const third = (await retriedRun(world, first)).receipt.runId;
      t.same((await rowsOf(world, third)).run.retryOfRunId, first);
    },
  },

  {
    name: 'a run that has not ended is not retried, and neither is one that nobody knows',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world);
      const runId = await startRun(world);
      t.match(await retryRun(world, runId), { kind: 'not-allowed', code: 'run_not_ended', reason: new RegExp(runId) });
      t.match(await retryRun(world, 'run-unknown'), { kind: 'not-found', reason: /run-unknown/ });
      t.equal(await runCount(world), 1);
    },
  },

  {
    name: 'the same key gives the same retry again, whatever has happened since',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world);
      const runId = await failRun(world);
      const { receipt } = await retriedRun(world, runId, 'again');
      const existing = { kind: 'existing', receipt };
      t.same(await retryRun(world, runId, 'again'), existing);
      await cancelRun(world, receipt.runId);
      await moveLifecycle(world, 'disabled');
      t.same(await retryRun(world, runId, 'again'), existing, 'after its end, and after the package was disabled');
      await quarantinePackage(world);
      await moveLifecycle(world, 'uninstalled');
      t.same(await retryRun(world, runId, 'again'), existing, 'after it was quarantined and uninstalled');
      t.equal(await runCount(world), 2);
    },
  },

  {
    name: 'a key that led to anything but a retry of this run is a conflict',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world);
      const runId = await failRun(world);
      const started = await startRun(world, 'started');
      const other = await failRun(world);
      const { receipt } = await retriedRun(world, other, 'other');
      t.match(await retryRun(world, runId, 'started'), { kind: 'conflict', reason: new RegExp(started) });
      t.match(await retryRun(world, runId, 'other'), { kind: 'conflict', reason: new RegExp(receipt.runId) });
      t.same(await retriesOf(world, runId), []);
    },
  },

  {
    name: 'a retry runs what is installed now, and says which generation that is',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world);
      const runId = await failRun(world);
      const retriedGeneration = (await rowsOf(world, runId)).run.generation;
      await installRevision(world, sampleRevision({ steps: { one: [], three: ['one'] }, lock: 'b' }));
      const outcome = await retriedRun(world, runId);
      t.same(outcome.retriedGeneration, retriedGeneration);
      t.same(outcome.generation, retriedGeneration + 1);
      t.same((await rowsOf(world, outcome.receipt.runId)).run.generation, retriedGeneration + 1);
      t.same(await statusesOf(world, outcome.receipt.runId), { run: 'running', one: 'ready', three: 'pending' });
    },
  },

  {
    name: 'what may not start is not retried, and the refusal names what stands in the way',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world);
      const runId = await failRun(world);
      const named = new RegExp(`package ${packageName}`);
      const gone = sampleRevision({ workflow: { id: 'other' }, lock: 'b' });
      await installRevision(world, gone);
      t.match(await retryRun(world, runId), { kind: 'not-allowed', code: 'workflow_gone', reason: /main.*other/ });
      await installRevision(world, sampleRevision({ workflow: { enabled: false }, lock: 'c' }));
      t.match(await retryRun(world, runId), { kind: 'not-allowed', code: 'not_startable', reason: /main is disabled/ });
      await installRevision(world, sampleRevision({ lock: 'd' }));
      await moveLifecycle(world, 'disabled');
      t.match(await retryRun(world, runId), { kind: 'not-allowed', code: 'package_disabled', reason: named });
      await moveLifecycle(world, 'active');
      await quarantinePackage(world);
      t.match(await retryRun(world, runId), { kind: 'not-allowed', code: 'quarantined', reason: named });
      await moveLifecycle(world, 'uninstalled');
      const refused = await retryRun(world, runId);
      t.match(refused, { kind: 'not-allowed', reason: named });
      t.same(await retriesOf(world, runId), [], 'no run was made');
    },
  },
];
