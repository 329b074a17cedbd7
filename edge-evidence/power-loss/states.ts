// Goes through a recording and hands out every disk that is looked at, each once for each thing that it is asked about.
import type { Random } from '../random.ts';
import { Disk, type Image, withoutSharedMemory } from '../recorder/disk.ts';
import { digestImage } from '../recorder/image.ts';
import type { Recorded } from '../recorder/record.ts';
import type { Call } from '../recorder/recording.ts';
import { cutImage, listItems } from './cut.ts';
import { chooseFates } from './fates.ts';

export type State = {
  readonly image: Image;
  readonly digest: string;
  /** The calls that were made before the cut. */
  readonly calls: number;
  /** Whether this content was not seen before at any cut. */
  readonly isNew: boolean;
};

export type Bounds = { readonly drawnMax: number; readonly edgesMax: number };

export type StatesOptions = {
  readonly random: Random;
  /** Where most is on its way: just before a sync, an answer, a start, and at the end. */
  readonly ripe: Bounds;
  /** Everywhere else; what is possible there is possible at the next ripe cut as well. */
  readonly between: Bounds;
  /** The number of calls up to the last acknowledgement: the same disk is asked again when there is a new one. */
  readonly acknowledgedAt: readonly number[];
};

const ripening: readonly Call['kind'][] = ['sync', 'answer', 'start'];

export function* listStates({ site, before, calls }: Recorded, options: StatesOptions): Generator<State> {
  const disk = new Disk(site.root, before);
  const seen = new Map<string, number>();
  for (let count = 0; count <= calls.length; count += 1) {
    const next = calls[count];
    const isRipe = next === undefined || ripening.includes(next.kind);
    const acknowledged = options.acknowledgedAt[count] ?? 0;
    const items = listItems(disk);
    const choice = { items, random: options.random.fork(`${count}`), ...(isRipe ? options.ripe : options.between) };
    for (const fates of chooseFates(choice)) {
      const image = withoutSharedMemory(cutImage(disk, items, fates));
      const digest = digestImage(image);
      const askedAt = seen.get(digest);
      if (askedAt !== acknowledged) {
        seen.set(digest, acknowledged);
        yield { image, digest, calls: count, isNew: askedAt === undefined };
      }
    }
    if (next !== undefined) {
      disk.apply(next);
    }
  }
}
