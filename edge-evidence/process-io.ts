// What the kernel counts of a process: memory, writes, wake-ups and processor time. Null where it does not count.
import { readdirSync, readFileSync } from 'node:fs';

/** `write_bytes`: what was caused to be sent to the storage, by it and by everybody that it has waited for. */
export function readWrittenBytes(pid: number | 'self'): number | null {
  const found = /^write_bytes: (\d+)/m.exec(readText(`/proc/${pid}/io`))?.[1];
  return found === undefined ? null : Number(found);
}

export type Memory = { readonly rssKib: number; readonly pssKib: number; readonly privateKib: number };

/** Null where the kernel does not sum up; `rssKib` alone would compare badly with the others. */
export function readMemory(pid: number): Memory | null {
  const text = readText(`/proc/${pid}/smaps_rollup`);
  const kib = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? Number.NaN);
  const memory = { rssKib: kib('Rss'), pssKib: kib('Pss'), privateKib: kib('Private_Clean') + kib('Private_Dirty') };
  return Object.values(memory).some(Number.isNaN) ? null : memory;
}

export type Activity = { readonly contextSwitches: number; readonly cpuTicks: number };

/** Of all threads, since the process began. A tick is 10 ms as a rule. */
export function readActivity(pid: number): Activity {
  const threads = readdirSync(`/proc/${pid}/task`).map((name) => `/proc/${pid}/task/${name}`);
  const sum = (count: (thread: string) => number) => threads.reduce((total, thread) => total + count(thread), 0);
  return {
    contextSwitches: sum((thread) => {
      const counts = readText(`${thread}/status`).matchAll(/ctxt_switches:\s+(\d+)/g);
      return [...counts].reduce((total, [, count]) => total + Number(count), 0);
    }),
    cpuTicks: sum((thread) => {
      const stat = readText(`${thread}/stat`);
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return Number(fields[11]) + Number(fields[12]);
    }),
  };
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}
