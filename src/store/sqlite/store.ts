// Puts the SQLite store together: directory, holder lock, database, readiness, authority; in this order, and undone in
// the reverse one. Owns when a database may be made and when it may be migrated.
import type { Stats } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';
import { EdgeError } from '../../core/errors.ts';
import type { Alarm, Clock, Ids } from '../../core/ports.ts';
import type { Operation } from '../../protocol/protocol.ts';
import type { ReadName, ReadRequest, Reads } from '../../protocol/reads.ts';
import type { Store, StoreInfo } from '../store.ts';
import { Authority, type Connection, type StoreReport } from './authority.ts';
import {
  type DataPaths,
  databaseState,
  fixSettings,
  isStillFile,
  lostSettings,
  makeDataDirectory,
  readSettings,
  statOf,
  writeMarker,
} from './data-directory.ts';
import { createDriver, type DriverParts } from './driver.ts';
import { acquireHolderLock, type HolderIdentity, type HolderLock } from './holder-lock.ts';
import { applyMigrations } from './migrate.ts';
import { beginServing, openWriter } from './open.ts';
import { probeStorage, refuseSmallBlocks } from './probe.ts';
import { type AskedSettings, durabilities, journalBytesMax, type StorageSettings, settleSettings } from './profile.ts';
import { checkReadiness, engineName, type Schema } from './readiness.ts';
import { statement, toEdgeError } from './statement.ts';

export type SqliteStoreOptions = Partial<AskedSettings> &
  HolderIdentity & {
    /** Absolute path of the data directory; made where it is missing. */
    readonly data: string;
    readonly clock: Clock;
    readonly alarm: Alarm;
    readonly ids: Ids;
    /** Wall time is believed from here on: the bundle's build date. */
    readonly trustedFromMs: number;
    readonly report: StoreReport;
  };

/** What makes the store this product's: its schema, and how that is read and written. */
export type StoreParts = { readonly schema: Schema; readonly parts: DriverParts };

/**
 * Opens the store of a data directory under its holder lock; makes directory and database where there are none. Throws
 * `busy` naming the holder, `invalid` for settings other than the directory's, `unavailable` for a database of another
 * version or storage that does not work, `damaged` naming what differs, `full`.
 */
export function openStoreWith(options: SqliteStoreOptions, storeParts: StoreParts): Store {
  const { paths, lock, settings, isFresh } = enterDirectory(options);
  try {
    refuseSmallBlocks({ data: paths.data, durability: settings.durability });
    if (isFresh) {
      makeDatabase(paths, settings, { schema: storeParts.schema, nowMs: options.clock.observe().wallMs });
    }
    return createStore({ options, storeParts, paths, lock, settings });
  } catch (error) {
    lock.release();
    // Also what a pragma or a migration met, of a database that is being made.
    throw toEdgeError(error, `open ${paths.database}`);
  }
}

/**
 * Brings an existing database up to the schema under the holder lock; returns the ids of what was applied. Throws as
 * `openStoreWith` does, `not-found` where there is no database.
 */
export function migrateStoreWith(
  options: SqliteStoreOptions,
  { schema }: Pick<StoreParts, 'schema'>,
): readonly string[] {
  const { paths, lock, settings, isFresh } = enterDirectory(options);
  try {
    if (isFresh) {
      throw new EdgeError('not-found', `${paths.data} has no database to migrate`, {
        hint: 'a new one is made by `run` or `serve`, up to date',
      });
    }
    const db = openWriter({ path: paths.database, ...settings, isFresh: false });
    try {
      const applied = applyMigrations(db, schema.migrations, options.clock.observe().wallMs);
      checkReadiness(db, schema, paths.database);
      return applied;
    } finally {
      db.close();
    }
  } finally {
    lock.release();
  }
}

type Entered = {
  readonly paths: DataPaths;
  readonly lock: HolderLock;
  readonly settings: StorageSettings;
  readonly isFresh: boolean;
};

function enterDirectory({
  data,
  profile = null,
  durability = null,
  command,
  socket,
  clock,
}: SqliteStoreOptions): Entered {
  const paths = makeDataDirectory(data);
  const lock = acquireHolderLock(paths, { command, socket }, clock);
  try {
    const isFresh = databaseState(paths) === 'fresh';
    const fixed = readSettings(paths);
    if (!isFresh && (fixed.profile === null || fixed.durability === null)) {
      throw lostSettings(paths);
    }
    return { paths, lock, isFresh, settings: settleSettings({ profile, durability }, fixed) };
  } catch (error) {
    lock.release();
    throw error;
  }
}

// Killed at any point, it is simply done again: until the last line the marker says that the database is being made.
function makeDatabase(
  paths: DataPaths,
  settings: StorageSettings,
  { schema, nowMs }: { readonly schema: Schema; readonly nowMs: number },
): void {
  probeStorage({ data: paths.data, durability: settings.durability });
  writeMarker(paths, 'making');
  fixSettings(paths, settings);
  const db = openWriter({ path: paths.database, ...settings, isFresh: true });
  try {
    applyMigrations(db, schema.migrations, nowMs);
  } finally {
    db.close();
  }
  writeMarker(paths, 'made');
}

type Entrance = Omit<Entered, 'isFresh'> & { readonly options: SqliteStoreOptions; readonly storeParts: StoreParts };

function createStore({ options, storeParts, paths, lock, settings }: Entrance): Store {
  const { clock, alarm, ids, report, trustedFromMs } = options;
  const { schema, parts } = storeParts;
  const connect = (): Connection => {
    const db = openWriter({ path: paths.database, ...settings, isFresh: false });
    try {
      settleJournal(db, paths, settings);
      checkReadiness(db, schema, paths.database);
      beginServing(db);
      return { db, driver: createDriver({ db, parts, clock, trustedFromMs }) };
    } catch (error) {
      db.close();
      throw error;
    }
  };
  const connection = connect();
  const database = statOf(paths.database);
  const authority = new Authority({
    connection,
    reconnect: (old) => {
      old.db.close();
      return connect();
    },
    isLogFull: (db) => isLogFull(db, paths, settings),
    findLoss: () => findLoss(paths, lock, database),
    disconnect: ({ db }) => db.close(),
    clock,
    alarm,
    ids,
    report,
  });
  const info: StoreInfo = { ...settings, engine: engineName(connection.db), capability: schema.capability };
  return {
    info,
    attach: (hooks) => authority.attach(hooks),
    submit: <O>(operation: Operation<O>) => authority.submit(operation) as Promise<O>,
    wake: () => authority.wake(),
    read: <N extends ReadName>(request: ReadRequest<N>) =>
      authority.read(request as ReadRequest) as Promise<Reads[N]['rows']>,
    close: async () => {
      try {
        await authority.close();
      } finally {
        lock.release();
      }
    },
  };
}

/** Two looks at files, microseconds: whoever removed one of them may have let another process in beside this one. */
function findLoss(paths: DataPaths, lock: HolderLock, database: Stats | null): EdgeError | null {
  const isDatabaseThere = isStillFile(paths.database, database);
  if (isDatabaseThere && lock.isHeld()) {
    return null;
  }
  const file = isDatabaseThere ? paths.lock : paths.database;
  return new EdgeError('unavailable', `${file} was removed or replaced while this process held it`, {
    hint: 'nothing more is written; see who else uses this directory, then start again',
  });
}

type CheckpointRow = { readonly busy: number };

const checkpointSql = 'PRAGMA wal_checkpoint(TRUNCATE)';

const useUpJournalSql = `BEGIN IMMEDIATE;
  UPDATE Migrations SET appliedAtMs = appliedAtMs + 1;
  UPDATE Migrations SET appliedAtMs = appliedAtMs - 1;
  COMMIT`;

/**
 * Requires that the file stands for one outcome of whatever was going on when it was last closed. After a failed WAL
 * sync, reading may show a transaction from the page cache that is not on the disk: a whole checkpoint puts it there or
 * fails. A hot journal is rolled back by the first read. Throws `busy` where a reader is in the way for 5 s.
 */
function settleJournal(db: DatabaseSync, paths: DataPaths, { durability }: StorageSettings): void {
  if (durabilities[durability].journalMode === 'wal') {
    if (!checkpoint(db)) {
      throw new EdgeError('busy', 'a reader keeps the write-ahead log from being written back', {
        hint: 'end the process that reads this database, then start again',
      });
    }
    return;
  }
  const isJournalThere = () => statOf(`${paths.database}-journal`) !== null;
  db.exec('BEGIN IMMEDIATE; ROLLBACK');
  if (isJournalThere()) {
    // Of a process that died before it had synced its journal: the head is blank, so SQLite takes it for no journal
    // and leaves it alone. The next commit uses it up; one is made here, so that what stays is known to be in the way.
    // SQLite writes no page whose bytes stay the same, so a value goes up and down again.
    db.exec(useUpJournalSql);
  }
  if (isJournalThere()) {
    throw new EdgeError('unavailable', 'the rollback journal of the last transaction is still there', {
      hint: 'check the storage (kernel log, `doctor`), then start again',
    });
  }
}

/** Whether all of the WAL was written back. */
function checkpoint(db: DatabaseSync): boolean {
  return statement<Record<string, never>, CheckpointRow>(db, checkpointSql).get({})?.busy === 0;
}

// A look at the size costs microseconds, so every turn that writes takes one.
function isLogFull(db: DatabaseSync, paths: DataPaths, { profile, durability }: StorageSettings): boolean {
  if (durabilities[durability].journalMode !== 'wal') {
    return false;
  }
  const size = statOf(`${paths.database}-wal`)?.size ?? 0;
  return size > journalBytesMax[profile] && !checkpoint(db);
}
