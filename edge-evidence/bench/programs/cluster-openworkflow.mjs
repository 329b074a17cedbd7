// OpenWorkflow on its PostgreSQL backend. A run is over when the backend has recorded its completion. Options: folder
// (its node_modules), url, length, chains, singles, atOnce.
import { pathToFileURL } from 'node:url';
import { ended, measureSubject } from './cluster-workload.mjs';
import measured from './measured.cjs';

const { options } = measured;
const load = (path) => import(pathToFileURL(`${options.folder}/openworkflow/dist/${path}`).href);
const { OpenWorkflow } = await load('index.js');
const { BackendPostgres } = await load('postgres.js');

const backend = await BackendPostgres.connect(options.url);
const complete = backend.completeWorkflowRun.bind(backend);
backend.completeWorkflowRun = async (...args) => {
  const outcome = await complete(...args);
  ended();
  return outcome;
};
const client = new OpenWorkflow({ backend });
const chain = client.defineWorkflow({ name: 'chain' }, async ({ step, input }) => {
  for (let index = 0; index < input.length; index += 1) {
    await step.run({ name: `s${index}` }, () => null);
  }
  return null;
});
const worker = client.newWorker({ concurrency: options.atOnce });

await measureSubject({
  start: (length) => chain.run({ length }),
  work: () => worker.start(),
  isDrained: async () => true,
  async close() {
    await worker.stop();
    await backend.stop();
  },
});
