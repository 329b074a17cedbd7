// The product's cluster runtime with in-process handlers. Options: library (its bundle), url, data, package (its
// directory), length, chains, singles, atOnce.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { ended, measureSubject } from './cluster-workload.mjs';
import measured from './measured.cjs';

const { options } = measured;
const { migratePostgres, openClusterRuntime } = createRequire(import.meta.url)(options.library);
const { url, data, length, atOnce } = options;

await migratePostgres({ url });
const caller = await openClusterRuntime({ url, data: join(data, 'caller'), drives: false });
await caller.install(options.package);
const last = new Set(['one', `s${length - 1}`]);
const handlers = {
  'chain/work': ({ stepKey }) => {
    last.has(stepKey) && ended();
  },
};
let runtime = null;
const tripsOf = { caller: 0 };

await measureSubject({
  async start(steps) {
    const workflowId = steps === 1 ? 'one' : 'main';
    const { kind } = await (runtime ?? caller).start({ packageName: 'chain', workflowId });
    if (kind !== 'created') {
      throw new RangeError(`a run was ${kind}`);
    }
  },
  async work() {
    tripsOf.caller = caller.roundTrips;
    runtime = await openClusterRuntime({ url, data: join(data, 'worker'), handlers, concurrency: atOnce });
  },
  isDrained: async () => (await runtime.counts()).runningCount === 0,
  roundTrips: () => runtime?.roundTrips ?? caller.roundTrips,
  async close() {
    await runtime.close();
    await caller.close();
  },
});
