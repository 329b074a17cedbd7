import t from 'tap';
import { closeAll } from '../../src/runtime/close-all.ts';

t.test('the last one first, each whatever the others throw; the first error is told', async (t) => {
  const closed: string[] = [];
  const part = (name: string, error: Error | null = null) => ({
    async close() {
      closed.push(name);
      if (error !== null) {
        throw error;
      }
    },
  });
  await closeAll([]);
  await closeAll([part('a'), part('b')]);
  t.same(closed, ['b', 'a']);
  closed.length = 0;
  const parts = [part('a'), part('b', new TypeError('of b')), part('c'), part('d', new TypeError('of d'))];
  await t.rejects(closeAll(parts), { message: 'of d' });
  t.same(closed, ['d', 'c', 'b', 'a']);
});
