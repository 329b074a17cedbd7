// DBOS: workflows started in its process, as many at once as the others have. Options: folder (its node_modules), url,
// length, chains, singles, atOnce.
import { createRequire } from 'node:module';
import { ended, measureSubject } from './cluster-workload.mjs';
import measured from './measured.cjs';

const { options } = measured;
const { DBOS } = createRequire(`${options.folder}/`)('@dbos-inc/dbos-sdk');
const { url, atOnce } = options;

DBOS.setConfig({ name: 'bench', systemDatabaseUrl: url, systemDatabasePoolSize: atOnce, logLevel: 'error' });
const nothing = async () => null;
const chain = DBOS.registerWorkflow(
  async (length) => {
    for (let index = 0; index < length; index += 1) {
      await DBOS.runStep(nothing, { name: `s${index}` });
    }
  },
  { name: 'chain' },
);
await DBOS.launch();

let isWorking = false;
const early = [];
let running = 0;
const waiting = [];

/** It has no limit of its own for what it starts directly. */
async function slot() {
  if (running >= atOnce) {
    await new Promise((resolve) => waiting.push(resolve));
  }
  running += 1;
}

async function finish(handle) {
  await handle.getResult();
  running -= 1;
  waiting.shift()?.();
  ended();
}

await measureSubject({
  async start(length) {
    await slot();
    const handle = await DBOS.startWorkflow(chain)(length);
    if (isWorking) {
      void finish(handle);
    } else {
      // It starts at once what it admits: its end is waited for outside of the time of an admission.
      early.push(handle);
      running -= 1;
    }
  },
  async work() {
    isWorking = true;
    for (const handle of early) {
      running += 1;
      await finish(handle);
    }
  },
  isDrained: async () => true,
  close: () => DBOS.shutdown(),
});
