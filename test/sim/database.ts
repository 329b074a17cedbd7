// The database of one simulation: a real SQLite database in memory, which outlives the processes that work with it.
// Each process has a connection of its own, which can fail as storage does, and through which its process can die
// between any two calls; a death rolls back what was not committed, and nothing else.
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { applyMigrations } from '../../src/store/sqlite/migrate.ts';
import { migrations } from '../../src/store/sqlite/migrations.generated.ts';
import { layoutPragmas } from '../../src/store/sqlite/profile.ts';
import type { SqlValue } from '../../src/store/sqlite/statement.ts';

/** Thrown through a process that has died. Whatever it still does with it happens to nobody. */
export class Death extends Error {
  override readonly name = 'Death';
}

/** Whoever works with the database. */
export type Mortal = { readonly isDead: boolean; die(why: string): void };

/** What goes wrong next. Counts go down by themselves. */
export type Faults = {
  /** The process dies at the call after so many, here or at the machine. */
  deathIn: number | null;
  /** The next COMMIT that wrote: the process dies right behind it. */
  diesAfterCommit: boolean;
  /** The next COMMIT that wrote fails, and nobody can say whether it happened. */
  unknownCommit: 'happened' | 'undone' | null;
  /** The next COMMIT that wrote finds no space. */
  fullCommit: boolean;
  /** Every write finds no space; `whole` undoes the whole transaction with it. */
  full: 'statement' | 'whole' | null;
  /** So many writes of each transaction still find some, so that it runs out within one. */
  spareWrites: number;
  /** So many times the database is held by another process: at BEGIN IMMEDIATE, or at COMMIT. */
  busyBegins: number;
  busyCommits: number;
  reconnectFails: boolean;
};

export type SimulatedDatabase = {
  readonly real: DatabaseSync;
  readonly faults: Faults;
  /** Dies here if it is time to. Also called by the machine, so that effects are points of death too. */
  pass(mortal: Mortal): void;
  connect(mortal: Mortal): DatabaseSync;
  /** What a death leaves: everything that was committed. */
  recover(): void;
  /** For whoever looks on, between transactions. */
  prepare(sql: string): StatementSync;
  close(): void;
};

let template: Uint8Array | null = null;

/** A database with the product's schema. Made once a process, then copied. */
function makeTemplate(): Uint8Array {
  const db = new DatabaseSync(':memory:');
  for (const { set } of layoutPragmas) {
    db.exec(set);
  }
  applyMigrations(db, migrations, 0);
  const bytes = db.serialize();
  db.close();
  return bytes;
}

export function calmFaults(): Faults {
  return {
    deathIn: null,
    diesAfterCommit: false,
    unknownCommit: null,
    fullCommit: false,
    full: null,
    spareWrites: 0,
    busyBegins: 0,
    busyCommits: 0,
    reconnectFails: false,
  };
}

export type DatabaseWatch = {
  /** A transaction begins: what is decided in it is decided now, however late it is committed. */
  readonly began: () => void;
  /** Something is durable that was not before; nothing has been told to anybody. */
  readonly committed: () => void;
  /** A fault of this name has struck. */
  readonly struck: (fault: string) => void;
};

export function simulateDatabase(watch: DatabaseWatch): SimulatedDatabase {
  template ??= makeTemplate();
  const real = new DatabaseSync(':memory:', { defensive: true, enableForeignKeyConstraints: true });
  real.deserialize(template);
  const statements = new Map<string, StatementSync>();
  const prepare = (sql: string): StatementSync => {
    const known = statements.get(sql) ?? real.prepare(sql);
    statements.set(sql, known);
    return known;
  };
  const faults = calmFaults();
  const pass = (mortal: Mortal) => {
    if (faults.deathIn !== null) {
      faults.deathIn -= 1;
      if (faults.deathIn < 0) {
        faults.deathIn = null;
        mortal.die('between two calls');
      }
    }
    if (mortal.isDead) {
      throw new Death('the process is dead');
    }
  };
  return {
    real,
    faults,
    pass,
    prepare,
    connect: (mortal) => connect({ real, faults, watch, prepare, pass: () => pass(mortal), mortal }),
    recover() {
      if (real.isTransaction) {
        real.exec('ROLLBACK');
      }
    },
    close: () => real.close(),
  };
}

type Parts = {
  readonly real: DatabaseSync;
  readonly faults: Faults;
  readonly watch: DatabaseWatch;
  readonly prepare: (sql: string) => StatementSync;
  readonly pass: () => void;
  readonly mortal: Mortal;
};

const writing = /^(INSERT|UPDATE|DELETE)/;

/** As much of a connection as the store uses. */
function connect(parts: Parts): DatabaseSync {
  const { real, faults, watch, prepare, pass, mortal } = parts;
  let writes = 0;
  let isOpen = true;
  const enter = () => {
    pass();
    if (!isOpen) {
      throw sqliteError(21, 'the connection is closed');
    }
  };
  const beforeWrite = () => {
    writes += 1;
    if (faults.full !== null && writes > faults.spareWrites) {
      watch.struck('full');
      if (faults.full === 'whole') {
        real.exec('ROLLBACK');
      }
      throw sqliteError(13, 'database or disk is full');
    }
  };
  const wrap = (sql: string) => {
    const statement = prepare(sql);
    const call =
      (name: 'get' | 'all' | 'run') =>
      (...values: SqlValue[]) => {
        enter();
        if (writing.test(sql)) {
          beforeWrite();
        }
        return statement[name](...values);
      };
    return { get: call('get'), all: call('all'), run: call('run') };
  };
  const exec = (sql: string) => {
    enter();
    if (sql.startsWith('BEGIN')) {
      writes = 0;
      strikeBusy(faults, sql === 'BEGIN IMMEDIATE' ? 'busyBegins' : null, watch);
      real.exec(sql);
      watch.began();
    } else if (sql === 'COMMIT') {
      commit(parts, writes > 0);
    } else {
      real.exec(sql);
    }
  };
  const connection = {
    exec,
    prepare: wrap,
    location: () => null,
    get isTransaction() {
      return !mortal.isDead && real.isTransaction;
    },
    close() {
      enter();
      isOpen = false;
      if (real.isTransaction) {
        real.exec('ROLLBACK');
      }
    },
  };
  return connection as unknown as DatabaseSync;
}

function strikeBusy(faults: Faults, which: 'busyBegins' | 'busyCommits' | null, watch: DatabaseWatch): void {
  if (which !== null && faults[which] > 0) {
    faults[which] -= 1;
    watch.struck('busy');
    throw sqliteError(5, 'database is locked');
  }
}

function commit({ real, faults, watch, mortal }: Parts, hasWritten: boolean): void {
  if (!hasWritten) {
    real.exec('COMMIT');
    return;
  }
  strikeBusy(faults, 'busyCommits', watch);
  if (faults.fullCommit || faults.unknownCommit === 'undone') {
    const isFull = faults.fullCommit;
    faults.fullCommit = false;
    faults.unknownCommit = isFull ? faults.unknownCommit : null;
    watch.struck(isFull ? 'full' : 'unknown');
    real.exec('ROLLBACK');
    throw isFull ? sqliteError(13, 'database or disk is full') : sqliteError(10, 'disk I/O error');
  }
  real.exec('COMMIT');
  watch.committed();
  if (faults.unknownCommit === 'happened') {
    faults.unknownCommit = null;
    watch.struck('unknown');
    throw sqliteError(10, 'disk I/O error');
  }
  if (faults.diesAfterCommit) {
    faults.diesAfterCommit = false;
    mortal.die('right behind a COMMIT');
    throw new Death('the process is dead');
  }
}

function sqliteError(errcode: number, message: string): Error {
  return Object.assign(new Error(message), { code: 'ERR_SQLITE_ERROR', errcode, errstr: message });
}
