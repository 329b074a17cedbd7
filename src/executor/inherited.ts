// Descriptors that somebody has left open to this process, and that it would hand on to every command: a lock, a
// socket, another user's file. Node marks the first sixteen at its start; a shell cannot close those above 9.
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs';

const closeOnExec = 0o2000000;
// A table of so many entries is made for each spawn then.
const descriptorMax = 4095;

/**
 * Those above 2 that survive an exec, rising; not those beyond this process's own limit, to which nothing can be
 * duplicated. Empty without /proc.
 */
export function listInheritable(): number[] {
  try {
    const found = readdirSync('/proc/self/fd').map(Number).filter(isInheritable);
    const max = found.length === 0 ? 0 : Math.min(descriptorMax, readDescriptorLimit() - 4);
    return found.filter((fd) => fd <= max).sort((one, other) => one - other);
  } catch {
    return [];
  }
}

function readDescriptorLimit(): number {
  const row = /^Max open files\s+([0-9]+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1];
  return row === undefined ? Number.POSITIVE_INFINITY : Number(row);
}

function isInheritable(fd: number): boolean {
  if (fd <= 2) {
    return false;
  }
  try {
    const flags = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0;
  } catch {
    // The one that listed them.
    return false;
  }
}

/**
 * Calls `work` with what `spawn` takes as `stdio`: these three, and /dev/null in place of each of `inheritable`, for
 * nothing else in there closes one.
 */
export function withStdio<T>(
  [stdin, stdout, stderr]: readonly ['ignore', 'ignore', number],
  inheritable: readonly number[],
  work: (stdio: ('ignore' | number)[]) => T,
): T {
  const last = inheritable.at(-1);
  if (last === undefined) {
    return work([stdin, stdout, stderr]);
  }
  const nothing = openSync('/dev/null', 'r');
  try {
    const rest = Array.from({ length: last - 2 }, (_, index) => (inheritable.includes(index + 3) ? nothing : 'ignore'));
    return work([stdin, stdout, stderr, ...(rest as ('ignore' | number)[])]);
  } finally {
    closeSync(nothing);
  }
}
