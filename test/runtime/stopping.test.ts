// Stopping a runtime with real commands under it: recorded before it is done, within the service manager's limit, and
// what is left is what the next one finds. And stops that race with ends, starts, back-off and each other.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { createRandom, drawSeed } from '../../edge-evidence/random.ts';
import { isEdgeError } from '../../src/core/errors.ts';
import { readIdentity } from '../../src/executor/attempt-files.ts';
import { listSession } from '../../src/executor/session.ts';
import type { Engine } from '../../src/runtime/engine.ts';
import { realClock } from '../../src/runtime/ports.ts';
import { shells } from '../executor/stand.ts';
import { turn, until } from '../executor/until.ts';
import {
  assertSound,
  attemptDirectories,
  attemptsOf,
  endOf,
  eventsOf,
  rowsOf,
  type Scene,
  startRun,
  testOnCopies,
} from './scene.ts';

const noted = '#!/bin/sh\necho "$QL_RUN_ID $QL_STEP_KEY" >>"$QL_PACKAGE_DIR/../../../trace"\n';
const manifest = {
  tasks: {
    waits: { run: ['./waits.sh'], grace: '10m' },
    stubborn: { run: ['./stubborn.sh'], grace: '10m' },
    again: { run: ['./waits.sh'], grace: '10m', retry: { limit: 1, backoff: '10ms', on: ['lost'] } },
    quick: { run: ['./quick.sh'], grace: '10m', timeout: '80ms' },
    thrice: { run: ['./failing.sh'], retry: { limit: 2, backoff: '10ms', max: '10ms', on: ['failed', 'lost'] } },
    failing: { run: ['./failing.sh'], retry: { limit: 20, backoff: '10ms', max: '10ms' } },
  },
  workflows: {
    waits: { steps: { one: { task: 'waits' }, two: { task: 'quick', needs: ['one'] } } },
    stubborn: { steps: { one: { task: 'stubborn' } } },
    again: { steps: { one: { task: 'again' } } },
    race: { timeout: '150ms', steps: { a: { task: 'quick' }, b: { task: 'quick', needs: ['a'] } } },
    failing: { steps: { a: { task: 'failing' } } },
    thrice: { steps: { a: { task: 'thrice' } } },
  },
};
const scripts = {
  'waits.sh': `${noted}exec sleep 600\n`,
  'stubborn.sh': `${noted}trap "" TERM\necho ready >"$QL_PACKAGE_DIR/../../../ready"\nwhile :; do sleep 0.02; done\n`,
  'quick.sh': `${noted}sleep 0.04\n`,
  'failing.sh': `${noted}exit 1\n`,
};

function linesOf(scene: Scene): readonly string[] {
  const file = join(scene.root, 'trace');
  return existsSync(file) ? readFileSync(file, 'latin1').trim().split('\n') : [];
}

const living = (pid: number) => listSession(pid).filter(({ isZombie }) => !isZombie);

async function running(scene: Scene, engine: Engine, workflowId: string): Promise<{ runId: string; pid: number }> {
  execFileSync('mkfifo', [join(scene.root, 'ready')]);
  const runId = await startRun(engine, workflowId);
  await until(() => linesOf(scene).length > 0);
  const [attemptId = ''] = attemptDirectories(scene);
  if (workflowId === 'stubborn') {
    execFileSync('cat', [join(scene.root, 'ready')]);
  }
  return { runId, pid: readIdentity(scene.directoryOf(attemptId), attemptId)?.pid ?? 0 };
}

/** Ends a runtime. On a machine that is busy, KILL may have come too late for the end to be recorded by this one. */
async function closeInTime(engine: Engine): Promise<void> {
  await engine.close('stop').catch((error: unknown) => {
    if (!isEdgeError(error) || error.code !== 'unavailable') {
      throw error;
    }
  });
}

for (const shell of shells) {
  const profile = shell.name === '/bin/sh' ? 'edge' : 'standalone';
  testOnCopies(
    shell.name,
    { manifest, scripts, profile, shell },
    {
      async 'the stop is recorded first; the attempt is lost, its step failed, the run goes on next time'(t, scene) {
        const first = await scene.open();
        const { runId, pid } = await running(scene, first, 'waits');
        await first.close('stop');
        t.same(living(pid), []);
        t.same(attemptDirectories(scene), []);
        const types = await scene.withStore(async (store) => (await eventsOf(store, runId)).map(({ type }) => type));
        t.ok(types.indexOf('workflow.attempt_stop_requested') < types.indexOf('attempt.lost'));
        const second = await scene.open();
        const { run, steps } = await endOf(second, runId);
        t.equal(run.status, 'failed');
        t.same([...steps.values()].map(({ status }) => status).sort(), ['failed', 'skipped']);
        t.match(await attemptsOf(second.store, runId), [{ status: 'lost', errorCode: 'shutdown', signal: 'SIGTERM' }]);
        await assertSound(t, second.store, runId);
      },

      async 'a task that allows it is tried again by the next runtime'(t, scene) {
        const first = await scene.open();
        const { runId } = await running(scene, first, 'again');
        await first.close('stop');
        const second = await scene.open();
        await until(() => linesOf(scene).length === 2);
        await second.verbs.cancel({ runId, requestedBy: 'test' });
        await endOf(second, runId);
        t.match(await attemptsOf(second.store, runId), [{ status: 'lost' }, { status: 'cancelled' }]);
      },

      async 'a command that ignores TERM has what the limit leaves, however long its own grace is'(t, scene) {
        const first = await scene.open({ stopLimitMs: 1_100 });
        const { runId, pid } = await running(scene, first, 'stubborn');
        await closeInTime(first);
        const second = await scene.open();
        await endOf(second, runId);
        t.match(await attemptsOf(second.store, runId), [{ status: 'lost', errorCode: 'shutdown' }]);
        t.same(living(pid), []);
      },

      async 'what was being stopped with a long grace gets no more time than that either'(t, scene) {
        const engine = await scene.open({ stopLimitMs: 1_100 });
        const { runId, pid } = await running(scene, engine, 'stubborn');
        await engine.verbs.cancel({ runId, requestedBy: 'test' });
        t.ok(living(pid).length > 0);
        await closeInTime(engine);
        const second = await scene.open({ stopLimitMs: 1_100 });
        t.match((await endOf(second, runId)).run, { status: 'cancelled', cancelReason: 'user' });
        t.same(living(pid), []);
      },

      async 'detached commands run on'(t, scene) {
        const first = await scene.open();
        const { runId, pid } = await running(scene, first, 'waits');
        await first.close('detach');
        t.ok(living(pid).length > 0);
        const second = await scene.open();
        await second.verbs.cancel({ runId, requestedBy: 'test' });
        t.equal((await endOf(second, runId)).run.status, 'cancelled');
        t.same(living(pid), []);
      },

      async 'a cancel that is answered while the runtime lets go has reached its command'(t, scene) {
        const first = await scene.open();
        const { runId, pid } = await running(scene, first, 'waits');
        const cancelled = first.verbs.cancel({ runId, requestedBy: 'test' });
        await first.close('detach');
        t.match(await cancelled, { kind: 'requested' });
        await until(() => living(pid).length === 0);
      },
    },
  );
}

const seed = drawSeed();
const random = createRandom(seed);
const clock = realClock();

/** Some moment within the next `ms`. */
async function moment(ms: number): Promise<void> {
  const atMs = clock.observe().uptimeMs + Math.floor(random.fraction() * ms);
  await until(() => clock.observe().uptimeMs >= atMs);
}

/** Nothing of a run changes, and no command of it begins, after its end was told. */
async function assertFinal(t: Test, scene: Scene, engine: Engine, runIds: readonly string[]): Promise<void> {
  const ends = [];
  for (const runId of runIds) {
    ends.push(await endOf(engine, runId));
  }
  const commands = linesOf(scene).length;
  await engine.runtime.idle();
  await turn(50);
  for (const [index, runId] of runIds.entries()) {
    t.same(await rowsOf(engine.store, runId), ends[index], 'an end is final');
    await assertSound(t, engine.store, runId);
  }
  t.equal(linesOf(scene).length, commands);
  t.same(attemptDirectories(scene), []);
}

testOnCopies(
  `races (seed ${seed})`,
  { manifest, scripts },
  {
    async 'cancel, both timeouts, spawn and end at the same time: one end each'(t, scene) {
      const engine = await scene.open();
      const runIds: string[] = [];
      const cancelled = new Map<string, number>();
      for (let count = 0; count < 30; count += 1) {
        const runId = await startRun(engine, 'race');
        runIds.push(runId);
        await moment(200);
        if (count % 3 !== 0) {
          await engine.verbs.cancel({ runId, requestedBy: 'test' });
          cancelled.set(runId, linesOf(scene).filter((line) => line.startsWith(runId)).length);
        }
      }
      await assertFinal(t, scene, engine, runIds);
      for (const [runId, commands] of cancelled) {
        const all = linesOf(scene).filter((line) => line.startsWith(runId)).length;
        // One that had taken its start may write its line a moment later; none takes it after the answer.
        t.ok(all - commands <= 1, `${all} commands, ${commands} of them before the answer`);
      }
      await engine.close('stop');
    },

    async 'a cancel against retries with a short back-off'(t, scene) {
      const engine = await scene.open();
      const runIds: string[] = [];
      for (let count = 0; count < 12; count += 1) {
        const runId = await startRun(engine, 'failing');
        runIds.push(runId);
        await moment(300);
        await engine.verbs.cancel({ runId, requestedBy: 'test' });
      }
      await assertFinal(t, scene, engine, runIds);
      for (const runId of runIds) {
        t.equal((await rowsOf(engine.store, runId)).run.status, 'cancelled');
      }
      await engine.close('stop');
    },

    async 'a limit of two retries is three commands at most, however often the runtime goes and comes'(t, scene) {
      const runIds: string[] = [];
      for (let count = 0; count < 8; count += 1) {
        const engine = await scene.open();
        runIds.push(await startRun(engine, 'thrice'));
        await moment(80);
        await engine.close(count % 2 === 0 ? 'stop' : 'detach');
      }
      const engine = await scene.open();
      await assertFinal(t, scene, engine, runIds);
      for (const runId of runIds) {
        const commands = linesOf(scene).filter((line) => line.startsWith(runId)).length;
        const attempts = await attemptsOf(engine.store, runId);
        const used = attempts.filter(({ errorCode }) => errorCode !== 'start_withdrawn').length;
        t.ok(commands <= 3 && used === 3, `${commands} commands, ${used} attempts that may have run one`);
      }
      await engine.close('stop');
    },

    async 'a stop of the runtime at any moment: what is recorded is what happened'(t, scene) {
      const runIds: string[] = [];
      for (let count = 0; count < 8; count += 1) {
        const engine = await scene.open();
        runIds.push(await startRun(engine, 'race'), await startRun(engine, 'failing'));
        await moment(300);
        await engine.close(count % 2 === 0 ? 'stop' : 'detach');
      }
      const engine = await scene.open();
      await assertFinal(t, scene, engine, runIds);
      // Every command that began is an attempt that crossed its barrier, and the other way round but for lost ones.
      for (const runId of runIds) {
        const attempts = await attemptsOf(engine.store, runId);
        const used = attempts.filter(({ errorCode }) => errorCode !== 'start_withdrawn').length;
        const commands = linesOf(scene).filter((line) => line.startsWith(runId)).length;
        t.ok(commands <= used, `${commands} commands of ${used} attempts`);
      }
      await engine.close('stop');
    },
  },
);
