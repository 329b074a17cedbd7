// Entry `qinglong-edge/postgres`: the store of a cluster, what brings its database up to date, the leases by which
// several runtimes share it, a runtime inside the embedder's process; and, called as a program, the command line.
import type { ClusterAdapter, ClusterPorts } from './cli/cluster-call.ts';
import { runClusterProgram } from './cli/cluster-program.ts';
import type { Handlers } from './executor/handlers.ts';
import type { StartOutcome } from './protocol/admit.ts';
import { type Reads, read } from './protocol/reads.ts';
import { buildInfo } from './runtime/build-info.generated.ts';
import { Cluster } from './runtime/cluster.ts';
import { openCaller } from './runtime/cluster-caller.ts';
import { describeError, type Log } from './runtime/log.ts';
import { environmentVariable, realAlarm, realClock, realIds } from './runtime/ports.ts';
import { readRuntimeSettings, type SettingOptions } from './runtime/settings.ts';
import type { InstallReport } from './runtime/verbs.ts';
import { openLeases } from './store/postgres/leases.ts';
import { migratePostgres } from './store/postgres/migrate.ts';
import { openPostgresStore } from './store/postgres/store.ts';

export type { Handler, HandlerContext, Handlers } from './executor/handlers.ts';
export type { Leases, SharedStore } from './store/leases.ts';
export { openLeases } from './store/postgres/leases.ts';
export { migratePostgres } from './store/postgres/migrate.ts';
export type { PostgresHooks, PostgresStore, PostgresStoreOptions } from './store/postgres/store.ts';
export { openPostgresStore } from './store/postgres/store.ts';
export type { OperationStore } from './store/store.ts';

export type ClusterRuntimeOptions = Pick<SettingOptions, 'concurrency' | 'onStop'> & {
  readonly url: string;
  /** Where its commands run and package files lie; made where it is missing. */
  readonly data: string;
  /** In-process handlers by `package/task`; a task without one runs its command. */
  readonly handlers?: Handlers;
  /** False for a process that starts runs and leaves them to others. */
  readonly drives?: boolean;
  /** Sessions of the store, 1 to 32, beside one for leases and one that listens. */
  readonly connectionsMax?: number;
  readonly leaseMs?: number;
  /** Where the runtime's own lines go; nowhere by default. */
  readonly log?: Log;
};

export type ClusterRuntime = {
  /** Installs the package in a directory or archive, for all runtimes on the database. */
  install(path: string): Promise<InstallReport>;
  /** Resolves when the run, or that its key led to one, is durable; whichever runtime has a slot carries it on. */
  start(request: {
    readonly packageName: string;
    readonly workflowId: string;
    readonly idempotencyKey?: string;
    readonly requestedBy?: string;
  }): Promise<StartOutcome>;
  /** Of the whole database. */
  counts(): Promise<Reads['runCounts']['rows']>;
  /** How often the store's sessions sent something and waited. */
  readonly roundTrips: number;
  close(): Promise<void>;
};

const leaseMsDefault = 15_000;

/** One runtime among several on a migrated database, in this process. Throws what opening the store throws. */
export async function openClusterRuntime(options: ClusterRuntimeOptions): Promise<ClusterRuntime> {
  const { url, data, handlers = {}, drives = true, connectionsMax, leaseMs = leaseMsDefault } = options;
  const log = options.log ?? (() => {});
  const { concurrency, onStop } = options;
  const given = { ...(concurrency === undefined ? {} : { concurrency }), ...(onStop === undefined ? {} : { onStop }) };
  const settings = readRuntimeSettings({ given, config: null, profile: 'standalone' });
  const clock = realClock();
  const ports = { clock, alarm: realAlarm(clock), ids: realIds(clock) };
  const shared = await openStore({ url, ports, log, ...(connectionsMax === undefined ? {} : { connectionsMax }) });
  const leases = openLeases({ ...ports, url, leaseMs });
  const engine = { data, runDirectory: null, handlers, log, onOutput: null, settings };
  const cluster = drives ? await Cluster.open({ ...ports, engine, shared, leases }) : null;
  const caller = await openCaller({ data, settings, shared, leases, log });
  return {
    install: (path) => caller.install(path),
    async start({ packageName, workflowId, idempotencyKey = null, requestedBy = 'library' }) {
      const outcome = await caller.start({ packageName, workflowId, idempotencyKey, requestedBy });
      if (!drives) {
        await leases.notify('work');
      }
      return outcome;
    },
    counts: () => shared.read(read('runCounts', {})),
    get roundTrips() {
      return shared.roundTrips;
    },
    async close() {
      await caller.close();
      if (cluster !== null) {
        return cluster.close(settings.onStop);
      }
      await leases.close();
      await shared.close();
    },
  };
}

type StoreCall = {
  readonly url: string;
  readonly ports: ClusterPorts;
  readonly log: Log;
  readonly connectionsMax?: number;
};

function openStore({ ports, log, ...rest }: StoreCall) {
  return openPostgresStore({
    ...ports,
    ...rest,
    trustedFromMs: buildInfo.buildDateMs,
    report: { failed: (operation, error) => log(`${operation?.name ?? 'work'} failed: ${describeError(error)}`) },
  });
}

const adapter: ClusterAdapter = {
  migrate: (url) => migratePostgres({ url }),
  openStore: (url, ports, log) => openStore({ url, ports, log }),
  openLeases: (url, ports, leaseMs) => openLeases({ ...ports, url, leaseMs }),
};

if (import.meta.main) {
  void runClusterProgram({
    argv: process.argv.slice(2),
    adapter,
    environment: environmentVariable,
    onSignal(listener) {
      for (const signal of ['SIGINT', 'SIGTERM', 'SIGQUIT'] as const) {
        process.on(signal, listener);
      }
    },
    stdout: (text) => void process.stdout.write(text),
    stderr: (text) => void process.stderr.write(text),
  }).then((code) => process.exit(code));
}
