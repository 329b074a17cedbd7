// How a command reaches the runs of a shared database: it records there what is asked, and whichever runtime holds the
// run carries it out. No command holds anything here.
import { stopOnDefect } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import { limits } from '../core/limits.ts';
import { read } from '../protocol/reads.ts';
import { cancelShared } from '../runtime/cluster.ts';
import { shareContents } from '../runtime/cluster-packages.ts';
import { openEngine } from '../runtime/engine.ts';
import { realAlarm, realClock, realIds } from '../runtime/ports.ts';
import type { RuntimeSettings } from '../runtime/settings.ts';
import { createStarts } from '../runtime/starts.ts';
import type { Verbs } from '../runtime/verbs.ts';
import type { ReadPort } from '../runtime/verification.ts';
import type { Leases, SharedStore } from '../store/leases.ts';
import { makeDirectories } from '../store/make-directories.ts';
import type { Store } from '../store/store.ts';
import { hasEnded } from './run-ends.ts';
import type { SharedOptions, SharedPlace, SharedPorts, SharedSession, SharedSite } from './shared-place.ts';

/** Between two looks at a run that somebody else carries on. */
const lookAgainMs = 250;

/** How long a runtime lives from one word of it to the next, where nothing else is asked for. */
export const leaseMsDefault = 15_000;

/** The ports of a process that works on a shared database. */
export function openPorts({ bootId }: Pick<RuntimeSettings, 'bootId'>): SharedPorts {
  const clock = realClock(bootId);
  return { clock, alarm: realAlarm(clock), ids: realIds(clock) };
}

/** What commands do in a shared database. */
export function createSharedSite(place: SharedPlace): SharedSite {
  return {
    ...place,
    openSession: (options) => openSession(place, options),
    async withReads({ settings, log }, work) {
      const store = await place.openStore(openPorts(settings), log);
      try {
        return await work(store);
      } finally {
        await store.close();
      }
    },
  };
}

async function openSession(place: SharedPlace, options: SharedOptions): Promise<SharedSession> {
  const { data, settings, log } = options;
  makeDirectories(data);
  const ports = openPorts(settings);
  const shared = await place.openStore(ports, log);
  const leases = place.openLeases(ports, leaseMsDefault);
  const closeAll = async () => {
    await leases.close();
    await shared.close();
  };
  // The shared store outlives the engine, which only records.
  const whole: Store = { ...shared, wake: () => {}, close: async () => {} };
  try {
    const engine = await openEngine({
      ...{ ...options, handlers: {}, onOutput: null, drives: false },
      openStore: async () => whole,
      sharing: { createStarts, whole, startByUptimeMs: () => Number.POSITIVE_INFINITY },
    });
    return {
      verbs: shareVerbs(engine.verbs, { ...ports, shared, leases }),
      reads: shared,
      runDirectory: engine.runDirectory,
      close: () => engine.close('detach').finally(closeAll),
    };
  } catch (error) {
    await closeAll();
    throw error;
  }
}

type Shared = SharedPorts & { readonly shared: SharedStore; readonly leases: Leases };

function shareVerbs(verbs: Verbs, ports: Shared): Verbs {
  const { shared, leases } = ports;
  // Runtimes look from time to time as well: a word that is lost only comes later.
  const thenWake = async <T>(recorded: Promise<T>): Promise<T> => {
    const outcome = await recorded;
    await leases.notify('work').catch(stopOnDefect);
    return outcome;
  };
  return {
    ...verbs,
    async install(request) {
      const { checkPackage } = await import('../runtime/package-source.ts');
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

async function* followByLooking(
  reads: ReadPort,
  { clock, alarm }: SharedPorts,
  { runId, after }: { readonly runId: string; readonly after: number },
): AsyncGenerator<RunEvent, void> {
  for (let last = after; ; ) {
    const page = await reads.read(read('events', { runId, after: last, limit: limits.pageMax }));
    yield* page;
    last = page.at(-1)?.sequence ?? last;
    if (page.length < limits.pageMax) {
      if (await hasEnded(reads, runId, last)) {
        return;
      }
      await new Promise<void>((wake) => {
        alarm.set(clock.observe().uptimeMs + lookAgainMs, wake);
      });
    }
  }
}
