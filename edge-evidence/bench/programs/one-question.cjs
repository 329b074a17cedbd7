// Opens a data directory, says so, waits for a line on stdin (meanwhile the page cache is dropped), and measures one
// thing asked of it: `admit`, `advance` or `list`. Options: library, data, runDirectory, durability, question.
const { once } = require('node:events');
const { options, measure, answer } = require('./measured.cjs');

const { openRuntime } = require(options.library);
const { data, runDirectory, durability, question } = options;
const profile = durability === 'wal-full' ? 'standalone' : 'edge';

async function main() {
  const handlers = { 'chain/work': () => {} };
  const runtime = await openRuntime({ data, runDirectory, profile, durability, handlers });
  const questions = {
    admit: () => runtime.start({ packageName: 'chain', workflowId: 'one' }),
    advance: () => runtime.advance(),
    list: () => runtime.runs({ limit: 20 }),
  };
  process.stdout.write('open\n');
  await once(process.stdin, 'data');
  let result = null;
  const measured = await measure(async () => {
    result = await questions[question]();
  });
  if (question === 'admit') {
    for await (const event of runtime.events(result.receipt.runId)) {
      void event;
    }
  }
  answer(measured);
  await runtime.close();
  process.stdin.destroy();
}

main();
