// One figure of the bench: a value beside its floor from the same run, with the budget that it is held against. Pure.

import { EdgeError } from '../../src/core/errors.ts';

export type Bound = 'at-most' | 'at-least';

export type Budget = {
  /** As the design says it, such as `floor + 6 MiB`. */
  readonly rule: string;
  readonly bound: Bound;
  /** The same in the figure's unit, worked out with the floor of this run. */
  readonly limit: number;
};

export type PeerValue = { readonly name: string; readonly value: number; readonly samples: readonly number[] };

export type Figure = {
  readonly name: string;
  /** `edge` or `standalone`; null where the profile changes nothing. */
  readonly profile: Profile | null;
  readonly unit: string;
  /** The median of the samples, as are the floor and the peers' values. */
  readonly value: number;
  /** What nothing can go below: bare Node, a raw commit, a bare spawn; null where nothing compares. */
  readonly floor: number | null;
  readonly ratio: number | null;
  readonly difference: number | null;
  readonly budget: Budget | null;
  readonly isMet: boolean | null;
  readonly samples: { readonly value: readonly number[]; readonly floor: readonly number[] };
  readonly peers: readonly PeerValue[];
  /** How it was measured, where the name does not say it all. */
  readonly note: string | null;
};

export type Profile = 'edge' | 'standalone';

export type FigureOptions = Pick<Figure, 'name' | 'unit'> & {
  readonly profile?: Profile;
  readonly values: readonly number[];
  readonly floors?: readonly number[];
  readonly peers?: readonly { readonly name: string; readonly values: readonly number[] }[];
  /** Gets the floor (NaN without one) and the peers' values; a limit that is no finite number is no budget. */
  readonly budget?: (floor: number, peers: readonly number[]) => Budget;
  readonly note?: string;
};

/** The middle one; between the two middle ones of an even number; NaN of none. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/**
 * Puts a figure together from its samples. Samples that are no number are left out, and so is a budget that cannot be
 * worked out (no peer was measured). Throws `unavailable` where none is left.
 */
export function makeFigure(options: FigureOptions): Figure {
  const { name, unit, profile = null, peers = [], note = null } = options;
  const values = options.values.filter(Number.isFinite);
  const floors = (options.floors ?? []).filter(Number.isFinite);
  if (values.length === 0) {
    throw new EdgeError('unavailable', `${name} gave no number`, {
      hint: 'measure it alone, and look at what it says',
    });
  }
  const value = round(median(values));
  const floor = floors.length === 0 ? null : round(median(floors));
  const measured = peers.map((peer) => ({
    name: peer.name,
    value: round(median(peer.values)),
    samples: peer.values.map(round),
  }));
  const worked = options.budget?.(
    floor ?? Number.NaN,
    measured.map((peer) => peer.value),
  );
  const budget = worked === undefined || !Number.isFinite(worked.limit) ? null : roundLimit(worked);
  return {
    name,
    profile,
    unit,
    value,
    floor,
    ratio: floor === null || floor === 0 ? null : round(value / floor),
    difference: floor === null ? null : round(value - floor),
    budget,
    isMet: budget === null ? null : keeps(value, budget),
    samples: { value: values.map(round), floor: floors.map(round) },
    peers: measured,
    note,
  };
}

/** Whether a value keeps within a budget. */
export function keeps(value: number, { bound, limit }: Budget): boolean {
  return bound === 'at-most' ? value <= limit : value >= limit;
}

/** A budget that is one number. */
export function atMost(limit: number, rule: string): Budget {
  return { rule, bound: 'at-most', limit };
}

export function atLeast(limit: number, rule: string): Budget {
  return { rule, bound: 'at-least', limit };
}

function roundLimit(budget: Budget): Budget {
  return { ...budget, limit: round(budget.limit) };
}

/** Three places say more than any of these measurements knows. */
function round(value: number): number {
  return Math.round(value * 1000) / 1000;
}
