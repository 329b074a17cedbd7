// Processes of one session in /proc, whose they are, and signals to them. A process is identified by pid, start ticks
// and boot together: no pid is signalled of which that is not known, and never 0, 1, this process or its own group.
//
// What proves that session P is ours. The kernel gives no pid away that is still the id of a session, so a session
// lives without a gap from its leader to its last member. One proven member therefore proves all of them:
//   - its leader, with the start ticks in `identity`; another process with that pid proves that ours is over
//   - the process that took the start
//   - a member that started before the launcher's end, which the receipt dates
//   - a member that was proven at an earlier look and still lives
//   - a member whose environment names the attempt (QL_ATTEMPT_ID), or the launcher that it was forked from
//
// Nobody can stop a session as a whole, and a pass over /proc takes milliseconds: of processes that fork and end again
// and again, one is gone before it is read, and its child came too late for the pass. But whoever was missed so was
// started since the pass began, and pids are given away in rising order: the next pass looks at those alone, and takes
// microseconds. When there are none, nobody is left. Where that does not come about (`isCertain`), or one shows no
// proof at the moments when it is met, it can be missed: nothing more can be done without privileges.
import { closeSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs';
import { constants } from 'node:os';
import { assert } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Identity } from './attempt-files.ts';
import { nullUnlessShort } from './shortage.ts';

export type ProcessRow = {
  readonly pid: number;
  readonly parentPid: number;
  readonly groupId: number;
  readonly sessionId: number;
  readonly startTicks: number;
  /** Dead, and only not yet waited for. */
  readonly isZombie: boolean;
  /** By SIGSTOP or one like it: it does nothing until SIGCONT or SIGKILL. */
  readonly isStopped: boolean;
  /** TERM is neither caught nor ignored: alive in spite of one, it has missed it. */
  readonly diesOfTerm: boolean;
};

export type SessionProof = {
  readonly attemptId: string;
  /** `NAME=value` in the environment of the launcher and of what it forked, but for the command. */
  readonly launcherMark: string;
  readonly identity: Identity;
  /** Of the running kernel. */
  readonly bootId: string;
  readonly commandPid: number | null;
  readonly launcherEndUptimeMs: number | null;
  /** Keys (`processKey`) of members proven at earlier looks. */
  readonly seen: ReadonlySet<string>;
};

export type SessionView = {
  /** Living members that are ours, but for the launcher and its pump. */
  readonly others: readonly ProcessRow[];
  readonly launcher: ProcessRow | null;
  readonly pump: readonly ProcessRow[];
  /** Living members of a session of that id, of which cannot be told whose they are. */
  readonly unproven: readonly ProcessRow[];
  /** Nobody can have been missed. Only asked where nobody was met. */
  readonly isCertain: boolean;
};

const statBuffer = Buffer.alloc(1024);
const msPerTick = 10;
const emptyView: SessionView = { others: [], launcher: null, pump: [], unproven: [], isCertain: true };

/** One process, or null where there is none. Throws where this process is short of descriptors (shortage.ts). */
export function readProcess(pid: number): ProcessRow | null {
  let text: string;
  try {
    const fd = openSync(`/proc/${pid}/stat`, 'r');
    try {
      text = statBuffer.toString('latin1', 0, readSync(fd, statBuffer, 0, statBuffer.length, 0));
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    return nullUnlessShort(error);
  }
  // The name in parentheses may hold anything; what follows begins with field 3.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state = '', parentPid, groupId, sessionId] = fields;
  return {
    pid,
    parentPid: Number(parentPid),
    groupId: Number(groupId),
    sessionId: Number(sessionId),
    startTicks: Number(fields[19]),
    isZombie: state === 'Z' || state === 'X',
    isStopped: state === 'T',
    diesOfTerm: !hasTerm(fields[30]) && !hasTerm(fields[31]),
  };
}

/** Whether a decimal signal set of /proc has SIGTERM. */
function hasTerm(signals: string | undefined): boolean {
  return (Number(signals) & (1 << (constants.signals.SIGTERM - 1))) !== 0;
}

/** All processes whose session has this id, zombies included: about 10 µs for every process of the machine. */
export function listSession(sessionId: number): ProcessRow[] {
  return listMembers(listPids(), sessionId);
}

function listMembers(pids: readonly number[], sessionId: number): ProcessRow[] {
  return pids.flatMap((pid) => {
    const row = readProcess(pid);
    return row?.sessionId === sessionId ? [row] : [];
  });
}

/** Members of the session with pids that were given away after `lastPid`, up to `newPid`. */
function listNewer(lastPid: number, newPid: number, sessionId: number): ProcessRow[] {
  const count = newPid - lastPid;
  // The numbers began anew, or there are too many of them.
  return count < 0 || count > limits.newPidsMax
    ? listSession(sessionId)
    : listMembers(
        Array.from({ length: count }, (_, index) => lastPid + 1 + index),
        sessionId,
      );
}

/** The pid, also of a thread, that was given away last; 0 where that is not told. */
function readLastPid(): number {
  try {
    return Number(readFileSync('/proc/loadavg', 'latin1').trim().split(' ').at(-1));
  } catch (error) {
    return nullUnlessShort(error) ?? 0;
  }
}

/** The member of the session that was started last of all, if it can be met alive. */
function findNewest(proof: SessionProof): ProcessRow | null {
  const { pid, pumpPid } = proof.identity;
  for (let tries = 0; tries < limits.newestTriesMax; tries += 1) {
    const row = readProcess(readLastPid());
    const isMember = row !== null && row.sessionId === pid && !row.isZombie;
    const isOther = isMember && row.pid !== pid && row.pid !== pumpPid && row.parentPid !== pumpPid;
    if (isOther && isProven(row, proof)) {
      return row;
    }
  }
  return null;
}

/** KILLs those that no list holds for long enough, who fork and end and leave a child behind; answers whom. */
export function killNewest(proof: SessionProof): ProcessRow[] {
  const killed: ProcessRow[] = [];
  for (let row = findNewest(proof); row !== null && killed.length < limits.newestTriesMax; row = findNewest(proof)) {
    signalProcess(row, 'SIGKILL');
    killed.push(row);
  }
  return killed;
}

/**
 * Living processes whose environment has this entry, `NAME=value`: for a launcher that left no identity. About twice
 * as dear as `listSession`.
 */
export function listByVariable(variable: string): ProcessRow[] {
  return listPids().flatMap((pid) => {
    const row = hasVariable(pid, variable) ? readProcess(pid) : null;
    return row === null || row.isZombie ? [] : [row];
  });
}

function listPids(): number[] {
  return readdirSync('/proc').flatMap((name) => (/^[0-9]+$/.test(name) ? [Number(name)] : []));
}

export function processKey(row: ProcessRow): string {
  return `${row.pid}:${row.startTicks}`;
}

/** Who of an attempt's session lives now. */
export function viewSession(proof: SessionProof): SessionView {
  if (proof.identity.bootId !== proof.bootId) {
    return emptyView;
  }
  let lastPid = readLastPid();
  let view = judgeRows(proof, listSession(proof.identity.pid));
  const isOpen = () => !view.isCertain && view.launcher === null && view.others.length === 0;
  for (let passes = 0; isOpen() && passes < limits.newestTriesMax; passes += 1) {
    const newPid = readLastPid();
    const { others, pump, unproven } = judgeRows(proof, listNewer(lastPid, newPid, proof.identity.pid));
    const isCertain = newPid === lastPid && newPid !== 0;
    view = { ...view, others, pump: [...view.pump, ...pump], unproven: [...view.unproven, ...unproven], isCertain };
    lastPid = newPid;
  }
  return view;
}

function judgeRows(proof: SessionProof, rows: readonly ProcessRow[]): SessionView {
  const { identity } = proof;
  const leader = rows.find((row) => row.pid === identity.pid) ?? null;
  if (leader !== null && leader.startTicks !== identity.startTicks) {
    return emptyView;
  }
  const living = rows.filter((row) => !row.isZombie);
  if (leader === null && !living.some((row) => isProven(row, proof))) {
    return { ...emptyView, unproven: living, isCertain: false };
  }
  const pump = living.filter((row) => row.pid === identity.pumpPid || row.parentPid === identity.pumpPid);
  const launcher = living.find((row) => row.pid === identity.pid) ?? null;
  const others = living.filter((row) => row !== launcher && !pump.includes(row));
  return { ...emptyView, others, launcher, pump, isCertain: false };
}

function isProven(row: ProcessRow, proof: SessionProof): boolean {
  const { identity, launcherEndUptimeMs } = proof;
  if (row.startTicks < identity.startTicks) {
    return false;
  }
  const namesAttempt = () => hasVariable(row.pid, `QL_ATTEMPT_ID=${proof.attemptId}`, proof.launcherMark);
  const isBeforeEnd = launcherEndUptimeMs !== null && row.startTicks * msPerTick <= launcherEndUptimeMs;
  return row.pid === proof.commandPid || isBeforeEnd || proof.seen.has(processKey(row)) || namesAttempt();
}

function hasVariable(pid: number, ...variables: readonly string[]): boolean {
  try {
    const entries = readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0');
    return variables.some((variable) => entries.includes(variable));
  } catch (error) {
    return nullUnlessShort(error) !== null;
  }
}

/**
 * Signals one process if it is still the one that was seen. One that has gone, or may not be signalled, is no error.
 */
export function signalProcess(row: ProcessRow, signal: NodeJS.Signals): void {
  assert(row.pid > 1 && row.pid !== process.pid, 'only processes of an attempt are signalled');
  const now = readProcess(row.pid);
  if (now !== null && now.startTicks === row.startTicks && !now.isZombie) {
    kill(row.pid, signal);
  }
}

/**
 * Signals the process group that a member seen right now belongs to; a living member keeps its id from being given
 * away.
 */
export function signalGroup(member: ProcessRow, signal: NodeJS.Signals): void {
  const own = readProcess(process.pid);
  assert(member.groupId > 1 && member.groupId !== own?.groupId, 'the own process group is never signalled');
  const now = readProcess(member.pid);
  if (now !== null && now.startTicks === member.startTicks && now.groupId === member.groupId) {
    kill(-member.groupId, signal);
  }
}

function kill(target: number, signal: NodeJS.Signals): void {
  try {
    process.kill(target, signal);
  } catch {
    // ESRCH: gone meanwhile. EPERM: another user's. The next look tells what still lives.
  }
}
