// Entry `qinglong-edge/postgres`: the store of a cluster, what brings its database up to date, the leases by which
// several runtimes share it, and the operations that it carries out; called as a program, the command line on it.
import type { OptionValues } from './cli/options.ts';
import { sharedLine } from './cli/shared-commands.ts';
import { placeMissing, type SharedSite } from './cli/shared-place.ts';
import { createSharedSite } from './cli/shared-session.ts';
import { startProgram } from './cli/start-program.ts';
import type { Storage } from './cli/storage.ts';
import { buildInfo } from './runtime/build-info.generated.ts';
import { describeError } from './runtime/log.ts';
import { openLeases } from './store/postgres/leases.ts';
import { migratePostgres } from './store/postgres/migrate.ts';
import { openPostgresStore } from './store/postgres/store.ts';
import { readConfigFile } from './store/sqlite/data-directory.ts';

export { admit, start } from './protocol/admit.ts';
export { advance } from './protocol/advance.ts';
export { admitAttempt, complete, startAttempt } from './protocol/attempt.ts';
export { cancel } from './protocol/cancel.ts';
export { changeLifecycle, install } from './protocol/package.ts';
export { type Operation, operation } from './protocol/protocol.ts';
export { read } from './protocol/reads.ts';
export type { Leases, SharedStore } from './store/leases.ts';
export { openLeases } from './store/postgres/leases.ts';
export { migratePostgres } from './store/postgres/migrate.ts';
export type { PostgresHooks, PostgresStore, PostgresStoreOptions } from './store/postgres/store.ts';
export { openPostgresStore } from './store/postgres/store.ts';
export type { OperationStore } from './store/store.ts';

/** The data directory has package files, output and settings here, and nobody holds it. */
const storage: Storage = {
  openStore: () => () => Promise.reject(placeMissing()),
  openReader: () => Promise.reject(placeMissing()),
  isHeld: async () => false,
  isHeldByProcess: async () => false,
  readConfig: async (data) => readConfigFile(data),
  readHolder: async () => null,
  tryDurability: () => Promise.reject(placeMissing()),
};

function openShared({ store: url }: OptionValues): SharedSite | null {
  return url === undefined
    ? null
    : createSharedSite({
        name: nameOf(url),
        migrate: () => migratePostgres({ url }),
        openStore: (ports, log) =>
          openPostgresStore({
            ...ports,
            url,
            trustedFromMs: buildInfo.buildDateMs,
            report: {
              failed: (operation, error) => log(`${operation?.name ?? 'work'} failed: ${describeError(error)}`),
            },
          }),
        openLeases: (ports, leaseMs) => openLeases({ ...ports, url, leaseMs }),
      });
}

/** Without the password, wherever in the URL it is. */
function nameOf(url: string): string {
  try {
    const shown = new URL(url);
    shown.password = '';
    shown.search = '';
    return `${shown}`;
  } catch {
    return 'postgres://…';
  }
}

if (import.meta.main) {
  startProgram({ line: sharedLine, storage, openShared });
}
