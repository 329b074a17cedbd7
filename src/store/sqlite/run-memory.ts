// What one connection knows of the runs that it carries on and of their packages, so that a step does not read and
// verify again what the step before it wrote. Owns its bounds, and when all of it is forgotten; decides nothing. Never
// needed: without it everything is read.
//
// M1  An entry is what this connection read and verified, or wrote itself, and every write of it since. All writes go
//     through append.ts and ledger.ts, which tell it; nothing else in this process has the database open to write.
// M2  Nobody else has written since: the first look in every transaction compares `PRAGMA data_version`, which moves
//     with every commit of any other connection. SQLite keeps its own pages by the same counter, so an entry is never
//     older than what reading would say. The holder lock keeps others out; this does not rely on it.
// M3  What was rolled back is forgotten, with everything else: at every undone savepoint, and when a transaction begins
//     while the one before it, in which something was written, was never told to be committed.
// M4  Writes keep their fences (version, digest) in SQL: a row that is not as it is known here is not written over.
import type { DatabaseSync } from 'node:sqlite';
import { limits } from '../../core/limits.ts';
import type { Plan } from '../../core/plan.ts';
import type { Run, RunAttempt, RunRows, StepRun } from '../../core/records.ts';
import { isTerminalAttempt, isTerminalRun } from '../../core/states.ts';
import type { EventRow } from './rows-event.ts';
import { statement } from './statement.ts';

/** All attempts of a step by their numbers, and the key of the latest. */
export type KnownAttempts = { readonly lastKey: number | null; readonly list: readonly RunAttempt[] };

/** An event as it was inserted. */
export type KnownEvent = { readonly row: EventRow; readonly id: string; readonly attemptId: string | null };

/** As it is now: an entry moves on with its run. What is handed out of it is copied. */
export type KnownRun = {
  readonly runKey: number;
  readonly plan: Plan;
  run: Run;
  lastEventKey: number;
  /** All of them; null once the run has ended. */
  steps: Map<string, StepRun> | null;
  /** Attempts that have not ended. */
  readonly live: Map<string, RunAttempt>;
  /** By step run, as far as they are known. */
  readonly attempts: Map<string, KnownAttempts>;
  /** The highest number of an attempt of the run; null where it is not known. */
  lastAttemptNumber: number | null;
  /** The newest events, without a gap up to the run's version; perhaps none. */
  readonly events: KnownEvent[];
};

export type Written = {
  /** The rows that were appended to, and those that came of it. */
  readonly before: RunRows;
  readonly after: RunRows;
  readonly lastEventKey: number;
  readonly events: readonly KnownEvent[];
  /** Keys of the attempts that were inserted, by their ids. */
  readonly attemptKeys: ReadonlyMap<string, number>;
};

const dataVersionSql = 'PRAGMA data_version';

export class RunMemory {
  readonly #dataVersion: () => number;
  /** Used last stands last. */
  readonly #runs = new Map<string, KnownRun>();
  #weight = 0;
  #version: number | null = null;
  #isEntered = false;
  #hasWritten = false;
  /** One more than the last key of an event; null where it is not known. */
  nextEventKey: number | null = null;
  /** What the reads of packages found, under names of theirs. */
  readonly #packageFacts = new Map<string, unknown>();

  constructor(db: DatabaseSync) {
    const select = statement<Record<string, never>, { data_version: number }>(db, dataVersionSql);
    this.#dataVersion = () => select.get({})?.data_version ?? -1;
  }

  /** A transaction began. */
  began(): void {
    this.#isEntered = false;
    if (this.#hasWritten) {
      this.forgetAll();
      this.#hasWritten = false;
    }
  }

  /** What was written since `began` is durable. */
  committed(): void {
    this.#hasWritten = false;
  }

  /** Inside a transaction, before anything is asked for in it. Throws SQLite's errors. */
  enter(): void {
    if (this.#isEntered) {
      return;
    }
    const version = this.#dataVersion();
    if (version !== this.#version) {
      this.forgetAll();
      this.#version = version;
    }
    this.#isEntered = true;
  }

  /** Something was rolled back; other things may still be, so what was written stays in mind. */
  forgetAll(): void {
    this.#runs.clear();
    this.#weight = 0;
    this.nextEventKey = null;
    this.#packageFacts.clear();
  }

  find(runId: string): KnownRun | null {
    const known = this.#runs.get(runId);
    if (known === undefined) {
      return null;
    }
    this.#runs.delete(runId);
    this.#runs.set(runId, known);
    return known;
  }

  /** Takes a run that was read and verified, with all its steps. */
  learn(known: KnownRun): void {
    this.#put(known);
  }

  /** The run was admitted in this transaction. */
  admitted(known: KnownRun): void {
    this.#hasWritten = true;
    this.#put(known);
  }

  /** Events were appended in this transaction to a run as it is known; or, with null, to one that is not. */
  appended(known: KnownRun | null, written: Written): void {
    this.#hasWritten = true;
    if (known === null) {
      this.#drop(written.after.run.id);
      return;
    }
    this.#weight -= weightOf(known);
    follow(known, written);
    this.#weight += weightOf(known);
  }

  /** What `find` found, once for each key until a package changes. */
  packageFact<T>(key: string, find: () => T): T {
    const known = this.#packageFacts.get(key);
    if (known !== undefined) {
      return known as T;
    }
    const found = find();
    if (this.#packageFacts.size >= limits.knownPackageFactsMax) {
      this.#packageFacts.clear();
    }
    this.#packageFacts.set(key, found);
    return found;
  }

  /** Something else than runs was written in this transaction. */
  packagesChanged(): void {
    this.#hasWritten = true;
    this.#packageFacts.clear();
  }

  #put(known: KnownRun): void {
    this.#drop(known.run.id);
    this.#runs.set(known.run.id, known);
    this.#weight += weightOf(known);
    for (const [oldest] of this.#runs) {
      if (this.#weight <= limits.knownRecordsMax || this.#runs.size === 1) {
        break;
      }
      this.#drop(oldest);
    }
  }

  #drop(runId: string): void {
    const known = this.#runs.get(runId);
    if (known !== undefined) {
      this.#runs.delete(runId);
      this.#weight -= weightOf(known);
    }
  }
}

/** In records. Of every step, two attempts are counted, whatever their number is. */
function weightOf({ plan, steps }: KnownRun): number {
  return 1 + (steps === null ? 0 : 3 * plan.steps.length) + limits.knownEventsMax;
}

function follow(known: KnownRun, { before, after, lastEventKey, events, attemptKeys }: Written): void {
  known.run = after.run;
  known.lastEventKey = lastEventKey;
  known.events.push(...events);
  known.events.splice(0, known.events.length - limits.knownEventsMax);
  if (known.steps === null || isTerminalRun(after.run.status)) {
    known.steps = null;
    known.live.clear();
    known.attempts.clear();
    known.lastAttemptNumber = null;
    return;
  }
  for (const [id, step] of after.steps) {
    step === before.steps.get(id) || known.steps.set(id, step);
  }
  for (const [id, attempt] of after.attempts) {
    attempt === before.attempts.get(id) || followAttempt(known, attempt, attemptKeys.get(id) ?? null);
  }
}

/** `newKey` is that of an attempt that was inserted; null for one that changed. */
function followAttempt(known: KnownRun, attempt: RunAttempt, newKey: number | null): void {
  const { id, stepRunId, status, number } = attempt;
  isTerminalAttempt(status) ? known.live.delete(id) : known.live.set(id, attempt);
  const of = known.attempts.get(stepRunId);
  if (of !== undefined) {
    const list =
      newKey === null ? of.list.map((earlier) => (earlier.id === id ? attempt : earlier)) : [...of.list, attempt];
    known.attempts.set(stepRunId, { lastKey: newKey ?? of.lastKey, list });
  }
  known.lastAttemptNumber = known.lastAttemptNumber === null ? null : Math.max(known.lastAttemptNumber, number);
}
