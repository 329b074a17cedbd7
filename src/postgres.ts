// Entry `qinglong-edge/postgres`: the store of a cluster, what brings its database up to date, and the operations that
// the store carries out: without them nobody outside could give it any.
export { admit, start } from './protocol/admit.ts';
export { advance } from './protocol/advance.ts';
export { admitAttempt, complete, startAttempt } from './protocol/attempt.ts';
export { cancel } from './protocol/cancel.ts';
export { changeLifecycle, install } from './protocol/package.ts';
export { type Operation, operation } from './protocol/protocol.ts';
export { read } from './protocol/reads.ts';
export { migratePostgres } from './store/postgres/migrate.ts';
export type { PostgresHooks, PostgresStore, PostgresStoreOptions } from './store/postgres/store.ts';
export { openPostgresStore } from './store/postgres/store.ts';
export type { OperationStore } from './store/store.ts';
