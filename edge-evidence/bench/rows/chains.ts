// In-process steps: what one of a chain costs in time and bytes, what thirty-two chains at once cost and yield, and
// what memory an embedding process takes; beside raw commits in the same mode, and other engines doing the same.
import { join } from 'node:path';
import { type Bench, durabilityOf, interleave, profileRow, withPlace } from '../bench-run.ts';
import { atLeast, atMost, type Figure, makeFigure, type Profile } from '../figure.ts';
import { libraryFile, runProgram, writeChainPackage } from '../programs.ts';

type Answer = {
  readonly ms: number;
  readonly bytes: number;
  readonly steps: number;
  readonly residentKib: number;
  readonly peakKib: number;
};

type Workload = {
  readonly length: number;
  readonly chains: number;
  readonly atOnce: number;
  /** Of the raw commits beside it: as many as go together when the load is like this. */
  readonly rows: number;
};

const sequential: Workload = { length: 8, chains: 20, atOnce: 1, rows: 1 };
const crowded: Workload = { length: 8, chains: 128, atOnce: 32, rows: 32 };
const long: Workload = { length: 1, chains: 1_000, atOnce: 32, rows: 32 };

type Measured = {
  readonly product: readonly Answer[];
  readonly floor: readonly Answer[];
  readonly peers: readonly { readonly name: string; readonly answers: readonly Answer[] }[];
};

/** Every sample in a directory and a process of its own. */
async function measure(bench: Bench, profile: Profile, workload: Workload): Promise<Measured> {
  const { length, chains, atOnce, rows } = workload;
  const durability = durabilityOf[profile];
  const common = { durability, length, chains, atOnce };
  const product = () =>
    withPlace(bench, (place) =>
      runProgram<Answer>('chains.cjs', {
        ...common,
        library: libraryFile(bench),
        data: join(place, 'data'),
        runDirectory: join(place, 'run'),
        package: writeChainPackage(place, length),
      }),
    );
  const floor = () =>
    withPlace(bench, (place) => {
      const commits = Math.ceil((chains * length) / rows);
      return runProgram<Answer>('raw-commits.cjs', { file: join(place, 'raw.db'), durability, commits, rows });
    });
  const peers = bench.peers.map(({ name, program, folder }) => {
    const run = () =>
      withPlace(bench, (place) => runProgram<Answer>(program, { ...common, folder, file: join(place, 'peer.db') }));
    return [`peer ${name}`, run] as const;
  });
  const samples = await interleave<string, Answer>(bench.repeats, { floor, product, ...Object.fromEntries(peers) });
  return {
    product: samples['product'] ?? [],
    floor: samples['floor'] ?? [],
    peers: bench.peers.map(({ name }) => ({ name, answers: samples[`peer ${name}`] ?? [] })),
  };
}

const perStep = {
  ms: ({ ms, steps }: Answer) => ms / steps,
  kib: ({ bytes, steps }: Answer) => bytes / steps / 1024,
  perSecond: ({ ms, steps }: Answer) => (steps / ms) * 1000,
};

/** The samples of one figure: the same reading of everybody's answers. */
function readAll({ product, floor, peers }: Measured, reading: (answer: Answer) => number) {
  return {
    values: product.map(reading),
    floors: floor.map(reading),
    peers: peers.map(({ name, answers }) => ({ name, values: answers.map(reading) })),
  };
}

async function measureSequential(bench: Bench, profile: Profile): Promise<readonly Figure[]> {
  bench.note(`${profile}: sequential in-process steps`);
  const measured = await measure(bench, profile, sequential);
  const kibMax = profile === 'edge' ? 40 : 16;
  const note = `chains of ${sequential.length}: n + 1 commits for n steps; the floor is one raw one-row commit`;
  return [
    makeFigure({
      name: 'time of a sequential in-process step',
      profile,
      unit: 'ms',
      ...readAll(measured, perStep.ms),
      budget: (floor) => atMost(floor * 1.5, '1.5 x one raw one-row commit'),
      note,
    }),
    makeFigure({
      name: 'written per sequential step',
      profile,
      unit: 'KiB',
      ...readAll(measured, perStep.kib),
      budget: () => atMost(kibMax, `${kibMax} KiB`),
      note,
    }),
  ];
}

async function measureCrowded(bench: Bench, profile: Profile): Promise<readonly Figure[]> {
  bench.note(`${profile}: ${crowded.atOnce} chains at once`);
  const measured = await measure(bench, profile, crowded);
  const kibMax = profile === 'edge' ? 10 : 6;
  const times = profile === 'edge' ? 10 : 4;
  const note = `the floor is ${crowded.rows} rows in one raw commit`;
  return [
    makeFigure({
      name: `written per step, ${crowded.atOnce} runs at once`,
      profile,
      unit: 'KiB',
      ...readAll(measured, perStep.kib),
      budget: () => atMost(kibMax, `${kibMax} KiB`),
      note,
    }),
    makeFigure({
      name: `throughput, ${crowded.atOnce} in-process chains at once`,
      profile,
      unit: 'steps/s',
      ...readAll(measured, perStep.perSecond),
      budget: (_, peers) => atLeast(Math.max(...peers) * times, `${times} x the best peer, same durability`),
      note,
    }),
  ];
}

async function measureEmbedded(bench: Bench, profile: Profile): Promise<readonly Figure[]> {
  bench.note(`${profile}: memory of an embedding process`);
  const measured = await measure({ ...bench, repeats: Math.min(3, bench.repeats) }, profile, long);
  return [
    makeFigure({
      name: 'peak VmRSS of an embedding process, 1,000 one-step workflows',
      profile,
      unit: 'KiB',
      ...readAll(measured, ({ peakKib }) => peakKib),
      note: 'in-process steps, 32 workflows at once; three repetitions: they are long',
    }),
  ];
}

export const stepsRow = profileRow('steps', measureSequential);
export const crowdRow = profileRow('crowd', measureCrowded);
export const embeddedRow = profileRow('embedded', measureEmbedded);
