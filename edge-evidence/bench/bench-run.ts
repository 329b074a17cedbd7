// What every row of the bench is given, and how it measures: interleaved, so that whatever else the machine does falls
// on a value and on its floor alike.
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findProcessesOf, killProcess } from '../processes.ts';
import type { Figure, Profile } from './figure.ts';

/** Another engine, doing the same work through a program of its own. */
export type Peer = {
  readonly name: string;
  readonly version: string;
  readonly program: string;
  /** How it was set up, in words. */
  readonly configuration: string;
  /** The `node_modules` that it is loaded from. */
  readonly folder: string;
};

export type Bench = {
  /** A copy of the bundles as they are measured: a build meanwhile changes nothing. */
  readonly dist: string;
  /** On a real disk; what is kept for the next bench lies here. */
  readonly scratch: string;
  /** Below it, this bench's own; it goes when the bench is over. */
  readonly root: string;
  readonly repeats: number;
  readonly profiles: readonly Profile[];
  /** Installed and ready; empty without `--peers`. */
  readonly peers: readonly Peer[];
  /** For people: what is being measured. */
  readonly note: (line: string) => void;
  /** What could not be measured here, and why. */
  readonly skip: (name: string, reason: string) => void;
};

/** A group of figures, which `--only` names. */
export type Row = { readonly name: string; readonly collect: (bench: Bench) => Promise<readonly Figure[]> };

export type Durability = 'delete-extra' | 'wal-full';

/** The default of each profile; the only two that promise to keep what was acknowledged. */
export const durabilityOf = { edge: 'delete-extra', standalone: 'wal-full' } as const satisfies Record<
  Profile,
  Durability
>;

/** A folder for some work; whatever still runs there is ended by its id, and the folder goes, when it is over. */
export async function withPlace<T>({ root }: Pick<Bench, 'root'>, work: (place: string) => Promise<T>) {
  const place = realpathSync(mkdtempSync(join(root, 'place-')));
  try {
    return await work(place);
  } finally {
    findProcessesOf(place).forEach(killProcess);
    while (findProcessesOf(place).length > 0) {
      await sleep(20);
    }
    rmSync(place, { recursive: true, force: true, maxRetries: 3 });
  }
}

type Measures<K extends string, T> = Readonly<Record<K, () => Promise<T>>>;

/**
 * Takes so many samples of each measure, one of each in a round; every second round goes the other way about, so that
 * none always follows the same one.
 */
export async function interleave<K extends string, T>(
  repeats: number,
  measures: Measures<K, T>,
): Promise<Record<K, T[]>> {
  const names = Object.keys(measures) as K[];
  const samples = Object.fromEntries(names.map((name) => [name, [] as T[]])) as Record<K, T[]>;
  for (let round = 0; round < repeats; round += 1) {
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      samples[name].push(await measures[name]());
    }
  }
  return samples;
}

/** A row that measures one profile after the other. */
export function profileRow(
  name: string,
  measureProfile: (bench: Bench, profile: Profile) => Promise<readonly Figure[]>,
): Row {
  return {
    name,
    collect: async (bench) => {
      const figures: Figure[] = [];
      for (const profile of bench.profiles) {
        figures.push(...(await measureProfile(bench, profile)));
      }
      return figures;
    },
  };
}
