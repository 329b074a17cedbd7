// What is left of attempts that have ended: told once as news of their runs, and ended where it lives. An attempt is
// recorded as lost while its command runs when a process looks for it in another run directory than the one before.
import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { newsTypes } from '../../src/core/events.ts';
import { readIdentity, readTakenState } from '../../src/executor/attempt-files.ts';
import { listSession } from '../../src/executor/session.ts';
import { type AttemptPlace, complete } from '../../src/protocol/attempt.ts';
import { operation } from '../../src/protocol/protocol.ts';
import type { Engine } from '../../src/runtime/engine.ts';
import type { Store } from '../../src/store/store.ts';
import { shells } from '../executor/stand.ts';
import { until } from '../executor/until.ts';
import {
  assertSound,
  attemptDirectories,
  attemptsOf,
  beginStep,
  endOf,
  endSession,
  eventsOf,
  nobody,
  rowsOf,
  type Scene,
  startRun,
  testOnCopies,
  writeLeft,
} from './scene.ts';

const manifest = {
  tasks: {
    waits: { run: ['./waits.sh'], grace: '10m' },
    stubborn: { run: ['./stubborn.sh'], grace: '50ms' },
    twice: { run: ['./stubborn.sh'], grace: '300ms', retry: { limit: 1, backoff: '10ms', on: ['lost'] } },
    slow: { run: ['./stubborn.sh'], grace: '300ms', retry: { limit: 1, backoff: '10m', max: '10m', on: ['lost'] } },
    later: { run: ['./waits.sh'], retry: { limit: 1, backoff: '10m', max: '10m', on: ['lost'] } },
  },
  workflows: {
    waits: { steps: { one: { task: 'waits' } } },
    stubborn: { steps: { one: { task: 'stubborn' } } },
    later: { steps: { one: { task: 'later' } } },
    slow: { steps: { one: { task: 'slow' } } },
    twice: { steps: { one: { task: 'twice' } } },
  },
};
const scripts = {
  'waits.sh': '#!/bin/sh\nread code <"$QL_PACKAGE_DIR/../../../gate"\nexit "$code"\n',
  'stubborn.sh':
    '#!/bin/sh\ntrap "" TERM\necho ready >"$QL_PACKAGE_DIR/../../../ready"\nwhile :; do sleep 0.02; done\n',
};

async function newsOf(store: Pick<Store, 'read'>, runId: string): Promise<readonly [string, string][]> {
  const news = (await eventsOf(store, runId)).filter(({ type }) => newsTypes.includes(type));
  return news.map(({ type, payload }) => [type, (payload as { readonly summary: string }).summary]);
}

/** Lets a process from which the run directory is hidden record what runs as lost. */
async function lose(scene: Scene, runId: string, isEnded = true): Promise<void> {
  renameSync(scene.run, join(scene.root, 'hidden'));
  const engine = await scene.open({ runDirectory: join(scene.root, 'elsewhere') });
  if (isEnded) {
    await endOf(engine, runId);
  }
  await engine.close('detach');
  renameSync(join(scene.root, 'hidden'), scene.run);
}

/** Until its sweep has told everything and removed the directories. */
async function swept(scene: Scene, engine: Engine): Promise<void> {
  await until(() => attemptDirectories(scene).length === 0);
  await engine.close('detach');
}

async function leaveRunning(scene: Scene, workflowId: string): Promise<{ runId: string; pid: number }> {
  execFileSync('mkfifo', [join(scene.root, 'gate'), join(scene.root, 'ready')]);
  const engine = await scene.open();
  const runId = await startRun(engine, workflowId);
  await until(() => attemptDirectories(scene).some((id) => readTakenState(scene.directoryOf(id)) === 'taken'));
  if (workflowId !== 'waits' && workflowId !== 'later') {
    execFileSync('cat', [join(scene.root, 'ready')]);
  }
  await engine.close('detach');
  const [attemptId = ''] = attemptDirectories(scene);
  return { runId, pid: readIdentity(scene.directoryOf(attemptId), attemptId)?.pid ?? 0 };
}

const living = (pid: number) => listSession(pid).filter(({ isZombie }) => !isZombie);

for (const shell of shells) {
  const profile = shell.name === '/bin/sh' ? 'edge' : 'standalone';
  testOnCopies(
    shell.name,
    { manifest, scripts, profile, shell },
    {
      async 'a command that lives on after its attempt was lost is ended, and that is told once'(t, scene) {
        const { runId, pid } = await leaveRunning(scene, 'waits');
        await lose(scene, runId);
        t.ok(living(pid).length > 0);
        await swept(scene, await scene.open());
        t.same(living(pid), [], 'nobody of it is left');
        const engine = await scene.open();
        t.match(await newsOf(engine.store, runId), [
          ['workflow.leftover_found', /attempt 1, recorded as lost, was still/],
        ]);
        t.equal((await rowsOf(engine.store, runId)).run.status, 'failed', 'its end stays what it was');
        t.match(await attemptsOf(engine.store, runId), [{ status: 'lost', exitCode: null }]);
        await assertSound(t, engine.store, runId);
      },

      async 'one that needs KILL is told as well'(t, scene) {
        const { runId, pid } = await leaveRunning(scene, 'stubborn');
        await lose(scene, runId);
        const engine = await scene.open();
        await until(() => attemptDirectories(scene).length === 0);
        t.same(living(pid), []);
        t.same(
          (await newsOf(engine.store, runId)).map(([type]) => type),
          ['workflow.leftover_found', 'workflow.stop_forced'],
        );
        await assertSound(t, engine.store, runId);
      },

      async 'found again after a crash in the middle, it is ended and not told twice'(t, scene) {
        const { runId, pid } = await leaveRunning(scene, 'stubborn');
        await lose(scene, runId);
        for (let count = 0; count < 3; count += 1) {
          await (await scene.open()).close('detach');
        }
        const engine = await scene.open();
        await until(() => attemptDirectories(scene).length === 0);
        t.same(living(pid), []);
        const types = (await newsOf(engine.store, runId)).map(([type]) => type);
        t.same(types, [...new Set(types)]);
        t.equal(types[0], 'workflow.leftover_found');
      },

      async 'no try runs beside what is left of the one before'(t, scene) {
        const { runId, pid } = await leaveRunning(scene, 'twice');
        await scene.withStore(async (store) => {
          const [attempt] = await attemptsOf(store, runId);
          const place = { runId, stepRunId: attempt!.stepRunId, attemptId: attempt!.id };
          await store.submit(operation(complete, { ...place, facts: { kind: 'lost', errorSummary: null } }));
        });
        const engine = await scene.open();
        await readFile(join(scene.root, 'ready'));
        t.same(living(pid), [], 'the second one has begun');
        await engine.verbs.cancel({ runId, requestedBy: 'test' });
        await endOf(engine, runId);
        await engine.runtime.idle();
        t.same(
          (await newsOf(engine.store, runId)).map(([type]) => type),
          ['workflow.leftover_found', 'workflow.stop_forced'],
        );
      },

      async 'told also where the run ends while the leftover is being ended'(t, scene) {
        const { runId, pid } = await leaveRunning(scene, 'slow');
        await lose(scene, runId, false);
        const engine = await scene.open();
        await engine.verbs.cancel({ runId, requestedBy: 'test' });
        t.equal((await rowsOf(engine.store, runId)).run.status, 'cancelled');
        await until(() => attemptDirectories(scene).length === 0);
        t.same(living(pid), []);
        const types = (await newsOf(engine.store, runId)).map(([type]) => type);
        t.same(types, ['workflow.leftover_found', 'workflow.stop_forced']);
        await assertSound(t, engine.store, runId);
      },

      async 'while the run goes on, its step waits for the end of the leftover; told when the run ends'(t, scene) {
        const { runId, pid } = await leaveRunning(scene, 'later');
        await lose(scene, runId, false);
        const engine = await scene.open();
        t.equal((await rowsOf(engine.store, runId)).run.status, 'running');
        await until(() => living(pid).length === 0);
        t.same(await newsOf(engine.store, runId), []);
        await engine.verbs.cancel({ runId, requestedBy: 'test' });
        await endOf(engine, runId);
        await engine.runtime.idle();
        t.same(
          (await newsOf(engine.store, runId)).map(([type]) => type),
          ['workflow.leftover_found'],
        );
        await assertSound(t, engine.store, runId);
      },
    },
  );
}

/** A run of which the only attempt was recorded as lost. */
async function beginLost(scene: Scene): Promise<{ readonly runId: string; readonly place: AttemptPlace }> {
  const runId = await scene.admit('waits');
  const place = await scene.withStore((store) => beginStep(store, runId, 'one'));
  await lose(scene, runId);
  return { runId, place };
}

testOnCopies(
  'without processes',
  { manifest, scripts },
  {
    async 'a receipt of an attempt that was recorded as lost is told once, and changes no record'(t, scene) {
      const { runId, place } = await beginLost(scene);
      for (let count = 0; count < 2; count += 1) {
        writeLeft(scene, place, { identity: nobody, taken: 'by the command', exitCode: 7 });
        await swept(scene, await scene.open());
      }
      const engine = await scene.open();
      t.match(await newsOf(engine.store, runId), [
        ['workflow.late_receipt_found', /^attempt 1, recorded as lost, left a receipt: exit code 7/],
      ]);
      t.match(await attemptsOf(engine.store, runId), [{ status: 'lost', exitCode: null }]);
      await assertSound(t, engine.store, runId);
    },

    async 'a receipt of an attempt whose end is recorded is no news'(t, scene) {
      const runId = await scene.admit('waits');
      const place = await scene.withStore((store) => beginStep(store, runId, 'one'));
      const left = { identity: nobody, taken: 'by the command', exitCode: 0 } as const;
      for (let count = 0; count < 2; count += 1) {
        writeLeft(scene, place, left);
        const engine = await scene.open();
        await endOf(engine, runId);
        await swept(scene, engine);
      }
      const engine = await scene.open();
      t.same(await newsOf(engine.store, runId), []);
      t.equal((await rowsOf(engine.store, runId)).run.status, 'succeeded');
    },

    async 'directories of attempts that nobody knows are removed, unless something may live'(t, scene) {
      mkdirSync(scene.directoryOf('at-empty'), { recursive: true, mode: 0o700 });
      writeLeft(scene, { runId: 'run-unknown', stepRunId: '', attemptId: 'at-gone' }, { identity: nobody });
      const place = { runId: 'run-unknown', stepRunId: '', attemptId: 'at-odd' };
      writeLeft(scene, place, { taken: 'by the command' });
      const engine = await scene.open();
      t.same(attemptDirectories(scene), ['at-odd']);
      t.match(scene.lines, [/attempt at-odd is not in the records and may be running/]);
      await engine.close('stop');
      endSession(scene, 'at-odd');
    },
  },
);
