// Makes a data directory with so many finished one-step runs, through the product's own library: as many at once as a
// turn takes. Nobody follows them; a run's end is with its handler's, and all of them are looked at in the end.
// Options: library, data, runDirectory, package, runs.
const { options, measure, answer } = require('./measured.cjs');

const { openRuntime } = require(options.library);
const { data, runDirectory, runs } = options;
const atOnce = 64;

async function main() {
  let begun = 0;
  let begin = () => {};
  const handlers = { 'chain/work': () => begin() };
  const profile = 'standalone';
  const runtime = await openRuntime({ data, runDirectory, profile, handlers, concurrency: atOnce });
  await runtime.install(options.package);
  const starts = new Set();
  begin = () => {
    if (begun < runs) {
      begun += 1;
      const start = runtime.start({ packageName: 'chain', workflowId: 'one' });
      starts.add(start);
      start.then(() => starts.delete(start));
    }
  };
  const measured = await measure(async () => {
    while (begun < Math.min(atOnce, runs)) {
      begin();
    }
    while (starts.size > 0) {
      await Promise.all(starts);
    }
    for (let left = 1; left > 0; ) {
      const running = await runtime.runs({ status: 'running', limit: 64 });
      left = running.length;
      for (const { id } of running) {
        for await (const event of runtime.events(id)) {
          left = event.type === 'workflow.failed' ? 0 : left;
        }
      }
    }
  });
  answer({ ...measured, runs: begun });
  await runtime.close();
}

main();
