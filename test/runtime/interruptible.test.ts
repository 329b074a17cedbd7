import t from 'tap';
import { interruptible } from '../../src/runtime/interruptible.ts';

t.test('an iteration gives what its generator gives, then its end or its error', async (t) => {
  const seen: number[] = [];
  for await (const value of interruptible(async function* () {
    yield* [1, 2, 3];
  })) {
    seen.push(value);
  }
  t.same(seen, [1, 2, 3]);
  const failing = interruptible<number>(async function* () {
    yield 1;
    throw new RangeError('no more');
  });
  t.same(await failing.next(), { done: false, value: 1 });
  await t.rejects(failing.next(), { name: 'RangeError' });
});

t.test('return ends a wait at once, and the generator comes to its end', async (t) => {
  const isOver = Promise.withResolvers<boolean>();
  const never = new Promise<void>(() => {});
  const events = interruptible<number>(async function* (leaving) {
    try {
      yield 1;
      await leaving.orUntilLeft(never);
      yield leaving.isLeft ? -1 : 2;
    } finally {
      isOver.resolve(leaving.isLeft);
    }
  });
  t.same(await events.next(), { done: false, value: 1 });
  const waiting = [events.next(), events.next()];
  t.same(await events.return?.(), { done: true, value: undefined });
  t.same(await Promise.all(waiting), [
    { done: true, value: undefined },
    { done: true, value: undefined },
  ]);
  t.equal(await isOver.promise, true);
  t.same(await events.next(), { done: true, value: undefined }, 'and nothing comes after');
});

t.test('an iteration that is left before it began never begins', async (t) => {
  let hasBegun = false;
  const events = interruptible<number>(async function* () {
    hasBegun = true;
    yield 1;
  });
  await events.return?.();
  t.same(await events.next(), { done: true, value: undefined });
  t.equal(hasBegun, false);
});

t.test('a wait that fails fails the iteration', async (t) => {
  const events = interruptible<number>(async function* (leaving) {
    await leaving.orUntilLeft(Promise.reject(new RangeError('broken')));
    yield 1;
  });
  await t.rejects(events.next(), { name: 'RangeError' });
});
