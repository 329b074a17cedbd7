// The longest time for which the event loop of an embedding process does not come round, while a workflow of 128 steps
// side by side is admitted and carried out by in-process handlers; or, as the floor, while one row is committed.
// Options: library, data, runDirectory, durability, package; or durability, file.
const { monitorEventLoopDelay } = require('node:perf_hooks');
const { setTimeout: sleep } = require('node:timers/promises');
const { DatabaseSync } = require('node:sqlite');
const { options, answer, durabilities } = require('./measured.cjs');

const { durability } = options;

/** Milliseconds; the histogram's own timer, which comes every millisecond, is part of it. */
async function watch(work) {
  const delays = monitorEventLoopDelay({ resolution: 1 });
  await sleep(50);
  delays.enable();
  await sleep(20);
  delays.reset();
  await work();
  // The last block is noted when the loop comes round after it.
  await sleep(20);
  delays.disable();
  return delays.max / 1e6;
}

function openRaw() {
  const db = new DatabaseSync(options.file);
  db.exec('PRAGMA page_size = 1024');
  for (const pragma of durabilities[durability]) {
    db.exec(`PRAGMA ${pragma}`);
  }
  db.exec('CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT) STRICT');
  const insert = db.prepare('INSERT INTO t (v) VALUES (?)');
  return () => insert.run('one row');
}

async function watchProduct() {
  const { openRuntime } = require(options.library);
  const { data, runDirectory } = options;
  const profile = durability === 'wal-full' ? 'standalone' : 'edge';
  const handlers = { 'chain/work': () => {} };
  const runtime = await openRuntime({ data, runDirectory, profile, durability, handlers });
  await runtime.install(options.package);
  const blockMs = await watch(async () => {
    const { receipt } = await runtime.start({ packageName: 'chain', workflowId: 'wide' });
    for await (const event of runtime.events(receipt.runId)) {
      void event;
    }
  });
  await runtime.close();
  return blockMs;
}

async function main() {
  const commit = options.library === undefined ? openRaw() : null;
  const blockMs = commit === null ? await watchProduct() : await watch(async () => commit());
  answer({ blockMs });
}

main();
