// What a scenario of the fault matrix is, and the stage that it gets.
import type { Mode, Site } from '../operation.ts';
import type { Random } from '../random.ts';
import type { Expected } from './answer.ts';
import { type Beginning, type Ground, type SiteOptions, withSite } from './ground.ts';
import { createJourney, type Journey } from './journey.ts';
import type { LaunchOptions } from './launch.ts';
import type { Tally } from './tally.ts';

export type Stage = {
  readonly ground: Ground;
  readonly random: Random;
  readonly tally: Tally;
  readonly isQuick: boolean;
};

export type FaultScenario = {
  readonly name: string;
  /** Whether quick rounds have it. */
  readonly isQuick: boolean;
  /** Where a mode makes no difference. */
  readonly modes: readonly Mode[];
  /** Why it cannot be tried here; null where it can. */
  readonly findObstacle: (place: Place) => string | null;
  readonly run: (stage: Stage) => Promise<void>;
};

export type Place = { readonly bundle: string; readonly scratch: string };

/** For what the journal's mode may change, but not how it is synced: both delete modes do the same there. */
export const journalModes: readonly Mode[] = ['delete-extra', 'wal-full'];
export const nothingInTheWay = (): null => null;

/** The storage fails: what may be told of it, or nothing where the fault struck elsewhere. */
export const storageFails: Expected = { codes: ['full', 'unavailable', 'unknown-outcome'], mayHold: true };

export type PointOptions = SiteOptions & { readonly beginning: Beginning };

/** One point of a scenario, on a site of its own. */
export function tryPoint(
  { tally, ground }: Stage,
  what: string,
  { beginning, ...options }: PointOptions,
  work: (journey: Journey, site: Site) => Promise<readonly string[]>,
): Promise<void> {
  const common: LaunchOptions = { userId: options.userId ?? null };
  return tally.point(what, () =>
    withSite(ground, beginning, (site) => work(createJourney(site, ground, beginning, common), site), options),
  );
}
