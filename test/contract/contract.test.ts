// The contract suite: the same cases on every store.
import t from 'tap';
import { activityContract } from './activity.ts';
import { admissionContract } from './admission.ts';
import { executionContract } from './execution.ts';
import { newsContract } from './news.ts';
import { publisherContract } from './publisher.ts';
import { retryContract } from './retry.ts';
import { settingsContract } from './settings.ts';
import { stores } from './stores.ts';

const contract = [
  ...admissionContract,
  ...executionContract,
  ...newsContract,
  ...retryContract,
  ...activityContract,
  ...settingsContract,
  ...publisherContract,
];

for (const { name, prepare } of stores) {
  t.test(name, async (t) => {
    const openWorld = await prepare(t);
    for (const { name, run } of contract) {
      t.test(name, (t) => run(t, openWorld));
    }
  });
}
