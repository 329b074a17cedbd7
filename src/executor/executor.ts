// The executor of spawned commands: knows attempts and processes, never workflows. Everything that a command does is
// data that reaches `onEnd` once; nothing here throws into the loop but `prepare` and `withdraw`, which say so.
//
// Order, held by the caller: prepare → COMMIT of the start barrier → start → onEnd → release. What was started outlives
// this process; a later one inspects and adopts it.
import { readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { assert } from '../core/errors.ts';
import type { Alarm, Clock } from '../core/ports.ts';
import type { AttemptEnd } from './attempt-end.ts';
import { attemptDirectory } from './attempt-files.ts';
import { AttemptWatch } from './attempt-watch.ts';
import type { CommandLimits } from './command-file.ts';
import { type AttemptEvidence, inspectAttempt, makeDirectory, withdrawStart } from './evidence.ts';
import { describeSpawnError, findTool, installLauncher, type LauncherSettings, writeCommand } from './launch.ts';
import { type CollectedOutput, collectOutput } from './output.ts';
import { defaultSearchPath, preflight, type SpawnFailure, spawnFailed } from './preflight.ts';

export type CommandSpec = {
  readonly attemptId: string;
  readonly argv: readonly string[];
  /** All of it: the command's environment has nothing else. */
  readonly env: Readonly<Record<string, string>>;
  /** Absolute. */
  readonly cwd: string;
  readonly nice: number | null;
  readonly limits: CommandLimits | null;
};

export type ExecutorOptions = {
  /** Memory-backed, and this process's own. */
  readonly runDirectory: string;
  readonly clock: Clock;
  readonly alarm: Alarm;
  /** Of one of the three segments that the pump keeps in the run directory. */
  readonly segmentBytes: number;
  /** Of what is collected of an attempt's output. */
  readonly outputBytesMax: number;
  readonly onEnd: (attemptId: string, end: AttemptEnd) => void;
  /** The launcher's shell with its first arguments; default `/bin/sh`. */
  readonly shell?: readonly string[];
  /** Where the launcher finds its tools; a command has its own PATH. */
  readonly toolsPath?: string;
};

export type Executor = {
  /** Makes the attempt's directory, just before COMMIT. Throws `full` or `unavailable`. */
  prepare(attemptId: string): void;
  /** Starts the command, after COMMIT. Never throws: a start that fails is an end like any other. */
  start(spec: CommandSpec): void;
  /**
   * Takes a start back: `withdrawn` means that no command runs or ever will. Throws `full` where it cannot be
   * written.
   */
  withdraw(attemptId: string): 'withdrawn' | 'taken' | 'absent';
  /** Ends a running attempt: TERM, KILL after the grace, and no end before nobody of the session is left. */
  stop(attemptId: string, options: { readonly graceMs: number }): void;
  /** What is known of an attempt that was started in boot `startBootId`, by this process or an earlier one. */
  inspect(attemptId: string, startBootId: string): AttemptEvidence;
  /** Watches what an earlier process has started and `inspect` calls `running` (or `ended`, for its `onEnd`). */
  adopt(attemptId: string): void;
  collectOutput(attemptId: string): CollectedOutput;
  /** Removes the directory of an attempt that is over. */
  release(attemptId: string): void;
  /** Started or adopted, and not over. */
  running(): string[];
  /** Every attempt that has a directory. */
  stored(): string[];
  /** Forgets everything without ending it: commands run on, and nothing keeps this process alive. */
  close(): void;
};

const removalTriesMax = 3;

/**
 * Installs the launcher in the run directory. `onEnd` is called in a microtask, never from within a call, and not after
 * `close`. Throws what the file system throws.
 */
export function createExecutor(options: ExecutorOptions): Executor {
  const { runDirectory, clock, alarm, outputBytesMax, segmentBytes, onEnd } = options;
  const watches = new Map<string, AttemptWatch>();
  const settings = {
    launcherPath: installLauncher(runDirectory),
    shell: options.shell ?? ['/bin/sh'],
    toolsPath: options.toolsPath ?? defaultSearchPath,
    segmentBytes,
  };
  const mask = process.umask().toString(8).padStart(4, '0');
  const prepareCommand = createPreparation(settings, mask);
  let isClosed = false;
  const directoryOf = (attemptId: string) => attemptDirectory(runDirectory, attemptId);

  const watch = (attemptId: string): AttemptWatch => {
    assert(!watches.has(attemptId), 'an attempt is watched once');
    const report = (end: AttemptEnd) => {
      watches.delete(attemptId);
      queueMicrotask(() => {
        if (!isClosed) {
          onEnd(attemptId, end);
        }
      });
    };
    const context = { clock, alarm, settings, outputBytesMax };
    const created = new AttemptWatch(context, { directory: directoryOf(attemptId), attemptId, onEnd: report });
    watches.set(attemptId, created);
    return created;
  };

  return {
    prepare: (attemptId) => makeDirectory(directoryOf(attemptId)),
    start(spec) {
      const created = watch(spec.attemptId);
      const failure = prepareCommand(spec, directoryOf(spec.attemptId));
      if (failure === null) {
        created.launch();
      } else {
        created.settle(failure);
      }
    },
    withdraw: (attemptId) => watches.get(attemptId)?.withdraw() ?? withdrawStart(directoryOf(attemptId)),
    stop: (attemptId, { graceMs }) => watches.get(attemptId)?.stop(graceMs),
    inspect(attemptId, startBootId) {
      const { bootId } = clock.observe();
      const directory = directoryOf(attemptId);
      return inspectAttempt({ directory, attemptId, bootId, outputBytesMax }, startBootId);
    },
    adopt: (attemptId) => watch(attemptId).adopt(),
    collectOutput: (attemptId) => collectOutput(directoryOf(attemptId), attemptId, outputBytesMax),
    release(attemptId) {
      assert(!watches.has(attemptId), 'only an attempt that is over is released');
      removeDirectory(directoryOf(attemptId));
    },
    running: () => [...watches.keys()],
    stored: () => readdirSync(path.join(runDirectory, 'attempts')),
    close() {
      isClosed = true;
      for (const watched of watches.values()) {
        watched.close();
      }
      watches.clear();
    },
  };
}

/** Looks at a command and writes the launcher's work, or answers why there is none. */
function createPreparation(settings: LauncherSettings, mask: string) {
  return (spec: CommandSpec, directory: string): SpawnFailure | null => {
    const outcome = preflight({ argv: spec.argv, env: spec.env, cwd: spec.cwd, arch: process.arch });
    if (outcome.kind !== 'ready') {
      return outcome;
    }
    const needsNice = spec.nice !== null || outcome.argv[0]?.includes('=') === true;
    const nicePath = needsNice ? findTool('nice', settings.toolsPath) : null;
    if (needsNice && nicePath === null) {
      return spawnFailed('tool_missing', `there is no \`nice\` in ${settings.toolsPath}, which this command needs`);
    }
    try {
      writeCommand(directory, { ...spec, argv: outcome.argv, mask, nicePath });
      return null;
    } catch (error) {
      return describeSpawnError(error, settings);
    }
  };
}

/** A pump that is held by a process which escaped may make one more file meanwhile. */
function removeDirectory(directory: string): void {
  for (let tries = 1; ; tries += 1) {
    try {
      rmSync(directory, { recursive: true, force: true });
      return;
    } catch (error) {
      if (tries === removalTriesMax) {
        throw error;
      }
    }
  }
}
