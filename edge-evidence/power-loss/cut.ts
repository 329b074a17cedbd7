// What a power cut may leave of a disk: of each change that is not certain nothing, all, or a part, in any combination.
// More than any one file system does:
// - changes of one file, and of names, reach the medium in any order, each or none;
// - a write is torn at any multiple of 512 or of 4096 bytes of its file, and any of its pieces may be missing;
// - a file may have its new length without its new bytes, which are zeros then;
// - a name may be there without the bytes of its file, and a rename without what was created or written before it.
// Not more than that: what was synced stays, and a piece that is not written has the bytes that it had.
import {
  type Content,
  type DataChange,
  type Disk,
  type Image,
  type Inode,
  imageOf,
  type NameChange,
} from '../recorder/disk.ts';

/** One change that is not certain. */
export type Item =
  | { readonly kind: 'name'; readonly change: NameChange }
  | { readonly kind: 'data'; readonly inode: Inode; readonly change: DataChange };

/** What becomes of an item. A name change and a truncation happen or do not: a part of one is all of it. */
export type Fate =
  | 'none'
  | 'all'
  /** The length that the write gives the file, with zeros where it is new. */
  | 'zeros'
  | { readonly sector: 512 | 4096; readonly has: (piece: number) => boolean };

/** All changes that are not certain, in the order in which they were made. */
export function listItems(disk: Disk): readonly Item[] {
  const names = disk.pendingNames.map((change): Item => ({ kind: 'name', change }));
  const data = disk
    .listUnsynced()
    .flatMap((inode) => inode.pending.map((change): Item => ({ kind: 'data', inode, change })));
  return [...names, ...data].sort((one, other) => one.change.number - other.change.number);
}

/** How many pieces a write has; 0 for what is no write. */
export function countPieces(item: Item, sector: number): number {
  if (item.kind === 'name' || item.change.kind !== 'write') {
    return 0;
  }
  const { offset, data } = item.change;
  return Math.ceil((offset + data.length) / sector) - Math.floor(offset / sector);
}

/** The disk that a cut leaves when each item has its fate. */
export function cutImage(disk: Disk, items: readonly Item[], fates: readonly Fate[]): Image {
  const contents = new Map<Inode, Content>();
  const names = new Map<Inode, Map<string, Inode>>();
  const own = new Map<Inode, [DataChange, Fate][]>();
  for (const [index, item] of items.entries()) {
    const fate = fates[index] ?? 'none';
    if (fate === 'none') {
      continue;
    }
    if (item.kind === 'data') {
      own.set(item.inode, [...(own.get(item.inode) ?? []), [item.change, fate]]);
      continue;
    }
    for (const { directory, name, inode } of item.change.changes) {
      const known = names.get(directory) ?? new Map(directory.durableNames);
      names.set(directory, known);
      if (inode === null) {
        known.delete(name);
      } else {
        known.set(name, inode);
      }
    }
  }
  for (const [inode, changes] of own) {
    contents.set(inode, contentAfter(inode, changes));
  }
  return imageOf(disk.root, (inode) => ({
    content: contents.get(inode) ?? inode.durable,
    names: names.get(inode) ?? inode.durableNames,
  }));
}

function contentAfter(inode: Inode, changes: readonly (readonly [DataChange, Fate])[]): Content {
  const sizeMax = changes.reduce((size, [change]) => Math.max(size, endOf(change)), inode.durable.bytes.length);
  // One copy with room for all of them, cut to its length at the end.
  const bytes = Buffer.alloc(sizeMax);
  inode.durable.bytes.copy(bytes);
  let { mode } = inode.durable;
  let length = inode.durable.bytes.length;
  for (const [change, fate] of changes) {
    if (change.kind === 'mode') {
      mode = change.mode;
    } else if (change.kind === 'size') {
      bytes.fill(0, Math.min(length, change.length), Math.max(length, change.length));
      length = change.length;
    } else {
      length = Math.max(length, applyWrite(bytes, change, fate));
    }
  }
  return { bytes: bytes.subarray(0, length), mode };
}

type Write = Extract<DataChange, { readonly kind: 'write' }>;

/** Returns where what was written ends. */
function applyWrite(bytes: Buffer, { offset, data }: Write, fate: Fate): number {
  const end = offset + data.length;
  if (fate === 'zeros') {
    return end;
  }
  if (fate === 'all' || fate === 'none') {
    data.copy(bytes, offset);
    return end;
  }
  let last = 0;
  const first = Math.floor(offset / fate.sector);
  for (let piece = 0; (first + piece) * fate.sector < end; piece += 1) {
    if (fate.has(piece)) {
      const from = Math.max(offset, (first + piece) * fate.sector);
      last = Math.min(end, (first + piece + 1) * fate.sector);
      data.copy(bytes, from, from - offset, last - offset);
    }
  }
  return last;
}

function endOf(change: DataChange): number {
  if (change.kind === 'write') {
    return change.offset + change.data.length;
  }
  return change.kind === 'size' ? change.length : 0;
}
