// How a command reaches the runs of a shared database: it records there what is asked, and whichever runtime holds the
// run carries it out. No command holds anything here.
import { InvariantError, stopOnDefect } from '../core/errors.ts';
import { closeAll } from '../runtime/close-all.ts';
import { openCaller } from '../runtime/cluster-caller.ts';
import { realAlarm, realClock, realIds } from '../runtime/ports.ts';
import type { RuntimeSettings } from '../runtime/settings.ts';
import type { SharedStore } from '../store/leases.ts';
import type { SharedOptions, SharedPlace, SharedPorts, SharedSession, SharedSite } from './shared-place.ts';
import type { Reader } from './storage.ts';

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
    openReader: async () => readerOf(await place.openStore(openPorts({ bootId: null }), () => {})),
  };
}

/** What is asked of a data directory's own database alone has no answer here, and no command that asks it. */
function readerOf(store: SharedStore): Reader {
  const refuse = () => {
    throw new InvariantError('a shared database is not looked at as one file');
  };
  return {
    info: store.info,
    configError: null,
    holder: null,
    read: (request) => store.read(request),
    readTogether: refuse,
    schemaProblems: refuse,
    checkIntegrity: refuse,
    close: () => store.close(),
  };
}

async function openSession(place: SharedPlace, options: SharedOptions): Promise<SharedSession> {
  const ports = openPorts(options.settings);
  const shared = await place.openStore(ports, options.log);
  const leases = place.openLeases(ports, leaseMsDefault);
  try {
    const caller = await openCaller({ ...options, ...ports, shared, leases });
    const { verbs, runDirectory } = caller;
    return { verbs, reads: shared, runDirectory, close: () => closeAll([shared, leases, caller]) };
  } catch (error) {
    await closeAll([shared, leases]).catch(stopOnDefect);
    throw error;
  }
}
