// Counting system calls with strace, where it is. Its summary is a table with a line for each call and one for all.

/** What leads to a program so that its calls, and those of its threads and children, are counted in a file. */
export function traceCalls(file: string, calls: readonly string[]): readonly string[] {
  return ['strace', '-f', '-c', '-o', file, '-e', `trace=${calls.join(',')}`];
}

/** Attaches to a process and all of its threads until it is interrupted; everything is counted. */
export function attachTo(pid: number, file: string): readonly string[] {
  return ['strace', '-f', '-c', '-o', file, '-p', `${pid}`];
}

/** The calls of a summary by name; empty where nothing was called. */
export function readCalls(summary: string): ReadonlyMap<string, number> {
  // % time, seconds, usecs/call, calls, errors (may be blank), syscall.
  const lines = summary.matchAll(/^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$/gm);
  return new Map([...lines].flatMap(([, calls, name = '']) => (name === 'total' ? [] : [[name, Number(calls)]])));
}

export function countCalls(summary: string): number {
  return [...readCalls(summary).values()].reduce((sum, calls) => sum + calls, 0);
}
