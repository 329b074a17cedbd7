// What an attempt's directory and /proc tell about it, for whoever comes later than the start: recovery, cancel,
// doctor. Synchronous, and never guesses. The one thing that it writes is the withdrawal of a start, and the only
// processes that it ends are those of a launcher that is not needed any more.
import { mkdirSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { EdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { type AttemptEnd, describeExit, describeLoss, nothingDone } from './attempt-end.ts';
import {
  launcherVariable,
  readIdentity,
  readReceipt,
  readTaken,
  readTakenState,
  withdrawnTarget,
} from './attempt-files.ts';
import { listByVariable, type SessionProof, type SessionView, signalProcess, viewSession } from './session.ts';
import { errnoOf } from './shortage.ts';

export type AttemptEvidence =
  /** No directory. Never evidence that nothing ran. */
  | { readonly kind: 'absent' }
  /** No command has taken the start so far, in this boot; `withdraw` decides whether one ever will. */
  | { readonly kind: 'free' }
  | { readonly kind: 'withdrawn' }
  /** A receipt, or proof that nobody of it lives and that there is none. */
  | { readonly kind: 'ended'; readonly end: AttemptEnd }
  /** Launcher, command, or one of its children is alive: `adopt` it. */
  | { readonly kind: 'running' }
  | { readonly kind: 'undecidable'; readonly why: string };

export type EvidenceInput = {
  readonly directory: string;
  readonly attemptId: string;
  /** Of the running kernel. */
  readonly bootId: string;
  readonly outputBytesMax: number;
};

/**
 * Makes the attempt's directory, 0700. Throws `full` or `unavailable`; then there must be no start barrier. An empty
 * one that is there already belongs to a start whose barrier was never committed.
 */
export function makeDirectory(directory: string): void {
  try {
    mkdirSync(directory, { mode: 0o700 });
  } catch (cause) {
    const code = errnoOf(cause);
    if (code === 'EEXIST' && isEmpty(directory)) {
      return;
    }
    const isFull = code === 'ENOSPC' || code === 'EDQUOT' || code === 'EMLINK';
    const hint = isFull ? 'free some space in the run directory' : 'look at that directory; `doctor` checks it';
    throw new EdgeError(isFull ? 'full' : 'unavailable', `cannot make the directory ${directory} (${code})`, {
      cause,
      hint,
    });
  }
}

/**
 * Takes a start back, by the same exclusive creation that the command's process needs. `taken`: too late, it runs or
 * has run. `absent`: there is no directory, and nothing was decided. Throws `full` where not even that can be
 * created.
 */
export function withdrawStart(directory: string): 'withdrawn' | 'taken' | 'absent' {
  const file = path.join(directory, 'taken');
  try {
    symlinkSync(withdrawnTarget, file);
    return 'withdrawn';
  } catch (first) {
    if (errnoOf(first) === 'ENOSPC' || errnoOf(first) === 'EDQUOT') {
      return withdrawWithoutSpace(directory, file);
    }
    return answerExisting(directory, first);
  }
}

/**
 * KILLs what is left of a launcher and its pump, when the start was withdrawn or the attempt has ended: most end by
 * themselves a moment later, but not who was stopped, nor a pump whose writer has escaped. No command is among them.
 * Looks again for what they were just forking. Throws where /proc cannot be read now.
 */
export function endLauncher(directory: string): void {
  for (let passes = 0; passes < limits.endPassesMax; passes += 1) {
    const rows = listByVariable(markOf(directory));
    if (rows.length === 0) {
      return;
    }
    for (const row of rows) {
      signalProcess(row, 'SIGKILL');
    }
  }
}

function markOf(directory: string): string {
  return `${launcherVariable}=${directory}`;
}

/** `withdrawStart` for an attempt that nobody watches, with an end of its launcher as far as that can be done now. */
export function withdrawUnwatched(directory: string): 'withdrawn' | 'taken' | 'absent' {
  const outcome = withdrawStart(directory);
  try {
    if (outcome === 'withdrawn') {
      endLauncher(directory);
    }
  } catch (error) {
    if (errnoOf(error) === '') {
      throw error;
    }
  }
  return outcome;
}

/** A link takes an inode: what the command's process would read as its last file makes room for it. */
function withdrawWithoutSpace(directory: string, file: string): 'withdrawn' | 'taken' | 'absent' {
  rmSync(path.join(directory, 'command'), { force: true });
  try {
    symlinkSync(withdrawnTarget, file);
    return 'withdrawn';
  } catch (cause) {
    return answerExisting(directory, cause);
  }
}

function answerExisting(directory: string, cause: unknown): 'withdrawn' | 'taken' | 'absent' {
  const code = errnoOf(cause);
  if (code === 'EEXIST') {
    return readTakenState(directory) === 'withdrawn' ? 'withdrawn' : 'taken';
  }
  if (isMissing(cause)) {
    return 'absent';
  }
  const errorCode = code === 'ENOSPC' || code === 'EDQUOT' ? 'full' : 'unavailable';
  const hint = 'free some space in the run directory, or stop the attempt';
  throw new EdgeError(errorCode, `cannot take back the start in ${directory} (${code})`, { cause, hint });
}

function isEmpty(directory: string): boolean {
  try {
    return listNames(directory)?.length === 0;
  } catch {
    return false;
  }
}

/** What is needed to tell whose a session is; null where the launcher left no identity. */
export function readProof(input: EvidenceInput, seen: ReadonlySet<string>): SessionProof | null {
  const { directory, attemptId, bootId } = input;
  const identity = readIdentity(directory, attemptId);
  if (identity === null) {
    return null;
  }
  const receipt = readReceipt(directory, attemptId);
  const commandPid = readTaken(directory, attemptId)?.pid ?? null;
  const launcherEndUptimeMs = receipt?.endUptimeMs ?? null;
  return { attemptId, launcherMark: markOf(directory), identity, bootId, commandPid, launcherEndUptimeMs, seen };
}

/** The end by the receipt, as it is now; null without one. */
export function readEnd(input: EvidenceInput): AttemptEnd | null {
  const receipt = readReceipt(input.directory, input.attemptId);
  const startUptimeMs = readIdentity(input.directory, input.attemptId)?.uptimeMs;
  return receipt === null
    ? null
    : describeExit({ ...input, startUptimeMs: startUptimeMs ?? receipt.endUptimeMs, ending: nothingDone }, receipt);
}

/**
 * The evidence on an attempt whose start barrier was committed in boot `startBootId`. In a later boot nothing of it
 * runs, and a missing `taken` proves nothing: it was never synced.
 */
export function inspectAttempt(input: EvidenceInput, startBootId: string): AttemptEvidence {
  try {
    return inspectNow(input, startBootId);
  } catch (error) {
    if (errnoOf(error) === '') {
      throw error;
    }
    return { kind: 'undecidable', why: `${input.directory} cannot be read (${errnoOf(error)})` };
  }
}

function inspectNow(input: EvidenceInput, startBootId: string): AttemptEvidence {
  const { directory, attemptId } = input;
  if (listNames(directory) === null) {
    return { kind: 'absent' };
  }
  const state = readTakenState(directory);
  if (state === 'withdrawn') {
    return { kind: 'withdrawn' };
  }
  const end = readEnd(input);
  if (end !== null) {
    return { kind: 'ended', end };
  }
  if (startBootId !== input.bootId) {
    return { kind: 'ended', end: describeLoss('the system was restarted while it ran', nothingDone) };
  }
  if (state === 'free') {
    return { kind: 'free' };
  }
  const proof = readProof(input, new Set());
  if (proof === null) {
    return { kind: 'undecidable', why: `${attemptId} was started, but ${directory}/identity is missing or damaged` };
  }
  return judge(input, viewSession(proof));
}

function judge(input: EvidenceInput, view: SessionView): AttemptEvidence {
  if (view.launcher !== null || view.others.length > 0) {
    return { kind: 'running' };
  }
  // The launcher may have written it between the first look at the receipt and the look at the processes.
  const end = readEnd(input);
  if (end !== null) {
    return { kind: 'ended', end };
  }
  const [stranger] = view.unproven;
  return stranger === undefined
    ? { kind: 'ended', end: describeLoss('its launcher ended without a receipt', nothingDone) }
    : {
        kind: 'undecidable',
        why: `its launcher is gone, and process ${stranger.pid} may be its command's or a stranger's`,
      };
}

function listNames(directory: string): string[] | null {
  try {
    return readdirSync(directory);
  } catch (error) {
    if (isMissing(error)) {
      return null;
    }
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  return errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR';
}
