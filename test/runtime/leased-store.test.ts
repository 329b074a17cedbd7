// What a worker's view of a shared store decides by itself: under which lease something goes, what is refused without
// asking, which leases are let go, and who is told what. What a database says to it: test/store/postgres.
import t from 'tap';
import { EdgeError, isEdgeError } from '../../src/core/errors.ts';
import { advance } from '../../src/protocol/advance.ts';
import { cancel, converge } from '../../src/protocol/cancel.ts';
import type { Operation } from '../../src/protocol/protocol.ts';
import { operation } from '../../src/protocol/protocol.ts';
import { read } from '../../src/protocol/reads.ts';
import { clearSetAside, setAsideRun } from '../../src/protocol/set-aside.ts';
import { LeasedStore } from '../../src/runtime/leased-store.ts';
import type { Lease, SharedStore } from '../../src/store/leases.ts';
import type { Settled, TurnHooks } from '../../src/store/store.ts';
import { createTestClock, startMain } from '../contract/world.ts';

type Sent = {
  readonly operation: Operation;
  readonly lease: Lease | null;
  readonly resolve: (outcome: unknown) => void;
  readonly reject: (error: unknown) => void;
};

/** A shared store that answers when the test says so. */
function createShared() {
  const sent: Sent[] = [];
  const send = (each: Operation, lease: Lease | null) => {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    sent.push({ operation: each, lease, resolve, reject });
    return promise;
  };
  const reads: string[] = [];
  const shared: SharedStore = {
    info: {
      profile: 'cluster',
      durability: 'full',
      engine: 'test',
      capability: { name: 'runtime_leases', version: 1 },
    },
    attach: () => {},
    submit: <O>(each: Operation<O>) => send(each as Operation, null) as Promise<O>,
    submitUnder: <O>(each: Operation<O>, lease: Lease) => send(each as Operation, lease) as Promise<O>,
    read: async (request) => {
      reads.push(request.name);
      return null as never;
    },
    close: async () => {
      reads.push('close');
    },
  };
  return { shared, sent, reads };
}

function openScene() {
  const { shared, sent, reads } = createShared();
  const clock = createTestClock();
  const told: string[] = [];
  const hooked: (Pick<TurnHooks, 'committed' | 'doubted' | 'owed'> | null)[] = [];
  const store = new LeasedStore({
    shared,
    clock,
    hook: (hooks) => hooked.push(hooks),
    carryOn: () => null,
    onTouched: (runId) => told.push(`touched ${runId}`),
    onEnded: (lease) => told.push(`ended ${lease.runId} ${lease.token} ${store.held.has(lease.runId)}`),
    onNews: (what) => told.push(`news ${what}`),
    onLost: () => told.push('lost'),
  });
  store.attach({
    committed: (settled) => told.push(`committed ${settled.map(({ operation: { name } }) => name)}`),
    closing: () => told.push('closing'),
    doubted: () => told.push('doubted'),
    owed: (owed, error) => told.push(`owed ${owed.name} ${error}`),
  });
  store.believe(clock.now.uptimeMs + 1_000);
  const lease: Lease = { runId: 'mine', workerId: 'worker', token: 3 };
  store.take(lease);
  const commit = (...settled: readonly Settled[]) => hooked.at(-1)?.committed(settled);
  return { store, clock, sent, reads, told, hooked, lease, commit };
}

const cancelOf = (runId: string) => operation(cancel, { runId, reason: 'user' as const, requestedBy: 'tester' });
const advanceOf = (runId: string) => operation(advance, { runId });
const asideOf = (runId: string) => operation(setAsideRun, { runId, code: 'damaged', summary: 'bad' });
const convergeOf = (runId: string) => operation(converge, { runId });
const refused = { code: 'unavailable', message: /does not hold the lease/ };

/** What follows from an operation that is durable. */
const done = (each: Operation<never> | Operation, outcome: unknown, runId: string | null = null): Settled => ({
  operation: each as Operation,
  outcome,
  runId,
});

/** Everything that was put off until the work at hand is done. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

t.test('what concerns a run that is held goes under its lease, and its answer comes back', async (t) => {
  const { store, sent, lease } = openScene();
  const answer = store.submit(advanceOf('mine'));
  t.match(sent, [{ lease, operation: { name: 'advance' } }]);
  sent[0]!.resolve('answered');
  t.equal(await answer, 'answered');
});

t.test('what concerns a run that is not held is refused, and nothing is sent', async (t) => {
  const { store, sent, told } = openScene();
  for (const each of [advanceOf('other'), convergeOf('other'), asideOf('other')]) {
    await t.rejects(store.submit(each as Operation), refused, each.name);
  }
  t.same(sent, []);
  t.same(told, [], 'that is no lost lease');
});

t.test('what an operator asks for, and what concerns no run, needs no lease', async (t) => {
  const { store, sent } = openScene();
  const free = [cancelOf('other'), operation(clearSetAside, { runId: 'other' })];
  const asked = free.map((each) => store.submit(each as Operation));
  const started = startMain({ clock: createTestClock(), store: { ...store.asStore() } });
  t.same(
    sent.map(({ operation: { name }, lease }) => [name, lease]),
    [
      ['cancel', null],
      ['clear-set-aside', null],
      ['start', null],
    ],
  );
  for (const { resolve } of sent) {
    resolve('answered');
  }
  t.same(await Promise.all([...asked, started]), ['answered', 'answered', 'answered']);
});

t.test('from the end of what is believed on, nothing is sent under a lease, until it is believed again', async (t) => {
  const { store, clock, sent } = openScene();
  clock.advance(999);
  void store.submit(advanceOf('mine'));
  t.equal(sent.length, 1, 'until its last moment');
  clock.advance(1);
  await t.rejects(store.submit(advanceOf('mine')), refused);
  clock.advance(5_000);
  await t.rejects(store.submit(advanceOf('mine')), refused);
  t.equal(sent.length, 1);
  store.believe(clock.now.uptimeMs + 1);
  void store.submit(advanceOf('mine'));
  t.equal(sent.length, 2);
});

t.test('before anything is believed, nothing is sent under a lease', async (t) => {
  const { shared, sent } = createShared();
  const quiet = () => {};
  const hooks = { hook: quiet, carryOn: () => null, onTouched: quiet, onEnded: quiet, onNews: quiet, onLost: quiet };
  const store = new LeasedStore({ shared, clock: createTestClock(), ...hooks });
  store.take({ runId: 'mine', workerId: 'worker', token: 1 });
  await t.rejects(store.submit(advanceOf('mine')), refused);
  t.same(sent, []);
});

t.test('once it is revoked, nothing is held and nothing is sent', async (t) => {
  const { store, sent } = openScene();
  store.revoke();
  t.equal(store.held.size, 0);
  t.equal(store.believedUntilMs, Number.NEGATIVE_INFINITY);
  await t.rejects(store.submit(advanceOf('mine')), refused);
  t.same(sent, []);
});

t.test('of all running runs it sees its own; everything else is read where it is', async (t) => {
  const { store, reads } = openScene();
  store.take({ runId: 'second', workerId: 'worker', token: 1 });
  t.same(await store.read(read('runningRuns', { limit: 64, after: null })), { runIds: ['mine', 'second'], next: null });
  await store.read(read('run', { runId: 'other' }));
  t.same(reads, ['run']);
});

t.test('a lease is let go when its run has ended or is set aside, and only then', async (t) => {
  const ends = [
    done(advanceOf('mine'), { kind: 'terminal', runId: 'mine', status: 'succeeded' }, 'mine'),
    done(advanceOf('mine'), { kind: 'settled', runId: 'mine', status: 'failed' }),
    done(convergeOf('mine'), { kind: 'ended', runId: 'mine', blockingAttemptIds: [] }, 'mine'),
    done(asideOf('mine'), { kind: 'set-aside', runId: 'mine' }),
    done(asideOf('mine'), { kind: 'existing', runId: 'mine' }),
  ];
  for (const end of ends) {
    const { store, told, commit } = openScene();
    commit(end);
    const name = `${end.operation.name} ${(end.outcome as { kind: string }).kind}`;
    t.equal(told.filter((each) => each === 'ended mine 3 false').length, 1, name);
    t.notOk(store.held.has('mine'));
    await t.rejects(store.submit(advanceOf('mine')), refused);
    commit(end);
    t.equal(told.filter((each) => each.startsWith('ended')).length, 1, 'once');
  }
  const others = [
    done(advanceOf('mine'), { kind: 'advanced', runId: 'mine', readyStepRunIds: [] }, 'mine'),
    done(advanceOf('mine'), { kind: 'unchanged', runId: 'mine', readyStepRunIds: [] }),
    done(convergeOf('mine'), { kind: 'blocked', runId: 'mine', blockingAttemptIds: ['a'] }, 'mine'),
    done(convergeOf('mine'), { kind: 'unchanged', runId: 'mine', blockingAttemptIds: [] }),
    done(cancelOf('mine'), { kind: 'requested' }, 'mine'),
    done(advanceOf('other'), { kind: 'terminal', runId: 'other', status: 'succeeded' }, 'other'),
    done(asideOf('other'), { kind: 'set-aside', runId: 'other' }),
  ];
  for (const other of others) {
    const { store, told, commit } = openScene();
    commit(other);
    t.ok(store.held.has('mine'));
    t.same(
      told.filter((each) => each.startsWith('ended')),
      [],
    );
  }
});

t.test(
  'of a commit first the runtime is told, then what ended, then which runs have steps to start, and closing comes last',
  async (t) => {
    const { store, told, commit } = openScene();
    store.take({ runId: 'second', workerId: 'worker', token: 1 });
    store.take({ runId: 'third', workerId: 'worker', token: 1 });
    commit(
      done(advanceOf('second'), { kind: 'advanced', runId: 'second', readyStepRunIds: ['a'] }, 'second'),
      done(advanceOf('third'), { kind: 'advanced', runId: 'third', readyStepRunIds: [] }, 'third'),
      done(advanceOf('mine'), { kind: 'terminal', runId: 'mine', status: 'succeeded' }, 'mine'),
      done(advanceOf('mine'), { kind: 'unchanged', runId: 'mine', readyStepRunIds: ['b'] }),
      done(cancelOf('other'), { kind: 'requested' }, 'other'),
    );
    const expected = ['committed advance,advance,advance,advance,cancel', 'ended mine 3 false', 'touched second'];
    t.same(told, expected);
    store.wake();
    store.wake();
    await settle();
    t.same(told, [...expected, 'closing'], 'once for whoever asked');
    store.wake();
    await settle();
    t.same(told, [...expected, 'closing', 'closing']);
  },
);

t.test('others are woken for a run that came to be, and for a cancel intent of a run that they hold', (t) => {
  const { told, commit } = openScene();
  const named = (name: string): Operation => ({ ...(advanceOf('x') as Operation), name });
  for (const name of ['start', 'retry', 'admit']) {
    commit(done(named(name), { kind: 'created' }), done(named(name), { kind: 'existing' }));
  }
  t.same(
    told.filter((each) => each.startsWith('news')),
    ['news work', 'news work', 'news work'],
  );
  told.length = 0;
  commit(
    done(convergeOf('other'), { kind: 'blocked', runId: 'other', blockingAttemptIds: ['a'] }, 'other'),
    done(convergeOf('mine'), { kind: 'blocked', runId: 'mine', blockingAttemptIds: ['a'] }, 'mine'),
    done(convergeOf('third'), { kind: 'ended', runId: 'third', blockingAttemptIds: [] }, 'third'),
  );
  t.same(
    told.filter((each) => each.startsWith('news')),
    ['news other'],
  );
  t.end();
});

t.test('what is doubted or owed is passed on', (t) => {
  const { told, hooked } = openScene();
  hooked[0]?.doubted?.();
  hooked[0]?.owed?.(advanceOf('mine') as Operation, 'why');
  t.same(told, ['doubted', 'owed advance why']);
  t.end();
});

/** As the database refuses what is under a lease that is over. */
function leaseOver(): EdgeError {
  const cause = Object.assign(new Error('over'), { code: 'QL003' });
  return new EdgeError('unavailable', 'the lease is over', { cause, hint: 'look at the run' });
}

t.test('a lease that the database says is over is told as lost, to who submitted as well', async (t) => {
  const { store, sent, told } = openScene();
  const submitted = store.submit(advanceOf('mine'));
  sent[0]!.reject(leaseOver());
  await t.rejects(submitted, { code: 'unavailable' });
  t.same(told, ['lost']);
});

t.test('another failure, or of a lease that is not the present one, is no loss', async (t) => {
  const { store, sent, told, lease } = openScene();
  const failing = store.submit(advanceOf('mine'));
  sent[0]!.reject(new EdgeError('busy', 'others are in the way', { hint: 'try again' }));
  await t.rejects(failing, { code: 'busy' });
  const former = store.submit(advanceOf('mine'));
  store.take({ ...lease, token: 4 });
  sent[1]!.reject(leaseOver());
  await t.rejects(former, { code: 'unavailable' });
  const ended = store.submit(advanceOf('mine'));
  store.revoke();
  sent[2]!.reject(leaseOver());
  await t.rejects(ended, { code: 'unavailable' });
  t.same(told, []);
});

t.test(
  'closing waits for everything that was submitted, refuses what comes later, and then hears nothing',
  async (t) => {
    const { store, sent, told, hooked, reads, commit } = openScene();
    const first = store.submit(advanceOf('mine'));
    const second = store.submit(cancelOf('other')).catch((error: unknown) => isEdgeError(error));
    let isClosed = false;
    const closed = store.close().then(() => {
      isClosed = true;
    });
    await t.rejects(store.submit(advanceOf('mine')), refused);
    await t.rejects(store.submit(cancelOf('other')), refused);
    sent[0]!.resolve('answered');
    t.equal(await first, 'answered');
    await settle();
    t.equal(isClosed, false);
    commit(done(advanceOf('mine'), { kind: 'advanced', runId: 'mine', readyStepRunIds: ['a'] }, 'mine'));
    t.same(told, ['committed advance', 'touched mine'], 'what commits until then is told');
    t.not(hooked.at(-1), null);
    sent[1]!.reject(new EdgeError('busy', 'others are in the way', { hint: 'try again' }));
    t.equal(await second, true);
    await closed;
    t.equal(hooked.at(-1), null);
    store.wake();
    await settle();
    t.notOk(told.includes('closing'), 'and nothing begins any more');
    t.same(reads, [], 'the shared store stays open');
  },
);
