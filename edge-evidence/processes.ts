// The processes of this machine as /proc shows them: whose they are is told by what they name (a folder), by their
// session, and by their parents. Shares no code with the product, whose claims about processes are checked with it.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

export type ProcessEntry = {
  readonly pid: number;
  readonly parentPid: number;
  readonly sessionId: number;
  /** With the pid, names this process and no other of this boot. */
  readonly startTicks: number;
  /** Dead and not yet waited for, or on its way there: its memory is gone, and it runs no code any more. */
  readonly isOver: boolean;
};

/** One process; null where there is none. */
export function readProcessEntry(pid: number): ProcessEntry | null {
  const stat = readText(`/proc/${pid}/stat`);
  if (stat === '') {
    return null;
  }
  // The name in parentheses may hold anything; what follows begins with field 3.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return {
    pid,
    parentPid: Number(fields[1]),
    sessionId: Number(fields[3]),
    startTicks: Number(fields[19]),
    isOver: fields[0] === 'Z' || fields[0] === 'X' || fields[20] === '0',
  };
}

/** Everything that lives, kernel threads left out. */
export function listProcesses(): readonly ProcessEntry[] {
  return readdirSync('/proc').flatMap((name) => {
    const entry = /^[0-9]+$/.test(name) ? readProcessEntry(Number(name)) : null;
    return entry === null || entry.isOver ? [] : [entry];
  });
}

export function processKey({ pid, startTicks }: ProcessEntry): string {
  return `${pid}:${startTicks}`;
}

/** Its command line, for people. Empty for a process that has gone. */
export function commandOf({ pid }: ProcessEntry): string {
  return readText(`/proc/${pid}/cmdline`).split('\0').join(' ').trim();
}

/** In which way a process names a folder, or something below it, also a deleted one; null where it does not. */
export function howItNames({ pid }: ProcessEntry, folder: string): string | null {
  if (readText(`/proc/${pid}/cmdline`).includes(folder)) {
    return 'its command line';
  }
  if (readText(`/proc/${pid}/environ`).includes(folder)) {
    return 'its environment';
  }
  if (readLink(`/proc/${pid}/cwd`).startsWith(folder)) {
    return 'its working directory';
  }
  return openFilesOf(pid).some((file) => file.startsWith(folder)) ? 'a file that it holds open' : null;
}

/**
 * Who lives of those that name a folder or are known to belong to it, and of their sessions. A session whose leader
 * lives and is none of them is somebody else's, who only looks at the folder.
 */
export function findProcessesOf(
  folder: string,
  isKnown: (entry: ProcessEntry) => boolean = () => false,
): readonly ProcessEntry[] {
  const living = listProcesses().filter(({ pid }) => pid !== process.pid);
  const found = new Set(living.filter((entry) => isKnown(entry) || howItNames(entry, folder) !== null));
  const own = readProcessEntry(process.pid)?.sessionId;
  const foreign = new Set(living.filter((entry) => !found.has(entry)).map(({ pid }) => pid));
  const sessions = new Set([...found].map(({ sessionId }) => sessionId).filter((id) => id !== own && !foreign.has(id)));
  return living.filter((entry) => found.has(entry) || sessions.has(entry.sessionId));
}

const lookMs = 20;

/** Until nobody of a folder lives, at most so long; who lives even then. */
export async function waitForProcesses(folder: string, waitMsMax: number): Promise<readonly ProcessEntry[]> {
  const endMs = performance.now() + waitMsMax;
  let left = findProcessesOf(folder);
  while (left.length > 0 && performance.now() < endMs) {
    await pause(lookMs);
    left = findProcessesOf(folder);
  }
  return left;
}

/** SIGKILL to exactly this process, if it is still there. */
export function killProcess(entry: ProcessEntry): void {
  if (readProcessEntry(entry.pid)?.startTicks === entry.startTicks) {
    try {
      process.kill(entry.pid, 'SIGKILL');
    } catch {
      // Gone meanwhile.
    }
  }
}

function openFilesOf(pid: number): readonly string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).map((name) => readLink(`/proc/${pid}/fd/${name}`));
  } catch {
    return [];
  }
}

function readLink(file: string): string {
  try {
    return readlinkSync(file);
  } catch {
    return '';
  }
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}
