// The longest time for which an embedding process cannot do anything else.
import { join } from 'node:path';
import { durabilityOf, interleave, profileRow, withPlace } from '../bench-run.ts';
import { atMost, makeFigure } from '../figure.ts';
import { libraryFile, runProgram, writeChainPackage } from '../programs.ts';

type Answer = { readonly blockMs: number };

export const blockRow = profileRow('block', async (bench, profile) => {
  bench.note(`${profile}: longest block of the event loop`);
  const durability = durabilityOf[profile];
  const run = (options: (place: string) => object) =>
    withPlace(bench, (place) => runProgram<Answer>('longest-block.cjs', { durability, ...options(place) }));
  const samples = await interleave(bench.repeats, {
    floor: () => run((place) => ({ file: join(place, 'raw.db') })),
    product: () =>
      run((place) => ({
        library: libraryFile(bench),
        data: join(place, 'data'),
        runDirectory: join(place, 'run'),
        package: writeChainPackage(place, 8),
      })),
  });
  return [
    makeFigure({
      name: 'longest block of the event loop, 128 steps admitted and carried out',
      profile,
      unit: 'ms',
      values: samples.product.map(({ blockMs }) => blockMs),
      floors: samples.floor.map(({ blockMs }) => blockMs),
      budget: (floor) => atMost(floor + 50, 'one commit + 50 ms'),
      note: 'nothing of it was done in that process before; the floor is one raw commit, watched in the same way',
    }),
  ];
});
