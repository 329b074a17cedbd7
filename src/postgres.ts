// Entry `qinglong-edge/postgres`: runtimes that share a PostgreSQL database, in the embedder's process; its store and
// the operations that it carries out; called as a program, the command line on such a database.
import { resolve } from 'node:path';
import { databaseUrlRule, type OptionValues } from './cli/options.ts';
import { sharedLine } from './cli/shared-commands.ts';
import { placeMissing, type SharedPorts, type SharedSite } from './cli/shared-place.ts';
import { createSharedSite, leaseMsDefault, openPorts } from './cli/shared-session.ts';
import { startProgram } from './cli/start-program.ts';
import type { Storage } from './cli/storage.ts';
import { stopOnDefect } from './core/errors.ts';
import type { Handlers } from './executor/handlers.ts';
import { type Reads, read } from './protocol/reads.ts';
import { checkArguments } from './runtime/arguments.ts';
import { buildInfo } from './runtime/build-info.generated.ts';
import { type Closable, closeAll } from './runtime/close-all.ts';
import { Cluster } from './runtime/cluster.ts';
import { openCaller } from './runtime/cluster-caller.ts';
import { checkOptions, commonRules, type EmbeddedRuntime, embed, type OptionRule } from './runtime/embedding.ts';
import { describeError, type Log } from './runtime/log.ts';
import { type OnStop, readRuntimeSettings, type SettingName, type SettingOptions } from './runtime/settings.ts';
import { bounds } from './store/postgres/bounds.ts';
import { openLeases } from './store/postgres/leases.ts';
import { migratePostgres } from './store/postgres/migrate.ts';
import { openPostgresStore, type PostgresStoreOptions } from './store/postgres/store.ts';
import { readConfigFile } from './store/sqlite/data-directory.ts';

/** A setting that is not given comes from the environment, from config.json of `data`, or is standalone's default. */
export type ClusterOptions = SettingOptions & {
  readonly url: string;
  /** Where its commands run and package files lie; made where it is missing. */
  readonly data: string;
  /** Memory-backed where possible; below /run by default. */
  readonly runDirectory?: string;
  /** In-process handlers by `package/task`; a task without one runs its command. */
  readonly handlers?: Handlers;
  /** False for a process that starts runs and leaves them to others. */
  readonly drives?: boolean;
  /** Sessions of the store (4 by default), beside two for leases and one that listens. */
  readonly connectionsMax?: number;
  /** How long its runs stay its own when nothing is heard of it; 15,000 by default. */
  readonly leaseMs?: number;
  /** Where the runtime's own lines go; nowhere by default. */
  readonly log?: Log;
};

export type ClusterRuntime = EmbeddedRuntime & {
  /** Runs that are running and not set aside, and runs that are set aside, of the whole database. */
  counts(): Promise<Reads['runCounts']['rows']>;
  /** How often the store's sessions sent something and waited. */
  readonly roundTrips: number;
  /** Ends the runtime; by default as the setting `onStop` says. Others claim its runs at once. */
  close(onStop?: OnStop): Promise<void>;
};

/**
 * One runtime among several on a migrated database, in this process; whichever has a slot carries a run on. Throws
 * `invalid`, and `unavailable` where the database cannot be reached or is not migrated.
 */
export async function openClusterRuntime(options: ClusterOptions): Promise<ClusterRuntime> {
  checkOptions(options, { rules: optionRules, required: ['url', 'data'], of: 'openClusterRuntime' });
  const { url, handlers = {}, runDirectory = null, drives = true, leaseMs = leaseMsDefault } = options;
  const log = options.log ?? (() => {});
  const data = resolve(options.data);
  const settings = readRuntimeSettings({ given: options, config: readConfigFile(data), profile: 'standalone' });
  const ports = openPorts(settings);
  const { connectionsMax } = options;
  const shared = await openStore({ url, ports, log, ...(connectionsMax === undefined ? {} : { connectionsMax }) });
  const leases = openLeases({ ...ports, url, leaseMs });
  const engine = { data, runDirectory, handlers, log, onOutput: null, settings };
  const open: Closable[] = [shared, leases];
  try {
    const caller = await openCaller({ data, runDirectory, settings, shared, leases, log, ...ports });
    open.push(caller);
    const cluster = drives ? await Cluster.open({ ...ports, engine, shared, leases }) : null;
    let isClosing = false;
    return {
      ...embed({ verbs: caller.verbs, store: shared, isClosing: () => isClosing }),
      counts: () => shared.read(read('runCounts', {})),
      get roundTrips() {
        return shared.roundTrips;
      },
      async close(onStop = settings.onStop) {
        checkArguments({ onStop });
        isClosing = true;
        const driving = cluster === null ? [] : [{ close: () => cluster.close(onStop) }];
        await closeAll([...open, ...driving]);
      },
    };
  } catch (error) {
    await closeAll(open).catch(stopOnDefect);
    throw error;
  }
}

const isCount =
  (min: number, max: number): OptionRule =>
  (value) =>
    Number.isInteger(value) && (value as number) >= min && (value as number) <= max
      ? null
      : `must be a whole number from ${min} to ${max}`;

const optionRules: {
  readonly [K in keyof Required<Omit<ClusterOptions, SettingName>>]: OptionRule;
} = {
  ...commonRules,
  url: (value) => databaseUrlRule(`${value}`),
  drives: (value) => (typeof value === 'boolean' ? null : 'must be true or false'),
  connectionsMax: isCount(1, bounds.connectionsMax),
  leaseMs: isCount(1_000, 3_600_000),
};

type StoreCall = {
  readonly url: string;
  readonly ports: SharedPorts;
  readonly log: Log;
} & Pick<PostgresStoreOptions, 'connectionsMax'>;

function openStore({ ports, log, ...rest }: StoreCall) {
  return openPostgresStore({
    ...ports,
    ...rest,
    trustedFromMs: buildInfo.buildDateMs,
    report: { failed: (operation, error) => log(`${operation?.name ?? 'work'} failed: ${describeError(error)}`) },
  });
}

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
        openStore: (ports, log) => openStore({ url, ports, log }),
        openLeases: (ports, leaseMs) => openLeases({ ...ports, url, leaseMs }),
      });
}

/** Without the password, wherever in the URL it is. */
function nameOf(url: string): string {
  try {
    const shown = new URL(url);
    shown.password = '';
    shown.search = '';
    shown.hash = '';
    return `${shown}`;
  } catch {
    return 'postgres://…';
  }
}

export { EdgeError, isEdgeError } from './core/errors.ts';
export type { Handler, HandlerContext, Handlers } from './executor/handlers.ts';
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

if (import.meta.main) {
  startProgram({ line: sharedLine, storage, openShared });
}
