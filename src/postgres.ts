// Entry `qinglong-edge/postgres`: the store of a cluster, what brings its database up to date, the leases by which
// several runtimes share it; and, called as a program, the command line of all that.
import type { ClusterAdapter } from './cli/cluster-call.ts';
import { runClusterProgram } from './cli/cluster-program.ts';
import { buildInfo } from './runtime/build-info.generated.ts';
import { describeError } from './runtime/log.ts';
import { environmentVariable } from './runtime/ports.ts';
import { openLeases } from './store/postgres/leases.ts';
import { migratePostgres } from './store/postgres/migrate.ts';
import { openPostgresStore } from './store/postgres/store.ts';

export type { Leases, SharedStore } from './store/leases.ts';
export { openLeases } from './store/postgres/leases.ts';
export { migratePostgres } from './store/postgres/migrate.ts';
export type { PostgresHooks, PostgresStore, PostgresStoreOptions } from './store/postgres/store.ts';
export { openPostgresStore } from './store/postgres/store.ts';
export type { OperationStore } from './store/store.ts';

const adapter: ClusterAdapter = {
  migrate: (url) => migratePostgres({ url }),
  openStore: (url, ports, log) =>
    openPostgresStore({
      ...ports,
      url,
      trustedFromMs: buildInfo.buildDateMs,
      report: { failed: (operation, error) => log(`${operation?.name ?? 'work'} failed: ${describeError(error)}`) },
    }),
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
