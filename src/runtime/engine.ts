// Assembles a runtime from a store: executor, handlers, package files, kept output. Everything below the surfaces that
// is alive in one process is made here, in one order, and ended in the reverse one.
import { userInfo } from 'node:os';
import { join, resolve } from 'node:path';
import { EdgeError, stopOnDefect } from '../core/errors.ts';
import { baseEnvironment, environmentOf } from '../core/execution.ts';
import { limits } from '../core/limits.ts';
import type { Alarm, Clock, Ids } from '../core/ports.ts';
import type { AttemptEnd } from '../executor/attempt-end.ts';
import { createExecutor, type Executor } from '../executor/executor.ts';
import { createHandlerExecutor, type HandlerExecutor, type Handlers } from '../executor/handlers.ts';
import type { Launch } from '../protocol/attempt.ts';
import { makeDirectories } from '../store/make-directories.ts';
import type { Store } from '../store/store.ts';
import { factsOf } from './attempt-facts.ts';
import { createOutputTaker, type OutputListener } from './attempt-output.ts';
import { buildInfo } from './build-info.generated.ts';
import { openKeptOutput } from './kept-output.ts';
import type { Log } from './log.ts';
import { installPackage, removeUnusedPackages } from './packages.ts';
import { environmentVariable, realAlarm, realClock, realIds } from './ports.ts';
import { removeRunDirectory, runDirectoryOf } from './run-directory.ts';
import { Runtime } from './runtime.ts';
import { type Profile, profileSettings } from './settings.ts';
import type { Verbs } from './verbs.ts';

export type StorePorts = {
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly ids: Ids;
  readonly trustedFromMs: number;
};

export type EngineOptions = {
  readonly data: string;
  readonly runDirectory: string | null;
  /** Opens the store of `data`, under its holder lock. */
  readonly openStore: (ports: StorePorts) => Promise<Store>;
  readonly handlers: Handlers;
  /** False for a command that records something and leaves the runs to whoever comes next. */
  readonly drives: boolean;
  readonly log: Log;
  /** Told the collected output of each attempt that ends in this process, before its directory goes. */
  readonly onOutput: OutputListener | null;
  /** Called once after work, when nothing has run for a second: the moment to give memory back. */
  readonly onQuiet?: () => void;
  /** How many attempts may run at the same time; the profile's number where it is null. */
  readonly concurrencyMax: number | null;
  /** `sh` by default; tests run the launcher under others. */
  readonly shell: readonly string[] | null;
};

export type Engine = {
  readonly store: Store;
  readonly runtime: Runtime;
  readonly verbs: Verbs;
  readonly runDirectory: string;
  close(onStop: 'stop' | 'detach'): Promise<void>;
};

/** Longest grace at a stop of the runtime: procd kills after 5 s, and durable state comes last. */
const stopGraceMsMax = 4_000;

export async function openEngine(options: EngineOptions): Promise<Engine> {
  const data = resolve(options.data);
  const clock = realClock();
  const alarm = realAlarm(clock);
  const store = watchDefects(
    await options.openStore({ clock, alarm, ids: realIds(clock), trustedFromMs: buildInfo.buildDateMs }),
  );
  try {
    const { profile } = store.info;
    const settings = profileSettings[profile as Profile] ?? profileSettings.standalone;
    const runDirectory = makeRunDirectory(data, options.runDirectory);
    const directories = { packages: join(data, 'packages'), artifacts: join(data, 'artifacts') };
    const kept = openKeptOutput({ directory: directories.artifacts, quotaBytes: settings.outputBytesMax * 16 });
    // Asked once: an attempt must not depend on a file that can be opened at that moment.
    const base = machineEnvironment();
    const onEnd = (attemptId: string, end: AttemptEnd) => {
      takeOutput(attemptId, end);
      runtime.attempts.ended(attemptId, factsOf(end));
    };
    const executor = createExecutor({
      runDirectory,
      clock,
      alarm,
      segmentBytes: settings.segmentBytes,
      outputBytesMax: settings.outputBytesMax,
      onEnd,
      ...(options.shell === null ? {} : { shell: options.shell }),
    });
    const takeOutput = createOutputTaker({ executor, kept, onOutput: options.onOutput, log: options.log });
    const handlers = createHandlerExecutor({
      handlers: options.handlers,
      onEnd: (attemptId, facts) => runtime.attempts.ended(attemptId, facts),
    });
    const runtime: Runtime = new Runtime({
      store,
      executor,
      handlers,
      clock,
      alarm,
      concurrencyMax: options.concurrencyMax ?? settings.concurrencyMax,
      trustedFromMs: buildInfo.buildDateMs,
      drives: options.drives,
      stopGraceMsMax,
      report: onEnd,
      onQuiet: options.onQuiet ?? null,
      tidy: () => removeRunDirectory(runDirectory, { isOwn: options.runDirectory === null }),
      begin: (launch) => begin(launch, { executor, handlers, packages: directories.packages, base }),
      log: options.log,
    });
    if (options.drives) {
      await removeUnusedPackages({ store, packagesDirectory: directories.packages, log: options.log });
    }
    await runtime.open();
    const verbs = createVerbs(runtime, { store, packagesDirectory: directories.packages, log: options.log });
    return { store, runtime, verbs, runDirectory, close: (onStop) => runtime.close(onStop) };
  } catch (error) {
    await store.close();
    throw fromSystem(error);
  }
}

function watchDefects(store: Store): Store {
  return {
    ...store,
    submit: (operation) =>
      store.submit(operation).catch((error: unknown) => {
        stopOnDefect(error);
        throw error;
      }),
  };
}

function createVerbs(
  runtime: Runtime,
  files: { readonly store: Store; readonly packagesDirectory: string; readonly log: Log },
): Verbs {
  // One at a time: a sweep must not meet a copy whose installation is not committed yet.
  let lastFileWork: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const next = lastFileWork.then(work, work);
    lastFileWork = next;
    return next;
  };
  return {
    install: ({ directory }) => inTurn(() => installPackage({ ...files, directory })),
    changeLifecycle: (request) =>
      inTurn(async () => {
        const outcome = await runtime.changeLifecycle(request);
        if (outcome.kind === 'changed' && request.to === 'uninstalled') {
          await removeUnusedPackages(files);
        }
        return outcome;
      }),
    quarantine: (request) => runtime.quarantine(request),
    start: (request) => runtime.start(request),
    admit: (request) => runtime.admit(request),
    advance: async ({ limit }) => {
      const { outcomes, next } = await runtime.advancePage(Math.min(limit, limits.pageMax));
      return { outcomes, hasMore: next !== null };
    },
    cancel: (request) => runtime.cancel(request),
    clearSetAside: ({ runId }) => runtime.clearSetAside(runId),
    follow: ({ runId, after }) => runtime.follow(runId, after),
  };
}

function begin(
  launch: Launch,
  ports: {
    readonly executor: Executor;
    readonly handlers: HandlerExecutor;
    readonly packages: string;
    readonly base: Readonly<Record<string, string>>;
  },
): void {
  const { attemptId, runId, stepKey, tryNumber, task, packageName, taskId } = launch;
  if (launch.executorType === 'handler') {
    const { env } = task;
    ports.handlers.start({ runId, attemptId, attemptNumber: tryNumber, stepKey, packageName, taskId, env });
    return;
  }
  const packageDirectory = join(ports.packages, launch.lockDigest);
  ports.executor.start({
    attemptId,
    argv: task.argv,
    env: environmentOf({
      base: ports.base,
      task,
      runId,
      attemptId,
      stepKey,
      attemptNumber: tryNumber,
      packageDirectory,
    }),
    cwd: join(packageDirectory, task.cwd),
    nice: task.nice === 0 ? null : task.nice,
    limits: task.limits,
  });
}

/** The fixed small base of every command's environment: facts of this machine, nothing of this process's own. */
function machineEnvironment(): Readonly<Record<string, string>> {
  const zone = environmentVariable('TZ');
  const { TZ: _unset, ...base } = baseEnvironment;
  return { ...base, HOME: userInfo().homedir || base.HOME, ...(zone === null ? {} : { TZ: zone }) };
}

/** An error of the file system in words: what cannot be made or read is no defect of this program. */
function fromSystem(error: unknown): unknown {
  const { code, path } = error as { readonly code?: unknown; readonly path?: unknown };
  if (!(error instanceof Error) || error instanceof EdgeError || typeof code !== 'string' || !/^E[A-Z]+$/.test(code)) {
    return error;
  }
  const isFull = code === 'ENOSPC' || code === 'EDQUOT';
  return new EdgeError(isFull ? 'full' : 'unavailable', `cannot work with ${path ?? 'a file'}: ${error.message}`, {
    cause: error,
    hint: isFull ? 'free some space there' : 'look at that file or directory; `doctor` checks them',
  });
}

function makeRunDirectory(data: string, asked: string | null): string {
  const directory = runDirectoryOf(data, asked);
  makeDirectories(directory);
  return directory;
}
