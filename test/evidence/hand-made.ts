// Recordings and disks written by hand: as short as the rule that they show.
import { constants } from 'node:fs';
import { Disk, type Entry, type Image, liveImage } from '../../edge-evidence/recorder/disk.ts';
import type { Call } from '../../edge-evidence/recorder/recording.ts';

export const rootPath = '/site';

/** Calls in the order in which they are asked for; paths are below the root. */
export function createCalls() {
  let count = 0;
  let descriptor = 10;
  const make = (kind: Call['kind'], fields: Partial<Call> = {}): Call => {
    count += 1;
    const path = fields.path === undefined ? '' : `${rootPath}/${fields.path}`;
    return {
      number: count,
      pid: 1,
      kind,
      fd: -1,
      value: 0,
      result: 0,
      created: false,
      mode: 0o600,
      data: Buffer.alloc(0),
      ...fields,
      path: path.replace(/\/$/, ''),
    };
  };
  const open = (kind: 'open' | 'create', path: string, fields: Partial<Call> = {}) => {
    descriptor += 1;
    const call = make(kind, { path, fd: descriptor, result: descriptor, value: constants.O_RDWR, ...fields });
    return { call, fd: descriptor };
  };
  return {
    make,
    open,
    write: (fd: number, offset: number, text: string | Buffer) => {
      const data = Buffer.from(text as string);
      return make('write', { fd, value: offset, data, result: data.length });
    },
    sync: (fd: number) => make('sync', { fd }),
    rename: (path: string, to: string) => make('rename', { path, data: Buffer.from(`${rootPath}/${to}`) }),
    unlink: (path: string) => make('unlink', { path }),
  };
}

export function file(text: string, mode = 0o600): Entry {
  return { kind: 'file', bytes: Buffer.from(text), mode };
}

export const directory: Entry = { kind: 'directory', mode: 0o700 };

/** A disk with these files, all of them certain, and the calls carried out on it. */
export function diskAfter(entries: Readonly<Record<string, Entry>>, calls: readonly Call[]): Disk {
  const disk = new Disk(rootPath, new Map(Object.entries({ '': directory, ...entries })));
  for (const call of calls) {
    disk.apply(call);
  }
  return disk;
}

/** The files of an image with their texts, `-` for a directory. */
export function textsOf(image: Image): Readonly<Record<string, string>> {
  return Object.fromEntries(
    [...image].filter(([path]) => path !== '').map(([path, entry]) => [path, textOf(entry)] as const),
  );
}

export function liveTexts(disk: Disk): Readonly<Record<string, string>> {
  return textsOf(liveImage(disk));
}

function textOf(entry: Entry): string {
  if (entry.kind === 'file') {
    return entry.bytes.toString().replaceAll('\0', '0');
  }
  return entry.kind === 'link' ? `to ${entry.text}` : '-';
}
