// Cancels runs at the very moment at which something of them happens: a command that exits 0, a start, a retry that is
// due. Each run has one end, which follows from what `cancel` answered; nothing of it starts after the answer, and
// nothing of it changes later.

import { spawnSync } from 'node:child_process';
import { closeSync, constants, mkdirSync, openSync, readSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Random } from '../random.ts';
import { compareRun } from './compare.ts';
import { type RunRecord, readRecords } from './records.ts';
import {
  type Answer,
  askDaemon,
  callBundle,
  closeSite,
  findLeftProcesses,
  makeSite,
  type Profile,
  pause,
  type Site,
  seenIn,
  startBundle,
} from './site.ts';
import { measureTrace, readTrace, type TraceLine, traceFileOf } from './trace.ts';

export type CancelsReport = {
  cancels: number;
  /** Answered `requested`: the run was still running. */
  cancelled: number;
  /** Answered `settled`: it had ended before. */
  settled: number;
  /** Runs of which a later step had begun before the answer. */
  begunBefore: number;
  readonly differences: string[];
};

export type CancelsOptions = {
  readonly profile: Profile;
  readonly cancels: number;
  readonly random: Random;
  readonly note: (line: string) => void;
};

const packageName = 'race';

/** Waits at the gate between its two lines, and exits 0 when it opens. */
const gateScript = `#!/bin/sh
id="$QL_RUN_ID $QL_STEP_KEY $QL_ATTEMPT_ID"
echo "begin $id" >>"$TRACE"
read -r word <"$GATE"
echo "end $id $1" >>"$TRACE"
exit "$1"
`;
const quickScript = `#!/bin/sh
id="$QL_RUN_ID $QL_STEP_KEY $QL_ATTEMPT_ID"
echo "begin $id" >>"$TRACE"
echo "end $id 0" >>"$TRACE"
`;

const tasks = {
  gate: { run: ['./scripts/gate.sh', '0'], grace: '1s' },
  failing: { run: ['./scripts/gate.sh', '1'], grace: '1s', retry: { limit: 1, backoff: '2ms' } },
  quick: { run: ['./scripts/quick.sh'], grace: '1s' },
};

/** What is cancelled at which moment; each with its share of all. */
const races = {
  // The exit of a step that another one waits for.
  middle: { share: 0.45, steps: { a: { task: 'gate' }, b: { task: 'quick', needs: ['a'] } } },
  // The exit of the last step, with which the run ends.
  last: { share: 0.25, steps: { a: { task: 'gate' } } },
  // A failure that is followed by a retry at once.
  retry: { share: 0.15, steps: { a: { task: 'failing' }, b: { task: 'quick', needs: ['a'] } } },
  // The start itself.
  start: { share: 0.15, steps: { a: { task: 'quick' }, b: { task: 'quick', needs: ['a'] } } },
} as const;

type RaceName = keyof typeof races;
type Gate = { open(): void; close(): void; drain(): void };
type Scene = { readonly site: Site; readonly random: Random; readonly gate: Gate; readonly report: CancelsReport };
type Cancelled = { readonly runId: string; readonly kind: string; readonly linesAtAnswer: number };

export async function stressCancels({ profile, cancels, random, note }: CancelsOptions): Promise<CancelsReport> {
  const report: CancelsReport = { cancels: 0, cancelled: 0, settled: 0, begunBefore: 0, differences: [] };
  const site = makeSite(profile);
  const gate = makeGate(site);
  try {
    await runCancels({ site, random: random.fork(`${profile}/cancels`), gate, report }, cancels);
  } finally {
    gate.close();
    closeSite(site);
  }
  note(`${profile}: ${report.cancels} cancels, ${report.differences.length} differences`);
  return report;
}

async function runCancels(scene: Scene, cancels: number): Promise<void> {
  const { site, report } = scene;
  const installed = await callBundle(site, 'package', 'install', writeRacePackage(site));
  const daemon = startBundle(site, ['serve']);
  await daemon.spoke;
  const done: Cancelled[] = [];
  try {
    while (done.length < cancels) {
      done.push(await cancelOnce(scene));
      report.cancels += 1;
    }
  } catch (error) {
    report.differences.push(`the daemon did not answer: ${error}; ${installed.err.trim()}`);
  }
  daemon.process.kill('SIGTERM');
  const { code, err } = await daemon.ended;
  if (code !== 0) {
    report.differences.push(`the daemon ended with ${code}: ${err.trim()}`);
  }
  await compareAll(scene, done);
}

/** One run, and its cancel a few milliseconds before or behind the moment that it races with. */
async function cancelOnce({ site, random, gate }: Scene): Promise<Cancelled> {
  const race = pickRace(random);
  const lines = measureTrace(site);
  gate.drain();
  const request = { packageName, workflowId: race, idempotencyKey: null, requestedBy: 'stress' };
  const { document } = await askDaemon(site, '/v1/runs', request);
  const { runId } = document['receipt'] as { readonly runId: string };
  if (race === 'start') {
    await pause(random.between(0, 60));
    return await cancel(site, runId);
  }
  const isWaiting = await seenIn(site, () => measureTrace(site) > lines, 10_000);
  const leadMs = random.between(-8, 8);
  if (!isWaiting) {
    gate.open();
  } else if (leadMs >= 0) {
    gate.open();
    await pause(leadMs);
  } else {
    setTimeout(() => gate.open(), -leadMs);
  }
  const cancelled = await cancel(site, runId);
  // A step that was not reached by the cancel in time goes on; its end must not wait for the next run's gate.
  gate.open();
  return cancelled;
}

async function cancel(site: Site, runId: string): Promise<Cancelled> {
  const answer: Answer = await askDaemon(site, `/v1/runs/${runId}/cancel`, { requestedBy: 'stress' });
  return { runId, kind: `${answer.document['kind']}`, linesAtAnswer: measureTrace(site) };
}

function pickRace(random: Random): RaceName {
  const at = random.fraction();
  let sum = 0;
  for (const [name, { share }] of Object.entries(races)) {
    sum += share;
    if (at < sum) {
      return name as RaceName;
    }
  }
  return 'middle';
}

async function compareAll({ site, report }: Scene, done: readonly Cancelled[]): Promise<void> {
  const first = await readRecords(site);
  const trace = readTrace(site);
  const drained = await callBundle(site, 'serve', '--until-idle');
  const second = await readRecords(site);
  const verified = await callBundle(site, 'verify');
  const left = await findLeftProcesses(site);
  report.differences.push(
    ...first.differences,
    ...second.differences,
    ...(drained.code === 0 ? [] : [`serve --until-idle ended with ${drained.code}: ${drained.err.trim()}`]),
    ...(verified.code === 0 ? [] : [`verify ended with ${verified.code}: ${(verified.out + verified.err).trim()}`]),
    ...left.map((pid) => `process ${pid} is left`),
    ...(readTrace(site).length === trace.length ? [] : ['a command ran after the end of everything']),
  );
  for (const cancelled of done) {
    const record = first.records.find(({ run }) => run.id === cancelled.runId);
    const later = second.records.find(({ run }) => run.id === cancelled.runId);
    const lines = trace.map((line, index) => ({ ...line, index })).filter(({ runId }) => runId === cancelled.runId);
    report.cancelled += cancelled.kind === 'requested' ? 1 : 0;
    report.settled += cancelled.kind === 'settled' ? 1 : 0;
    report.begunBefore += lines.some(({ kind, stepKey }) => kind === 'begin' && stepKey === 'b') ? 1 : 0;
    const differences = compareOne({ cancelled, record, later, lines });
    report.differences.push(...differences.map((what) => `run ${cancelled.runId} (${cancelled.kind}): ${what}`));
  }
}

function compareOne(options: {
  readonly cancelled: Cancelled;
  readonly record: RunRecord | undefined;
  readonly later: RunRecord | undefined;
  readonly lines: readonly (TraceLine & { readonly index: number })[];
}): readonly string[] {
  const { cancelled, record, later, lines } = options;
  if (record === undefined || later === undefined) {
    return ['it has no record'];
  }
  const { status, version } = record.run;
  const isTrue = cancelled.kind === 'requested' ? status === 'cancelled' : status === 'succeeded';
  const begun = lines.filter(({ kind, index }) => kind === 'begin' && index >= cancelled.linesAtAnswer);
  return [
    ...(isTrue ? [] : [`it ended ${status}`]),
    ...(later.run.status === status && later.run.version === version ? [] : ['it changed after its end']),
    ...begun.map(({ stepKey }) => `step ${stepKey} began after the answer`),
    ...compareRun(record, lines),
  ];
}

function writeRacePackage(site: Site): string {
  const directory = join(site.root, 'package');
  const env = { TRACE: traceFileOf(site), GATE: join(site.root, 'gate') };
  const manifest = {
    schema: 'qinglong/package@v1',
    name: packageName,
    version: '1.0.0',
    tasks: Object.fromEntries(Object.entries(tasks).map(([id, task]) => [id, { ...task, env }])),
    workflows: Object.fromEntries(Object.entries(races).map(([id, { steps }]) => [id, { steps }])),
  };
  mkdirSync(join(directory, 'scripts'), { recursive: true });
  writeFileSync(join(directory, 'qinglong.json'), JSON.stringify(manifest));
  writeFileSync(join(directory, 'scripts/gate.sh'), gateScript, { mode: 0o755 });
  writeFileSync(join(directory, 'scripts/quick.sh'), quickScript, { mode: 0o755 });
  return directory;
}

/** A FIFO that this process holds open for both: who reads waits for a word, and none is ever lost or left over. */
function makeGate(site: Site): Gate {
  const file = join(site.root, 'gate');
  spawnSync('mkfifo', [file]);
  const descriptor = openSync(file, constants.O_RDWR | constants.O_NONBLOCK);
  const buffer = Buffer.alloc(1024);
  return {
    open: () => void writeSync(descriptor, 'go\n'),
    close: () => closeSync(descriptor),
    drain() {
      try {
        readSync(descriptor, buffer);
      } catch {
        // Empty.
      }
    },
  };
}
