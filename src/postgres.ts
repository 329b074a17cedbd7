// Entry `qinglong-edge/postgres`: the store of a cluster, and what brings its database up to date.
export { migratePostgres } from './store/postgres/migrate.ts';
export type { PostgresHooks, PostgresStore, PostgresStoreOptions } from './store/postgres/store.ts';
export { openPostgresStore } from './store/postgres/store.ts';
export type { OperationStore } from './store/store.ts';
