// The footprint on the device itself, without tools: start, memory, what an idle daemon does, and what a step costs,
// each beside what bare Node.js takes. Figures are recorded; only counts that must be exact decide over pass and fail.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Observation } from '../crash-window/point.ts';
import { preloadWith } from '../crash-window/preload.ts';
import {
  bundleOptions,
  commonArguments,
  databaseOf,
  EvidenceError,
  type Mode,
  mustRun,
  runBundle,
  type Site,
  siteAt,
} from '../operation.ts';
import { type Memory, readActivity, readMemory, readWrittenBytes } from '../process-io.ts';
import { type Part, type PartOptions, type Scenario, scenarioOf } from '../report.ts';
import { clearFolder } from '../site-copy.ts';
import { commitProgram, idleProgram } from './floor.ts';

const chainLength = 8;
const sharedMemory = '/dev/shm';
/** As long as a start leaves garbage behind that is collected on its own. */
const settleMs = 1_500;

type Extent = { readonly repeats: number; readonly idleMs: number };
const fullExtent: Extent = { repeats: 5, idleMs: 10_000 };
const quickExtent: Extent = { repeats: 1, idleMs: 1_000 };

const limits = [
  'times and memory depend on what else the device does; they are recorded, and decide nothing',
  'written bytes are what the kernel was told to send to the storage, not what flash cells wear',
  'syncs are not counted; there are as many as SQLite makes for a COMMIT in the mode',
];
const uncountedLimit = 'this kernel does not count written bytes: those figures are missing';

/** Never rejects because of the product: what it does wrong is in the scenarios. Leaves nothing behind. */
export async function collectFootprint(options: PartOptions): Promise<Part> {
  const { bundle, modes, isQuick, log } = options;
  const extent = isQuick ? quickExtent : fullExtent;
  mkdirSync(options.scratch, { recursive: true });
  const root = realpathSync(mkdtempSync(join(options.scratch, 'footprint-')));
  // Where the product itself would keep track of processes.
  const memory = existsSync(sharedMemory) ? mkdtempSync(join(sharedMemory, 'footprint-')) : join(root, 'memory');
  const scenarios: Scenario[] = [];
  try {
    // One after another: beside each other they would measure each other.
    for (const mode of modes) {
      const site: Site = { ...siteAt(join(root, mode), { bundle, mode }), run: join(memory, mode) };
      mkdirSync(site.root);
      await mustRun(site, 'package', 'install', writeChain(site));
      scenarios.push(await measureChain(site), ...(await measureDaemon(site, extent)));
      log(`footprint: ${mode}: ${scenarios.slice(-3).filter(({ passed }) => passed).length} of 3 scenarios passed`);
    }
  } finally {
    clearFolder(root);
    clearFolder(memory);
  }
  const parameters = { ...extent, settleMs, chainLength };
  const isCounted = readWrittenBytes('self') !== null;
  return { kind: 'footprint', parameters, scenarios, limits: isCounted ? limits : [...limits, uncountedLimit] };
}

function writeChain(site: Site): string {
  const steps = Array.from({ length: chainLength }, (_, index) => [
    `s${index}`,
    { task: 'work', needs: index === 0 ? [] : [`s${index - 1}`] },
  ]);
  const directory = join(site.root, 'package');
  mkdirSync(directory);
  const manifest = {
    schema: 'qinglong/package@v1',
    name: 'chain',
    version: '1.0.0',
    tasks: { work: { run: ['/bin/true'] } },
    workflows: { main: { steps: Object.fromEntries(steps) } },
  };
  writeFileSync(join(directory, 'qinglong.json'), JSON.stringify(manifest));
  return directory;
}

/** From admission to the end: one commit with which it begins, and one for each step. */
async function measureChain(site: Site): Promise<Scenario> {
  const idle = await observe(site, ['serve', '--until-idle']);
  const chain = await observe(site, ['run', join(site.root, 'package')]);
  if (typeof idle === 'string' || typeof chain === 'string') {
    const what = [idle, chain].filter((ended) => typeof ended === 'string').join('; ');
    return scenarioOf('chain', site.mode, { steps: chainLength }, [what]);
  }
  const floor = measureRawCommits(site);
  const written = chain.writtenBytes === null ? null : chain.writtenBytes - (idle.writtenBytes ?? 0);
  const figures = {
    steps: chainLength,
    commits: chain.commits,
    idleCommits: idle.commits,
    ...(written === null ? {} : { writtenBytesPerStep: Math.round(written / chainLength) }),
    ...(floor === null ? {} : { floorWrittenBytesPerCommit: Math.round(floor / chainLength) }),
  };
  const expected = chainLength + 1;
  const failures = [
    ...(chain.commits === expected ? [] : [`it took ${chain.commits} commits instead of ${expected}`]),
    ...(idle.commits === 0 ? [] : [`starting and stopping without work took ${idle.commits} commits`]),
  ];
  return scenarioOf('chain', site.mode, figures, failures);
}

/** What one process did; in words where it failed. */
async function observe(site: Site, args: readonly string[]): Promise<Observation | string> {
  const file = join(site.root, 'observation');
  rmSync(file, { force: true });
  const ended = await runBundle(site, args, preloadWith({ kill: null, file }));
  return ended.code === 0 && existsSync(file)
    ? (JSON.parse(readFileSync(file, 'utf8')) as Observation)
    : `\`${args.join(' ')}\` ended with ${ended.signal ?? ended.code}: ${ended.err.trim()}`;
}

const journals: Readonly<Record<Mode, readonly [string, string]>> = {
  'delete-extra': ['DELETE', 'EXTRA'],
  'delete-full': ['DELETE', 'FULL'],
  'wal-full': ['WAL', 'FULL'],
};

function measureRawCommits(site: Site): number | null {
  const args = ['-e', commitProgram, join(site.root, 'raw.db'), ...journals[site.mode], `${chainLength}`];
  const { status, stdout } = spawnSync(process.execPath, args, { stdio: ['ignore', 'pipe', 'ignore'] });
  return status === 0 ? (JSON.parse(`${stdout}`) as number | null) : null;
}

type Start = { readonly readyMicros: number; readonly memory: Memory | null };

async function measureDaemon(site: Site, { repeats, idleMs }: Extent): Promise<readonly Scenario[]> {
  const starts: Start[] = [];
  const floors: Start[] = [];
  let idle: Idle | null = null;
  for (let count = 0; count < repeats; count += 1) {
    const isLast = count === repeats - 1;
    await withStarted(site, ['-e', idleProgram, databaseOf(site)], async (pid, readyMicros) => {
      await pause(settleMs);
      floors.push({ readyMicros, memory: readMemory(pid) });
    });
    await withStarted(site, [site.bundle, ...commonArguments(site), 'serve'], async (pid, readyMicros) => {
      await pause(settleMs);
      starts.push({ readyMicros, memory: readMemory(pid) });
      idle = isLast ? await measureIdle(site, pid, idleMs) : null;
    });
  }
  const start = {
    bundleBytes: statSync(site.bundle).size,
    repeats,
    readyMicros: median(starts, ({ readyMicros }) => readyMicros),
    floorReadyMicros: median(floors, ({ readyMicros }) => readyMicros),
    ...memoryFigures(starts, (name) => name),
    ...memoryFigures(floors, (name) => `floor${name[0]?.toUpperCase()}${name.slice(1)}`),
  };
  const { figures, failures } = judgeIdle(idle, idleMs);
  return [scenarioOf('start', site.mode, start, []), scenarioOf('idle', site.mode, figures, failures)];
}

/** Starts a Node.js program, waits until it says something, and ends it when the work is done. */
async function withStarted(
  site: Site,
  args: readonly string[],
  work: (pid: number, readyMicros: number) => Promise<void>,
): Promise<void> {
  const beganMs = performance.now();
  const child: ChildProcess = spawn(process.execPath, args, {
    ...bundleOptions(site),
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const exited = once(child, 'exit');
  try {
    const spoke = await Promise.race([once(child.stdout!, 'data').then(() => true), exited.then(() => false)]);
    if (!spoke) {
      throw new EvidenceError(`\`${args.at(-1)}\` ended before it was ready`);
    }
    await work(child.pid ?? 0, Math.round((performance.now() - beganMs) * 1000));
  } finally {
    child.kill('SIGTERM');
    await exited;
  }
}

type Idle = {
  readonly contextSwitches: number;
  readonly cpuTicks: number;
  readonly writtenBytes: number | null;
  readonly commits: number;
};

async function measureIdle(site: Site, pid: number, idleMs: number): Promise<Idle> {
  const look = () => ({ ...readActivity(pid), written: readWrittenBytes(pid), changes: readChanges(site) });
  const before = look();
  await pause(idleMs);
  const after = look();
  return {
    contextSwitches: after.contextSwitches - before.contextSwitches,
    cpuTicks: after.cpuTicks - before.cpuTicks,
    writtenBytes: after.written === null || before.written === null ? null : after.written - before.written,
    commits: after.changes - before.changes,
  };
}

function judgeIdle(idle: Idle | null, idleMs: number) {
  if (idle === null) {
    return { figures: { idleMs }, failures: ['the idle daemon could not be looked at'] };
  }
  const { writtenBytes, ...counts } = idle;
  return {
    figures: { idleMs, ...counts, ...(writtenBytes === null ? {} : { writtenBytes }) },
    failures: [
      ...(idle.commits === 0 ? [] : ['the database changed while nothing was to do']),
      ...((writtenBytes ?? 0) === 0 ? [] : [`${writtenBytes} bytes were written while nothing was to do`]),
    ],
  };
}

/** A number that rises with each commit: SQLite counts them in the file's head, and a log of writes grows. */
function readChanges(site: Site): number {
  const file = databaseOf(site);
  const head = Buffer.alloc(28);
  const descriptor = openSync(file, 'r');
  try {
    readSync(descriptor, head, 0, head.length, 0);
  } finally {
    closeSync(descriptor);
  }
  return head.readUInt32BE(24) + (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0);
}

function memoryFigures(starts: readonly Start[], nameOf: (name: string) => string): Readonly<Record<string, number>> {
  const found = starts.flatMap(({ memory }) => (memory === null ? [] : [memory]));
  const names = ['rssKib', 'pssKib', 'privateKib'] as const;
  return found.length === 0
    ? {}
    : Object.fromEntries(names.map((name) => [nameOf(name), median(found, (memory) => memory[name])]));
}

function median<T>(list: readonly T[], figure: (entry: T) => number): number {
  const sorted = list.map(figure).sort((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

function pause(delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, delayMs);
  });
}
