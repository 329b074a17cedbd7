// Loaded before the unmodified product (`node -r`), where the environment says so: wraps node:sqlite, counts the points
// that the process passes, and kills it at one of them. A point is told by what was executed; the product knows nothing
// of it. In the evidence bundle this is part of the one file, and that file is the preload.
import { writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { DatabaseSync, StatementSync } from 'node:sqlite';
import { noFacts, readFactsOf } from '../facts.ts';
import { readWrittenBytes } from '../process-io.ts';
import { commitPoints, type Observation, type Orders, ordersVariable, type Point, type Reached } from './point.ts';

let preloadFile = import.meta.filename;

/** Makes the built evidence bundle the preload, which takes a tenth of the time of these sources (60 ms). */
export function usePreload(evidenceBundle: string): void {
  preloadFile = evidenceBundle;
}

/** Options of `runBundle` with which a process gets these orders. */
export function preloadWith(given: Orders) {
  return { nodeArgs: ['-r', preloadFile], env: { [ordersVariable]: JSON.stringify(given) } };
}

const databaseName = 'qinglong.db';
// Holds a lock and no data: what is written there is never on the disk.
const lockName = 'lock.db';
const writePattern = /^\s*(INSERT(?: OR \w+)? INTO|REPLACE INTO|UPDATE|DELETE FROM)\s+(\w+)/i;
const writingPragma = /^\s*PRAGMA\s+(journal_mode\s*=|wal_checkpoint|incremental_vacuum)/i;
const quiet = /^\s*(BEGIN|SAVEPOINT|RELEASE|ROLLBACK|PRAGMA|SELECT|WITH|EXPLAIN)\b/i;

type Guarded = { readonly db: DatabaseSync; readonly what: string };

const orders = process.env[ordersVariable];
if (orders !== undefined) {
  install(JSON.parse(orders) as Orders);
}

function install(given: Orders): void {
  const counter = createCounter(given);
  const writing = new WeakSet<DatabaseSync>();
  const statements = new WeakMap<StatementSync, Guarded>();
  const { exec, prepare } = DatabaseSync.prototype;

  DatabaseSync.prototype.exec = function (this: DatabaseSync, sql: string): void {
    const isCommit = /^\s*COMMIT\b/i.test(sql);
    const isWriting = isCommit && writing.has(this);
    if (isWriting) {
      counter.pass(this, commitPoints.before);
    }
    exec.call(this, sql);
    const what = describe(sql);
    if (isWriting) {
      writing.delete(this);
      counter.commit(this);
      counter.pass(this, commitPoints.after);
    } else if (what !== null && !isCommit) {
      writing.add(this);
      counter.pass(this, `after ${what}`);
    } else if (/^\s*(BEGIN|ROLLBACK)\b/i.test(sql)) {
      writing.delete(this);
    }
  };
  DatabaseSync.prototype.prepare = function (this: DatabaseSync, ...args): StatementSync {
    const statement = prepare.apply(this, args);
    const what = describe(args[0]);
    if (what !== null) {
      statements.set(statement, { db: this, what });
    }
    return statement;
  };
  const passed = (statement: StatementSync) => {
    const guarded = statements.get(statement);
    if (guarded !== undefined) {
      writing.add(guarded.db);
      counter.pass(guarded.db, `after ${guarded.what}`);
    }
  };
  for (const name of ['run', 'get', 'all'] as const) {
    const call = StatementSync.prototype[name] as (...values: unknown[]) => unknown;
    const wrapped = function (this: StatementSync, ...values: unknown[]): unknown {
      const answer = call.apply(this, values);
      passed(this);
      return answer;
    };
    Object.defineProperty(StatementSync.prototype, name, { value: wrapped, configurable: true, writable: true });
  }
}

/** What a statement changes, in two or three words; null for one that changes nothing. */
function describe(sql: string): string | null {
  const [, verb, table] = writePattern.exec(sql) ?? [];
  if (verb !== undefined) {
    return `${verb.toUpperCase()} ${table}`;
  }
  if (writingPragma.test(sql)) {
    return sql.trim();
  }
  const isScript = !quiet.test(sql) && !/^\s*COMMIT\b/i.test(sql);
  return isScript ? (/\b(CREATE|ALTER|DROP)\s+\w+\s+\w+/i.exec(sql)?.[0] ?? sql.trim().slice(0, 40)) : null;
}

function createCounter({ kill, file: reportFile }: Orders) {
  const points: Point[] = [];
  // The first are those that it was prepared with, which only its parent knows.
  const facts: string[] = [noFacts];
  let commits = 0;
  const look = (db: DatabaseSync) => {
    // Inside a transaction it would show what is not durable.
    const now = kill !== null || db.isTransaction ? facts.at(-1) : readFactsOf(db);
    if (now !== undefined && facts.at(-1) !== now) {
      facts.push(now);
    }
  };
  if (kill === null) {
    process.on('exit', () => {
      const observation: Observation = { points, facts, commits, writtenBytes: readWrittenBytes('self') };
      writeFileSync(reportFile, JSON.stringify(observation));
    });
  }
  return {
    commit(db: DatabaseSync): void {
      commits += isMain(db) ? 1 : 0;
    },
    pass(db: DatabaseSync, what: string): void {
      const file = fileName(db);
      if (file === lockName) {
        return;
      }
      const name = isMain(db) ? what : `${what} in ${file}`;
      if (isMain(db)) {
        look(db);
      }
      points.push({ name, facts: facts.length - 1 });
      if (points.length === kill) {
        const reached: Reached = { number: kill, name };
        writeFileSync(reportFile, JSON.stringify(reached));
        process.kill(process.pid, 'SIGKILL');
      }
    },
  };
}

function fileName(db: DatabaseSync): string {
  // Drafts of a database have names with a number in them.
  return basename(db.location() ?? 'memory').replaceAll(/\d+/g, 'N');
}

function isMain(db: DatabaseSync): boolean {
  return basename(db.location() ?? '') === databaseName;
}
