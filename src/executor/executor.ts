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
import { attemptDirectory, isAttemptId, readReceipt } from './attempt-files.ts';
import { AttemptWatch } from './attempt-watch.ts';
import { type AttemptEvidence, endLauncher, inspectAttempt, makeDirectory, withdrawUnwatched } from './evidence.ts';
import { isFifoHeld } from './fifo.ts';
import { listInheritable } from './inherited.ts';
import { installLauncher } from './launch.ts';
import { findLauncherTools } from './launcher-tools.ts';
import { type OutputSource, openOutput } from './output.ts';
import { defaultSearchPath } from './preflight.ts';
import { type CommandSpec, createPreparation } from './preparation.ts';

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
  /** Until when, by uptime, a command that is started now may take its start; for ever by default. */
  readonly startByUptimeMs?: (() => number) | undefined;
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
  /** Whether the command of a watched attempt has left its result: its end is known, and comes when `onEnd` does. */
  hasEnded(attemptId: string): boolean;
  /** What an attempt has written; stays readable after its release, until it is closed. */
  openOutput(attemptId: string): OutputSource;
  /** Removes the directory of an attempt that is over. */
  release(attemptId: string): void;
  /** Started or adopted, and not over. */
  running(): string[];
  /** Every attempt that has a directory; what else lies among them is passed over. */
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
  const toolsPath = options.toolsPath ?? defaultSearchPath;
  const settings = {
    launcherPath: installLauncher(runDirectory),
    shell: options.shell ?? ['/bin/sh'],
    toolsPath,
    tools: findLauncherTools(toolsPath),
    segmentBytes,
    inheritable: listInheritable(),
    startByUptimeMs: options.startByUptimeMs ?? (() => Number.POSITIVE_INFINITY),
  };
  const prepareCommand = createPreparation(settings);
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
      watch(spec.attemptId).launch(() => prepareCommand(spec, directoryOf(spec.attemptId)));
    },
    withdraw: (attemptId) => watches.get(attemptId)?.withdraw() ?? withdrawUnwatched(directoryOf(attemptId)),
    stop: (attemptId, { graceMs }) => watches.get(attemptId)?.stop(graceMs),
    inspect(attemptId, startBootId) {
      const { bootId } = clock.observe();
      const directory = directoryOf(attemptId);
      return inspectAttempt({ directory, attemptId, bootId, outputBytesMax }, startBootId);
    },
    adopt: (attemptId) => watch(attemptId).adopt(),
    hasEnded: (attemptId) => readReceipt(directoryOf(attemptId), attemptId) !== null,
    openOutput: (attemptId) => openOutput(directoryOf(attemptId), attemptId),
    release(attemptId) {
      assert(!watches.has(attemptId), 'only an attempt that is over is released');
      const directory = directoryOf(attemptId);
      // Of an attempt that was inspected and never watched, the pump may still be held.
      if (isFifoHeld(path.join(directory, 'pumping'))) {
        endLauncher(directory);
      }
      removeDirectory(directory);
    },
    running: () => [...watches.keys()],
    stored: () => readdirSync(path.join(runDirectory, 'attempts')).filter(isAttemptId),
    close() {
      isClosed = true;
      for (const watched of watches.values()) {
        watched.close();
      }
      watches.clear();
    },
  };
}

/** A pump that was just killed may make one more file meanwhile. */
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
