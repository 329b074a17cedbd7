// Starts the launcher of one attempt. Owns how it is given its work (launcher.sh says the rest); watches nothing.
import { type ChildProcess, spawn } from 'node:child_process';
import {
  accessSync,
  closeSync,
  constants,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { readNotes } from './attempt-files.ts';
import { buildCommandFile, type CommandFileInput } from './command-file.ts';
import { type SpawnFailure, spawnFailed } from './preflight.ts';
import { launcherScript } from './scripts.generated.ts';

export type LauncherSettings = {
  readonly launcherPath: string;
  /** The shell with its first arguments: `['/bin/sh']`, or `['/bin/busybox', 'ash']`. */
  readonly shell: readonly string[];
  /** Where the launcher finds mkfifo, dd, wc, env and nice. */
  readonly toolsPath: string;
  readonly segmentBytes: number;
};

const errnosOfShortage: ReadonlySet<string> = new Set(['EAGAIN', 'ENOMEM', 'EMFILE', 'ENFILE']);
const notesShownMax = 400;

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

/** The file of that name in a search path, or null. */
export function findTool(name: string, searchPath: string): string | null {
  const isTool = (file: string) => {
    try {
      accessSync(file, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  };
  return (
    searchPath
      .split(':')
      .map((folder) => path.join(folder, name))
      .find(isTool) ?? null
  );
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
  const notes = openSync(path.join(directory, 'notes'), 'a', 0o600);
  try {
    return spawn(shell, [...shellArguments, settings.launcherPath, attemptId, directory, `${settings.segmentBytes}`], {
      cwd: directory,
      detached: true,
      env: { PATH: settings.toolsPath, LC_ALL: 'C' },
      stdio: ['ignore', 'ignore', notes],
    });
  } finally {
    closeSync(notes);
  }
}

/** Whether the same spawn may work in a moment. */
export function isShortage(error: unknown): boolean {
  return error instanceof Error && 'code' in error && errnosOfShortage.has(`${error.code}`);
}

/** A launcher that could not be given its work, or not be spawned. */
export function describeSpawnError(error: unknown, settings: LauncherSettings): SpawnFailure {
  const code = error instanceof Error && 'code' in error ? `${error.code}` : `${error}`;
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return spawnFailed('run_directory_full', `the run directory is full (${code})`);
  }
  if (isShortage(error)) {
    return spawnFailed('resources_exhausted', `the system has no process, memory or file to spare (${code})`);
  }
  return spawnFailed(
    'launcher_unavailable',
    `${settings.shell.join(' ')} could not be started in the run directory (${code})`,
  );
}

/** A launcher that ended before the command took the start. */
export function describeLauncherFailure(directory: string, what: string): SpawnFailure {
  const { before, after } = readNotes(directory);
  const words = [before, after]
    .filter((text) => text !== '')
    .join('; ')
    .replaceAll(/\s+/g, ' ');
  const said = words === '' ? `it said nothing (${what})` : words.slice(0, notesShownMax);
  return isFull(directory) || words.includes('No space left')
    ? spawnFailed('run_directory_full', `the run directory is full: ${said}`)
    : spawnFailed('launcher_failed', `the command was not started: ${said}`);
}

function isFull(directory: string): boolean {
  try {
    const { bavail, ffree, files } = statfsSync(directory);
    return bavail === 0 || (files > 0 && ffree === 0);
  } catch {
    return false;
  }
}
