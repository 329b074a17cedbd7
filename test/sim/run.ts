// `npm run sim`: simulations by the thousand, on all cores. Ends with 1 if a seed failed, or if something never
// happened that has to be met. A seed is the same on every machine:
//   npm run sim -- --seeds N [--from S]       seeds S to S+N−1; S is 1 by default
//     --counts        also prints how often everything happened
//     --first         ends with the first seed that fails
//     --uncounted     does not mind what never happened
//   npm run sim -- --seed S                   one seed, with its whole trace
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { readOrExit } from '../../edge-evidence/usage.ts';
import { addCounts, type Counts, findBlindSpots, formatCounts } from './coverage.ts';
import { takeOverLoop } from './loop.ts';
import { simulateSeed } from './seed.ts';

export type SeedFailure = { readonly seed: number; readonly complaints: readonly string[] };

type Line = { readonly counts: readonly (readonly [string, number])[] } & Partial<SeedFailure>;

// Failing seeds that are still looked for, each worker; more say nothing new.
const failuresMax = 3;
// Below this, what never happens may be chance.
const coverageSeedsMin = 300;

function readOptions() {
  const { values } = parseArgs({
    options: {
      seeds: { type: 'string', default: '1000' },
      from: { type: 'string', default: '1' },
      seed: { type: 'string' },
      step: { type: 'string' },
      place: { type: 'string', default: '' },
      counts: { type: 'boolean', default: false },
      first: { type: 'boolean', default: false },
      uncounted: { type: 'boolean', default: false },
    },
  });
  const numbers = { seeds: Number(values.seeds), from: Number(values.from) };
  const isValid = Object.values(numbers).every((value) => Number.isSafeInteger(value) && value >= 0);
  const { seed, step, place, counts, first, uncounted } = values;
  return isValid ? { ...numbers, seed, step, place, counts, first, uncounted } : null;
}

/** For what the runtime reads from its run directory itself. Removed here, for a worker may be ended at any moment. */
async function withPlace<T>(work: (place: string) => Promise<T>): Promise<T> {
  const place = mkdtempSync(path.join(tmpdir(), 'qinglong-sim-'));
  try {
    return await work(place);
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}

async function showSeed(seed: number): Promise<boolean> {
  const loop = takeOverLoop();
  const { trace, complaints } = await withPlace((place) => simulateSeed(seed, loop, place));
  print(trace.join('\n'));
  print(
    complaints.length === 0 ? `seed ${seed}: nothing to complain of` : `seed ${seed}:\n  ${complaints.join('\n  ')}`,
  );
  return complaints.length === 0;
}

type Share = { readonly from: number; readonly seeds: number; readonly step: number; readonly place: string };

/** Every `step`th seed of the range, a line of JSON each. */
async function work({ from, seeds, step, place }: Share): Promise<void> {
  const loop = takeOverLoop();
  let failures = 0;
  for (let done = 0; done < seeds && failures < failuresMax; done += step) {
    const { seed, complaints, counts } = await simulateSeed(from + done, loop, place);
    failures += complaints.length > 0 ? 1 : 0;
    const failure = complaints.length === 0 ? {} : { seed, complaints };
    print(JSON.stringify({ counts: [...counts], ...failure } satisfies Line));
  }
}

async function runAll(options: Omit<Share, 'step'> & { readonly first: boolean }) {
  const { seeds, from, first, place } = options;
  const children: ChildProcess[] = [];
  let isStopped = false;
  const workers = Math.max(1, Math.min(availableParallelism(), seeds));
  const sums = new Map<string, number>();
  const failures: SeedFailure[] = [];
  let done = 0;
  const share = async (index: number) => {
    const own = path.join(place, `${index}`);
    const args = ['--from', `${from + index}`, '--seeds', `${seeds - index}`, '--step', `${workers}`, '--place', own];
    const child = spawn(process.execPath, [import.meta.filename, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
    children.push(child);
    const ended = new Promise<number | null>((resolve) => child.once('close', (status) => resolve(status)));
    for await (const text of createInterface({ input: child.stdout })) {
      const { counts, seed, complaints } = JSON.parse(text) as Line;
      addCounts(sums, counts);
      done += 1;
      if (seed !== undefined && complaints !== undefined) {
        failures.push({ seed, complaints });
        isStopped ||= first;
      }
      if (isStopped) {
        for (const other of children) {
          other.kill();
        }
      }
    }
    const status = await ended;
    if (status !== 0 && !isStopped) {
      failures.push({ seed: Number.NaN, complaints: [`a worker ended with ${status}`] });
    }
  };
  await Promise.all(Array.from({ length: workers }, (_, index) => share(index)));
  const counts: Counts = Object.fromEntries(sums);
  return { done, counts, failures: failures.sort((one, other) => one.seed - other.seed) };
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

const usage = 'npm run sim -- --seeds N [--from S] [--counts] | --seed S';

async function main(): Promise<number> {
  const options = readOrExit(usage, readOptions);
  if (options === null) {
    process.stderr.write(`usage: ${usage}\n`);
    return 2;
  }
  const { seeds, from, seed, step, place: own, counts: isCounting, uncounted } = options;
  if (seed !== undefined) {
    return (await showSeed(Number(seed))) ? 0 : 1;
  }
  if (step !== undefined) {
    await work({ from, seeds, step: Number(step), place: own });
    return 0;
  }
  const began = performance.now();
  const { done, counts, failures } = await withPlace((place) => runAll({ ...options, place }));
  const seconds = (performance.now() - began) / 1_000;
  const blind = seeds >= coverageSeedsMin && failures.length === 0 && !uncounted ? findBlindSpots(counts) : [];
  if (isCounting || blind.length > 0) {
    print(formatCounts(counts));
  }
  for (const { seed: failed, complaints } of failures) {
    print(`seed ${failed} failed: ${complaints[0]}\n  see it with: npm run sim -- --seed ${failed}`);
  }
  for (const name of blind) {
    print(`never happened: ${name}`);
  }
  print(`${done} seeds in ${seconds.toFixed(1)} s, ${failures.length} failed`);
  return failures.length === 0 && blind.length === 0 ? 0 : 1;
}

process.exitCode = await main();
