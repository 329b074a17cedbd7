// Every order of what may happen to an attempt, on every kind of store.
import t from 'tap';
import { createOrdersContract } from './orders.ts';
import { storesOfEachKind } from './stores.ts';

for (const { name, ordersStep, prepare } of storesOfEachKind) {
  t.test(name, async (t) => {
    const openWorld = await prepare(t);
    for (const { name, run } of createOrdersContract(ordersStep)) {
      t.test(name, (t) => run(t, openWorld));
    }
  });
}
