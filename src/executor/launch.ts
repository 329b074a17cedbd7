// Starts the launcher of one attempt. Owns how it is given its work (launcher.sh says the rest); watches nothing.
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, renameSync, statfsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { launcherVariable, readNotes } from './attempt-files.ts';
import { buildCommandFile, type CommandFileInput } from './command-file.ts';
import { withStdio } from './inherited.ts';
import type { LauncherTools } from './launcher-tools.ts';
import { type SpawnFailure, spawnFailed } from './preflight.ts';
import { launcherScript } from './scripts.generated.ts';
import { errnoOf, isShortage } from './shortage.ts';

export type LauncherSettings = {
  readonly launcherPath: string;
  /** The shell with its first arguments: `['/bin/sh']`, or `['/bin/busybox', 'ash']`. */
  readonly shell: readonly string[];
  /** Where the launcher finds mkfifo, dd and wc, and what `tools` was found in. */
  readonly toolsPath: string;
  readonly tools: LauncherTools;
  readonly segmentBytes: number;
  /** Descriptors that must not reach commands: see inherited.ts. */
  readonly inheritable: readonly number[];
  /** Asked at each start: until when, by uptime, its command may take it. */
  readonly startByUptimeMs: () => number;
};

const notesShownMax = 400;

/** Of /proc/uptime. */
const uptimeTickMs = 10;

/**
 * Makes the run directory and writes the launcher into it, 0700. Another file under the same name is replaced, never
 * written to: a shell reads its script while it runs, and launchers of an earlier version may still run.
 */
export function installLauncher(runDirectory: string): string {
  mkdirSync(path.join(runDirectory, 'attempts'), { recursive: true, mode: 0o700 });
  const file = path.join(runDirectory, 'launcher.sh');
  if (readText(file) !== launcherScript) {
    const partial = `${file}.${process.pid}.partial`;
    writeFileSync(partial, launcherScript, { mode: 0o700 });
    renameSync(partial, file);
  }
  return file;
}

function readText(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return null;
  }
}

/** Writes the work; throws what the file system throws. */
export function writeCommand(directory: string, input: CommandFileInput): void {
  writeFileSync(path.join(directory, 'command'), buildCommandFile(input), { mode: 0o600 });
}

/**
 * Spawns the launcher in its own session. Throws or emits `error` as `spawn` does; then nothing was started.
 * Its environment is its own: the command's is in the file.
 */
export function spawnLauncher(directory: string, attemptId: string, settings: LauncherSettings): ChildProcess {
  const [shell = '/bin/sh', ...shellArguments] = settings.shell;
  const segmentBytes = settings.tools.missingForOutput.length > 0 ? 0 : settings.segmentBytes;
  const startByMs = settings.startByUptimeMs();
  const isUnbounded = startByMs === Number.POSITIVE_INFINITY;
  // Where no lease is held any more, it is in the past.
  const startBy = isUnbounded ? [] : [`${Math.max(1, Math.floor(Math.max(0, startByMs) / uptimeTickMs))}`];
  const words = [...shellArguments, settings.launcherPath, attemptId, directory, `${segmentBytes}`, ...startBy];
  const env = { PATH: settings.toolsPath, LC_ALL: 'C', [launcherVariable]: directory };
  const notes = openSync(path.join(directory, 'notes'), 'a', 0o600);
  try {
    return withStdio(['ignore', 'ignore', notes], settings.inheritable, (stdio) =>
      spawn(shell, words, { cwd: directory, detached: true, env, stdio }),
    );
  } finally {
    closeSync(notes);
  }
}

/** A launcher that could not be given its work, or not be spawned. */
export function describeSpawnError(error: unknown, settings: LauncherSettings): SpawnFailure {
  const code = errnoOf(error) || `${error}`;
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return spawnFailed('run_directory_full', `the run directory is full (${code})`);
  }
  if (isShortage(error)) {
    return describeShortage(code);
  }
  return spawnFailed(
    'launcher_unavailable',
    `${settings.shell.join(' ')} could not be started in the run directory (${code})`,
  );
}

function describeShortage(what: string): SpawnFailure {
  return spawnFailed('resources_exhausted', `the system has no process, memory or file to spare (${what})`);
}

/** What the launcher says that comes too late. */
const leaseOver = 'the lease of its runtime is over';

/**
 * A launcher that ended before the command took the start. Its words are those of shells, tools and the C library.
 * Asked before the withdrawal, which may have to make room. One that only came too late is a start that was withdrawn.
 */
export function describeLauncherFailure(
  directory: string,
  what: string,
): SpawnFailure | { readonly kind: 'withdrawn' } {
  const { before, after } = readNotes(directory);
  const words = [before, after]
    .filter((text) => text !== '')
    .join('; ')
    .replaceAll(/\s+/g, ' ');
  if (words.includes(leaseOver)) {
    return { kind: 'withdrawn' };
  }
  const said = words === '' ? `it said nothing (${what})` : words.slice(0, notesShownMax);
  if (isFull(directory) || /No space left|[Qq]uota exceeded/.test(words)) {
    return spawnFailed('run_directory_full', `the run directory is full: ${said}`);
  }
  return /Resource temporarily unavailable|Cannot allocate memory|(Cannot|can't) fork|[Oo]ut of memory/.test(words)
    ? describeShortage(said)
    : spawnFailed('launcher_failed', `the command was not started: ${said}`);
}

/** Whether nothing can be written, or made, in that file system. */
function isFull(directory: string): boolean {
  try {
    const { bavail, ffree, files } = statfsSync(directory);
    return bavail === 0 || (files > 0 && ffree === 0);
  } catch {
    return false;
  }
}
