// Several runtimes on one database, as real processes: who carries a run on, and what becomes of it when that one is
// stopped, killed, cut off, or told to end.
import { existsSync } from 'node:fs';
import t, { type Test } from 'tap';
import { openProxy } from '../store/postgres/proxy.ts';
import { type Gated, gatedName, writeGated } from './gated.ts';
import { Ground, type Runtime } from './ground.ts';

type Scene = { readonly ground: Ground; readonly gated: Gated };

async function openScene(t: Test): Promise<Scene> {
  const ground = await Ground.open();
  t.teardown(() => ground.close());
  const gated = writeGated(ground.root);
  t.teardown(() => gated.close());
  t.match(await ground.ask('package', 'install', gated.directory), { code: 0, out: /"outcome":"installed"/ });
  return { ground, gated };
}

/** Starts a run, and resolves when its first command stands at the gate. */
async function startAtGate({ ground, gated }: Scene, workflowId = 'plain'): Promise<string> {
  const before = gated.pids().length;
  const runId = await ground.start(gatedName, workflowId);
  await ground.until(() => gated.pids().length > before);
  return runId;
}

async function workerOf({ leases }: Ground, runId: string): Promise<string | null> {
  return (await leases.find(runId))?.workerId ?? null;
}

async function end(runtime: Runtime, signal: NodeJS.Signals): Promise<void> {
  runtime.process.kill(signal);
  await runtime.closed;
}

async function isOver(ground: Ground, runId: string): Promise<boolean> {
  return (await ground.show(runId)).run.status !== 'running';
}

const kindsOf = (gated: Gated) => gated.lines().map((line) => line.split(' ')[0]);

t.test('a runtime stopped beyond its lease writes nothing more under it, and its command goes on', async (t) => {
  const scene = await openScene(t);
  const { ground, gated } = scene;
  const stopped = ground.serve('machine');
  const runId = await startAtGate(scene);
  const holder = await workerOf(ground, runId);
  stopped.process.kill('SIGSTOP');
  const other = ground.serve('machine');
  await ground.until(async () => (await workerOf(ground, runId)) !== holder);
  gated.release();
  await ground.until(() => isOver(ground, runId));
  const ended = await ground.show(runId);
  t.equal(ended.run.status, 'succeeded');
  t.same(
    ended.steps.map(({ attempts }) => attempts.map(({ status }) => status)),
    [['succeeded'], ['succeeded']],
  );
  await end(other, 'SIGTERM');
  stopped.process.kill('SIGCONT');
  await ground.until(() => /the lease of this worker is over/.test(stopped.said()));
  // It begins anew, as another worker.
  const nextId = await startAtGate(scene);
  gated.release();
  await ground.until(() => isOver(ground, nextId));
  t.same(await ground.show(runId), ended, 'nothing was added to the run that it held');
  t.same(kindsOf(gated), ['begin', 'end', 'after', 'begin', 'end', 'after']);
  t.same(await ground.verify(), []);
});

t.test('what ran on another machine is lost, and never runs again without leave', async (t) => {
  const scene = await openScene(t);
  const { ground, gated } = scene;
  const killed = ground.serve('one');
  const runId = await startAtGate(scene);
  await end(killed, 'SIGKILL');
  const other = ground.serve('two');
  await ground.until(() => isOver(ground, runId));
  const ended = await ground.show(runId);
  t.equal(ended.run.status, 'failed');
  t.same(
    ended.steps.map(({ stepKey, status, attempts }) => [stepKey, status, attempts.map((attempt) => attempt.status)]),
    [
      ['first', 'failed', ['lost']],
      ['second', 'skipped', []],
    ],
  );
  t.same(kindsOf(gated), ['begin'], 'one command, which still stands at its gate');
  t.ok(existsSync(`/proc/${gated.pids()[0]}`));
  // Its own machine ends what was given up elsewhere.
  ground.serve('one');
  await ground.until(() => !existsSync(`/proc/${gated.pids()[0]}`));
  await end(other, 'SIGTERM');
  t.same(await ground.verify(), []);
});

t.test('with leave it runs again, on the machine that is there', async (t) => {
  const scene = await openScene(t);
  const { ground, gated } = scene;
  const killed = ground.serve('one');
  const runId = await startAtGate(scene, 'again');
  await end(killed, 'SIGKILL');
  ground.serve('two');
  await ground.until(() => gated.pids().length === 2);
  process.kill(gated.pids()[0]!, 'SIGKILL');
  // Else it may still take the line that is meant for the other.
  await ground.until(() => !existsSync(`/proc/${gated.pids()[0]}`));
  gated.release();
  await ground.until(() => isOver(ground, runId));
  const { run, steps } = await ground.show(runId);
  t.equal(run.status, 'succeeded');
  t.same(
    steps.map(({ attempts }) => attempts.map(({ status }) => status)),
    [['lost', 'succeeded'], ['succeeded']],
  );
  t.same(await ground.verify(), []);
});

t.test('a cancel is answered by whoever was asked when the holder has stopped what runs', async (t) => {
  const scene = await openScene(t);
  const { ground, gated } = scene;
  ground.serve('machine');
  const runId = await startAtGate(scene);
  t.match(await ground.ask('runs', 'cancel', runId), {
    code: 0,
    out: /"outcome":"requested"/,
  });
  await ground.until(() => isOver(ground, runId));
  t.equal((await ground.show(runId)).run.status, 'cancelled');
  t.notOk(existsSync(`/proc/${gated.pids()[0]}`));
  t.same(kindsOf(gated), ['begin']);
  t.match(await ground.ask('runs', 'cancel', runId), { code: 0, out: /"outcome":"settled"/ });
});

t.test(
  'a cancel of what a stopped runtime holds is answered when its lease is over; nothing starts then',
  async (t) => {
    const scene = await openScene(t);
    const { ground, gated } = scene;
    const stopped = ground.serve('machine');
    const runId = await startAtGate(scene);
    stopped.process.kill('SIGSTOP');
    await ground.cancel(runId);
    t.notOk((await ground.leases.find(runId))?.isHeld);
    gated.release();
    const other = ground.serve('machine');
    await ground.until(() => isOver(ground, runId));
    stopped.process.kill('SIGCONT');
    await ground.until(() => /the lease of this worker is over/.test(stopped.said()));
    t.equal((await ground.show(runId)).run.status, 'cancelled');
    t.notOk(kindsOf(gated).includes('after'));
    await end(other, 'SIGTERM');
    t.same(await ground.verify(), []);
  },
);

t.test('what ends while the database is away from all is recorded as it was when that is back', async (t) => {
  const scene = await openScene(t);
  const { ground, gated } = scene;
  const way = await openProxy(ground.databases.server);
  t.teardown(() => way.close());
  const url = way.urlOf(ground.database, ground.databases.server.superuser);
  const cutOff = ['machine', 'another', 'a third'].map((machine) => ground.serve(machine, { url }));
  await Promise.all(cutOff.map(({ ready }) => ready));
  const runId = await startAtGate(scene);
  way.refuse(true);
  way.cutAll();
  await ground.until(() => cutOff.every(({ said }) => /the lease of this worker is over/.test(said())));
  gated.release();
  await ground.until(() => kindsOf(gated).includes('end'));
  t.same(kindsOf(gated), ['begin', 'end'], 'nothing starts without a lease');
  way.refuse(false);
  await ground.until(() => isOver(ground, runId));
  const { run, steps } = await ground.show(runId);
  t.equal(run.status, 'succeeded');
  t.match(steps[0]?.attempts, [{ status: 'succeeded', exitCode: 0 }]);
  t.equal(steps[0]?.attempts.length, 1);
  t.same(kindsOf(gated), ['begin', 'end', 'after']);
  t.same(await ground.verify(), []);
});

t.test('a runtime that is told to end gives its runs up at once: stopped, or left running and adopted', async (t) => {
  const scene = await openScene(t);
  const { ground, gated } = scene;
  const first = ground.serve('machine');
  const leftId = await startAtGate(scene);
  const former = await workerOf(ground, leftId);
  await end(first, 'SIGQUIT');
  // What runs on is kept for whoever comes next on that machine.
  const elsewhere = ground.serve('elsewhere');
  await elsewhere.ready;
  t.equal(await workerOf(ground, leftId), former);
  const second = ground.serve('machine');
  await ground.until(async () => (await workerOf(ground, leftId)) !== former);
  await end(elsewhere, 'SIGTERM');
  gated.release();
  await ground.until(() => isOver(ground, leftId));
  t.equal((await ground.show(leftId)).run.status, 'succeeded');
  const stoppedId = await startAtGate(scene);
  await end(second, 'SIGTERM');
  t.notOk(existsSync(`/proc/${gated.pids()[1]}`));
  ground.serve('machine');
  await ground.until(() => isOver(ground, stoppedId));
  const { run, steps } = await ground.show(stoppedId);
  t.equal(run.status, 'failed');
  t.match(steps[0]?.attempts, [{ status: 'lost', errorCode: 'shutdown' }]);
  t.same(await ground.verify(), []);
});

t.test('what one machine has no slot for is carried on by one that is idle', async (t) => {
  const scene = await openScene(t);
  const { ground, gated } = scene;
  const machines = ['one', 'two', 'three'].map((machine) => ground.serve(machine, { concurrency: 1 }));
  await Promise.all(machines.map(({ ready }) => ready));
  const runs = await Promise.all(machines.map(() => ground.start(gatedName, 'plain')));
  // None of them ends before all have begun.
  await ground.until(() => gated.pids().length === runs.length);
  for (const _run of runs) {
    gated.release();
  }
  t.same(await ground.idle(120), []);
  t.same(await ground.verify(), []);
});

t.test("a workflow's own limit counts what all runtimes run", async (t) => {
  const scene = await openScene(t);
  const { ground, gated } = scene;
  for (const machine of ['one', 'two', 'three']) {
    await ground.serve(machine).ready;
  }
  const runs = await Promise.all(Array.from({ length: 8 }, () => ground.start(gatedName, 'single')));
  t.same(await ground.idle(120), []);
  t.equal(kindsOf(gated).filter((kind) => kind === 'alone').length, 3 * runs.length);
  t.notOk(kindsOf(gated).includes('crowd'), 'never two at the same time');
  for (const runId of runs) {
    t.equal((await ground.show(runId)).run.status, 'succeeded');
  }
  t.same(await ground.verify(), []);
});
