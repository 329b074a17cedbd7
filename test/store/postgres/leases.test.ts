// Who may claim which run, and what is known of a lease. That nothing is written without one: lease-fence.test.ts.
import t from 'tap';
import { operation } from '../../../src/protocol/protocol.ts';
import { clearSetAside, setAsideRun } from '../../../src/protocol/set-aside.ts';
import { beginStep, cancelRun, finishStep } from '../../contract/world.ts';
import { leaseMs, openLeaseScene, openTestLeases } from './lease-scene.ts';
import { openServer } from './scene.ts';

const databases = await openServer(t);

const idsOf = (leases: readonly { readonly runId: string }[]) => leases.map(({ runId }) => runId);

t.test('whatever claims at once, each run is claimed once and none is left', async (t) => {
  const scene = await openLeaseScene(t, databases);
  const runIds = await scene.startRuns(40);
  for (const round of [1, 2, 3]) {
    const claimers = Array.from({ length: 8 }, (_, index) => `worker-${round}-${index}`);
    const sessions = claimers.map((workerId) => ({ workerId, leases: openTestLeases(t, scene.url) }));
    await Promise.all(sessions.map(({ workerId, leases }) => leases.register(workerId, 'here')));
    const claimed = await Promise.all(
      sessions.map(async ({ workerId, leases }) => {
        const own: string[] = [];
        for (let page = await leases.claim(workerId, 3); page.length > 0; page = await leases.claim(workerId, 3)) {
          t.ok(page.every((lease) => lease.workerId === workerId && lease.token === round));
          own.push(...idsOf(page));
        }
        return own;
      }),
    );
    t.same(claimed.flat().sort(), [...runIds].sort());
    for (const workerId of claimers) {
      await scene.expire(workerId);
      await scene.endHold(workerId);
    }
  }
});

t.test('the oldest are claimed first, and at most as many as are asked for', async (t) => {
  const { leases, startRuns } = await openLeaseScene(t, databases);
  const runIds = await startRuns(5);
  await leases.register('one', 'here');
  t.same(idsOf(await leases.claim('one', 2)), runIds.slice(0, 2));
  t.same(await leases.claim('one', 0), []);
  t.same(idsOf(await leases.claim('one', 1)), runIds.slice(2, 3));
  t.same(idsOf(await leases.claim('one', 64)), runIds.slice(3));
});

t.test('what is held, has ended or is set aside is claimed by nobody', async (t) => {
  const scene = await openLeaseScene(t, databases);
  const { leases, store } = scene;
  const [held, ended, aside] = (await scene.startRuns(3)) as [string, string, string];
  await leases.register('one', 'here');
  await leases.register('two', 'there');
  t.same(idsOf(await leases.claim('one', 1)), [held]);
  await finishStep(scene, ended, 'one');
  await finishStep(scene, ended, 'two');
  await store.submit(operation(setAsideRun, { runId: aside, code: 'damaged', summary: 'bad' }));
  t.same(await leases.claim('two', 64), []);
  t.same(await leases.claim('one', 64), [], 'not even by who holds it');
});

t.test('a lease is free when the time of its worker and its own are both over, and not before', async (t) => {
  const scene = await openLeaseScene(t, databases);
  const { leases } = scene;
  const runIds = await scene.startRuns(6);
  await leases.register('next', 'here');
  const cases = [
    { name: 'lives', isOver: false, hold: 'new' },
    { name: 'lives', isOver: false, hold: 'old' },
    { name: 'over', isOver: true, hold: 'new' },
    { name: 'over', isOver: true, hold: 'old' },
    { name: 'gone', isOver: true, hold: 'new' },
    { name: 'gone', isOver: true, hold: 'old' },
  ];
  for (const [index, { name, hold }] of cases.entries()) {
    const workerId = `${name}-${hold}`;
    await leases.register(workerId, 'there');
    t.same(await leases.claim(workerId, 1), [{ runId: runIds[index], workerId, token: 1 }]);
  }
  for (const { name, hold } of cases) {
    const workerId = `${name}-${hold}`;
    if (hold === 'old') {
      await scene.endHold(workerId);
    }
    if (name === 'over') {
      await scene.expire(workerId);
    }
    if (name === 'gone') {
      await scene.query(`DELETE FROM ql3.workers WHERE worker_id = '${workerId}'`);
    }
  }
  const free = cases.flatMap(({ isOver, hold }, index) => (isOver && hold === 'old' ? [runIds[index]!] : []));
  // Older ones that are not free take nobody's place.
  t.equal(free.length, 2);
  t.same(
    await leases.claim('next', 2),
    free.map((runId) => ({ runId, workerId: 'next', token: 2 })),
  );
});

t.test('the token of a run rises with every claim, whoever claims it', async (t) => {
  const scene = await openLeaseScene(t, databases);
  const { leases } = scene;
  const [runId] = await scene.startRuns(1);
  const tokens: number[] = [];
  for (const workerId of ['one', 'two', 'three']) {
    await leases.register(workerId, 'here');
    const [lease] = await leases.claim(workerId, 1);
    t.match(lease, { runId, workerId });
    tokens.push(lease!.token);
    await leases.resign(workerId);
  }
  t.same(tokens, [1, 2, 3]);
});

t.test('a worker whose time is over never lives again', async (t) => {
  const scene = await openLeaseScene(t, databases);
  const { leases } = scene;
  const [runId] = await scene.startRuns(1);
  await leases.register('one', 'here');
  await leases.claim('one', 1);
  t.equal(await leases.renew('one'), true);
  await scene.endHold('one');
  t.same(await leases.find(runId!), { isHeld: true, workerId: 'one', described: 'here', hasHalted: false });
  await scene.expire('one');
  t.equal(await leases.renew('one'), false);
  t.equal(await leases.renew('one'), false);
  t.match(await leases.find(runId!), { isHeld: false });
  await t.rejects(leases.register('one', 'here'), { name: 'EdgeError' }, 'nor under the same name');
  t.equal(await leases.renew('never registered'), false);
});

t.test('a renewal reaches as far as a lease, from the time of the database', async (t) => {
  const { leases, query } = await openLeaseScene(t, databases);
  await leases.register('one', 'here');
  await query("UPDATE ql3.workers SET expires_at = now() + interval '1 minute'");
  t.equal(await leases.renew('one'), true);
  const left = 'extract(epoch FROM expires_at - now()) * 1000';
  t.same(await query(`SELECT ${left} BETWEEN ${leaseMs} - 60000 AND ${leaseMs} AS is_far FROM ql3.workers`), [
    { is_far: true },
  ]);
});

t.test('who resigns gives everything up at once, and lives no more', async (t) => {
  const { leases, startRuns } = await openLeaseScene(t, databases);
  const runIds = await startRuns(3);
  await leases.register('one', 'here');
  await leases.register('two', 'there');
  await leases.claim('one', 64);
  t.same(await leases.claim('two', 64), []);
  await leases.resign('one');
  t.equal(await leases.renew('one'), false);
  t.same(await leases.find(runIds[0]!), { isHeld: false, workerId: 'one', described: 'here', hasHalted: false });
  t.same(
    (await leases.claim('two', 64)).map(({ runId, token }) => [runId, token]),
    runIds.map((runId) => [runId, 2]),
  );
  await leases.resign('one');
  t.match(await leases.find(runIds[0]!), { isHeld: true, workerId: 'two' }, 'only its own');
});

t.test('a lease is dropped by who holds it now, and by nobody else', async (t) => {
  const scene = await openLeaseScene(t, databases);
  const { leases } = scene;
  const [runId, other] = (await scene.startRuns(2)) as [string, string];
  await leases.register('one', 'here');
  await leases.register('two', 'there');
  const [stale] = await leases.claim('one', 1);
  await leases.resign('one');
  const [lease] = await leases.claim('two', 64);
  await cancelRun(scene, runId);
  await leases.drop(stale!);
  await leases.drop({ ...lease!, workerId: 'one' });
  await leases.drop({ ...lease!, token: lease!.token + 1 });
  t.match(await leases.find(runId), { isHeld: true, workerId: 'two' });
  await leases.drop(lease!);
  t.equal(await leases.find(runId), null);
  t.match(await leases.find(other), { isHeld: true, workerId: 'two' }, 'others stay');
});

t.test('a run that was set aside and taken back is claimed with a token that was never given', async (t) => {
  const scene = await openLeaseScene(t, databases);
  const { leases, store } = scene;
  const [runId] = (await scene.startRuns(1)) as [string];
  await leases.register('one', 'here');
  const [lease] = await leases.claim('one', 1);
  await store.submit(operation(setAsideRun, { runId, code: 'damaged', summary: 'bad' }));
  await leases.drop(lease!);
  t.same(await leases.find(runId), { isHeld: false, workerId: 'nobody', described: '', hasHalted: false });
  await store.submit(operation(clearSetAside, { runId }));
  t.same(await leases.claim('one', 1), [{ ...lease!, token: lease!.token + 1 }]);
});

t.test('a worker is told of cancel intents of its runs until it has carried them out', async (t) => {
  const scene = await openLeaseScene(t, databases);
  const { leases } = scene;
  const [runId] = (await scene.startRuns(2)) as [string, string];
  await beginStep(scene, runId, 'one');
  await leases.register('one', 'here');
  await leases.register('two', 'here');
  const [lease] = await leases.claim('one', 1);
  await leases.claim('two', 1);
  t.same(await leases.toHalt('one'), []);
  t.match(await cancelRun(scene, runId), { kind: 'requested' });
  t.same(await leases.toHalt('one'), [runId]);
  t.same(await leases.toHalt('two'), []);
  await leases.noteHalted({ ...lease!, workerId: 'two' });
  await leases.noteHalted({ ...lease!, token: 2 });
  t.match(await leases.find(runId), { hasHalted: false }, 'only who holds it can say so');
  await leases.noteHalted(lease!);
  t.match(await leases.find(runId), { hasHalted: true });
  t.same(await leases.toHalt('one'), []);
  await leases.resign('one');
  t.match(await leases.claim('two', 64), [{ runId, token: 2 }]);
  t.match(await leases.find(runId), { hasHalted: false, workerId: 'two' }, 'who claims it begins anew');
  t.same(await leases.toHalt('two'), [runId]);
});

t.test('what was started is left to its own place: for as long as that may have come back late', async (t) => {
  const scene = await openLeaseScene(t, databases);
  const { leases } = scene;
  const [started, ready] = (await scene.startRuns(2)) as [string, string];
  await beginStep(scene, started, 'one');
  await leases.register('one', 'here process 1');
  t.equal((await leases.claim('one', 64)).length, 2);
  await scene.expire('one');
  await scene.endHold('one');
  await leases.register('far', 'there process 1');
  t.match(await leases.claim('far', 64), [{ runId: ready }], 'nothing of that one can be lost');
  // Whoever has just come may have come back with all others.
  t.same(await leases.claim('far', 64), []);
  await scene.settle('far');
  await leases.register('near', 'here process 2');
  t.same(await leases.claim('far', 64), [], 'somebody is there');
  await scene.expire('near');
  t.match(await leases.claim('far', 64), [{ runId: started, token: 2 }], 'nobody is');
});

t.test('what was started goes to another place when its own has not come back to it for a lease', async (t) => {
  const scene = await openLeaseScene(t, databases);
  const { leases } = scene;
  const [started] = (await scene.startRuns(1)) as [string];
  await beginStep(scene, started, 'one');
  await leases.register('one', 'here process 1');
  await leases.register('near', 'here process 2');
  await leases.register('far', 'there process 1');
  await scene.settle('far');
  await leases.claim('one', 64);
  await scene.expire('one');
  await scene.endHold('one');
  t.same(await leases.claim('far', 64), []);
  await scene.query(`UPDATE ql3.workers SET expires_at = now() - interval '1 hour' WHERE worker_id = 'one'`);
  t.same(await leases.claim('far', 64), [], 'what is held counts as well');
  await scene.query(`UPDATE ql3.run_leases SET held_until = now() - interval '1 hour'`);
  t.match(await leases.claim('far', 64), [{ runId: started, token: 2 }]);
});

t.test('what runs on behind one that resigned waits for the next one in its place', async (t) => {
  const scene = await openLeaseScene(t, databases);
  const { leases } = scene;
  const [started, ready, other] = (await scene.startRuns(3)) as [string, string, string];
  await beginStep(scene, started, 'one');
  await beginStep(scene, other, 'one');
  await leases.register('one', 'here process 1');
  await leases.register('far', 'there process 1');
  await scene.settle('far');
  await leases.claim('one', 64);
  await leases.resign('one');
  t.match(await leases.find(started), { isHeld: true, workerId: 'one' });
  t.same(idsOf(await leases.claim('far', 64)), [ready]);
  t.same(await leases.claim('far', 64), []);
  await leases.register('near', 'here process 2');
  t.same(idsOf(await leases.claim('near', 0)).sort(), [started, other].sort(), 'at once, and all of it');
  await leases.resign('near');
  await scene.endHold('near');
  t.same(idsOf(await leases.claim('far', 64)).sort(), [started, other].sort(), 'and nobody waits for ever');
});

t.test('a worker whose time is over claims nothing', async (t) => {
  const { leases, startRuns, expire } = await openLeaseScene(t, databases);
  await startRuns(1);
  t.same(await leases.claim('unknown', 1), []);
  await leases.register('one', 'here');
  await expire('one');
  t.same(await leases.claim('one', 1), []);
});

t.test('what was never claimed is found nowhere', async (t) => {
  const { leases, startRuns } = await openLeaseScene(t, databases);
  const [runId] = await startRuns(1);
  t.equal(await leases.find(runId!), null);
  t.equal(await leases.find('unknown'), null);
});

t.test('a worker that registers sweeps what is long dead and leases of runs that are over', async (t) => {
  const scene = await openLeaseScene(t, databases);
  const { leases, query } = scene;
  const [running, ended] = (await scene.startRuns(2)) as [string, string];
  for (const workerId of ['living', 'dead', 'long-dead']) {
    await leases.register(workerId, 'here');
  }
  await leases.claim('dead', 64);
  await scene.expire('dead');
  await query(`UPDATE ql3.workers SET expires_at = now() - interval '25 hours' WHERE worker_id = 'long-dead'`);
  await query(`INSERT INTO ql3.run_leases VALUES ('pruned', 'living', 1, 'infinity')`);
  await finishStep(scene, ended, 'one');
  await finishStep(scene, ended, 'two');
  await leases.register('next', 'here');
  t.same(await query('SELECT worker_id FROM ql3.workers ORDER BY 1'), [
    { worker_id: 'dead' },
    { worker_id: 'living' },
    { worker_id: 'next' },
  ]);
  t.same(await query('SELECT run_id FROM ql3.run_leases'), [{ run_id: running }]);
  t.equal(await leases.find(ended), null);
});
