// Entry `qinglong-edge/sqlite`: the SQLite store of this product, opened by profile and durability mode.
import type { ReadName, ReadRequest, Reads } from './protocol/reads.ts';
import { createAppend } from './store/sqlite/append.ts';
import { catalog } from './store/sqlite/catalog.generated.ts';
import type { DriverParts } from './store/sqlite/driver.ts';
import { createLedger } from './store/sqlite/ledger.ts';
import { migrations } from './store/sqlite/migrations.generated.ts';
import { openReaderWith, type Reader } from './store/sqlite/reader.ts';
import { createReads } from './store/sqlite/reads.ts';
import type { Schema } from './store/sqlite/readiness.ts';
import { migrateStoreWith, openStoreWith, type SqliteStoreOptions } from './store/sqlite/store.ts';
import type { Store } from './store/store.ts';

export const sqliteSchema: Schema = {
  migrations,
  catalog,
  capability: { name: 'local-control-core', version: 42 },
};

const parts: DriverParts = {
  createReads: (db) => {
    const reads = createReads(db);
    return <N extends ReadName>({ name, args }: ReadRequest<N>) =>
      (reads[name] as (args: Reads[N]['args']) => Reads[N]['rows'])(args);
  },
  createAppend,
  createLedger,
};

/** Opens the store of a data directory under its holder lock, and makes it where there is none. See `openStoreWith`. */
export function openSqliteStore(options: SqliteStoreOptions): Store {
  return openStoreWith(options, { schema: sqliteSchema, parts });
}

/** Reads beside any holder, or without one. See `openReaderWith`. */
export function openSqliteReader(options: { readonly data: string }): Reader {
  return openReaderWith(options, { schema: sqliteSchema, parts });
}

/** Brings an existing database up to date; nobody may hold the directory. Returns the ids of what was applied. */
export function migrateSqliteStore(options: SqliteStoreOptions): readonly string[] {
  return migrateStoreWith(options, { schema: sqliteSchema });
}

export type { Reader, SqliteStoreOptions, Store };
