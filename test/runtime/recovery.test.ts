// Recovery, row by row of the table in the protocols, in both profiles; with living processes under both shells.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Test } from 'tap';
import { limits } from '../../src/core/limits.ts';
import type { RunAttempt, RunRows } from '../../src/core/records.ts';
import { readProcess } from '../../src/executor/session.ts';
import { type AttemptPlace, admitAttempt, requestStop } from '../../src/protocol/attempt.ts';
import { cancel } from '../../src/protocol/cancel.ts';
import { operation } from '../../src/protocol/protocol.ts';
import type { Store } from '../../src/store/store.ts';
import {
  assertSound,
  attemptDirectories,
  attemptsOf,
  beginStep,
  endOf,
  type Left,
  nobody,
  rowsOf,
  type Scene,
  startRun,
  stepIdOf,
  testOnCopies,
  writeLeft,
} from './scene.ts';
import { openSimulated } from './simulated.ts';

/** One step that notes each of its commands and succeeds. */
const manifest = {
  tasks: {
    work: { run: ['./work.sh'] },
    stubborn: { run: ['./work.sh'], retry: { limit: 1, backoff: '10ms', on: ['lost'] } },
  },
  workflows: {
    main: { steps: { one: { task: 'work' } } },
    stubborn: { steps: { one: { task: 'stubborn' } } },
  },
};
const script = { 'work.sh': '#!/bin/sh\necho ran >>"$QL_PACKAGE_DIR/../../../trace"\n' };

function commandsCount(scene: Scene): number {
  try {
    return readFileSync(join(scene.root, 'trace'), 'utf8').split('\n').length - 1;
  } catch {
    return 0;
  }
}

type State =
  | 'claimed'
  | 'free'
  | 'withdrawn'
  | 'receipt'
  | 'gone'
  | 'absent'
  | 'other boot'
  | 'receipt of another boot';
type Intent = 'cancel' | 'run timeout' | 'task timeout' | 'shutdown';

const left: Readonly<Record<Exclude<State, 'claimed' | 'absent'>, Left>> = {
  free: {},
  withdrawn: { taken: 'withdrawn' },
  receipt: { identity: nobody, taken: 'by the command', exitCode: 0 },
  gone: { identity: nobody, taken: 'by the command' },
  'other boot': { identity: nobody, taken: 'by the command' },
  'receipt of another boot': { identity: nobody, taken: 'by the command', exitCode: 0 },
};

async function leave(scene: Scene, store: Store, runId: string, state: State): Promise<AttemptPlace | null> {
  if (state === 'claimed') {
    const place = { runId, stepRunId: await stepIdOf(store, runId, 'one') };
    await store.submit(operation(admitAttempt, { ...place, handlerNames: [], busyOfWorkflow: 0 }));
    return null;
  }
  const place = await beginStep(store, runId, 'one');
  if (state !== 'absent') {
    writeLeft(scene, place, left[state]);
  }
  return place;
}

async function ask(store: Store, place: AttemptPlace, intent: Intent): Promise<void> {
  const { runId } = place;
  if (intent === 'cancel' || intent === 'run timeout') {
    const reason = intent === 'cancel' ? 'user' : 'timeout';
    await store.submit(operation(cancel, { runId, reason, requestedBy: 'test' }));
  } else {
    await store.submit(operation(requestStop, { ...place, reason: intent === 'shutdown' ? 'shutdown' : 'timeout' }));
  }
}

type Expected = {
  readonly attempt: Partial<RunAttempt>;
  readonly step: string;
  readonly run: string;
  /** Commands that ran after the recovery. */
  readonly commands: number;
};

/** Leaves an attempt in a state, with an intent or without, and lets an engine find it. */
async function recover(
  t: Test,
  scene: Scene,
  {
    state,
    intent,
    workflowId = 'main',
  }: { readonly state: State; readonly intent: Intent | null; workflowId?: string },
): Promise<{ readonly rows: RunRows; readonly attempts: readonly RunAttempt[] }> {
  const runId = await scene.admit(workflowId);
  await scene.withStore(async (store) => {
    const place = await leave(scene, store, runId, state);
    if (intent !== null && place !== null) {
      await ask(store, place, intent);
    }
  });
  const isReboot = state === 'other boot' || state === 'receipt of another boot';
  const engine = await scene.open(isReboot ? { bootId: 'the-next-boot' } : {});
  const rows = await endOf(engine, runId);
  await engine.runtime.idle();
  const attempts = await attemptsOf(engine.store, runId);
  await assertSound(t, engine.store, runId);
  await engine.close('stop');
  t.same(attemptDirectories(scene), [], 'nothing is left in the run directory');
  return { rows, attempts };
}

const unstarted = { status: 'lost', errorCode: 'start_withdrawn', exitCode: null } as const;
const again: Expected = { attempt: unstarted, step: 'succeeded', run: 'succeeded', commands: 1 };
const lost = { status: 'lost', errorCode: 'lost' } as const;
const failed: Expected = { attempt: lost, step: 'failed', run: 'failed', commands: 0 };
const done: Expected = {
  attempt: { status: 'succeeded', exitCode: 0 },
  step: 'succeeded',
  run: 'succeeded',
  commands: 0,
};

const withoutIntent: Readonly<Record<State, Expected>> = {
  claimed: again,
  free: again,
  withdrawn: again,
  receipt: done,
  gone: failed,
  absent: failed,
  'other boot': failed,
  'receipt of another boot': done,
};

function endedBy(status: 'cancelled' | 'timed_out', errorCode: string, exitCode: number | null = null): Expected {
  return { attempt: { status, errorCode, exitCode }, step: status, run: status, commands: 0 };
}

type IntentStates = Readonly<Record<'free' | 'withdrawn' | 'receipt' | 'gone' | 'absent', Expected>>;

function byIntent(status: 'cancelled' | 'timed_out', errorCode: string): IntentStates {
  return {
    free: endedBy(status, 'start_withdrawn'),
    withdrawn: endedBy(status, 'start_withdrawn'),
    receipt: endedBy(status, errorCode, 0),
    gone: endedBy(status, errorCode),
    absent: endedBy(status, errorCode),
  };
}

const stopped: Expected = { ...failed, attempt: { status: 'lost', errorCode: 'shutdown' } };

const withIntent: Readonly<Record<Intent, IntentStates>> = {
  cancel: byIntent('cancelled', 'cancelled'),
  'run timeout': byIntent('timed_out', 'cancelled'),
  'task timeout': byIntent('timed_out', 'task_timed_out'),
  shutdown: {
    free: again,
    withdrawn: again,
    receipt: { ...stopped, attempt: { status: 'lost', errorCode: 'shutdown', exitCode: 0 } },
    gone: stopped,
    absent: stopped,
  },
};

async function check(
  t: Test,
  scene: Scene,
  given: { readonly state: State; readonly intent: Intent | null },
  expected: Expected,
): Promise<void> {
  const { rows, attempts } = await recover(t, scene, given);
  t.match(attempts[0], expected.attempt);
  t.match([...rows.steps.values()], [{ status: expected.step }]);
  t.equal(rows.run.status, expected.run);
  t.equal(commandsCount(scene), expected.commands, 'commands that ran');
  t.equal(attempts.length, 1 + expected.commands);
}

for (const profile of ['edge', 'standalone'] as const) {
  const given = { manifest, scripts: script, profile };
  const states = Object.entries(withoutIntent) as [State, Expected][];
  testOnCopies(
    `${profile}: without an intent`,
    given,
    Object.fromEntries(
      states.map(([state, expected]) => [
        `left ${state}: its attempt is ${expected.attempt.status}, its step ${expected.step}`,
        (t, scene) => check(t, scene, { state, intent: null }, expected),
      ]),
    ),
  );
  for (const [intent, expectations] of Object.entries(withIntent) as [Intent, IntentStates][]) {
    testOnCopies(
      `${profile}: with a durable ${intent}`,
      given,
      Object.fromEntries(
        (Object.entries(expectations) as [State, Expected][]).map(([state, expected]) => [
          `left ${state}: its attempt is ${expected.attempt.status}`,
          (t, scene) => check(t, scene, { state, intent }, expected),
        ]),
      ),
    );
  }
}

/** A run of which the one attempt has crossed its barrier, and nothing else has happened. */
async function begin(scene: Scene): Promise<AttemptPlace> {
  const runId = await scene.admit();
  return scene.withStore((store) => beginStep(store, runId, 'one'));
}

/** The process that has this pid now is nobody of ours. */
async function meetStranger(t: Test, scene: Scene, identify: (pid: number) => NonNullable<Left['identity']>) {
  const place = await begin(scene);
  const stranger = spawn('sleep', ['600'], { detached: true, stdio: 'ignore' });
  const ended = once(stranger, 'exit');
  try {
    writeLeft(scene, place, { identity: identify(stranger.pid!), taken: 'by the command' });
    const engine = await scene.open();
    t.equal((await endOf(engine, place.runId)).run.status, 'failed');
    t.match(await attemptsOf(engine.store, place.runId), [lost]);
    t.equal(readProcess(stranger.pid!)?.isZombie, false, 'it lives');
    t.equal(stranger.signalCode, null);
    await engine.close('stop');
  } finally {
    stranger.kill('SIGKILL');
    await ended;
  }
}

const startTicksOf = (pid: number) => readProcess(pid)?.startTicks ?? 0;

testOnCopies(
  'special cases',
  { manifest, scripts: script, profile: 'edge' },
  {
    async 'a lost attempt is tried again where the task allows that, as often as it allows it'(t, scene) {
      const given = { state: 'gone', intent: null, workflowId: 'stubborn' } as const;
      const { rows, attempts } = await recover(t, scene, given);
      t.equal(rows.run.status, 'succeeded');
      t.match(attempts, [lost, { status: 'succeeded' }]);
      t.equal(commandsCount(scene), 1);
    },

    async 'a handler that was running when its process died is lost'(t, scene) {
      const begun = Promise.withResolvers<void>();
      const handlers = {
        'scene/work': () => {
          begun.resolve();
          return new Promise(() => {});
        },
      };
      const first = await scene.open({ handlers });
      const runId = await startRun(first);
      await begun.promise;
      await first.close('detach');
      const second = await scene.open({ handlers });
      const { run } = await endOf(second, runId);
      t.equal(run.status, 'failed');
      t.match(await attemptsOf(second.store, runId), [{ ...lost, errorSummary: /its handler ended with the process/ }]);
    },

    async 'what cannot be decided is left and reported, blocks nothing, and is looked at again for a cancel'(t, scene) {
      const place = await begin(scene);
      const { runId, attemptId } = place;
      writeLeft(scene, place, { taken: 'by the command' });
      const engine = await scene.open();
      t.match(scene.lines, [new RegExp(`attempt ${attemptId} of run ${runId} is left as it is: `)]);
      await engine.runtime.idle();
      const other = await startRun(engine);
      t.equal((await endOf(engine, other)).run.status, 'succeeded', 'its one slot is free');
      t.equal((await rowsOf(engine.store, runId)).run.status, 'running');
      t.same(attemptDirectories(scene), [attemptId], 'its directory is evidence');
      writeLeft(scene, place, { identity: nobody, exitCode: 0 });
      t.match(await engine.verbs.cancel({ runId, requestedBy: 'test' }), { kind: 'settled', status: 'succeeded' });
      t.match(await attemptsOf(engine.store, runId), [{ status: 'succeeded', exitCode: 0 }]);
      await assertSound(t, engine.store, runId);
    },

    async 'what cannot be decided is looked at again by itself, ever more rarely'(t, scene) {
      const place = await begin(scene);
      writeLeft(scene, place, { taken: 'by the command' });
      const engine = await openSimulated(t, scene);
      engine.time.advance(limits.undecidedLookMsMin);
      await engine.settled();
      t.equal(engine.lines.length, 1, 'it is told once');
      writeLeft(scene, place, { identity: nobody, exitCode: 0 });
      engine.time.advance(2 * limits.undecidedLookMsMin - 1);
      await engine.settled();
      t.equal((await rowsOf(engine.store, place.runId)).run.status, 'running');
      engine.time.advance(1);
      await engine.settled();
      t.equal((await rowsOf(engine.store, place.runId)).run.status, 'succeeded');
      t.equal(engine.time.entriesCount(), 0);
    },

    'C007: a pid that belongs to a stranger with another start time is never signalled': (t, scene) =>
      meetStranger(t, scene, (pid) => ({ pid, startTicks: startTicksOf(pid) - 1 })),

    'C007: a pid that belongs to a stranger of another boot is never signalled': (t, scene) =>
      meetStranger(t, scene, (pid) => ({ pid, startTicks: startTicksOf(pid), bootId: 'an-earlier-boot' })),

    async 'a run whose evidence is damaged is set aside; the others are recovered'(t, scene) {
      const [bad, good] = [await scene.admit(), await scene.admit()];
      await scene.withStore(async (store) => {
        for (const runId of [bad, good]) {
          writeLeft(scene, await beginStep(store, runId, 'one'), left.receipt);
        }
      });
      const db = new DatabaseSync(join(scene.data, 'qinglong.db'));
      db.exec('UPDATE RunRecords SET version = version + 1 WHERE runKey = 1 AND number = 0');
      db.close();
      const engine = await scene.open();
      t.equal((await endOf(engine, good)).run.status, 'succeeded');
      t.match(scene.lines, [new RegExp(`run ${bad}: set aside: damaged`)]);
      t.equal(attemptDirectories(scene).length, 1, 'the receipt of the damaged one is kept');
      rmSync(join(scene.run, 'attempts'), { recursive: true });
    },
  },
);
