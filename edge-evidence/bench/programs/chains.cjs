// Chains of in-process steps through the product's own library. Options: library, data, runDirectory, durability,
// package (its directory), length (of a chain), chains, atOnce.
const { options, measure, answer } = require('./measured.cjs');

const { openRuntime } = require(options.library);
const { data, runDirectory, durability, length, chains, atOnce } = options;
const profile = durability === 'wal-full' ? 'standalone' : 'edge';

async function main() {
  const handlers = { 'chain/work': () => {} };
  const runtime = await openRuntime({ data, runDirectory, profile, durability, handlers, concurrency: atOnce });
  await runtime.install(options.package);
  const runOne = async () => {
    const { receipt } = await runtime.start({ packageName: 'chain', workflowId: 'main' });
    let last = '';
    for await (const event of runtime.events(receipt.runId)) {
      last = event.type;
    }
    if (last !== 'workflow.succeeded') {
      throw new RangeError(`a run ended with ${last}`);
    }
  };
  const runAll = async (count) => {
    for (let done = 0; done < count; done += atOnce) {
      await Promise.all(Array.from({ length: Math.min(atOnce, count - done) }, runOne));
    }
  };
  await runAll(atOnce);
  const measured = await measure(() => runAll(chains));
  answer({ ...measured, steps: chains * length });
  await runtime.close();
}

main();
