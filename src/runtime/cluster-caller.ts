// What is asked of a shared database by a process that may carry runs on as well or not: an engine that only records,
// and whoever holds the run told of it. Owns no store and no lease; closing it leaves both open.
import { errorTable, isEdgeError, stopOnDefect } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import { limits } from '../core/limits.ts';
import type { Alarm, Clock } from '../core/ports.ts';
import { read } from '../protocol/reads.ts';
import type { Leases, SharedStore } from '../store/leases.ts';
import { makeDirectories } from '../store/make-directories.ts';
import type { Store } from '../store/store.ts';
import { cancelShared } from './cluster.ts';
import { shareContents } from './cluster-packages.ts';
import { openEngine } from './engine.ts';
import { describeError, type Log } from './log.ts';
import { hasEnded } from './run-end.ts';
import type { RuntimeSettings } from './settings.ts';
import { createStarts } from './starts.ts';
import type { Verbs } from './verbs.ts';
import type { ReadPort } from './verification.ts';

export type CallerOptions = {
  readonly data: string;
  readonly runDirectory: string | null;
  readonly settings: RuntimeSettings;
  readonly shared: SharedStore;
  readonly leases: Leases;
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly log: Log;
};

export type Caller = { readonly verbs: Verbs; readonly runDirectory: string; close(): Promise<void> };

/** Between two looks at a run that somebody else carries on. */
const lookAgainMs = 250;

export async function openCaller(options: CallerOptions): Promise<Caller> {
  const { data, runDirectory, settings, shared, log } = options;
  makeDirectories(data);
  // What commits is told to whoever carries runs on here.
  const whole: Store = { ...shared, attach: () => {}, wake: () => {}, close: async () => {} };
  const engine = await openEngine({
    ...{ data, runDirectory, settings, log, handlers: {}, onOutput: null, drives: false },
    openStore: async () => whole,
    sharing: { createStarts, whole, timed: (clock) => clock, startByUptimeMs: () => Number.POSITIVE_INFINITY },
  });
  return {
    verbs: shareVerbs(engine.verbs, options),
    runDirectory: engine.runDirectory,
    close: () => engine.close('detach'),
  };
}

function shareVerbs(verbs: Verbs, ports: Pick<CallerOptions, 'shared' | 'leases' | 'clock' | 'alarm' | 'log'>): Verbs {
  const { shared, leases } = ports;
  // Runtimes look from time to time as well: a word that is lost only comes later. Nobody waits for it.
  const thenWake = async <T>(recorded: Promise<T>): Promise<T> => {
    const outcome = await recorded;
    leases.notify('work').catch(stopOnDefect);
    return outcome;
  };
  return {
    ...verbs,
    async install(request) {
      const { checkPackage } = await import('./package-source.ts');
      await shareContents(leases, await checkPackage(request.path));
      return await verbs.install(request);
    },
    start: (request) => thenWake(verbs.start(request)),
    retry: (request) => thenWake(verbs.retry(request)),
    admit: (request) => thenWake(verbs.admit(request)),
    clearSetAside: (request) => thenWake(verbs.clearSetAside(request)),
    cancel: (request) => cancelShared(ports, request),
    follow: (request) => followByLooking(shared, ports, request),
  };
}

/** While the database cannot be reached, what comes is waited for: the run goes on wherever it is carried on. */
async function* followByLooking(
  reads: ReadPort,
  { clock, alarm, log }: Pick<CallerOptions, 'clock' | 'alarm' | 'log'>,
  { runId, after }: { readonly runId: string; readonly after: number },
): AsyncGenerator<RunEvent, void> {
  let isAway = false;
  for (let last = after; ; ) {
    try {
      const page = await reads.read(read('events', { runId, after: last, limit: limits.pageMax }));
      isAway = false;
      yield* page;
      last = page.at(-1)?.sequence ?? last;
      if (page.length === limits.pageMax) {
        continue;
      }
      if (await hasEnded(reads, runId, last)) {
        return;
      }
    } catch (error) {
      if (!isEdgeError(error) || !errorTable[error.code].isRetryable) {
        throw error;
      }
      if (!isAway) {
        log(`the run goes on, and is looked for again: ${describeError(error)}`);
      }
      isAway = true;
    }
    await new Promise<void>((wake) => {
      alarm.set(clock.observe().uptimeMs + lookAgainMs, wake);
    });
  }
}
