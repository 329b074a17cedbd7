// The bundle's size; how long a daemon takes to be ready, and what it holds in memory when idle.
import { statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Site } from '../../stress/site.ts';
import { type Bench, interleave, profileRow, type Row, withPlace } from '../bench-run.ts';
import { atMost, type Figure, makeFigure, type Profile } from '../figure.ts';
import { copyFinishedRuns } from '../finished-runs.ts';
import {
  bundleFile,
  type Idling,
  type Launch,
  residentKib,
  runBundle,
  siteIn,
  startFloor,
  startServe,
} from '../programs.ts';

/** What a service file may give to Node where memory is short. */
export const smallSettings = [
  '--optimize-for-size',
  '--max-semi-space-size=1',
  '--max-old-space-size=32',
  '--v8-pool-size=0',
];

/** The garbage of the start has had its chance to go: the daemon gives memory back after a second without work. */
const settleMs = 2_000;

type Idle = { readonly readyMs: number; readonly kib: number };

async function look(starting: Promise<Idling>, waitMs: number): Promise<Idle> {
  const idling = await starting;
  await sleep(waitMs);
  const kib = residentKib(idling.pid);
  await idling.end();
  return { readyMs: idling.readyMs, kib };
}

const kibOf = (samples: readonly Idle[]) => samples.map(({ kib }) => kib);
const readyMsOf = (samples: readonly Idle[]) => samples.map(({ readyMs }) => readyMs);

/** Product and floor on the same directory, one after the other. */
function lookAtBoth(bench: Bench, site: Site, { waitMs, ...how }: Launch & { readonly waitMs: number }) {
  return interleave(bench.repeats, {
    floor: () => look(startFloor(site, how), waitMs),
    product: () => look(startServe(bench, site, how), waitMs),
  });
}

async function measureProfile(bench: Bench, profile: Profile): Promise<readonly Figure[]> {
  return withPlace(bench, async (place) => {
    bench.note(`${profile}: start and idle memory`);
    const empty = siteIn(place, 'empty', profile);
    await runBundle(bench, empty, ['serve', '--until-idle']);
    const fresh = await lookAtBoth(bench, empty, { waitMs: 0 });
    const full = await copyFinishedRuns(bench, { place, runs: 10_000, profile });
    const idle = await lookAtBoth(bench, full, { waitMs: settleMs });
    const few = { ...bench, repeats: Math.min(3, bench.repeats) };
    const small = await lookAtBoth(few, full, { waitMs: settleMs, nodeArgs: smallSettings });
    const memoryBudget = (floor: number) => atMost(floor + 6 * 1024, 'floor + 6 MiB');
    const startBudget = (floor: number) => atMost(floor + 40, 'floor + 40 ms');
    return [
      makeFigure({
        name: 'start to ready',
        profile,
        unit: 'ms',
        values: readyMsOf(fresh.product),
        floors: readyMsOf(fresh.floor),
        budget: startBudget,
      }),
      makeFigure({
        name: 'start to ready with 10,000 finished runs',
        profile,
        unit: 'ms',
        values: readyMsOf(idle.product),
        floors: readyMsOf(idle.floor),
        budget: startBudget,
      }),
      makeFigure({
        name: 'idle VmRSS with 10,000 finished runs',
        profile,
        unit: 'KiB',
        values: kibOf(idle.product),
        floors: kibOf(idle.floor),
        budget: memoryBudget,
        note: `${settleMs / 1000} s after the start`,
      }),
      makeFigure({
        name: 'the same, V8 set for a small machine',
        profile,
        unit: 'KiB',
        values: kibOf(small.product),
        floors: kibOf(small.floor),
        budget: memoryBudget,
        note: `both with ${smallSettings.join(' ')}; three repetitions`,
      }),
    ];
  });
}

export const sizeRow: Row = {
  name: 'size',
  collect: async (bench) => [
    makeFigure({
      name: 'product bundle',
      unit: 'bytes',
      values: [statSync(bundleFile(bench)).size],
      budget: () => atMost(300_000, '300 KB'),
    }),
  ],
};

export const daemonRow = profileRow('daemon', measureProfile);
