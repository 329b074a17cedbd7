// A control group with little memory and half a processor, in version 1 or 2 of the kernel's interface. Needs root.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isAbandoned, ownName } from './ground.ts';

export type ControlGroup = {
  /** What leads to a program so that it runs in the group. */
  readonly before: readonly string[];
  /** The most memory that the group held, page cache included; in KiB, null where the kernel does not tell. */
  readonly peakKib: () => number | null;
  /** Removes it; everything in it has ended. */
  readonly remove: () => void;
};

export type Bounds = { readonly memoryBytes: number; readonly processors: number };

const base = '/sys/fs/cgroup';
const periodUs = 100_000;

type Layout = {
  readonly folders: readonly string[];
  readonly files: readonly (readonly [file: string, value: string])[];
  readonly peakFile: string;
};

function layoutOf(name: string, { memoryBytes, processors }: Bounds): Layout | null {
  const quotaUs = Math.round(periodUs * processors);
  if (existsSync(join(base, 'cgroup.controllers'))) {
    const folder = join(base, name);
    const files = [
      [join(base, 'cgroup.subtree_control'), '+memory +cpu'],
      [join(folder, 'memory.max'), `${memoryBytes}`],
      [join(folder, 'cpu.max'), `${quotaUs} ${periodUs}`],
    ] as const;
    return { folders: [folder], files, peakFile: join(folder, 'memory.peak') };
  }
  const memory = join(base, 'memory', name);
  const cpu = join(base, 'cpu', name);
  if (!existsSync(join(base, 'memory/memory.limit_in_bytes')) || !existsSync(join(base, 'cpu/cpu.cfs_quota_us'))) {
    return null;
  }
  const files = [
    [join(memory, 'memory.limit_in_bytes'), `${memoryBytes}`],
    [join(cpu, 'cpu.cfs_period_us'), `${periodUs}`],
    [join(cpu, 'cpu.cfs_quota_us'), `${quotaUs}`],
  ] as const;
  return { folders: [memory, cpu], files, peakFile: join(memory, 'memory.max_usage_in_bytes') };
}

/** Makes a group of this process's own name; a text says why there can be none. */
export function makeControlGroup(label: string, bounds: Bounds): ControlGroup | string {
  const name = `${ownName}-${label}`;
  removeAbandoned();
  const layout = layoutOf(name, bounds);
  if (layout === null) {
    return 'this kernel shows no control groups for memory and processors';
  }
  const remove = () => {
    layout.folders.forEach(removeGroup);
  };
  try {
    for (const folder of layout.folders) {
      mkdirSync(folder);
    }
    for (const [file, value] of layout.files) {
      writeFileSync(file, value);
    }
  } catch (error) {
    remove();
    return `control groups cannot be made: ${error instanceof Error ? error.message : error}`;
  }
  const script = 'for group in $1; do echo $$ >"$group/cgroup.procs"; done; shift; exec "$@"';
  return {
    before: ['/bin/sh', '-c', script, 'enter', layout.folders.join(' ')],
    peakKib: () => readKib(layout.peakFile),
    remove,
  };
}

/** Of benches that were killed; a group that somebody is still in stays. */
function removeAbandoned(): void {
  for (const parent of [base, join(base, 'memory'), join(base, 'cpu')].filter((folder) => existsSync(folder))) {
    for (const name of readdirSync(parent).filter(isAbandoned)) {
      removeGroup(join(parent, name));
    }
  }
}

function removeGroup(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // Not there, or not empty: the next bench tries again.
  }
}

function readKib(file: string): number | null {
  try {
    return Math.round(Number(readFileSync(file, 'latin1')) / 1024);
  } catch {
    return null;
  }
}
