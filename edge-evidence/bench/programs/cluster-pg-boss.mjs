// pg-boss, a queue without workflows: each step adds the next one. Options: folder (its node_modules), url, length,
// chains, singles, atOnce.
import { pathToFileURL } from 'node:url';
import { ended, measureSubject } from './cluster-workload.mjs';
import measured from './measured.cjs';

const { options } = measured;
const { PgBoss } = await import(pathToFileURL(`${options.folder}/pg-boss/dist/index.js`).href);
const { url, atOnce } = options;

const boss = new PgBoss({ connectionString: url, max: atOnce, useListenNotify: true, schedule: false });
boss.on('error', (error) => process.stderr.write(`${error.stack}\n`));
await boss.start();
await boss.createQueue('step', { notify: true });

/** Of a batch, the next steps in one statement. */
async function carryOut(batch) {
  const next = batch.filter(({ data }) => data.left > 1).map(({ data }) => ({ data: { left: data.left - 1 } }));
  if (next.length > 0) {
    await boss.insert('step', next);
  }
  for (const { data } of batch) {
    data.left === 1 && ended();
  }
}

await measureSubject({
  start: (length) => boss.send('step', { left: length }),
  work: () => boss.work('step', { batchSize: atOnce, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 }, carryOut),
  async isDrained() {
    const { rows } = await boss.getDb().executeSql(`SELECT 1 FROM pgboss.job WHERE state < 'completed' LIMIT 1`);
    return rows.length === 0;
  },
  close: () => boss.stop({ graceful: false }),
});
