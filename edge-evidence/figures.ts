// `npm run figures`: what the shipped bundle costs, each figure beside its floor from the same run, medians. Prints one
// JSON document on stdout and a table on stderr. Asserts nothing: budgets are compared by whoever reads it.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

const dist = join(import.meta.dirname, '../dist');
const bundle = join(dist, 'qinglong-edge.cjs');
const repeats = 5;
const chainLength = 8;
const chainsPerRun = 20;

type Figure = {
  readonly name: string;
  readonly unit: string;
  readonly value: number;
  /** What bare Node with the same database costs; null where nothing compares. */
  readonly floor: number | null;
};

function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** A chain of steps that do nothing; the same package for every figure. */
function writeChain(directory: string): string {
  mkdirSync(directory, { recursive: true });
  const steps = Object.fromEntries(
    Array.from({ length: chainLength }, (_, index) => [
      `s${index}`,
      { task: 'work', needs: index === 0 ? [] : [`s${index - 1}`] },
    ]),
  );
  const tasks = { work: { run: ['/bin/true'] } };
  const manifest = {
    schema: 'qinglong/package@v1',
    name: 'chain',
    version: '1.0.0',
    tasks,
    workflows: { main: { steps } },
  };
  writeFileSync(join(directory, 'qinglong.json'), JSON.stringify(manifest));
  return directory;
}

/** Starts a process that prints a line when it is ready; gives the time to that line, and the process. */
async function startToReady(args: readonly string[]) {
  const began = process.hrtime.bigint();
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  return { child, readyMs: Number(process.hrtime.bigint() - began) / 1e6 };
}

function residentKib(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]);
}

const floorProgram = `
require('node:crypto'); require('node:child_process');
const { DatabaseSync } = require('node:sqlite');
const db = new DatabaseSync(process.argv[1]);
db.prepare('SELECT count(*) FROM sqlite_schema').get();
console.log('ready');
setInterval(() => {}, 2 ** 31 - 1);
`;

async function measureDaemon(root: string, profile: string): Promise<readonly Figure[]> {
  const data = join(root, `daemon-${profile}`);
  const common = [bundle, '--data', data, '--run-dir', join(root, `run-${profile}`)];
  spawnSync(process.execPath, [...common, '--profile', profile, 'serve', '--until-idle'], { stdio: 'ignore' });
  const measure = async (args: readonly string[], settleMs: number) => {
    const { child, readyMs } = await startToReady(args);
    // Memory is looked at when the start's garbage has had its chance to go.
    await new Promise((resolve) => setTimeout(resolve, settleMs));
    const kib = residentKib(child.pid ?? 0);
    child.kill('SIGTERM');
    await once(child, 'exit');
    return { readyMs, kib };
  };
  const product: { readyMs: number; kib: number }[] = [];
  const floor: { readyMs: number; kib: number }[] = [];
  for (let count = 0; count < repeats; count += 1) {
    floor.push(await measure(['-e', floorProgram, join(data, 'qinglong.db')], 1_000));
    product.push(await measure([...common, 'serve'], 1_000));
  }
  const figure = (name: string, unit: string, key: 'readyMs' | 'kib'): Figure => ({
    name: `${profile}: ${name}`,
    unit,
    value: median(product.map((entry) => entry[key])),
    floor: median(floor.map((entry) => entry[key])),
  });
  return [figure('start to ready', 'ms', 'readyMs'), figure('idle VmRSS', 'KiB', 'kib')];
}

const chainProgram = `
const { openRuntime } = require(process.argv[1]);
const { readFileSync } = require('node:fs');
const [, , data, runDirectory, profile, chain, chains] = process.argv;
const written = () => Number(/write_bytes: (\\d+)/.exec(readFileSync('/proc/self/io', 'latin1'))[1]);
(async () => {
  const handlers = { 'chain/work': () => {} };
  const runtime = await openRuntime({ data, runDirectory, profile, handlers });
  await runtime.install(chain);
  const one = async () => {
    const { receipt } = await runtime.start({ packageName: 'chain', workflowId: 'main' });
    for await (const event of runtime.events(receipt.runId)) { void event; }
  };
  await one();
  const bytes = written();
  const began = process.hrtime.bigint();
  for (let count = 0; count < Number(chains); count += 1) await one();
  const ms = Number(process.hrtime.bigint() - began) / 1e6;
  console.log(JSON.stringify({ bytes: written() - bytes, ms }));
  await runtime.close();
})();
`;

const rawCommitProgram = `
const { DatabaseSync } = require('node:sqlite');
const { readFileSync } = require('node:fs');
const [, file, profile, commits] = process.argv;
const written = () => Number(/write_bytes: (\\d+)/.exec(readFileSync('/proc/self/io', 'latin1'))[1]);
const db = new DatabaseSync(file);
db.exec('PRAGMA page_size = 1024');
const modes = profile === 'edge' ? ['DELETE', 'EXTRA'] : ['WAL', 'FULL'];
db.exec('PRAGMA journal_mode = ' + modes[0] + '; PRAGMA synchronous = ' + modes[1]);
db.exec('CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT) STRICT');
const insert = db.prepare('INSERT INTO t (v) VALUES (?)');
const commit = () => { db.exec('BEGIN IMMEDIATE'); insert.run('one row'); db.exec('COMMIT'); };
for (let count = 0; count < 20; count += 1) commit();
const bytes = written();
const began = process.hrtime.bigint();
for (let count = 0; count < Number(commits); count += 1) commit();
const ms = Number(process.hrtime.bigint() - began) / 1e6;
console.log(JSON.stringify({ bytes: written() - bytes, ms }));
`;

type Written = { readonly bytes: number; readonly ms: number };

function runForJson(args: readonly string[]): Written {
  const { stdout } = spawnSync(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  return JSON.parse(`${stdout}`) as Written;
}

function measureChains(root: string, profile: string): readonly Figure[] {
  const chain = writeChain(join(root, 'chain'));
  const steps = chainsPerRun * chainLength;
  const products: Written[] = [];
  const floors: Written[] = [];
  for (let count = 0; count < repeats; count += 1) {
    const place = mkdtempSync(join(root, 'chains-'));
    floors.push(runForJson(['-e', rawCommitProgram, join(place, 'raw.db'), profile, `${steps}`]));
    const args = [join(place, 'data'), join(place, 'run'), profile, chain, `${chainsPerRun}`];
    products.push(runForJson(['-e', chainProgram, join(dist, 'index.cjs'), ...args]));
    rmSync(place, { recursive: true });
  }
  const perStep = (entries: readonly Written[], key: keyof Written) =>
    median(entries.map((entry) => entry[key])) / steps;
  return [
    {
      name: `${profile}: written per sequential step`,
      unit: 'KiB',
      value: perStep(products, 'bytes') / 1024,
      floor: perStep(floors, 'bytes') / 1024,
    },
    {
      name: `${profile}: time of a sequential in-process step`,
      unit: 'ms',
      value: perStep(products, 'ms'),
      floor: perStep(floors, 'ms'),
    },
  ];
}

function printTable(figures: readonly Figure[]): void {
  for (const { name, unit, value, floor } of figures) {
    const ratio = floor === null ? '' : `  floor ${floor.toFixed(2)} ${unit}, ratio ${(value / floor).toFixed(2)}`;
    process.stderr.write(`${name.padEnd(48)} ${value.toFixed(2).padStart(10)} ${unit}${ratio}\n`);
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { scratch: { type: 'string', default: 'figures.scratch' } } });
  mkdirSync(values.scratch, { recursive: true });
  // A real disk, not /tmp, which may be memory.
  const root = mkdtempSync(join(values.scratch, 'figures-'));
  try {
    const figures: Figure[] = [{ name: 'bundle', unit: 'bytes', value: statSync(bundle).size, floor: null }];
    for (const profile of ['edge', 'standalone']) {
      figures.push(...(await measureDaemon(root, profile)), ...measureChains(root, profile));
    }
    printTable(figures);
    const subject = { node: process.version, sqlite: process.versions['sqlite'], arch: process.arch };
    process.stdout.write(`${JSON.stringify({ schema: 'qinglong/figures@v1', subject, repeats, figures }, null, 2)}\n`);
  } finally {
    rmSync(root, { recursive: true });
  }
}

await main();
