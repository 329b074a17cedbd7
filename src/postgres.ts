// Entry `qinglong-edge/postgres`: the store of a cluster, what brings its database up to date, and the leases by which
// several runtimes share it.
export type { Leases, SharedStore } from './store/leases.ts';
export { openLeases } from './store/postgres/leases.ts';
export { migratePostgres } from './store/postgres/migrate.ts';
export type { PostgresHooks, PostgresStore, PostgresStoreOptions } from './store/postgres/store.ts';
export { openPostgresStore } from './store/postgres/store.ts';
export type { OperationStore } from './store/store.ts';
