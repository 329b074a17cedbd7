// The same chains through OpenWorkflow on its SQLite backend (node:sqlite). Options: folder (its node_modules), file,
// durability, length, chains, atOnce. A worker is started when its runs are queued, so that it never waits for its next
// poll while it is measured; a run is over when the backend has recorded its completion.
import { pathToFileURL } from 'node:url';
import measured from './measured.cjs';

const { options, measure, answer, durabilities } = measured;
const { folder, file, durability, length, chains, atOnce } = options;
const load = (path) => import(pathToFileURL(`${folder}/openworkflow/dist/${path}`).href);
const { OpenWorkflow } = await load('index.js');
const { BackendSqlite } = await load('sqlite.js');

const backend = BackendSqlite.connect(file);
for (const pragma of durabilities[durability]) {
  backend.db.exec(`PRAGMA ${pragma}`);
}

let completed = 0;
let allCompleted = { count: 0, resolve: () => {} };
const complete = backend.completeWorkflowRun.bind(backend);
backend.completeWorkflowRun = async (...args) => {
  const outcome = await complete(...args);
  completed += 1;
  if (completed === allCompleted.count) {
    allCompleted.resolve();
  }
  return outcome;
};

const client = new OpenWorkflow({ backend });
const chain = client.defineWorkflow({ name: 'chain' }, async ({ step }) => {
  for (let index = 0; index < length; index += 1) {
    await step.run({ name: `s${index}` }, () => null);
  }
  return null;
});
const worker = client.newWorker({ concurrency: atOnce });

/** So many chains at once; time and bytes from the first admission to the last completion. */
async function runBatch(count) {
  completed = 0;
  const over = Promise.withResolvers();
  allCompleted = { count, resolve: over.resolve };
  const figures = await measure(async () => {
    for (let started = 0; started < count; started += 1) {
      await chain.run({});
    }
    await worker.start();
    await over.promise;
  });
  await worker.stop();
  return figures;
}

await runBatch(atOnce);
const total = { ms: 0, bytes: 0 };
for (let done = 0; done < chains; done += atOnce) {
  const { ms, bytes } = await runBatch(Math.min(atOnce, chains - done));
  total.ms += ms;
  total.bytes += bytes;
}
answer({ ...total, steps: chains * length });
await backend.stop();
