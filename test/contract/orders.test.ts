// Every order of what may happen to an attempt, on every kind of store.
import t from 'tap';
import { ordersContract } from './orders.ts';
import { storesOfEachKind } from './stores.ts';

for (const { name, prepare } of storesOfEachKind) {
  t.test(name, async (t) => {
    const openWorld = await prepare(t);
    for (const { name, run } of ordersContract) {
      t.test(name, (t) => run(t, openWorld));
    }
  });
}
