// One seed from beginning to end.
import type { Loop } from './loop.ts';
import { play } from './scenario.ts';
import { World } from './world.ts';

export type SeedResult = {
  readonly seed: number;
  readonly complaints: readonly string[];
  readonly counts: ReadonlyMap<string, number>;
  readonly trace: readonly string[];
};

/** Never throws: what goes wrong is a complaint. */
export async function simulateSeed(seed: number, loop: Loop, runDirectory: string): Promise<SeedResult> {
  const world = new World(seed, loop, runDirectory);
  try {
    await play(world);
  } catch (error) {
    world.witness.complain(`the simulation failed: ${error instanceof Error ? error.stack : error}`);
  }
  world.process?.die('at the end of the simulation');
  loop.clear();
  await loop.drain();
  loop.takeDefects();
  world.database.recover();
  world.database.close();
  const { complaints } = world.witness;
  return { seed, complaints, counts: world.counts, trace: world.trace };
}
