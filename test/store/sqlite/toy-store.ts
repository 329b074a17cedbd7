// A store with a schema of one table, so that what surrounds the schema is tested apart from it. A note is written with
// the ledger write `set-aside` (run id: the note's id, summary: its text) and asked for with the read `isRunKnown`.
import type { DatabaseSync } from 'node:sqlite';
import { assert } from '../../../src/core/errors.ts';
import { sha256 } from '../../../src/core/hash.ts';
import type { Alarm, Clock } from '../../../src/core/ports.ts';
import { type Operation, operation, protocol } from '../../../src/protocol/protocol.ts';
import { read } from '../../../src/protocol/reads.ts';
import { realClock, realIds } from '../../../src/runtime/ports.ts';
import { fingerprintSchema, withSchema } from '../../../src/store/sqlite/catalog.ts';
import type { DriverParts } from '../../../src/store/sqlite/driver.ts';
import type { Migration } from '../../../src/store/sqlite/migrate.ts';
import type { Schema } from '../../../src/store/sqlite/readiness.ts';
import { statement } from '../../../src/store/sqlite/statement.ts';
import { openStoreWith, type SqliteStoreOptions } from '../../../src/store/sqlite/store.ts';
import type { Settled, Store, TurnHooks } from '../../../src/store/store.ts';

export function migration(id: string, sql: string): Migration {
  return { id, sql, sha256: sha256(sql) };
}

export const toyMigrations = [
  migration(
    '0001-notes',
    `CREATE TABLE Migrations (id TEXT NOT NULL PRIMARY KEY, sha256 TEXT NOT NULL, appliedAtMs INTEGER NOT NULL) STRICT;
     CREATE TABLE Capabilities (name TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL) STRICT;
     CREATE TABLE Notes (id TEXT NOT NULL PRIMARY KEY, text TEXT NOT NULL CHECK (text <> '')) STRICT;
     INSERT INTO Capabilities VALUES ('toy', 1);`,
  ),
  migration('0002-notes-by-text', 'CREATE INDEX NotesByText ON Notes (text);'),
];

export function schemaOf(migrations: readonly Migration[]): Schema {
  const schemaFingerprint = withSchema(migrations, fingerprintSchema);
  return { migrations, schemaFingerprint, capability: { name: 'toy', version: 1 } };
}

/** The parts of a toy store that also hand out its connection, for a test that limits it. */
export function partsWithConnection(): { readonly parts: typeof toyParts; readonly connection: () => DatabaseSync } {
  let connection: DatabaseSync | null = null;
  const createLedger: DriverParts['createLedger'] = (db, memory) => {
    connection = db;
    return toyDriverParts.createLedger(db, memory);
  };
  return {
    parts: { ...toyParts, parts: { ...toyDriverParts, createLedger } },
    connection: () => {
      assert(connection !== null, 'the store is open');
      return connection;
    },
  };
}

const toyDriverParts: DriverParts = {
  createReads: (db) => {
    const find = statement<{ id: string }, { id: string }>(db, 'SELECT id FROM Notes WHERE id = :id');
    return ((request: { name: string; args: { runId: string } }) => {
      assert(request.name === 'isRunKnown', 'a toy store knows one read');
      return find.get({ id: request.args.runId }) !== null;
    }) as never;
  },
  createAppend: () => () => assert(false, 'a toy store has no runs') as never,
  createLedger: (db) => {
    const insert = statement<{ id: string; text: string }>(db, 'INSERT INTO Notes (id, text) VALUES (:id, :text)');
    return (write) => {
      assert(write.write === 'set-aside', 'a toy store has one write');
      insert.run({ id: write.setAside.runId, text: write.setAside.summary });
    };
  },
};

export const toyParts = { schema: schemaOf(toyMigrations), parts: toyDriverParts };

export type NoteInput = {
  readonly id: string;
  readonly text?: string;
  /** Thrown after reading and before writing. */
  readonly error?: Error;
  readonly follow?: readonly Operation[];
  readonly freshIds?: (ids: readonly string[]) => void;
};

export type NoteOutcome = 'added' | 'taken';

const add = protocol({
  name: 'add-note',
  freshIds: 2,
  load: ({ id }: NoteInput) => ({ isKnown: read('isRunKnown', { runId: id }) }),
  decide: (_rows, { id, text = 'text', error, follow = [], freshIds: seen }, { now, freshIds }) => {
    seen?.(freshIds);
    if (error !== undefined) {
      throw error;
    }
    const setAside = { runId: id, code: 'note', summary: text, atMs: now.wallMs };
    return { outcome: 'added' as NoteOutcome, ledger: [{ write: 'set-aside', setAside }], follow };
  },
  collided: () => 'taken' as NoteOutcome,
});

export const addNote = (input: NoteInput) => operation(add, input);

/** Looks and writes nothing. */
export const lookAtNote = (id: string) =>
  operation(
    protocol({
      name: 'look',
      load: (runId: string) => ({ isKnown: read('isRunKnown', { runId }) }),
      decide: ({ isKnown }) => ({ outcome: isKnown }),
    }),
    id,
  );

export const hasNote = (id: string) => read('isRunKnown', { runId: id });

/** An alarm that rings when it is told to, and tells when it was set. */
export type ManualAlarm = Alarm & {
  /** Resolves once something is set; at once if it is. */
  nextSet(): Promise<void>;
  /** Moves the clock to the earliest entry and rings it. */
  ring(): void;
  /** Lets simulated time go by without ringing. */
  pass(ms: number): void;
  readonly count: number;
};

export function simulatedTime(): { readonly clock: Clock; readonly alarm: ManualAlarm } {
  let uptimeMs = 1_000;
  const entries: { uptimeMs: number; ring: () => void }[] = [];
  let whenSet = Promise.withResolvers<void>();
  const alarm: ManualAlarm = {
    set(atMs, ring) {
      const entry = { uptimeMs: atMs, ring };
      entries.push(entry);
      whenSet.resolve();
      return () => void entries.splice(entries.indexOf(entry), 1);
    },
    nextSet: () => (entries.length > 0 ? Promise.resolve() : whenSet.promise),
    ring() {
      const entry = entries.sort((a, b) => a.uptimeMs - b.uptimeMs).shift();
      assert(entry !== undefined, 'something is set');
      whenSet = Promise.withResolvers<void>();
      uptimeMs = Math.max(uptimeMs, entry.uptimeMs);
      entry.ring();
    },
    pass(ms) {
      uptimeMs += ms;
    },
    get count() {
      return entries.length;
    },
  };
  return { clock: { observe: () => ({ wallMs: 1_700_000_000_000, uptimeMs, bootId: 'boot' }) }, alarm };
}

export type Reported = { readonly failed: unknown[]; readonly closedForGood: unknown[] };

export type ToyStore = {
  readonly store: Store;
  readonly reported: Reported;
  /** Every call of `committed`, in order. */
  readonly commits: (readonly Settled[])[];
  readonly alarm: ManualAlarm;
  readonly clock: Clock;
};

export type ToyOptions = Partial<Pick<SqliteStoreOptions, 'profile' | 'durability' | 'command' | 'socket'>> & {
  readonly data: string;
  readonly closing?: TurnHooks['closing'];
  readonly undone?: (error: unknown) => void;
  readonly doubted?: () => void;
  readonly parts?: typeof toyParts;
};

/** Opens a toy store with simulated time; the caller closes it. */
export function openToyStore(toyOptions: ToyOptions): ToyStore {
  const { data, closing = () => undefined, undone = () => {}, doubted = () => {}, ...rest } = toyOptions;
  const { parts = toyParts, ...options } = rest;
  const reported: Reported = { failed: [], closedForGood: [] };
  const commits: (readonly Settled[])[] = [];
  const { clock, alarm } = simulatedTime();
  const report = {
    failed: (_operation: unknown, error: unknown) => reported.failed.push(error),
    closedForGood: (error: unknown) => reported.closedForGood.push(error),
  };
  const ids = realIds(realClock());
  const ports = { clock, alarm, ids, trustedFromMs: 0, report };
  const store = openStoreWith({ command: 'test', socket: null, ...options, data, ...ports }, parts);
  store.attach({ closing, committed: (settled) => commits.push(settled), undone, doubted });
  return { store, reported, commits, alarm, clock };
}
