// Contract: admission. Run against every store.
import { limits } from '../../src/core/limits.ts';
import { normalizePlan, type Plan } from '../../src/core/plan.ts';
import { admit, start } from '../../src/protocol/admit.ts';
import { operation } from '../../src/protocol/protocol.ts';
import { read } from '../../src/protocol/reads.ts';
import {
  admitPlan,
  advanceRun,
  type ContractCase,
  finishStep,
  installRevision,
  makePlan,
  moveLifecycle,
  packageName,
  projectId,
  quarantinePackage,
  reseal,
  rowsOf,
  sampleRevision,
  startMain,
  statusesOf,
  type World,
} from './world.ts';

export const admissionContract: readonly ContractCase[] = [
  {
    name: 'a plan is admitted once and answers with the same receipt ever after',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world);
      const plan = await makePlan(world);
      const created = await admitPlan(world, plan);
      t.equal(created.kind, 'created');
      const receipt = created.kind === 'created' ? created.receipt : null;

      const existing = { kind: 'existing', receipt };
      t.same(await admitPlan(world, plan), existing, 'again');
      await finishStep(world, plan.runId, 'one');
      t.same(await admitPlan(world, plan), existing, 'after progress');
      await finishStep(world, plan.runId, 'two');
      t.same(await statusesOf(world, plan.runId), { run: 'succeeded', one: 'succeeded', two: 'succeeded' });
      t.same(await admitPlan(world, plan), existing, 'after the end');
      await moveLifecycle(world, 'disabled');
      t.same(await admitPlan(world, plan), existing, 'after withdrawal');
      await quarantinePackage(world);
      t.same(await admitPlan(world, plan), existing, 'after quarantine');
      await moveLifecycle(world, 'uninstalled');
      t.same(await admitPlan(world, plan), existing, 'after uninstall');
      const runs = await world.store.read(
        read('runs', { limit: 64, beforeRunId: null, status: null, packageName: null }),
      );
      t.equal(runs.length, 1, 'always one run');
    },
  },

  {
    name: 'an admission inserts n + 1 events and n steps, and the run starts at version n + 1',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision({ steps: { a: [], b: ['a'], c: [] } }));
      const plan = await makePlan(world);
      await admitPlan(world, plan);
      const rows = await rowsOf(world, plan.runId);
      t.match(rows.run, { version: 4, eventSequence: 4, status: 'running' });
      t.same(await statusesOf(world, plan.runId), { run: 'running', a: 'ready', b: 'pending', c: 'ready' });
      const events = await world.store.read(read('events', { runId: plan.runId, after: 0, limit: 64 }));
      t.same(
        events.map(({ type }) => type),
        ['workflow.admitted', 'step.created', 'step.created', 'step.created'],
      );
      t.equal(rows.attempts.size, 0, 'no attempt is made');
    },
  },

  {
    name: 'a different plan under a known plan id is a conflict',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world);
      const plan = await makePlan(world);
      await admitPlan(world, plan);
      const other = reseal(plan, { plannedAtMs: plan.plannedAtMs + 1 });
      t.match(await admitPlan(world, other), { kind: 'conflict' });
    },
  },

  {
    name: 'a run id that another plan has is a conflict, and nothing is written',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world);
      const plan = await makePlan(world);
      await admitPlan(world, plan);
      const other = normalizePlan(reseal(plan, { planId: 'plan-2' }));
      t.match(await admitPlan(world, other), { kind: 'conflict' });
      t.equal(await world.store.read(read('admission', { planId: 'plan-2' })), null);
      t.equal(await world.store.read(read('keyOfPlan', { planId: 'plan-2' })), null);
    },
  },

  {
    name: 'an identity that is taken at the last moment rolls everything back',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world);
      const plan = await makePlan(world);
      await admitPlan(world, plan);
      const before = await world.store.read(read('events', { runId: plan.runId, after: 0, limit: 64 }));
      // The same decision again, made blind to what is there: only the database's identities stop it.
      for (const blind of [{ isRunKnown: false }, { admission: null, key: null, isRunKnown: false }]) {
        const other = normalizePlan(reseal(plan, { planId: 'admission' in blind ? plan.planId : 'plan-3' }));
        const sound = operation(admit, { plan: other, requestedBy: 'tester' });
        const outcome = await world.store.submit({
          ...sound,
          decide: (rows, circumstances) => sound.decide({ ...rows, ...blind }, circumstances),
        });
        t.match(outcome, { kind: 'conflict' });
      }
      t.same(await world.store.read(read('events', { runId: plan.runId, after: 0, limit: 64 })), before);
      t.equal(await world.store.read(read('admission', { planId: 'plan-3' })), null);
    },
  },

  {
    name: 'each guard refuses a new plan, naming itself',
    run: async (t, openWorld) => {
      const guards: readonly [string, (world: World) => Promise<unknown>][] = [
        ['package_disabled', (world) => moveLifecycle(world, 'disabled')],
        ['package_uninstalled', (world) => moveLifecycle(world, 'uninstalled')],
        ['quarantined', quarantinePackage],
        ['installation_moved', (world) => installRevision(world, sampleRevision({ lock: 'b' }))],
        [
          'publication_moved',
          async (world) => {
            await moveLifecycle(world, 'disabled');
            await moveLifecycle(world, 'active');
          },
        ],
        [
          'plan_expired',
          async (world) => {
            world.clock.advance(limits.admissionKeyMsMax + 1);
          },
        ],
      ];
      for (const [code, act] of guards) {
        const world = await openWorld(t);
        await installRevision(world);
        const plan = await makePlan(world);
        await act(world);
        t.match(await admitPlan(world, plan), { kind: 'not-allowed', code }, code);
        t.equal(await world.store.read(read('wholeRun', { runId: plan.runId })), null, `${code}: no row was written`);
      }
    },
  },

  {
    name: 'each drift from the revision is a conflict',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world, sampleRevision({ steps: { one: [], two: ['one'], three: [] } }));
      const plan = await makePlan(world);
      const [first, second, third] = plan.steps as [Plan['steps'][0], Plan['steps'][0], Plan['steps'][0]];
      const drifts: Record<string, Plan> = {
        'another definition': reseal(plan, { workflowDefinitionDigest: 'c'.repeat(64) }),
        'a step less': reseal(plan, { steps: [first, second] }),
        'other needs': reseal(plan, { steps: [first, { ...second, needs: ['one'], initialStatus: 'pending' }, third] }),
        'another source': reseal(plan, { steps: [{ ...first, taskSourceDigest: 'd'.repeat(64) }, second, third] }),
        'an unknown workflow': reseal(plan, { workflowId: 'other' }),
        'another task': reseal(plan, {
          steps: [{ ...first, taskId: 'rest', taskRef: first.taskRef.replace(/work$/, 'rest') }, second, third],
        }),
      };
      for (const [what, drifted] of Object.entries(drifts)) {
        t.match(await admitPlan(world, normalizePlan(drifted)), { kind: 'conflict' }, what);
      }
      t.equal(await world.store.read(read('wholeRun', { runId: plan.runId })), null);
      t.match(await admitPlan(world, plan), { kind: 'created' }, 'the sound plan is still admitted');
    },
  },

  {
    name: 'an idempotency key starts one run, whatever the generation is by then',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      await installRevision(world);
      const created = await startMain(world, 'nightly-1');
      t.equal(created.kind, 'created');
      await installRevision(world, sampleRevision({ lock: 'b' }));
      const again = await startMain(world, 'nightly-1');
      t.same(again, { ...created, kind: 'existing' });
      const input = { projectId, packageName, workflowId: 'other', idempotencyKey: 'nightly-1', requestedBy: 'tester' };
      t.match(await world.store.submit(operation(start, input)), { kind: 'conflict' }, 'another workflow');
      const runs = await world.store.read(
        read('runs', { limit: 64, beforeRunId: null, status: null, packageName: null }),
      );
      t.equal(runs.length, 1);
    },
  },

  {
    name: 'what cannot be started says why',
    run: async (t, openWorld) => {
      const world = await openWorld(t);
      t.match(await startMain(world), { kind: 'not-found' }, 'no package');
      await installRevision(world, sampleRevision({ task: { enabled: false } }));
      t.match(await startMain(world), { kind: 'not-allowed', reason: /task work .* disabled/ }, 'a disabled task');
      await installRevision(world, sampleRevision({ workflow: { enabled: false }, lock: 'b' }));
      t.match(
        await startMain(world),
        { kind: 'not-allowed', reason: /workflow main is disabled/ },
        'a disabled workflow',
      );
      t.match(await advanceRun(world, 'no-such-run'), { kind: 'not-found' });
    },
  },
];
