// graphile-worker, a queue without workflows: each step adds the next one. Options: folder (its node_modules), url,
// length, chains, singles, atOnce.
import { createRequire } from 'node:module';
import { ended, measureSubject } from './cluster-workload.mjs';
import measured from './measured.cjs';

const { options } = measured;
const require = createRequire(`${options.folder}/`);
const { Logger, makeWorkerUtils, run } = require('graphile-worker');
const pg = require('pg');
const { url, atOnce } = options;

const pgPool = new pg.Pool({ connectionString: url, max: atOnce + 2 });
pgPool.on('error', () => {});
pgPool.on('connect', (client) => client.on('error', () => {}));
const logger = new Logger(() => () => {});
const utils = await makeWorkerUtils({ pgPool, logger });
await utils.migrate();
let runner = null;

const taskList = {
  async step({ left }, { addJob }) {
    if (left > 1) {
      await addJob('step', { left: left - 1 });
    } else {
      ended();
    }
  },
};

await measureSubject({
  start: (length) => utils.addJob('step', { left: length }),
  async work() {
    runner = await run({
      ...{ pgPool, taskList, logger, noHandleSignals: true, concurrency: atOnce },
      preset: {
        worker: {
          concurrentJobs: atOnce,
          localQueue: { size: 2 * atOnce },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
        },
      },
    });
  },
  async isDrained() {
    const { rows } = await pgPool.query('SELECT 1 FROM graphile_worker._private_jobs LIMIT 1');
    return rows.length === 0;
  },
  async close() {
    await runner.stop();
    await utils.release();
    await pgPool.end();
  },
});
