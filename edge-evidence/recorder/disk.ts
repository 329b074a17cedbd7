// A disk as recorded calls leave it: what the running system sees of it, and apart from that what is certainly on the
// medium and what is only on its way there. Knows nothing of SQLite. A process that is killed leaves the first; what a
// power cut may leave is chosen from the rest in power-loss/cut.ts.
//
// What is certain, and no more: a sync of a file makes its bytes, its length and its mode certain, not its name; a sync
// of a directory makes the names in it certain, those that went included; a rename is certain with the directory that
// it led to. POSIX promises less in places and every file system gives more, each another part of it.
import { constants } from 'node:fs';
import { basename, dirname } from 'node:path';
import { EvidenceError } from '../operation.ts';
import { type Call, describeCall } from './recording.ts';

/** Bytes and mode, of a file; a directory has the mode alone. */
export type Content = { readonly bytes: Buffer; readonly mode: number };

export type DataChange =
  | { readonly kind: 'write'; readonly number: number; readonly offset: number; readonly data: Buffer }
  | { readonly kind: 'size'; readonly number: number; readonly length: number }
  | { readonly kind: 'mode'; readonly number: number; readonly mode: number };

export type Inode = {
  readonly id: number;
  readonly kind: 'file' | 'directory' | 'link';
  /** Where a link leads. */
  readonly text: string;
  /** As the running system sees it. */
  live: Content;
  readonly names: Map<string, Inode>;
  /** As it certainly is on the medium. */
  durable: Content;
  readonly durableNames: Map<string, Inode>;
  /** In the order in which they were made. */
  pending: DataChange[];
  /** Changes with every change of the live content. */
  version: number;
};

/** One change of names, which happens whole or not at all; a rename has two. */
export type NameChange = {
  readonly number: number;
  readonly changes: readonly { readonly directory: Inode; readonly name: string; readonly inode: Inode | null }[];
  /** The directory whose sync makes it certain. */
  readonly owner: Inode;
};

/** What is at a path, as an image of a disk has it. */
export type Entry =
  | { readonly kind: 'file'; readonly bytes: Buffer; readonly mode: number }
  | { readonly kind: 'directory'; readonly mode: number }
  | { readonly kind: 'link'; readonly text: string };

/** Everything below a root, by its path there, each directory before what is in it. The root itself is ''. */
export type Image = ReadonlyMap<string, Entry>;

/** A map of the shared memory of a WAL: nothing of it outlives its last process. */
export function isSharedMemory(path: string): boolean {
  return path.endsWith('-shm');
}

const noBytes = Buffer.alloc(0);

export class Disk {
  readonly root: Inode;
  /** In the order in which they were made. */
  readonly pendingNames: NameChange[] = [];
  readonly #rootPath: string;
  readonly #descriptors = new Map<number, Inode>();
  /** Files and directories with changes that are not certain. */
  readonly #unsynced = new Set<Inode>();
  #count = 0;

  /** Everything in `image` is certain. `rootPath` is what recorded paths begin with. */
  constructor(rootPath: string, image: Image) {
    this.#rootPath = rootPath;
    this.root = this.#make('directory', { bytes: noBytes, mode: 0o700 });
    for (const [path, entry] of image) {
      const content = { bytes: entry.kind === 'file' ? entry.bytes : noBytes, mode: modeOf(entry) };
      if (path === '') {
        this.root.live = content;
        this.root.durable = content;
      } else {
        const inode = this.#make(entry.kind, content, entry.kind === 'link' ? entry.text : '');
        const parent = this.#find(dirname(path)) ?? this.root;
        parent.names.set(basename(path), inode);
        parent.durableNames.set(basename(path), inode);
      }
    }
  }

  /** Files and directories with changes of their own that are not certain, in the order of their making. */
  listUnsynced(): readonly Inode[] {
    return [...this.#unsynced].sort((one, other) => one.id - other.id);
  }

  /** The inode of a descriptor, as the call meets it. */
  inodeOf(fd: number): Inode | null {
    return this.#descriptors.get(fd) ?? null;
  }

  /** What a recorded path names now. */
  lookUp(path: string): Inode | null {
    return this.#find(this.#relative(path));
  }

  /** Carries out one call. One that failed changes nothing. Throws for what no replay can know. */
  apply(call: Call): void {
    const isMap = call.kind === 'map' && isSharedMemory(this.#pathOf(call.fd) ?? '');
    if (call.kind === 'foreign' || (call.kind === 'map' && !isMap)) {
      throw new EvidenceError(`what call ${describeCall(call)} writes was not seen`);
    }
    if (call.result >= 0) {
      this.#carryOut(call);
    }
  }

  #carryOut(call: Call): void {
    const { number, path, data, value, mode } = call;
    const change = (made: DataChange) => this.#change(this.#demand(call), made);
    const create = (kind: 'directory' | 'link', content: Content, text = '') =>
      this.#name(call, path, this.#make(kind, content, text));
    // What is not here, such as answers and starts, changes no disk.
    const rules: { readonly [K in Call['kind']]?: () => void } = {
      open: () => this.#open(call),
      create: () => this.#open(call),
      close: () => this.#descriptors.delete(call.fd),
      write: () => change({ kind: 'write', number, offset: value, data }),
      truncate: () => change({ kind: 'size', number, length: value }),
      chmod: () => change({ kind: 'mode', number, mode }),
      sync: () => this.#sync(this.#demand(call)),
      mkdir: () => create('directory', { bytes: noBytes, mode }),
      symlink: () => create('link', { bytes: noBytes, mode: 0o777 }, data.toString()),
      link: () => this.#name(call, data.toString(), this.#demand(call)),
      rename: () => this.#rename(call),
      unlink: () => this.#name(call, path, null),
      rmdir: () => this.#name(call, path, null),
    };
    rules[call.kind]?.();
  }

  #open(call: Call): void {
    const { path, value, mode, created, result } = call;
    if (created) {
      this.#name(call, path, this.#make('file', { bytes: noBytes, mode }));
    }
    const inode = this.#demand(call);
    if (!created && (value & constants.O_TRUNC) !== 0) {
      this.#change(inode, { kind: 'size', number: call.number, length: 0 });
    }
    this.#descriptors.set(result, inode);
  }

  #change(inode: Inode, change: DataChange): void {
    inode.live = changed(inode.live, change);
    inode.version += 1;
    inode.pending.push(change);
    this.#unsynced.add(inode);
  }

  #sync(inode: Inode): void {
    inode.durable = inode.live;
    inode.pending = [];
    this.#unsynced.delete(inode);
    const own = this.pendingNames.filter(({ owner }) => owner === inode);
    for (const { changes } of own) {
      for (const { directory, name, inode: target } of changes) {
        setName(directory.durableNames, name, target);
      }
    }
    const others = this.pendingNames.filter(({ owner }) => owner !== inode);
    this.pendingNames.splice(0, Number.POSITIVE_INFINITY, ...others);
  }

  #name({ number }: Call, path: string, inode: Inode | null): void {
    const directory = this.#parentOf(path);
    const name = basename(path);
    setName(directory.names, name, inode);
    this.pendingNames.push({ number, changes: [{ directory, name, inode }], owner: directory });
  }

  #rename(call: Call): void {
    const target = call.data.toString();
    const inode = this.#demand(call);
    const [from, to] = [this.#parentOf(call.path), this.#parentOf(target)];
    const changes = [
      { directory: from, name: basename(call.path), inode: null },
      { directory: to, name: basename(target), inode },
    ];
    for (const { directory, name, inode: named } of changes) {
      setName(directory.names, name, named);
    }
    this.pendingNames.push({ number: call.number, changes, owner: to });
  }

  #make(kind: Inode['kind'], content: Content, text = ''): Inode {
    this.#count += 1;
    const names = { names: new Map<string, Inode>(), durableNames: new Map<string, Inode>() };
    return { id: this.#count, kind, text, live: content, durable: content, ...names, pending: [], version: 0 };
  }

  /** What a call is about: by its path where it has one, else by its descriptor. */
  #demand(call: Call): Inode {
    const inode = call.path === '' ? this.#descriptors.get(call.fd) : this.#find(this.#relative(call.path));
    if (inode == null) {
      throw new EvidenceError(`the recording does not say what ${describeCall(call)} is about`);
    }
    return inode;
  }

  #parentOf(path: string): Inode {
    const parent = this.#find(this.#relative(dirname(path)));
    if (parent === null) {
      throw new EvidenceError(`the recording does not say what is at ${dirname(path)}`);
    }
    return parent;
  }

  #pathOf(fd: number): string | null {
    const inode = this.#descriptors.get(fd);
    return inode === undefined ? null : findName(this.root, inode);
  }

  #relative(path: string): string {
    return path === this.#rootPath ? '' : path.slice(this.#rootPath.length + 1);
  }

  #find(path: string): Inode | null {
    let inode: Inode | undefined = this.root;
    for (const name of path.split('/').filter((part) => part !== '' && part !== '.')) {
      inode = inode?.names.get(name);
    }
    return inode ?? null;
  }
}

/** The content after one change. Bytes beyond the end that nobody wrote are zeros. */
export function changed(content: Content, change: DataChange): Content {
  if (change.kind === 'mode') {
    return { ...content, mode: change.mode };
  }
  const { bytes, mode } = content;
  if (change.kind === 'size') {
    return { bytes: resized(bytes, change.length), mode };
  }
  const copy = resized(bytes, Math.max(bytes.length, change.offset + change.data.length));
  change.data.copy(copy, change.offset);
  return { bytes: copy, mode };
}

/** Always a copy. */
export function resized(bytes: Buffer, length: number): Buffer {
  const copy = Buffer.alloc(length);
  bytes.copy(copy);
  return copy;
}

/** The disk as the running system sees it. Holds for as long as nothing is applied. */
export function liveImage(disk: Disk): Image {
  return imageOf(disk.root, (inode) => ({ content: inode.live, names: inode.names }));
}

/** SQLite makes it anew: whoever had it is dead. */
export function withoutSharedMemory(image: Image): Image {
  return new Map([...image].filter(([path]) => !isSharedMemory(path)));
}

export type View = (inode: Inode) => { readonly content: Content; readonly names: ReadonlyMap<string, Inode> };

/** The disk as a view of each inode shows it. */
export function imageOf(root: Inode, view: View): Image {
  const image = new Map<string, Entry>();
  const visit = (path: string, inode: Inode) => {
    const { content, names } = view(inode);
    if (inode.kind === 'file') {
      image.set(path, { kind: 'file', bytes: content.bytes, mode: content.mode });
    } else if (inode.kind === 'link') {
      image.set(path, { kind: 'link', text: inode.text });
    } else {
      image.set(path, { kind: 'directory', mode: content.mode });
      for (const [name, child] of names) {
        visit(path === '' ? name : `${path}/${name}`, child);
      }
    }
  };
  visit('', root);
  return image;
}

function setName(names: Map<string, Inode>, name: string, inode: Inode | null): void {
  if (inode === null) {
    names.delete(name);
  } else {
    names.set(name, inode);
  }
}

function modeOf(entry: Entry): number {
  return entry.kind === 'link' ? 0o777 : entry.mode;
}

function findName(directory: Inode, inode: Inode): string | null {
  for (const [name, child] of directory.names) {
    const below = child === inode ? '' : findName(child, inode);
    if (below !== null) {
      return below === '' ? name : `${name}/${below}`;
    }
  }
  return null;
}
