// Assembles a runtime from a store: executor, handlers, package files, kept output. Everything below the surfaces that
// is alive in one process is made here, in one order, and ended in the reverse one.
import { join, resolve } from 'node:path';
import { stopOnDefect } from '../core/errors.ts';
import { fromFileError } from '../core/file-error.ts';
import { limits } from '../core/limits.ts';
import type { Alarm, Clock, Ids } from '../core/ports.ts';
import type { AttemptEnd } from '../executor/attempt-end.ts';
import { createExecutor, type Executor, type ExecutorOptions } from '../executor/executor.ts';
import { createHandlerExecutor, type Handlers } from '../executor/handlers.ts';
import { read } from '../protocol/reads.ts';
import type { Store } from '../store/store.ts';
import { createOutputTaker, type OutputListener } from './attempt-output.ts';
import { beginAttempt, machineEnvironment } from './begin-attempt.ts';
import { buildInfo } from './build-info.generated.ts';
import { KeptOutput } from './kept-output.ts';
import type { Log } from './log.ts';
import { createPackageGuard } from './package-guard.ts';
import { createPackageHolders } from './package-holders.ts';
import { createPackageLane, type PackageLane } from './package-lane.ts';
import { changePackageSetting } from './package-setting.ts';
import { installPackage, openPackageWork, type PackageWork, sweepUnused } from './packages.ts';
import { realAlarm, realClock, realIds, realSalts } from './ports.ts';
import { distrustPublisher, trustPublisher } from './publishers.ts';
import { makeRunDirectory, removeRunDirectory } from './run-directory.ts';
import { Runtime } from './runtime.ts';
import { type OnStop, type Profile, profileSettings, type RuntimeSettings } from './settings.ts';
import type { StartsOptions, StartsPort } from './starts.ts';
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
  readonly settings: RuntimeSettings;
  /** Where several processes share a database: what is otherwise then. */
  readonly sharing?: Sharing;
};

export type Sharing = {
  readonly createStarts: (options: StartsOptions, work: PackageWork) => StartsPort;
  /** A machine's clock, with the wall time that all share. */
  readonly timed: (clock: Clock) => Clock;
  /** All of the database, of which runs that others carry on need package files as well. */
  readonly whole: Store;
  /** Until when, by uptime, a command may take its start. */
  readonly startByUptimeMs: () => number;
};

export type Engine = {
  readonly store: Store;
  readonly runtime: Runtime;
  readonly verbs: Verbs;
  readonly runDirectory: string;
  readonly settings: RuntimeSettings;
  /** As the runtime's. */
  close(onStop: OnStop, answered?: Promise<void>): Promise<void>;
};

/** Of the service manager's limit, what is kept for after the last command's end: durable state comes last. */
const stopReserveMs = 1_000;

export async function openEngine(options: EngineOptions): Promise<Engine> {
  const { settings, drives } = options;
  const machineClock = realClock(settings.bootId);
  const clock = options.sharing?.timed(machineClock) ?? machineClock;
  const alarm = realAlarm(clock);
  const store = watchDefects(
    await options.openStore({ clock, alarm, ids: realIds(clock), trustedFromMs: buildInfo.buildDateMs }),
  );
  try {
    const { runtime, kept, work, lane, runDirectory } = assemble(options, { store, clock, alarm });
    if (drives) {
      await openPackageWork(work);
    }
    await runtime.open();
    if (drives) {
      // Nobody waits for it.
      kept.sweep((runId) => attemptsOf(store, runId)).catch(stopOnDefect);
    }
    const verbs = createVerbs(runtime, { work, lane });
    const close = async (onStop: OnStop, answered?: Promise<void>) => {
      await lane.close();
      kept.close();
      return runtime.close(onStop, answered);
    };
    return { store, runtime, verbs, runDirectory, settings, close };
  } catch (error) {
    await store.close();
    const doing = `work with ${(error as NodeJS.ErrnoException).path ?? options.data}`;
    throw fromFileError(error, { doing, access: 'writes' });
  }
}

type Ports = { readonly store: Store; readonly clock: Clock; readonly alarm: Alarm };

/** Makes the parts; nothing of them moves yet. */
function assemble(options: EngineOptions, { store, clock, alarm }: Ports) {
  const { settings, log, sharing } = options;
  const data = resolve(options.data);
  const runDirectory = makeRunDirectory(data, options.runDirectory);
  const packagesDirectory = join(data, 'packages');
  const guard = createPackageGuard({ packagesDirectory, clock });
  const holders = createPackageHolders();
  const work: PackageWork = { store: sharing?.whole ?? store, packagesDirectory, guard, holders, settings, log };
  const lane = createPackageLane({ holders, sweep: () => sweepUnused(work) });
  const base = machineEnvironment();
  const kept = new KeptOutput({
    directory: join(data, 'artifacts'),
    bytesMax: settings.outputBytesMax,
    quotaBytes: settings.outputQuotaBytes,
    clock,
    isInFlight: (attemptId) => runtime.attempts.has(attemptId),
  });
  const onEnd = (attemptId: string, end: AttemptEnd) => runtime.report(attemptId, end);
  const executor = createMachineExecutor(clock, {
    runDirectory,
    alarm,
    segmentBytes: segmentBytesOf(store, settings),
    outputBytesMax: settings.outputBytesMax,
    onEnd,
    shell: settings.shell,
    startByUptimeMs: sharing?.startByUptimeMs,
  });
  const handlers = createHandlerExecutor({
    handlers: options.handlers,
    onEnd: (attemptId, facts) => runtime.attempts.ended(attemptId, facts),
  });
  const isTooLate = () => sharing !== undefined && clock.observe().uptimeMs >= sharing.startByUptimeMs();
  const takeOutput = createOutputTaker({
    executor,
    kept,
    policy: settings.keepOutput,
    find: (attemptId) => runtime.attempts.find(attemptId),
    onOutput: options.onOutput,
    log,
  });
  const runtime: Runtime = new Runtime({
    store,
    executor,
    handlers,
    clock,
    alarm,
    concurrencyMax: settings.concurrency,
    trustedFromMs: buildInfo.buildDateMs,
    runDirectory,
    drives: options.drives,
    stopGraceMsMax: settings.stopLimitMs - stopReserveMs,
    takeOutput,
    onQuiet: options.onQuiet ?? null,
    onRunEnd: options.drives ? lane.runEnded : null,
    // Others may have their attempts in it.
    tidy: () => (sharing === undefined ? removeRunDirectory(runDirectory, data) : undefined),
    isShared: sharing !== undefined,
    createStarts: sharing === undefined ? undefined : (starts) => sharing.createStarts(starts, work),
    begin: (launch) => beginAttempt(launch, { executor, handlers, packagesDirectory, guard, base, onEnd, isTooLate }),
    log,
  });
  return { runtime, kept, runDirectory, work, lane };
}

/** The first segment and one of the two others hold all that is kept. */
function segmentBytesOf({ info }: Store, { outputBytesMax }: RuntimeSettings): number {
  const { segmentBytes } = profileSettings[info.profile as Profile] ?? profileSettings.standalone;
  return Math.max(segmentBytes, Math.ceil(outputBytesMax / 2));
}

/**
 * Identities of processes are the kernel's, whatever boot is pretended: what was started in another boot than the
 * pretended one counts as started in another boot than the kernel's.
 */
function createMachineExecutor(clock: Clock, options: Omit<ExecutorOptions, 'clock'>): Executor {
  const machine = realClock();
  const executor = createExecutor({ ...options, clock: machine });
  const { bootId } = machine.observe();
  if (clock.observe().bootId === bootId) {
    return executor;
  }
  const isPresent = (startBootId: string) => startBootId === clock.observe().bootId;
  return {
    ...executor,
    inspect: (attemptId, startBootId) => executor.inspect(attemptId, isPresent(startBootId) ? bootId : ''),
  };
}

/** Empty for a run that is unknown. */
async function attemptsOf(store: Store, runId: string): Promise<ReadonlySet<string>> {
  const rows = await store.read(read('wholeRun', { runId }));
  return new Set(rows?.attempts.keys());
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

type PackageParts = { readonly work: PackageWork; readonly lane: PackageLane };

function createVerbs(runtime: Runtime, { work, lane }: PackageParts): Verbs {
  const { store } = work;
  return {
    install: (request) => lane.inTurn(() => installPackage(work, request)),
    changeLifecycle: (request) =>
      lane.inTurn(async () => {
        const outcome = await runtime.changeLifecycle(request);
        if (outcome.kind === 'changed' && request.to === 'uninstalled') {
          await sweepUnused(work);
        }
        return outcome;
      }),
    quarantine: (request) => runtime.quarantine(request),
    addPublisher: (request) => trustPublisher(store, request),
    revokePublisher: (request) => distrustPublisher(store, request),
    changeSetting: (request) => changePackageSetting({ store, salts: realSalts() }, request),
    start: (request) => runtime.start(request),
    retry: (request) => runtime.retry(request),
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
