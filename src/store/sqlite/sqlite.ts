// The SQLite store of this product: its schema, and how its rows are read and written, given to what works for any
// schema.
import type { ReadName, ReadRequest, Reads } from '../../protocol/reads.ts';
import type { Store } from '../store.ts';
import { createAppend } from './append.ts';
import { createLedger } from './ledger.ts';
import { migrations } from './migrations.generated.ts';
import { openReaderWith, type Reader } from './reader.ts';
import type { Schema } from './readiness.ts';
import { createReads } from './reads.ts';
import { schemaFingerprint } from './schema-fingerprint.generated.ts';
import { migrateStoreWith, openStoreWith, type SqliteStoreOptions, type StoreParts } from './store.ts';

/** What the migrations make of an empty database. The capability is what the last `…-capability-…` of them sets. */
export const sqliteSchema: Schema = {
  migrations,
  schemaFingerprint,
  capability: { name: 'local-control-core', version: 42 },
};

const storeParts: StoreParts = {
  schema: sqliteSchema,
  parts: {
    createReads: (db, memory) => {
      const reads = createReads(db, memory);
      return <N extends ReadName>({ name, args }: ReadRequest<N>) =>
        (reads[name] as (args: Reads[N]['args']) => Reads[N]['rows'])(args);
    },
    createAppend,
    createLedger,
  },
};

/** See `openStoreWith`. */
export function openSqliteStore(options: SqliteStoreOptions): Store {
  return openStoreWith(options, storeParts);
}

/** See `migrateStoreWith`. */
export function migrateSqliteStore(options: SqliteStoreOptions): readonly string[] {
  return migrateStoreWith(options, storeParts);
}

/** See `openReaderWith`. */
export function openReader(place: { readonly data: string }): Reader {
  return openReaderWith(place, storeParts);
}
