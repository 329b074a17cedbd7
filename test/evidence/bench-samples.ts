// A result of the bench as a measurement would give it, with chosen numbers. Not a test itself.
import { atLeast, atMost, makeFigure } from '../../edge-evidence/bench/figure.ts';
import { type BenchResult, limits, type ResultFigure, summarize } from '../../edge-evidence/bench/result.ts';

const peers = (first: readonly number[], second: readonly number[]) => [
  { name: 'alpha', values: first },
  { name: 'be<ta>', values: second },
];

const figures: readonly ResultFigure[] = [
  {
    row: 'daemon',
    ...makeFigure({
      name: 'idle VmRSS with 10,000 finished runs',
      profile: 'edge',
      unit: 'KiB',
      values: [60_000, 58_000, 59_000],
      floors: [50_000, 51_000, 50_500],
      budget: (floor) => atMost(floor + 6 * 1024, 'floor + 6 MiB'),
      note: '2 s after the start',
    }),
  },
  {
    row: 'steps',
    ...makeFigure({
      name: 'written per sequential step',
      profile: 'edge',
      unit: 'KiB',
      values: [38.25, 38.5, 38],
      floors: [12.9],
      peers: peers([97], [104, 106]),
      budget: () => atMost(40, '40 KiB'),
    }),
  },
  {
    row: 'crowd',
    ...makeFigure({
      name: 'throughput, 32 in-process chains at once',
      profile: 'standalone',
      unit: 'steps/s',
      values: [4_000],
      floors: [80_000],
      peers: peers([900], [1_100]),
      budget: (_, values) => atLeast(Math.max(...values) * 4, '4 x the best peer, same durability'),
    }),
  },
  { row: 'embedded', ...makeFigure({ name: 'a figure of its own', unit: 'calls', values: [0] }) },
];

export const sampleResult: BenchResult = {
  schema: 'qinglong/bench@v1',
  subject: { bundleSha256: 'ab'.repeat(32), version: '1.2.3' },
  environment: {
    node: '24.0.0',
    sqlite: '3.50.0',
    sqliteOptions: ['THREADSAFE=2'],
    architecture: 'arm64',
    kernel: 'Linux 6.6.0',
    libc: 'musl',
    cpu: { model: 'a processor', count: 4 },
    memoryKib: 524_288,
    fileSystem: { type: 'ext4', mountOptions: ['rw', 'noatime'] },
    isMemory: false,
    isRoot: true,
    hasStrace: false,
    loadBefore: 0.25,
  },
  parameters: { repeats: 3, only: [], profiles: ['edge', 'standalone'], peers: true },
  startedAt: '2026-01-31T12:00:00.000Z',
  tookS: 321,
  peers: [{ name: 'alpha', version: '1.0.0', configuration: 'as it comes' }],
  figures,
  skipped: [{ name: 'syncs', reason: 'strace is not here' }],
  summary: summarize(figures),
  limits,
};
