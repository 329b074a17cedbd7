// What a program file is, before it is executed: a shell could only say 126 or 127. Reads the first bytes of the file
// and of nothing else; starts nothing. For Linux: #! lines and ELF.
import { closeSync, constants, openSync, readdirSync, readSync } from 'node:fs';

export type ProgramFile =
  | { readonly kind: 'interpreted'; readonly interpreter: string }
  /** No `#!`: POSIX has /bin/sh run it, which only some C libraries do. */
  | { readonly kind: 'shell-text' }
  /** `loader` is the dynamic loader that the file names, if any. */
  | { readonly kind: 'native'; readonly loader: string | null }
  | { readonly kind: 'foreign'; readonly what: string };

const headBytes = 256;
const programHeadersBytesMax = 4096;
const loaderProgramHeader = 3;
const elfMagic = 0x7f454c46;

// ELF machine numbers that a kernel of this architecture runs, 32-bit companions included.
const machines: Readonly<Record<string, readonly number[]>> = {
  x64: [62, 3],
  ia32: [3, 6],
  arm64: [183, 40],
  arm: [40],
  riscv64: [243],
  loong64: [258],
  mips: [8],
  mipsel: [8],
  ppc64: [21, 20],
  s390x: [22],
};

/** Throws the error of `open` or `read` when the file cannot be read; the caller has seen that it may be executed. */
export function readProgramFile(file: string, arch: string): ProgramFile {
  const fd = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const head = Buffer.alloc(headBytes);
    const bytes = head.subarray(0, readSync(fd, head, 0, headBytes, 0));
    if (bytes.toString('latin1', 0, 2) === '#!') {
      return { kind: 'interpreted', interpreter: parseInterpreter(bytes) };
    }
    if (bytes.length >= 20 && bytes.readUInt32BE(0) === elfMagic) {
      return readElf(fd, bytes, arch);
    }
    const firstLine = bytes.subarray(0, bytes.indexOf(10) === -1 ? bytes.length : bytes.indexOf(10));
    if (!firstLine.includes(0)) {
      return { kind: 'shell-text' };
    }
    return isBinfmtRegistered()
      ? { kind: 'native', loader: null }
      : { kind: 'foreign', what: 'it is neither a script nor a program for this system' };
  } finally {
    closeSync(fd);
  }
}

/** The kernel ends the interpreter at a blank or at the line's end; a carriage return is part of it. */
function parseInterpreter(head: Buffer): string {
  const line = head.toString('utf8', 2).split('\n', 1)[0] ?? '';
  return line.replace(/^[ \t]+/, '').split(/[ \t]/, 1)[0] ?? '';
}

function readElf(fd: number, head: Buffer, arch: string): ProgramFile {
  const isLittle = head[5] === 1;
  const machine = isLittle ? head.readUInt16LE(18) : head.readUInt16BE(18);
  const known = machines[arch];
  if (known !== undefined && !known.includes(machine) && !isBinfmtRegistered()) {
    return { kind: 'foreign', what: `it is a program for another processor (ELF machine ${machine})` };
  }
  return { kind: 'native', loader: readLoader(fd, head, isLittle) };
}

/** PT_INTERP: a file built for another C library fails with the same ENOENT as a missing one. */
function readLoader(fd: number, head: Buffer, isLittle: boolean): string | null {
  const is64 = head[4] === 2;
  if (head.length < 64) {
    return null;
  }
  const half = (bytes: Buffer, at: number) => (isLittle ? bytes.readUInt16LE(at) : bytes.readUInt16BE(at));
  const word = (bytes: Buffer, at: number) => (isLittle ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at));
  const long = (bytes: Buffer, at: number) =>
    is64 ? Number(isLittle ? bytes.readBigUInt64LE(at) : bytes.readBigUInt64BE(at)) : word(bytes, at);
  const tableAt = long(head, is64 ? 32 : 28);
  const entryBytes = half(head, is64 ? 54 : 42);
  const tableBytes = Math.min(programHeadersBytesMax, entryBytes * half(head, is64 ? 56 : 44));
  const table = readAt(fd, tableAt, tableBytes);
  for (let at = 0; entryBytes >= 32 && at + entryBytes <= table.length; at += entryBytes) {
    if (word(table, at) === loaderProgramHeader) {
      const name = readAt(fd, long(table, at + (is64 ? 8 : 4)), Math.min(4096, long(table, at + (is64 ? 32 : 16))));
      return name.toString('utf8').replace(/\0.*$/s, '');
    }
  }
  return null;
}

function readAt(fd: number, position: number, bytes: number): Buffer {
  const buffer = Buffer.alloc(bytes);
  return buffer.subarray(0, readSync(fd, buffer, 0, bytes, position));
}

/** With an emulator registered, only the kernel knows what it can run. */
function isBinfmtRegistered(): boolean {
  try {
    return readdirSync('/proc/sys/fs/binfmt_misc').some((name) => name !== 'register' && name !== 'status');
  } catch {
    return false;
  }
}
