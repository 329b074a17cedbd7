// Contract: what is going on over all runs. Run against every store.
import { operation } from '../../src/protocol/protocol.ts';
import { read } from '../../src/protocol/reads.ts';
import { setAsideRun } from '../../src/protocol/set-aside.ts';
import {
  attemptAdmission,
  beginStep,
  type ContractCase,
  endAttempt,
  exitZero,
  installRevision,
  sampleRevision,
  startRun,
  stepOf,
  type World,
} from './world.ts';

async function activityOf({ store }: World) {
  const counts = await store.read(read('runCounts', {}));
  const busy = await store.read(read('busyOfWorkflow', { packageName: 'sample', workflowId: 'main' }));
  return { ...counts, busy, active: await store.read(read('activeSteps', { limit: 64 })) };
}

export const activityContract: readonly ContractCase[] = [
  {
    name: 'a step is active from the admission of its attempt to its end, in the order of the attempts',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      t.same(await activityOf(world), { runningCount: 0, setAsideCount: 0, busy: 0, active: [] });
      await installRevision(world, sampleRevision({ steps: { one: [], two: [] } }));
      const [first, second] = [await startRun(world), await startRun(world)];
      t.same((await activityOf(world)).active, [], 'ready is not active');
      const later = await stepOf(world, second, 'two');
      await world.store.submit(attemptAdmission({ runId: second, stepRunId: later.id }));
      const attempt = await beginStep(world, first, 'one');
      const { runId, stepRunId } = attempt;
      const claimed = { runId: second, stepRunId: later.id };
      const running = { runId, stepRunId };
      t.same(await activityOf(world), { runningCount: 2, setAsideCount: 0, busy: 2, active: [claimed, running] });
      t.same(await world.store.read(read('activeSteps', { limit: 1 })), [claimed], 'as many as are asked for');
      await endAttempt(world, attempt, exitZero);
      t.match(await activityOf(world), { busy: 1, active: [claimed] });
      const other = { packageName: 'sample', workflowId: 'other' };
      t.equal(await world.store.read(read('busyOfWorkflow', other)), 0, 'of that workflow alone');
    },
  },

  {
    name: 'a run that was set aside is counted as that, and what it shows is not believed',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world);
      const runId = await startRun(world);
      await beginStep(world, runId, 'one');
      await world.store.submit(operation(setAsideRun, { runId, code: 'damaged', summary: 'differs' }));
      t.same(await activityOf(world), { runningCount: 0, setAsideCount: 1, busy: 0, active: [] });
    },
  },
];
