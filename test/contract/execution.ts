// Contract: the life of runs, steps and attempts. Run against every store.
import type { Test } from 'tap';
import type { AttemptFacts } from '../../src/core/completion.ts';
import { limits } from '../../src/core/limits.ts';
import { complete, requestStop, startAttempt } from '../../src/protocol/attempt.ts';
import { operation } from '../../src/protocol/protocol.ts';
import { type ReadyStep, type RunCursor, type RunPage, read, type StepPage } from '../../src/protocol/reads.ts';
import { setAsideRun } from '../../src/protocol/set-aside.ts';
import { verifyRun } from '../../src/runtime/verification.ts';
import {
  advanceRun,
  attemptAdmission,
  beginStep,
  type ContractCase,
  cancelRun,
  endAttempt,
  exitZero,
  finishStep,
  installRevision,
  packageName,
  quarantinePackage,
  rowsOf,
  sampleRevision,
  startRun,
  statusesOf,
  stepOf,
  type World,
} from './world.ts';

const exitTwo: AttemptFacts = { ...exitZero, exitCode: 2 };
const retryTwice = {
  limit: 2,
  backoffMs: 5_000,
  factor: 2,
  maxMs: 60_000,
  on: ['failed', 'lost', 'timed_out'],
} as const;

async function assertSound(t: Test, world: World, runId: string): Promise<void> {
  t.same((await verifyRun(world.store, runId)).differences, [], 'history folds to the present');
}

/** Completes a step as if the process had died before the frontier pass that follows. */
async function completeOnly(world: World, runId: string, stepKey: string): Promise<void> {
  const attempt = await beginStep(world, runId, stepKey);
  const sound = operation(complete, { ...attempt, facts: exitZero });
  await world.store.submit({
    ...sound,
    decide: (rows, circumstances) => ({ ...sound.decide(rows, circumstances), follow: [] }),
  });
}

export const executionContract: readonly ContractCase[] = [
  {
    name: 'a failed step skips everything that needs it, and the run fails',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision({ steps: { a: [], b: ['a'], c: ['b'], d: [] } }));
      const runId = await startRun(world);
      await finishStep(world, runId, 'a', exitTwo);
      t.same(await statusesOf(world, runId), { run: 'running', a: 'failed', b: 'skipped', c: 'skipped', d: 'ready' });
      await finishStep(world, runId, 'd');
      const { run } = await rowsOf(world, runId);
      t.match(run, { status: 'failed', errorCode: 'workflow_step_failed' });
      t.match(await stepOf(world, runId, 'c'), { resultCode: 'dependency_not_succeeded' });
      t.match(await advanceRun(world, runId), { kind: 'settled', status: 'failed' });
      await assertSound(t, world, runId);
    },
  },

  {
    name: 'the start barrier is bound to its epoch and counts the attempt',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world);
      const runId = await startRun(world);
      const { id: stepRunId } = await stepOf(world, runId, 'one');
      const admission = attemptAdmission({ runId, stepRunId });
      const claimed = await world.store.submit(admission);
      t.match(claimed, { kind: 'claimed', number: 1 });
      t.same(await world.store.submit(admission), { ...claimed, kind: 'existing' }, 'one attempt an epoch');
      t.match(await stepOf(world, runId, 'one'), { status: 'ready', attemptCount: 0 });
      const attemptId = claimed.kind === 'claimed' ? claimed.attemptId : '';
      const barrier = operation(startAttempt, { runId, stepRunId, attemptId });
      t.match(await world.store.submit(barrier), { kind: 'started' });
      t.match(await stepOf(world, runId, 'one'), { status: 'running', attemptCount: 1 });
      t.match(await world.store.submit(barrier), { kind: 'refused' }, 'never twice');
      await assertSound(t, world, runId);
    },
  },

  {
    name: 'a workflow at its limit admits no attempt more, in whichever of its runs',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision({ steps: { a: [], b: [] }, workflow: { concurrency: 2 } }));
      const runId = await startRun(world);
      const page = await world.store.read(read('readySteps', { limit: 64, after: null }));
      const place = { runId, packageName, workflowId: 'main' };
      t.match(page.steps, [place, place], 'whoever counts knows what to count without reading the run');
      const [first, second] = page.steps as [ReadyStep, ReadyStep];
      const busy = { kind: 'refused', reason: 'workflow-busy' };
      t.same(await world.store.submit(attemptAdmission(first, 2)), busy);
      t.same(await world.store.submit(attemptAdmission(first, 3)), busy, 'an earlier generation may have allowed more');
      const admission = await world.store.submit(attemptAdmission(first, 1));
      t.match(admission, { kind: 'claimed' });
      t.same(await world.store.submit(attemptAdmission(first, 2)), { ...admission, kind: 'existing' });
      t.same(await world.store.submit(attemptAdmission(second, 2)), busy);
      await cancelRun(world, runId);
      t.match(
        await world.store.submit(attemptAdmission(second, 2)),
        { reason: 'ended' },
        'what is for good comes first',
      );
      await assertSound(t, world, runId);
    },
  },

  {
    name: 'retries back off, are counted, and end',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(
        world,
        sampleRevision({ steps: { one: [] }, task: { retry: { ...retryTwice, on: [...retryTwice.on] } } }),
      );
      const runId = await startRun(world);
      for (const backoffMs of [5_000, 10_000]) {
        await finishStep(world, runId, 'one', exitTwo);
        const step = await stepOf(world, runId, 'one');
        t.match(step, { status: 'ready', due: { lengthMs: backoffMs } });
        const early = attemptAdmission({ runId, stepRunId: step.id });
        t.match(await world.store.submit(early), { kind: 'not-due', waitMs: backoffMs });
        world.clock.advance(backoffMs);
      }
      await finishStep(world, runId, 'one', exitTwo);
      t.match(await stepOf(world, runId, 'one'), { status: 'failed', attemptCount: 3, resultCode: 'exit_code' });
      t.equal((await rowsOf(world, runId)).run.status, 'failed');
      await assertSound(t, world, runId);
    },
  },

  {
    name: 'an attempt that is lost fails its step, or is tried again where the task allows it',
    run: async (t, openWorld) => {
      for (const [on, expected] of [
        [['failed'], 'failed'],
        [['lost'], 'ready'],
      ] as const) {
        const world = await openWorld(t);
        await installRevision(
          world,
          sampleRevision({ steps: { one: [] }, task: { retry: { ...retryTwice, on: [...on] } } }),
        );
        const runId = await startRun(world);
        await finishStep(world, runId, 'one', { kind: 'lost', errorSummary: null });
        t.equal((await stepOf(world, runId, 'one')).status, expected);
        await assertSound(t, world, runId);
      }
    },
  },

  {
    name: 'an attempt that certainly never started uses up no retry',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision({ steps: { one: [] } }));
      const runId = await startRun(world);
      for (const delayMs of [1_000, 2_000, 4_000]) {
        await finishStep(world, runId, 'one', { kind: 'withdrawn' });
        t.match(await stepOf(world, runId, 'one'), { status: 'ready', due: { lengthMs: delayMs } });
        world.clock.advance(delayMs);
      }
      const { id: stepRunId } = await stepOf(world, runId, 'one');
      const admitted = await world.store.submit(attemptAdmission({ runId, stepRunId }));
      const place = { runId, stepRunId, attemptId: 'attemptId' in admitted ? admitted.attemptId : '' };
      const started = await world.store.submit(operation(startAttempt, place));
      t.match(
        started,
        { kind: 'started', launch: { number: 4, tryNumber: 4 } },
        'as people count the attempts of a step',
      );
      await endAttempt(world, place, exitZero);
      t.equal((await rowsOf(world, runId)).run.status, 'succeeded');
      await assertSound(t, world, runId);
    },
  },

  {
    name: 'a step gives up after 64 attempts',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision({ steps: { one: [] } }));
      const runId = await startRun(world);
      for (let count = 0; count < limits.attemptsPerStepMax; count += 1) {
        await finishStep(world, runId, 'one', { kind: 'withdrawn' });
        world.clock.advance(60_000);
      }
      const { id: stepRunId } = await stepOf(world, runId, 'one');
      const outcome = await world.store.submit(attemptAdmission({ runId, stepRunId }));
      t.match(outcome, { kind: 'exhausted' });
      t.match(await stepOf(world, runId, 'one'), { status: 'failed', resultCode: 'attempts_exhausted' });
      t.equal((await rowsOf(world, runId)).run.status, 'failed');
      await assertSound(t, world, runId);
    },
  },

  {
    name: 'a timeout that was durable first decides over exit code 0',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision({ steps: { one: [] } }));
      const runId = await startRun(world);
      const attempt = await beginStep(world, runId, 'one');
      t.match(await world.store.submit(operation(requestStop, { ...attempt, reason: 'timeout' })), {
        kind: 'requested',
      });
      t.match(await endAttempt(world, attempt, exitZero), { attemptStatus: 'timed_out' });
      const { run, attempts } = await rowsOf(world, runId);
      t.equal(run.cancelRequestedAtMs, null, 'the run has no cancel intent');
      t.match([...attempts.values()], [{ status: 'timed_out', exitCode: 0 }], 'what is known is kept');
      t.match(run, { status: 'timed_out', errorCode: 'workflow_step_timed_out' });
      await assertSound(t, world, runId);
    },
  },

  {
    name: 'a cancel freezes the run at once and ends it when nothing runs any more',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision({ steps: { a: [], b: [], c: ['a'] } }));
      const runId = await startRun(world);
      const attempt = await beginStep(world, runId, 'a');
      t.match(await cancelRun(world, runId), { kind: 'requested' });
      t.same(await statusesOf(world, runId), { run: 'running', a: 'running', b: 'cancelled', c: 'cancelled' });
      t.match(await cancelRun(world, runId), { kind: 'existing', reason: 'user' }, 'the first one wins');
      t.match(await endAttempt(world, attempt, exitZero), { attemptStatus: 'cancelled' });
      t.same(await statusesOf(world, runId), { run: 'cancelled', a: 'cancelled', b: 'cancelled', c: 'cancelled' });
      t.match(await endAttempt(world, attempt, exitTwo), { kind: 'settled' }, 'an end is final');
      t.match(await cancelRun(world, runId), { kind: 'settled', status: 'cancelled' });
      await assertSound(t, world, runId);
    },
  },

  {
    name: 'a quarantine cancels the running runs of its installation, more than a page of them',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision({ steps: { one: [] } }));
      const runIds: string[] = [];
      for (let count = 0; count < limits.pageMax + 3; count += 1) {
        runIds.push(await startRun(world));
      }
      const attempt = await beginStep(world, runIds[0]!, 'one');
      t.match(await quarantinePackage(world), { kind: 'quarantined' });
      const ended = await Promise.all(runIds.slice(1).map((runId) => rowsOf(world, runId)));
      t.ok(ended.every(({ run }) => run.status === 'cancelled' && run.cancelReason === 'policy'));
      t.match((await rowsOf(world, runIds[0]!)).run, { status: 'running', cancelReason: 'policy' });
      await endAttempt(world, attempt, exitZero);
      t.equal((await rowsOf(world, runIds[0]!)).run.status, 'cancelled');
      t.match(await quarantinePackage(world), { kind: 'existing' });
      t.match(await installRevision(world, sampleRevision({ steps: { one: [] } })), { kind: 'not-allowed' });
    },
  },

  {
    name: 'a clock that steps back never makes a history run backwards',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision({ steps: { one: [] } }));
      const runId = await startRun(world);
      world.clock.now = { ...world.clock.now, wallMs: world.clock.now.wallMs - 86_400_000 };
      await finishStep(world, runId, 'one');
      const events = await world.store.read(read('events', { runId, after: 0, limit: 64 }));
      t.ok(events.every((event, index) => index === 0 || event.createdAtMs >= events[index - 1]!.createdAtMs));
      t.equal((await rowsOf(world, runId)).run.status, 'succeeded');
    },
  },

  {
    name: 'ready steps and running runs come in pages, oldest first, without those set aside',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision({ steps: { a: [], b: [] } }));
      const runIds: string[] = [];
      for (let count = 0; count < 5; count += 1) {
        world.clock.advance(1);
        runIds.push(await startRun(world));
      }
      await world.store.submit(operation(setAsideRun, { runId: runIds[1]!, code: 'damaged', summary: 'test' }));
      const expected = runIds.filter((runId) => runId !== runIds[1]);
      const seen: string[] = [];
      const ready: string[] = [];
      for (let after: RunCursor | null = null; ; ) {
        const page: RunPage = await world.store.read(read('runningRuns', { limit: 2, after }));
        seen.push(...page.runIds);
        after = page.next;
        if (after === null) {
          break;
        }
      }
      for (let after: RunCursor | null = null; ; ) {
        const page: StepPage = await world.store.read(read('readySteps', { limit: 2, after }));
        ready.push(...page.steps.map(({ runId }) => runId));
        after = page.next;
        if (after === null) {
          break;
        }
      }
      t.same(seen, expected);
      t.same(
        ready,
        expected.flatMap((runId) => [runId, runId]),
      );
      const candidates = await world.store.read(read('candidates', { limit: 64, after: null }));
      t.same(candidates.runIds, [], 'a run that only waits is no candidate');
    },
  },
  {
    name: 'candidates come in pages of at most 64 with a cursor, and only those that the frontier would move',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision({ steps: { a: [], b: ['a'] } }));
      const movable: string[] = [];
      for (let count = 0; count < limits.pageMax + 6; count += 1) {
        world.clock.advance(1);
        const runId = await startRun(world);
        // Every tenth run only waits: its first step is still ready.
        if (count % 10 !== 0) {
          await completeOnly(world, runId, 'a');
          movable.push(runId);
        }
      }
      const seen: string[] = [];
      const sizes: number[] = [];
      let after: RunCursor | null = null;
      do {
        const page: RunPage = await world.store.read(read('candidates', { limit: 10, after }));
        seen.push(...page.runIds);
        sizes.push(page.runIds.length);
        after = page.next;
      } while (after !== null);
      t.same(seen, movable, 'oldest first, each once');
      t.ok(sizes.every((size) => size <= 10));
      const whole = await world.store.read(read('candidates', { limit: limits.pageMax, after: null }));
      t.same(whole.runIds, movable.slice(0, limits.pageMax));
      for (const runId of movable) {
        t.match(await advanceRun(world, runId), { kind: 'advanced' });
        t.match(await advanceRun(world, runId), { kind: 'unchanged' });
      }
      t.same((await world.store.read(read('candidates', { limit: 64, after: null }))).runIds, []);
    },
  },
];
