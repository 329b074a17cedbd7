// The same chains through plainjob, a queue without workflows: the end of each step adds the next one. It takes a
// connection of a shape that node:sqlite is given here, so that all have the same SQLite. Its worker does one after the
// other, however many there are. Options: folder (its node_modules), file, durability, length, chains, atOnce.
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import measured from './measured.cjs';

const { options, measure, answer, durabilities } = measured;
const { folder, file, durability, length, chains, atOnce } = options;
const { defineQueue, defineWorker } = await import(pathToFileURL(`${folder}/plainjob/dist/plainjob.js`).href);

const db = new DatabaseSync(file);

function transaction(work) {
  const run =
    (begin) =>
    (...args) => {
      db.exec(begin);
      try {
        const result = work(...args);
        db.exec('COMMIT');
        return result;
      } catch (error) {
        db.exec('ROLLBACK');
        throw error;
      }
    };
  return Object.assign(run('BEGIN'), { immediate: run('BEGIN IMMEDIATE') });
}

const silent = { error: () => {}, warn: () => {}, info: () => {}, debug: () => {} };
const queue = defineQueue({
  connection: {
    driver: 'better-sqlite3',
    filename: file,
    pragma: (text) => db.exec(`PRAGMA ${text}`),
    exec: (text) => db.exec(text),
    prepare: (text) => db.prepare(text),
    transaction,
    close: () => db.close(),
  },
  logger: silent,
});
// It asks for WAL and NORMAL by itself.
for (const pragma of durabilities[durability]) {
  db.exec(`PRAGMA ${pragma}`);
}

/** So many chains, `atOnce` of them in the queue at any time; resolves when all have ended. */
async function runChains(count) {
  let begun = 0;
  let left = count;
  const over = Promise.withResolvers();
  const begin = () => {
    begun += 1;
    queue.add('step', { index: 0 });
  };
  const processStep = async (step) => {
    const { index } = JSON.parse(step.data);
    if (index + 1 < length) {
      queue.add('step', { index: index + 1 });
    }
  };
  const onCompleted = (step) => {
    if (JSON.parse(step.data).index + 1 < length) {
      return;
    }
    left -= 1;
    if (begun < count) {
      begin();
    } else if (left === 0) {
      over.resolve();
    }
  };
  while (begun < Math.min(atOnce, count)) {
    begin();
  }
  const worker = defineWorker('step', processStep, { queue, logger: silent, onCompleted });
  const ended = worker.start();
  await over.promise;
  const stopped = worker.stop();
  return { ended, stopped };
}

await runChains(atOnce);
let stopping = null;
const figures = await measure(async () => {
  stopping = await runChains(chains);
});
answer({ ...figures, steps: chains * length });
await stopping.stopped;
queue.close();
