// File systems and control groups of a scenario's own, for root alone. Each exists only while `work` runs: whatever
// happens, it is unmounted, its loop device is detached, and its group is gone afterwards.
import { execFileSync, spawnSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  ftruncateSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';

/** Why nothing can be mounted here; null where it can. `tools` are needed beside mount(8). */
export function findMountObstacle(tools: readonly string[]): string | null {
  // CAP_SYS_ADMIN; a container's root often lacks it.
  const capabilities = /^CapEff:\s*([0-9a-f]+)$/m.exec(readText('/proc/self/status'))?.[1] ?? '0';
  if ((BigInt(`0x${capabilities}`) & (1n << 21n)) === 0n) {
    return 'only root may mount a file system';
  }
  const missing = ['mount', 'umount', ...tools].filter((tool) => !hasTool(tool));
  return missing.length === 0 ? null : `there is no ${missing.join(', ')} here`;
}

export function hasTool(name: string): boolean {
  return spawnSync('/bin/sh', ['-c', 'command -v "$1"', 'sh', name], { stdio: 'ignore' }).status === 0;
}

/** What has to be undone, also where this process is ended in the middle of it. */
const undone = new Set<() => void>();

/** Undoes at once whatever is mounted or made here still. Called when the process is being ended. */
export function undoAll(): void {
  [...undone].reverse().forEach((undo) => void undo());
  undone.clear();
}

async function untilUndone<T>(undo: () => void, work: () => Promise<T>): Promise<T> {
  undone.add(undo);
  try {
    return await work();
  } finally {
    undone.delete(undo);
    undo();
  }
}

/** Mounts at a new folder below `place` while `work` runs. `words` are those of mount(8) before the folder. */
export async function withMount<T>(
  place: string,
  words: readonly string[],
  work: (folder: string) => Promise<T>,
): Promise<T> {
  const folder = mkdtempSync(join(place, 'mount-'));
  run('mount', ...words, folder);
  return await untilUndone(
    () => unmount(folder),
    () => work(folder),
  );
}

/** Lazily, where a process that is just ending is there still: then it goes with that. */
function unmount(folder: string): void {
  if (spawnSync('umount', [folder], { stdio: 'ignore' }).status !== 0) {
    spawnSync('umount', ['-l', folder], { stdio: 'ignore' });
  }
  rmSync(folder, { recursive: true, force: true });
}

/** A small ext4 in a file of `place`; mount(8) attaches the loop device, and detaches it with the mount. */
export type Disk = { readonly bytes: number; readonly blockBytes: number };

export function makeImage(place: string, { bytes, blockBytes }: Disk): string {
  const image = join(mkdtempSync(join(place, 'image-')), 'ext4');
  const descriptor = openSync(image, 'w');
  ftruncateSync(descriptor, bytes);
  closeSync(descriptor);
  run('mkfs.ext4', '-q', '-F', '-m', '0', '-b', `${blockBytes}`, image);
  return image;
}

/** `work` with a fresh ext4 of so many bytes, journal included. */
export function withExt4<T>(place: string, disk: Disk, work: (folder: string) => Promise<T>): Promise<T> {
  return withMount(place, ['-o', 'loop', makeImage(place, disk)], work);
}

export function run(file: string, ...words: readonly string[]): void {
  execFileSync(file, words, { stdio: ['ignore', 'ignore', 'pipe'] });
}

/** Fills a file system with a file of somebody else, but for about `leftBytes`. */
export function fill(folder: string, leftBytes = 0): void {
  const file = join(folder, 'filling');
  const descriptor = openSync(file, 'w');
  for (let bytes = 1 << 20; bytes >= 512; bytes >>= 1) {
    try {
      for (;;) {
        writeSync(descriptor, Buffer.alloc(bytes, 'x'));
      }
    } catch {
      // Full for a piece of this size.
    }
  }
  closeSync(descriptor);
  truncateSync(file, Math.max(0, statSync(file).size - leftBytes));
}

export function empty(folder: string): void {
  rmSync(join(folder, 'filling'), { force: true });
}

/** A group of this machine's version of control groups, with its limits in force. */
export type Group = {
  /** Words that put what follows them into the group. */
  readonly wrap: readonly string[];
  /** Bytes at the peak, and processes that were killed for want of memory; null where the kernel does not say. */
  readonly peakBytes: () => number | null;
  readonly kills: () => number | null;
};

type Limits = { readonly memoryBytes: number; readonly processors: number };

const groups = '/sys/fs/cgroup';
const groupName = /^qinglong-edge-faults-(\d+)-\d+$/;
const periodUs = 100_000;

export function findGroupObstacle(): string | null {
  const isThere = existsSync(join(groups, 'memory/cgroup.procs')) || hasVersion2();
  if (process.geteuid?.() !== 0) {
    return 'only root may limit memory by a control group';
  }
  return isThere ? null : 'there is no control group for memory here';
}

function hasVersion2(): boolean {
  return readText(join(groups, 'cgroup.controllers')).split(/\s/).includes('memory');
}

export async function withGroup<T>(limits: Limits, work: (group: Group) => Promise<T>): Promise<T> {
  removeStaleGroups();
  const name = `qinglong-edge-faults-${process.pid}-${Math.round(performance.now())}`;
  const folders = hasVersion2() ? [join(groups, name)] : ['memory', 'cpu'].map((kind) => join(groups, kind, name));
  const undo = () => folders.forEach(removeGroup);
  return await untilUndone(undo, async () => {
    for (const folder of folders) {
      mkdirSync(folder);
    }
    const memory = folders[0] ?? '';
    limitGroup(memory, folders.at(-1) ?? '', limits);
    const line = folders.map((folder) => `echo $$ >${folder}/cgroup.procs`).join(' && ');
    const peakFile = hasVersion2() ? 'memory.peak' : 'memory.max_usage_in_bytes';
    const killFile = hasVersion2() ? 'memory.events' : 'memory.oom_control';
    return await work({
      wrap: ['/bin/sh', '-c', `${line} && exec "$@"`, 'sh'],
      peakBytes: () => readNumber(/^(\d+)$/m, join(memory, peakFile)),
      kills: () => readNumber(/^oom_kill (\d+)$/m, join(memory, killFile)),
    });
  });
}

function limitGroup(memory: string, cpu: string, { memoryBytes, processors }: Limits): void {
  const quotaUs = Math.round(periodUs * processors);
  if (hasVersion2()) {
    writeFileSync(join(groups, 'cgroup.subtree_control'), '+memory +cpu');
    writeFileSync(join(memory, 'memory.max'), `${memoryBytes}`);
    writeFileSync(join(cpu, 'cpu.max'), `${quotaUs} ${periodUs}`);
    return;
  }
  writeFileSync(join(memory, 'memory.limit_in_bytes'), `${memoryBytes}`);
  writeFileSync(join(cpu, 'cpu.cfs_period_us'), `${periodUs}`);
  writeFileSync(join(cpu, 'cpu.cfs_quota_us'), `${quotaUs}`);
}

/** 10 s: on a machine under load, who was killed takes its time to go. */
const removalsMax = 500;

/** What a process left that was killed in the middle of it. */
function removeStaleGroups(): void {
  for (const parent of hasVersion2() ? [groups] : ['memory', 'cpu'].map((kind) => join(groups, kind))) {
    for (const name of readdirSync(parent)) {
      const pid = groupName.exec(name)?.[1];
      if (pid !== undefined && !existsSync(`/proc/${pid}`)) {
        removeGroup(join(parent, name));
      }
    }
  }
}

/** Only an empty group can be removed: whoever is left in it is ended, by its id. */
function removeGroup(folder: string): void {
  for (let tries = 0; tries < removalsMax && existsSync(folder); tries += 1) {
    for (const pid of readText(join(folder, 'cgroup.procs')).split('\n').filter(Boolean)) {
      spawnSync('kill', ['-9', pid], { stdio: 'ignore' });
    }
    if (spawnSync('rmdir', [folder], { stdio: 'ignore' }).status !== 0) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
    }
  }
}

function readNumber(pattern: RegExp, file: string): number | null {
  const found = pattern.exec(readText(file))?.[1];
  return found === undefined ? null : Number(found);
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}
