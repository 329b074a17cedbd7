// Durable commits of a chain, counted inside the unmodified bundle; and the syncs that they come to, counted by strace.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Bench, durabilityOf, interleave, profileRow, withPlace } from '../bench-run.ts';
import { atMost, type Figure, makeFigure, type Profile } from '../figure.ts';
import { hasStrace, libraryFile, programFile, runBundle, runProgram, siteIn, writeChainPackage } from '../programs.ts';
import { countCalls, traceCalls } from '../strace.ts';

const length = 8;

const readCount = (file: string) => Number(readFileSync(file, 'utf8'));
const counting = (file: string) => ({
  nodeArgs: ['-r', programFile('count-commits.cjs')],
  env: { COMMITS_FILE: file },
});

/** A chain of commands, from `run` to its end; the package is installed before. */
function countSpawned(bench: Bench, profile: Profile): Promise<number> {
  return withPlace(bench, async (place) => {
    const site = siteIn(place, 'site', profile);
    const directory = writeChainPackage(place, length);
    await runBundle(bench, site, ['package', 'install', directory]);
    const file = join(place, 'commits');
    await runBundle(bench, site, ['run', directory, '--workflow', 'main'], counting(file));
    return readCount(file);
  });
}

/** Chains of in-process steps: what ten more of them add, so that opening and installing are not counted. */
async function countInProcess(bench: Bench, profile: Profile): Promise<number> {
  const more = 10;
  const countOf = (chains: number) =>
    withPlace(bench, async (place) => {
      const file = join(place, 'commits');
      await runChains(bench, { place, profile, length, chains }, counting(file));
      return readCount(file);
    });
  return ((await countOf(1 + more)) - (await countOf(1))) / more;
}

type Chains = {
  readonly place: string;
  readonly profile: Profile;
  readonly length: number;
  readonly chains: number;
};

function runChains(bench: Bench, chains: Chains, how: Parameters<typeof runProgram>[2]): Promise<unknown> {
  const { place, profile, ...workload } = chains;
  const options = {
    ...workload,
    durability: durabilityOf[profile],
    atOnce: 1,
    library: libraryFile(bench),
    data: join(place, 'data'),
    runDirectory: join(place, 'run'),
    package: writeChainPackage(place, workload.length),
  };
  return runProgram('chains.cjs', options, how);
}

async function measureCommits(bench: Bench, profile: Profile): Promise<readonly Figure[]> {
  bench.note(`${profile}: durable commits`);
  const counts = await interleave(Math.min(3, bench.repeats), {
    spawned: () => countSpawned(bench, profile),
    inProcess: () => countInProcess(bench, profile),
  });
  const common = { profile, unit: 'commits', budget: () => atMost(length + 1, 'n + 1') };
  const note = 'a count; three repetitions';
  return [
    makeFigure({ ...common, name: `commits, chain of ${length} commands`, values: counts.spawned, note }),
    makeFigure({ ...common, name: `commits, chain of ${length} in-process steps`, values: counts.inProcess, note }),
  ];
}

const fewer = 8;
const more = 72;

/** What each of 64 workflows more adds; checkpoints of the log are in it as they come. */
async function countSyncs(bench: Bench, run: (chains: number, place: string, before: readonly string[]) => unknown) {
  const countOf = (chains: number) =>
    withPlace(bench, async (place) => {
      const file = join(place, 'calls');
      await run(chains, place, traceCalls(file, ['fsync', 'fdatasync', 'sync_file_range', 'msync']));
      return countCalls(readFileSync(file, 'utf8'));
    });
  return ((await countOf(more)) - (await countOf(fewer))) / (more - fewer);
}

async function measureSyncs(bench: Bench, profile: Profile): Promise<readonly Figure[]> {
  const name = 'syncs per one-step workflow';
  if (!hasStrace()) {
    bench.skip(`${profile}: ${name}`, 'strace is not here, or may not trace');
    return [];
  }
  bench.note(`${profile}: syncs`);
  const durability = durabilityOf[profile];
  const product = () =>
    countSyncs(bench, (chains, place, before) => runChains(bench, { place, profile, length: 1, chains }, { before }));
  const floor = () =>
    countSyncs(bench, (commits, place, before) =>
      runProgram('raw-commits.cjs', { file: join(place, 'raw.db'), durability, commits, rows: 1 }, { before }),
    );
  const peers = bench.peers.map(({ name: peer, program, folder }) => {
    const options = { folder, durability, length: 1, atOnce: 1 };
    const count = () =>
      countSyncs(bench, (chains, place, before) =>
        runProgram(program, { ...options, chains, file: join(place, 'peer.db') }, { before }),
      );
    return [`peer ${peer}`, count] as const;
  });
  const counts = await interleave<string, number>(Math.min(3, bench.repeats), {
    floor,
    product,
    ...Object.fromEntries(peers),
  });
  const syncsMax = profile === 'edge' ? 10 : 2;
  return [
    makeFigure({
      name,
      profile,
      unit: 'syncs',
      values: counts['product'] ?? [],
      floors: counts['floor'] ?? [],
      peers: bench.peers.map((peer) => ({ name: peer.name, values: counts[`peer ${peer.name}`] ?? [] })),
      budget: () => atMost(syncsMax, `${syncsMax}`),
      note: `what ${more - fewer} more add, by strace; three repetitions; the floor is one raw one-row commit`,
    }),
  ];
}

export const commitsRow = profileRow('commits', measureCommits);
export const syncsRow = profileRow('syncs', measureSyncs);
