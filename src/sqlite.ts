// Entry `qinglong-edge/sqlite`: the SQLite store of this product, opened by profile and durability mode.
export type { Reader } from './store/sqlite/reader.ts';
export { migrateSqliteStore, openReader, openSqliteStore, sqliteSchema } from './store/sqlite/sqlite.ts';
export type { SqliteStoreOptions } from './store/sqlite/store.ts';
export type { Store } from './store/store.ts';
