// Chains of steps that are commands, and bare spawns of a shell with the same command, in turn in one process.
// Options: library, data, runDirectory, durability, package, length (of its chain), chains.
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const { options, measure, answer } = require('./measured.cjs');

const { openRuntime } = require(options.library);
const { data, runDirectory, durability, length, chains } = options;
const profile = durability === 'wal-full' ? 'standalone' : 'edge';

async function spawnBare() {
  for (let count = 0; count < length; count += 1) {
    await once(spawn('/bin/sh', ['-c', '/bin/true'], { stdio: 'ignore' }), 'exit');
  }
}

async function main() {
  const runtime = await openRuntime({ data, runDirectory, profile, durability });
  await runtime.install(options.package);
  const runOne = async () => {
    const { receipt } = await runtime.start({ packageName: 'chain', workflowId: 'main' });
    for await (const event of runtime.events(receipt.runId)) {
      if (event.type === 'workflow.failed') {
        throw new RangeError('a run failed');
      }
    }
  };
  await runOne();
  await spawnBare();
  const total = { spawned: 0, bare: 0 };
  for (let count = 0; count < chains; count += 1) {
    total.spawned += (await measure(runOne)).ms;
    total.bare += (await measure(spawnBare)).ms;
  }
  const steps = chains * length;
  answer({ spawnedMs: total.spawned / steps, bareMs: total.bare / steps });
  await runtime.close();
}

main();
