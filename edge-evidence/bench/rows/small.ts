// Whether it works where there is little: 64 MiB for everything, page cache included, and half a processor. Node's own
// program is a copy that nobody else runs, so that a dropped page cache leaves it cold, and the group pays for it.
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Site } from '../../stress/site.ts';
import { type Bench, interleave, type Row, withPlace } from '../bench-run.ts';
import { type ControlGroup, makeControlGroup } from '../control-group.ts';
import { atLeast, atMost, type Figure, makeFigure, type Profile } from '../figure.ts';
import { runBundle, siteIn, startFloor, startServe, writeChainPackage } from '../programs.ts';
import { dropCaches } from './scale.ts';

const bounds = { memoryBytes: 64 * 1024 * 1024, processors: 0.5 };
/** A start or a workflow that takes longer does not work. */
const limitMs = 30_000;
const smallest = ['--lite-mode', '--max-semi-space-size=1', '--max-old-space-size=32', '--v8-pool-size=0'];
/** The kernel gives a process back a moment after its end. */
const emptyMs = 300;

type Tried = { readonly readyMs: number; readonly works: boolean };

/** A daemon in the group, started cold; and a workflow of one command on it, asked for from outside. */
async function tryServe(bench: Bench, site: Site, { group, node, nodeArgs }: Setting): Promise<Tried> {
  dropCaches();
  const daemon = await startServe(bench, site, { before: group.before, node, nodeArgs, limitMs: 2 * limitMs });
  const works = await runBundle(bench, site, ['workflow', 'start', 'chain/one', '--wait'], { limitMs }).then(
    () => true,
    () => false,
  );
  await daemon.end();
  await sleep(emptyMs);
  return { readyMs: daemon.readyMs, works };
}

async function tryFloor(site: Site, { group, node, nodeArgs }: Setting): Promise<Tried> {
  dropCaches();
  const bare = await startFloor(site, { before: group.before, node, nodeArgs, limitMs });
  await bare.end();
  await sleep(emptyMs);
  return { readyMs: bare.readyMs, works: true };
}

type Setting = {
  readonly name: string;
  readonly group: ControlGroup;
  readonly node: string;
  readonly nodeArgs: readonly string[];
};

async function measureSetting(bench: Bench, site: Site, setting: Setting): Promise<readonly Figure[]> {
  const failed: Tried = { readyMs: Number.NaN, works: false };
  const samples = await interleave(Math.min(2, bench.repeats), {
    floor: () => tryFloor(site, setting).catch(() => failed),
    product: () => tryServe(bench, site, setting).catch(() => failed),
  });
  const starts = samples.product.map(({ readyMs }) => readyMs).filter(Number.isFinite);
  const peakKib = setting.group.peakKib();
  const common = { profile: site.profile };
  const note = `${setting.name}; two repetitions, as they are long, each from a dropped page cache`;
  const works = makeFigure({
    ...common,
    name: `works in 64 MiB with half a processor, ${setting.name}`,
    unit: 'yes = 1',
    values: samples.product.map((tried) => (tried.works ? 1 : 0)),
    budget: () => atLeast(1, 'yes'),
    note: `a workflow of one command; the group held ${peakKib ?? '?'} KiB at most, page cache included`,
  });
  const floors = samples.floor.map(({ readyMs }) => readyMs).filter(Number.isFinite);
  const start = makeFigure({
    ...common,
    name: `start to ready there, ${setting.name}`,
    unit: 'ms',
    values: starts,
    floors,
    budget: () => atMost(6_000, '6 s'),
    note,
  });
  return starts.length === 0 ? [works] : [works, start];
}

async function measureSmall(bench: Bench, profile: Profile): Promise<readonly Figure[]> {
  return withPlace(bench, async (place) => {
    bench.note(`${profile}: 64 MiB and half a processor`);
    const site = siteIn(place, 'site', profile);
    await runBundle(bench, site, ['package', 'install', writeChainPackage(place, 8)]);
    const node = join(place, 'node');
    copyFileSync(process.execPath, node);
    const figures: Figure[] = [];
    const settings = [
      { name: 'Node as it is', nodeArgs: [] },
      { name: 'V8 in lite mode', nodeArgs: smallest },
    ];
    for (const [index, { name, nodeArgs }] of settings.entries()) {
      const group = makeControlGroup(`${profile}-${index}`, bounds);
      if (typeof group === 'string') {
        bench.skip(`${profile}: works in 64 MiB with half a processor`, group);
        return figures;
      }
      try {
        figures.push(...(await measureSetting(bench, site, { name, group, node, nodeArgs })));
      } finally {
        group.remove();
      }
    }
    return figures;
  });
}

/** A machine like that has the edge profile. */
export const smallRow: Row = {
  name: 'small',
  collect: async (bench) => (bench.profiles.includes('edge') ? measureSmall(bench, 'edge') : []),
};
