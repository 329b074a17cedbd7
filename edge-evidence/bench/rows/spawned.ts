// What a step that is a command costs beyond the bare spawn of a shell with the same command.
import { join } from 'node:path';
import { durabilityOf, interleave, profileRow, withPlace } from '../bench-run.ts';
import { atMost, makeFigure, median } from '../figure.ts';
import { libraryFile, runProgram, writeChainPackage } from '../programs.ts';

const length = 8;
const chains = 5;
const commits = 100;

export const spawnedRow = profileRow('spawned', async (bench, profile) => {
  bench.note(`${profile}: spawned steps`);
  const durability = durabilityOf[profile];
  const samples = await interleave<'steps' | 'commits', Record<string, number>>(bench.repeats, {
    commits: () =>
      withPlace(bench, (place) =>
        runProgram('raw-commits.cjs', { file: join(place, 'raw.db'), durability, commits, rows: 1 }),
      ),
    steps: () =>
      withPlace(bench, (place) =>
        runProgram('spawned-steps.cjs', {
          library: libraryFile(bench),
          data: join(place, 'data'),
          runDirectory: join(place, 'run'),
          durability,
          package: writeChainPackage(place, length),
          length,
          chains,
        }),
      ),
  });
  const all = (entries: readonly Record<string, number>[], key: string) =>
    entries.map((entry) => entry[key] ?? Number.NaN);
  const commitMs = median(all(samples.commits, 'ms')) / commits;
  return [
    makeFigure({
      name: 'time of a spawned step',
      profile,
      unit: 'ms',
      values: all(samples.steps, 'spawnedMs'),
      floors: all(samples.steps, 'bareMs'),
      budget: (floor) => atMost(floor + 1.5 * commitMs + 15, 'bare spawn + 1.5 raw commits + 15 ms'),
      note: `the floor is a bare spawn of sh -c with the same command; one raw commit took ${commitMs.toFixed(2)} ms`,
    }),
  ];
});
