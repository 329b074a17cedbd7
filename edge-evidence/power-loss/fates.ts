// Which of all the disks that a cut may leave are looked at: all of them where they are few; else those at the edges
// (nothing, all, each prefix, each change alone, each one missing, each write torn), then as many as are wanted that
// are drawn by the seed.
import type { Random } from '../random.ts';
import { countPieces, type Fate, type Item } from './cut.ts';

export type Choice = {
  readonly items: readonly Item[];
  readonly random: Random;
  /** At most so many are drawn beyond what is looked at in any case. */
  readonly drawnMax: number;
  /** At most so many of those at the edges; which ones is drawn too where there are more. */
  readonly edgesMax: number;
};

/** So many changes have 2^8 combinations, which are all looked at. */
const everyItemsMax = 8;

/** Each answer has one fate for each item. */
export function* chooseFates({ items, random, drawnMax, edgesMax }: Choice): Generator<readonly Fate[]> {
  if (items.length <= everyItemsMax) {
    for (let mask = 0; mask < 2 ** items.length; mask += 1) {
      yield items.map((_, index) => ((mask >> index) & 1 ? 'all' : 'none'));
    }
    yield* thin(listTorn(items), { random, max: edgesMax });
  } else {
    yield items.map(() => 'none');
    yield items.map(() => 'all');
    yield* thin([...listEdges(items), ...listTorn(items)], { random, max: edgesMax });
  }
  for (let drawn = 0; drawn < drawnMax && items.length > 0; drawn += 1) {
    yield drawFates(items, random);
  }
}

/** In their order, as many as `max` of them. */
function* thin(
  list: readonly (() => readonly Fate[])[],
  { random, max }: { readonly random: Random; readonly max: number },
): Generator<readonly Fate[]> {
  for (const [index, make] of list.entries()) {
    if (index < max && list.length <= max) {
      yield make();
    } else if (random.chance(max / list.length)) {
      yield make();
    }
  }
}

type MakeFates = () => readonly Fate[];

function listEdges(items: readonly Item[]): readonly MakeFates[] {
  const isName = ({ kind }: Item) => kind === 'name';
  const sorts: MakeFates[] = [
    () => items.map((item): Fate => (isName(item) ? 'all' : 'none')),
    () => items.map((item): Fate => (isName(item) ? 'none' : 'all')),
    // New lengths and names, and no bytes.
    () => items.map((item): Fate => (isName(item) ? 'all' : 'zeros')),
  ];
  const places = items.map((_, place) => place);
  return [
    ...sorts,
    ...places.map((place) => () => items.map((_, index): Fate => (index < place ? 'all' : 'none'))),
    ...places.map((place) => () => items.map((_, index): Fate => (index === place ? 'all' : 'none'))),
    ...places.map((place) => () => items.map((_, index): Fate => (index === place ? 'none' : 'all'))),
    ...places.map((place) => () => items.map((_, index): Fate => (index < place ? 'none' : 'all'))),
  ];
}

/** Each write torn at each place: the ones before it whole and those behind it missing, or everything else there. */
function listTorn(items: readonly Item[]): readonly MakeFates[] {
  return items.flatMap((item, place) => {
    const cuts = ([512, 4096] as const).flatMap((sector) => {
      const pieces = countPieces(item, sector);
      return Array.from({ length: Math.max(0, pieces - 1) }, (_, cut): Fate[] => [
        { sector, has: (piece) => piece <= cut },
        { sector, has: (piece) => piece > cut },
      ]).flat();
    });
    const parts: Fate[] = countPieces(item, 512) > 0 ? [...cuts, 'zeros'] : [];
    return parts.flatMap((part): MakeFates[] => [
      () => items.map((_, index) => (index === place ? part : index < place ? 'all' : 'none')),
      () => items.map((_, index) => (index === place ? part : 'all')),
    ]);
  });
}

function drawFates(items: readonly Item[], random: Random): readonly Fate[] {
  // Nearly nothing, half, nearly all: what is likely at a cut is one of the three.
  const share = random.pick([0.1, 0.5, 0.9]);
  const torn = random.pick([0, 0, 0.2]);
  return items.map((item): Fate => {
    if (random.chance(torn) && countPieces(item, 512) > 0) {
      const sector = random.pick([512, 4096] as const);
      const pieces = Array.from({ length: countPieces(item, sector) }, () => random.chance(0.5));
      return random.chance(0.2) ? 'zeros' : { sector, has: (piece) => pieces[piece] === true };
    }
    return random.chance(share) ? 'all' : 'none';
  });
}
