// Builds shim.c, and says to a process what the shim in it is to do. Knows its variables and nothing of its records.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';

/** Said in reports and by tests where the shim cannot be had. */
export const noShim = 'there is no C compiler here (cc), or this is not Linux on 64 bits with glibc';

/** The letter that a record has, as in shim.c. */
export const callKinds = {
  open: 'o',
  create: 'O',
  close: 'c',
  write: 'w',
  truncate: 't',
  sync: 's',
  rename: 'r',
  unlink: 'u',
  link: 'l',
  symlink: 'y',
  mkdir: 'k',
  rmdir: 'x',
  chmod: 'm',
  answer: 'a',
  start: 'f',
  map: 'M',
  foreign: '!',
  read: 'R',
} as const;

export type CallKind = keyof typeof callKinds;
export type ErrorName = keyof typeof constants.errno;

export type Fault = {
  /** The first call from this number on (counted from 1) that is of one of `kinds`. */
  readonly number: number;
  readonly error: ErrorName;
  readonly kinds: readonly CallKind[] | 'all';
  /** Once, or every such call from there on. */
  readonly lasts: boolean;
  /** The first write of more bytes is cut to so many and succeeds; the error meets the calls after it. */
  readonly bytesMax?: number;
};

export type Watch = {
  readonly shim: string;
  /** What is watched: this path and everything below. Absolute, without links. */
  readonly root: string;
  /** Left out, although it is below the root. */
  readonly skip?: string;
  /** Where calls are recorded; the file is appended to. */
  readonly log?: string;
  /** SIGKILL at the call of this number, before it is made or when it has been. */
  readonly kill?: { readonly number: number; readonly when: 'before' | 'after' };
  readonly fault?: Fault;
  /** Reads are counted too, so that they can be made to fail; numbers are then others than those of a recording. */
  readonly countsReads?: boolean;
  /** Also watches what the process starts, each with numbers of its own. */
  readonly keepsChildren?: boolean;
};

/** Compiles the shim into a folder, once; null where that is not possible here. */
export function buildShim(folder: string): string | null {
  const library = join(folder, 'shim.so');
  // A bundle of the evidence has no sources beside it.
  const here: string | undefined = import.meta.dirname;
  if (existsSync(library)) {
    return library;
  }
  if (here === undefined) {
    return null;
  }
  const source = join(here, 'shim.c');
  mkdirSync(folder, { recursive: true });
  const flags = ['-O2', '-Wall', '-Wextra', '-Werror', '-shared', '-fPIC', '-D_GNU_SOURCE'];
  const { status } = spawnSync('cc', [...flags, '-o', library, source, '-ldl', '-pthread'], { stdio: 'ignore' });
  return status === 0 && isLoaded(library) ? library : null;
}

/** A loader that cannot take it (another C library) goes on without it, and says so. */
function isLoaded(library: string): boolean {
  const script = 'process.exitCode = process.env.LD_PRELOAD === undefined ? 0 : 1';
  const env = { LD_PRELOAD: library, QLE_SHIM_ROOT: '/nowhere' };
  return spawnSync(process.execPath, ['-e', script], { env, stdio: 'ignore' }).status === 0;
}

/** What the environment of a process needs for the shim to watch it. */
export function shimEnvironment(watch: Watch): Readonly<Record<string, string>> {
  const { kill, fault } = watch;
  return {
    LD_PRELOAD: watch.shim,
    QLE_SHIM_ROOT: watch.root,
    ...(watch.skip === undefined ? {} : { QLE_SHIM_SKIP: watch.skip }),
    ...(watch.log === undefined ? {} : { QLE_SHIM_LOG: watch.log }),
    ...(kill === undefined ? {} : { QLE_SHIM_KILL: `${kill.when} ${kill.number}` }),
    ...(fault === undefined ? {} : { QLE_SHIM_FAULT: printFault(fault) }),
    ...(watch.countsReads === true ? { QLE_SHIM_READS: '1' } : {}),
    ...(watch.keepsChildren === true ? { QLE_SHIM_KEEP: '1' } : {}),
  };
}

function printFault({ number, error, kinds, lasts, bytesMax }: Fault): string {
  const letters = kinds === 'all' ? '*' : kinds.map((kind) => callKinds[kind]).join('');
  const words = [number, constants.errno[error], letters, lasts ? 'on' : 'once'];
  return [...words, ...(bytesMax === undefined ? [] : [bytesMax])].join(' ');
}
