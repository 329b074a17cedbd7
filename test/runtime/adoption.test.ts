// Commands that outlive their runtime: taken over by the next one with their true result, their remaining deadline, and
// the stops that were durable before. With real processes, under both shells that the launcher is for.
import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Test } from 'tap';
import { remainingMs } from '../../src/core/deadline.ts';
import type { RunAttempt } from '../../src/core/records.ts';
import { readIdentity, readReceipt, readTakenState } from '../../src/executor/attempt-files.ts';
import { listSession, signalProcess } from '../../src/executor/session.ts';
import { type AttemptPlace, requestStop } from '../../src/protocol/attempt.ts';
import { cancel } from '../../src/protocol/cancel.ts';
import { operation } from '../../src/protocol/protocol.ts';
import { realClock } from '../../src/runtime/ports.ts';
import { shells } from '../executor/stand.ts';
import { until } from '../executor/until.ts';
import {
  assertSound,
  attemptDirectories,
  attemptsOf,
  endOf,
  rowsOf,
  type Scene,
  startRun,
  testOnCopies,
} from './scene.ts';

const manifest = {
  tasks: {
    // Waits for the test: it ends as told when the gate is opened.
    gate: { run: ['./gate.sh'], grace: '10m' },
    timed: { run: ['./gate.sh'], timeout: '500ms', grace: '10m' },
    again: { run: ['./gate.sh'], grace: '10m', retry: { limit: 1, backoff: '10ms', on: ['timed_out', 'lost'] } },
  },
  workflows: {
    gate: { steps: { one: { task: 'gate' } } },
    timed: { steps: { one: { task: 'timed' } } },
    again: { steps: { one: { task: 'again' } } },
    late: { timeout: '500ms', steps: { one: { task: 'gate' } } },
  },
};
const script = { 'gate.sh': '#!/bin/sh\nread code <"$QL_PACKAGE_DIR/../../../gate"\nexit "$code"\n' };

type Left = {
  readonly runId: string;
  readonly place: AttemptPlace;
  /** Of the command: its session. */
  readonly pid: number;
  open(code: number): Promise<void>;
};

/** Starts a run, waits until its command has taken its start, and lets go of it without a word, as a killed process. */
async function leave(t: Test, scene: Scene, workflowId = 'gate'): Promise<Left> {
  execFileSync('mkfifo', [join(scene.root, 'gate')]);
  const first = await scene.open();
  const runId = await startRun(first, workflowId);
  await until(() => attemptDirectories(scene).some((id) => readTakenState(scene.directoryOf(id)) === 'taken'));
  const [attempt] = await attemptsOf(first.store, runId);
  const { id: attemptId, stepRunId } = attempt!;
  const pid = readIdentity(scene.directoryOf(attemptId), attemptId)?.pid ?? 0;
  t.ok(pid > 1);
  await first.close('detach');
  const gate = join(scene.root, 'gate');
  // Opening a FIFO waits for the other side, the command's: not here, where its runtime may live.
  return {
    runId,
    place: { runId, stepRunId, attemptId },
    pid,
    open: (code) => writeFile(gate, `${code}\n`),
  };
}

const living = (pid: number) => listSession(pid).filter(({ isZombie }) => !isZombie);

async function carryOutStop(
  t: Test,
  scene: Scene,
  reason: 'timeout' | 'shutdown',
  expected: Partial<RunAttempt>,
): Promise<void> {
  const { runId, place, pid } = await leave(t, scene);
  await scene.withStore((store) => store.submit(operation(requestStop, { ...place, reason })));
  const engine = await scene.open();
  await endOf(engine, runId);
  t.match(await attemptsOf(engine.store, runId), [{ ...expected, signal: 'SIGTERM' }]);
  t.same(living(pid), []);
  await assertSound(t, engine.store, runId);
}

for (const shell of shells) {
  const profile = shell.name === '/bin/sh' ? 'edge' : 'standalone';
  testOnCopies(
    shell.name,
    { manifest, scripts: script, profile, shell },
    {
      async 'a living command is kept, and its true end is recorded'(t, scene) {
        const { runId, place, open } = await leave(t, scene);
        const engine = await scene.open();
        t.same(engine.runtime.attempts.ids(), [place.attemptId]);
        await open(3);
        t.equal((await endOf(engine, runId)).run.status, 'failed');
        t.match(await attemptsOf(engine.store, runId), [{ status: 'failed', exitCode: 3 }]);
        await assertSound(t, engine.store, runId);
      },

      async 'an end that nobody saw is recorded as it was'(t, scene) {
        const { runId, place, open } = await leave(t, scene);
        await open(0);
        await until(() => readReceipt(scene.directoryOf(place.attemptId), place.attemptId) !== null);
        const engine = await scene.open();
        t.equal((await endOf(engine, runId)).run.status, 'succeeded');
        t.match(await attemptsOf(engine.store, runId), [{ status: 'succeeded', exitCode: 0 }]);
      },

      async 'taken over again and again, it is still the one command'(t, scene) {
        const { runId, open } = await leave(t, scene);
        for (let count = 0; count < 3; count += 1) {
          await (await scene.open()).close('detach');
        }
        const engine = await scene.open();
        await open(0);
        t.equal((await endOf(engine, runId)).run.status, 'succeeded');
        t.equal((await attemptsOf(engine.store, runId)).length, 1);
      },

      async 'C053: a cancel that was durable is carried out, though nobody was told to stop'(t, scene) {
        const { runId, pid } = await leave(t, scene);
        await scene.withStore((store) =>
          store.submit(operation(cancel, { runId, reason: 'user', requestedBy: 'test' })),
        );
        t.ok(living(pid).length > 0);
        const engine = await scene.open();
        t.equal((await endOf(engine, runId)).run.status, 'cancelled');
        t.match(await attemptsOf(engine.store, runId), [{ status: 'cancelled', signal: 'SIGTERM' }]);
        t.same(living(pid), [], 'its processes are gone');
        t.equal(engine.runtime.attempts.count, 0, 'its slot is free');
      },

      'a stop at a timeout that was durable is carried out': (t, scene) =>
        carryOutStop(t, scene, 'timeout', { status: 'timed_out', errorCode: 'task_timed_out' }),

      'a stop at a shutdown that was durable is carried out': (t, scene) =>
        carryOutStop(t, scene, 'shutdown', { status: 'lost', errorCode: 'shutdown' }),

      async 'a deadline that passed while nobody looked is kept at once'(t, scene) {
        const { runId, place, pid } = await leave(t, scene, 'timed');
        const [attempt] = await scene.withStore((store) => attemptsOf(store, runId));
        const clock = realClock();
        await until(() => remainingMs(attempt!.deadline!, clock.observe(), 0) === 0);
        const engine = await scene.open();
        t.equal((await endOf(engine, runId)).run.status, 'timed_out');
        t.match(await attemptsOf(engine.store, runId), [
          { id: place.attemptId, status: 'timed_out', signal: 'SIGTERM' },
        ]);
        t.same(living(pid), []);
      },

      async 'a timeout of the whole run that passed while nobody looked is kept at once'(t, scene) {
        const { runId, pid } = await leave(t, scene, 'late');
        const { run } = await scene.withStore((store) => rowsOf(store, runId));
        const clock = realClock();
        await until(() => remainingMs(run.deadline!, clock.observe(), 0) === 0);
        const engine = await scene.open();
        t.match((await endOf(engine, runId)).run, { status: 'timed_out', cancelReason: 'timeout' });
        t.same(living(pid), []);
      },

      async 'a command that was killed with its launcher is lost, and tried again where that is allowed'(t, scene) {
        const { runId, pid, open } = await leave(t, scene, 'again');
        for (const row of living(pid)) {
          signalProcess(row, 'SIGKILL');
        }
        await until(() => living(pid).length === 0);
        const engine = await scene.open();
        await open(0);
        t.equal((await endOf(engine, runId)).run.status, 'succeeded');
        t.match(await attemptsOf(engine.store, runId), [
          { status: 'lost', exitCode: null },
          { status: 'succeeded', number: 2 },
        ]);
      },
    },
  );
}
