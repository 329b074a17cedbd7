// A daemon one of whose system calls fails once: it goes on without a restart, answers, and brings every run to its
// end.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { modes, type Site } from '../operation.ts';
import { type Call, readRecording } from '../recorder/recording.ts';
import { shimEnvironment, type Watch } from '../recorder/shim.ts';
import { works } from './answer.ts';
import { findDeath, startDaemon } from './daemon.ts';
import {
  describePair,
  drawPairs,
  expectedOf,
  faultAt,
  faultKinds,
  findShimObstacle,
  type Pair,
  shimOf,
} from './failing-calls.ts';
import { withSite } from './ground.ts';
import { createJourney, type Journey } from './journey.ts';
import { type FaultScenario, type Stage, tryPoint } from './scenario.ts';

const pointsMax = 5;

export const failingDaemonScenarios: readonly FaultScenario[] = [
  { name: 'failing calls: a daemon at work', isQuick: false, modes, findObstacle: findShimObstacle, run },
];

async function run(stage: Stage): Promise<void> {
  const { ground, tally, random } = stage;
  const all = await recordDaemon(stage);
  const calls = chooseCalls(all);
  tally.note('calls', calls.length);
  // Only faults that pass: a daemon need not work under one that lasts.
  const passing = faultKinds.filter(({ lasts }) => !lasts);
  const pairs = drawPairs(calls, random, pointsMax).map(({ call }, index): Pair => {
    const fault = passing[index % passing.length]!;
    return { call, fault: fault.isShort === true && call.kind !== 'write' ? passing[0]! : fault };
  });
  for (const pair of pairs) {
    await tryPoint(stage, describePair(pair, all), { beginning: 'queued' }, async (journey, site) => {
      const env = shimEnvironment({ ...watchOf(ground, site), fault: faultAt(pair) });
      return work(journey, site, { env, pair });
    });
  }
}

function watchOf(ground: Stage['ground'], { root }: Site): Watch {
  return { shim: shimOf(ground) ?? '', root };
}

/** The calls of a daemon that meets no fault. */
async function recordDaemon({ ground }: Stage): Promise<readonly Call[]> {
  const log = join(ground.scratch, `daemon-${ground.mode}`);
  await withSite(ground, 'queued', async (site) => {
    const journey = createJourney(site, ground, 'queued');
    const daemon = await startDaemon(site, { env: shimEnvironment({ ...watchOf(ground, site), log }) });
    await journey.start('third', works);
    await journey.endsBy(daemon);
    await daemon.stop();
  });
  return existsSync(log) ? readRecording(log) : [];
}

/** From when it was ready on, to the last command that it started: behind that there is hardly anything but its end. */
function chooseCalls(all: readonly Call[]): readonly Call[] {
  const ready = all.findIndex(({ kind }) => kind === 'answer');
  const kinds = new Set(['write', 'sync', 'create', 'rename', 'unlink', 'truncate', 'mkdir']);
  const serving = all.slice(ready + 1).filter(({ kind }) => kinds.has(kind));
  const lastStart = all.findLast(({ kind }) => kind === 'start')?.number ?? 0;
  return serving.filter(({ number }) => number <= lastStart);
}

type Fault = { readonly env: Readonly<Record<string, string>>; readonly pair: Pair };

async function work(journey: Journey, site: Site, { env, pair }: Fault): Promise<readonly string[]> {
  const daemon = await startDaemon(site, { env });
  const during = await journey.start('third', expectedOf(pair.fault));
  return [
    ...during,
    // The same key again: whatever became of the first time, one run comes of it.
    ...(await journey.start('third', works)),
    ...(await journey.ask(['status'], works)),
    ...(await journey.endsBy(daemon)),
    ...(await findDeath(daemon)),
    ...(await daemon.stop()),
    // A command whose start or end could not be noted may be lost: the record says so, and its run failed.
    ...(await journey.findTrouble({ mayEnd: ['failed'] })),
  ];
}
