// A recording as shim.c writes it, taken apart into calls. Knows the form alone, not what a call does to a disk.
import { readFileSync } from 'node:fs';
import { type CallKind, callKinds } from './shim.ts';

export type Call = {
  /** From 1, in the order in which the calls were made. */
  readonly number: number;
  readonly pid: number;
  readonly kind: CallKind;
  /** -1 for a call that has none. */
  readonly fd: number;
  /** write: offset; truncate: length; open and create: flags. */
  readonly value: number;
  /** What the call answered; below 0: it failed with that errno. */
  readonly result: number;
  /** Absolute; empty for a call on a descriptor. */
  readonly path: string;
  /** Of create: the file was not there before. */
  readonly created: boolean;
  /** Permission bits after create, mkdir, chmod. */
  readonly mode: number;
  /** What was written; of rename, link and symlink the second path. */
  readonly data: Buffer;
};

const headerBytes = 40;
const kindOf = new Map(Object.entries(callKinds).map(([kind, letter]) => [letter.charCodeAt(0), kind as CallKind]));

/** All calls of a recording. What a kill left of a last record is left out. */
export function readRecording(file: string): readonly Call[] {
  return parseRecording(readFileSync(file));
}

export function parseRecording(bytes: Buffer): readonly Call[] {
  const calls: Call[] = [];
  for (let at = 0; at + headerBytes <= bytes.length; ) {
    const size = bytes.readUInt32LE(at);
    if (size < headerBytes || at + size > bytes.length) {
      break;
    }
    calls.push(parseCall(bytes.subarray(at, at + size)));
    at += size;
  }
  return calls;
}

function parseCall(record: Buffer): Call {
  const pathEnd = headerBytes + record.readUInt32LE(32);
  return {
    number: record.readUInt32LE(4),
    pid: record.readUInt32LE(8),
    kind: kindOf.get(record.readUInt8(36)) ?? 'foreign',
    fd: record.readInt32LE(12),
    value: Number(record.readBigInt64LE(16)),
    result: Number(record.readBigInt64LE(24)),
    path: record.toString('utf8', headerBytes, pathEnd),
    created: record.readUInt8(37) === 1,
    mode: record.readUInt16LE(38),
    data: record.subarray(pathEnd),
  };
}

/** A call as people read it, paths as they are below the root: `12 write 22 512+1024`. */
export function describeCall({ number, kind, fd, value, result, path, data }: Call, root = ''): string {
  const place = path === '' ? `${fd}` : path.slice(root.length);
  const isPair = kind === 'rename' || kind === 'link';
  const what =
    kind === 'write' ? ` ${value}+${data.length}` : isPair ? ` to ${data.toString().slice(root.length)}` : '';
  return `${number} ${kind} ${place}${what}${result < 0 ? `: errno ${-result}` : ''}`;
}
