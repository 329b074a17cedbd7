// What hostile output costs the runtime: its memory while a command floods, drips or leaves the pipe to a grandchild;
// and what is kept and said of it. Figures, with the bounds that they have to keep.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findProcessesOf, killProcess } from '../processes.ts';
import { type RunRecord, readRecords } from './records.ts';
import {
  askDaemon,
  callBundle,
  closeSite,
  makeSite,
  type Profile,
  type Site,
  type Started,
  startBundle,
} from './site.ts';

export type OutputFigure = {
  readonly what: string;
  /** Of the runtime: beyond what it had before the command, at its highest and when the command was over. */
  readonly peakGrowthKib: number;
  readonly growthKib: number;
  readonly outputBytes: number | null;
  readonly isTruncated: boolean | null;
  readonly keptBytes: number;
  readonly exitCode: number | null;
  /** From the command's own end to the end of its attempt. */
  readonly drainMs: number;
};

export type OutputsReport = { readonly figures: OutputFigure[]; readonly differences: string[] };

export type OutputsOptions = {
  readonly profile: Profile;
  /** 1 for the amounts that are asked for; less for a quick look. */
  readonly scale: number;
  readonly note: (line: string) => void;
};

type Flood = {
  readonly shell: string;
  /** What the command writes; null where that depends on time. */
  readonly bytes: number | null;
  /** What a reader of the kept output meets, where all of it is kept. */
  readonly text?: string;
  readonly leaves?: boolean;
  /** What a daemon's first run costs, whatever it writes: told apart, and without a bound. */
  readonly isFirst?: boolean;
};

const packageName = 'flood';
const exitCode = 3;
const mib = 1024 * 1024;
const keptBytesMax = { edge: 256 * 1024, standalone: 4 * mib } as const;
/** A line may say where something is left out. */
const gapLineBytesMax = 128;
const growthKibMax = 5 * 1024;
/** The drain's own limit is 2 s; what is above is the look at the processes and the commit. */
const drainMsMax = 4_000;
const floodMsMax = 120_000;

function floodsOf(scale: number): Readonly<Record<string, Flood>> {
  const zeros = Math.round(300 * scale);
  const times = Math.round(50_000 * scale);
  const seconds = 5 * scale;
  return {
    'the first run, 100 KB': { shell: 'head -c 100000 /dev/zero', bytes: 100_000, isFirst: true },
    [`head -c ${zeros}M /dev/zero`]: { shell: `head -c ${zeros * mib} /dev/zero`, bytes: zeros * mib },
    [`yes for ${seconds} s`]: { shell: `timeout ${seconds} yes`, bytes: null },
    [`${times} x 你`]: {
      shell: `i=0; while [ $i -lt ${times} ]; do printf 你; i=$((i + 1)); done`,
      bytes: 3 * times,
      text: '你'.repeat(times),
    },
    'one byte every 20 ms': {
      shell: 'for byte in 344 270 226 347 225 214 012; do printf "\\\\$byte"; sleep 0.02; done',
      bytes: 7,
      text: '世界\n',
    },
    'a grandchild that holds the pipe': {
      shell: 'setsid sleep 600 & printf done',
      bytes: 4,
      text: 'done',
      leaves: true,
    },
  };
}

export async function stressOutputs({ profile, scale, note }: OutputsOptions): Promise<OutputsReport> {
  const report: OutputsReport = { figures: [], differences: [] };
  const floods = floodsOf(scale);
  const site = makeSite(profile);
  try {
    const installed = await callBundle(site, 'package', 'install', writeFloodPackage(site, floods));
    if (installed.code !== 0) {
      report.differences.push(`the package cannot be installed: ${installed.err.trim()}`);
      return report;
    }
    const daemon = startBundle(site, ['serve']);
    await daemon.spoke;
    const runs = [];
    for (const [index, what] of Object.keys(floods).entries()) {
      runs.push({ what, ...(await flood(site, daemon, `flood-${index}`)) });
      note(`${profile}: ${what}`);
    }
    daemon.process.kill('SIGTERM');
    const { code, err } = await daemon.ended;
    if (code !== 0) {
      report.differences.push(`the daemon ended with ${code}: ${err.trim()}`);
    }
    const { records, differences } = await readRecords(site);
    report.differences.push(...differences);
    for (const { what, runId, ...memory } of runs) {
      const record = records.find(({ run }) => run.id === runId);
      const kept = (await callBundle(site, 'runs', 'logs', runId, 'a', '--raw')).bytes;
      const figure = { what, ...memory, keptBytes: kept.length, ...describeAttempt(record) };
      report.figures.push(figure);
      report.differences.push(...judge(figure, floods[what]!, { profile, kept }).map((line) => `${what}: ${line}`));
    }
    return report;
  } finally {
    closeSite(site);
  }
}

/** Runs one of them, and looks at the runtime's memory before, at its highest, and afterwards. */
async function flood(site: Site, { process: daemon }: Started, workflowId: string) {
  const pid = daemon.pid!;
  const request = { packageName, workflowId, idempotencyKey: null, requestedBy: 'stress' };
  const before = readMemoryKib(pid, 'VmRSS');
  // From here on the highest value is that of this flood.
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
  const { document } = await askDaemon(site, '/v1/runs', request);
  const { runId } = document['receipt'] as { readonly runId: string };
  await followToEnd(site, runId);
  const memory = {
    peakGrowthKib: readMemoryKib(pid, 'VmHWM') - before,
    growthKib: readMemoryKib(pid, 'VmRSS') - before,
  };
  // What escaped from its session is left alone by the product; it holds nothing but its end of the pipe.
  const escaped = findProcessesOf(site.root).filter((entry) => entry.pid !== pid && entry.sessionId === entry.pid);
  escaped.forEach(killProcess);
  return { runId, ...memory };
}

async function followToEnd(site: Site, runId: string): Promise<void> {
  const follower = startBundle(site, ['runs', 'events', runId, '--follow', '--json']);
  const timer = setTimeout(() => follower.process.kill('SIGKILL'), floodMsMax);
  await follower.ended;
  clearTimeout(timer);
}

function describeAttempt(record: RunRecord | undefined) {
  const attempt = record?.steps[0]?.attempts[0];
  const end = record?.events.find(({ type }) => type === 'attempt.failed' || type === 'attempt.succeeded');
  return {
    outputBytes: attempt?.outputBytes ?? null,
    isTruncated: attempt?.outputTruncated ?? null,
    exitCode: attempt?.exitCode ?? null,
    drainMs: (end?.createdAtMs ?? 0) - (attempt?.finishedAtMs ?? 0),
  };
}

function judge(
  figure: OutputFigure,
  { bytes, text, leaves = false, isFirst = false }: Flood,
  { profile, kept }: { readonly profile: Profile; readonly kept: Buffer },
): readonly string[] {
  const max = keptBytesMax[profile];
  const isLong = (figure.outputBytes ?? 0) > max;
  const whole = kept.toString();
  const rules: readonly (readonly [holds: boolean, what: string])[] = [
    [isFirst || figure.peakGrowthKib <= growthKibMax, `the runtime grew by ${figure.peakGrowthKib} KiB`],
    [figure.exitCode === exitCode, `its exit code is ${figure.exitCode}`],
    [
      bytes === null || figure.outputBytes === bytes,
      `${figure.outputBytes} bytes are counted, and ${bytes} were written`,
    ],
    [bytes !== null || (figure.outputBytes ?? 0) > 0, 'nothing is counted'],
    // Where a process still holds the pipe, nobody knows whether there was more.
    [leaves || figure.isTruncated === isLong, `truncated is said to be ${figure.isTruncated}`],
    [kept.length <= max + gapLineBytesMax, `${kept.length} bytes are kept`],
    [isLong || kept.length === figure.outputBytes, `${kept.length} bytes are kept of ${figure.outputBytes}`],
    [text === undefined || isLong || whole === text, 'what is kept is not what was written'],
    [figure.drainMs <= drainMsMax, `its end came ${figure.drainMs} ms after its command's`],
    [leaves || figure.drainMs < drainMsMax / 2, `its end came ${figure.drainMs} ms after its command's`],
  ];
  return rules.filter(([holds]) => !holds).map(([, what]) => what);
}

function readMemoryKib(pid: number, name: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1]);
}

function writeFloodPackage(site: Site, floods: Readonly<Record<string, Flood>>): string {
  const entries = Object.values(floods).map(({ shell }, index) => [`flood-${index}`, shell] as const);
  const manifest = {
    schema: 'qinglong/package@v1',
    name: packageName,
    version: '1.0.0',
    // A failure: by default only its output is kept.
    tasks: Object.fromEntries(entries.map(([id, shell]) => [id, { shell: `${shell}; exit ${exitCode}` }])),
    workflows: Object.fromEntries(entries.map(([id]) => [id, { steps: { a: { task: id } } }])),
  };
  const directory = join(site.root, 'package');
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'qinglong.json'), JSON.stringify(manifest));
  return directory;
}
