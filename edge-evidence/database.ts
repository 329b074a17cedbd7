// Whether a database is sound, judged without the product: what SQLite says of the file, then every run's history
// through the second fold, compared with the rows that the product holds, and every digest that can be recomputed.
import { existsSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';
import { noFacts, openAlone, readFactsOf } from './facts.ts';
import { labelledDigest } from './fold-form.ts';
import { findRunTrouble } from './run-rows.ts';

export type Judged = {
  /** As `readFacts` answers; of a file that cannot be read, what SQLite said. */
  readonly facts: string;
  /** Empty where it is sound. */
  readonly trouble: readonly string[];
};

/**
 * Facts and trouble through one connection, which is what an own look at thousands of states can afford. A file that
 * does not exist holds nothing and is sound. Rolls a hot journal back: give it a copy.
 */
export function judgeDatabase(databaseFile: string): Judged {
  if (!existsSync(databaseFile)) {
    return { facts: noFacts, trouble: [] };
  }
  try {
    const db = openAlone(databaseFile);
    try {
      return { facts: readFactsOf(db), trouble: findTroubleOf(db) };
    } finally {
      db.close();
    }
  } catch (error) {
    const what = `it cannot be read: ${(error as Error).message}`;
    return { facts: what, trouble: [what] };
  }
}

/** What is wrong with a database, one line each; empty where it is sound. As `judgeDatabase`. */
export function findDatabaseTrouble(databaseFile: string): readonly string[] {
  return judgeDatabase(databaseFile).trouble;
}

function findTroubleOf(db: DatabaseSync): readonly string[] {
  const integrity = db.prepare('PRAGMA integrity_check').all() as { readonly integrity_check: string }[];
  const orphans = db.prepare('PRAGMA foreign_key_check').all() as { readonly table: string; readonly parent: string }[];
  const trouble = [
    ...integrity.map((row) => row.integrity_check).filter((text) => text !== 'ok'),
    ...orphans.map(({ table, parent }) => `a row of ${table} refers to none of ${parent}`),
  ];
  const has = (name: string) => db.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(name) !== undefined;
  // A database that is being made has the tables of the migrations that were committed.
  return [
    ...trouble,
    ...(has('RunAttempts') ? findRunTrouble(db) : []),
    ...(has('AutomationPublications') ? findPackageTrouble(db) : []),
  ];
}

type Row = Readonly<Record<string, unknown>>;

const hex = (value: unknown) => (value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value);

function rowsOf(db: DatabaseSync, sql: string): readonly Row[] {
  const rows = db.prepare(sql).all() as Row[];
  return rows.map((row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [name, hex(value)])));
}

/** Generations, lifecycles and the chain of publications: each digest over its row, each entry upon the one before. */
function findPackageTrouble(db: DatabaseSync): readonly string[] {
  const trouble: string[] = [];
  const expect = (holds: boolean, what: string) => {
    if (!holds) {
      trouble.push(what);
    }
  };
  for (const row of rowsOf(db, 'SELECT * FROM PackageInstallations')) {
    expect(
      labelledDigest('generation', targetOf(row)) === row['generationDigest'],
      `generation of ${name(row)} differs`,
    );
  }
  for (const row of rowsOf(db, 'SELECT * FROM PackageLifecycleEvents')) {
    const { lifecycleEventDigest, ...contents } = row;
    const digest = labelledDigest('lifecycleEvent', { schema: 'qinglong/package-lifecycle-event@v1', ...contents });
    expect(digest === lifecycleEventDigest, `a lifecycle event of ${name(row)} differs from its digest`);
  }
  const last = new Map<string, Row>();
  for (const row of rowsOf(db, 'SELECT * FROM AutomationPublications ORDER BY packageName, version')) {
    const previous = last.get(name(row)) ?? null;
    const contents = {
      schema: 'qinglong/automation-publication@v1',
      target: { ...targetOf(row), generationDigest: row['generationDigest'] },
      state: row['state'],
      version: row['version'],
      previousPublicationDigest: row['previousPublicationDigest'],
      lifecycleEventDigest: row['lifecycleEventDigest'],
      workflows: JSON.parse(`${row['workflows']}`),
      publishedAtMs: row['publishedAtMs'],
    };
    const isNext =
      row['version'] === Number(previous?.['version'] ?? 0) + 1 &&
      row['previousPublicationDigest'] === (previous?.['publicationDigest'] ?? null);
    expect(isNext, `publication ${row['version']} of ${name(row)} does not follow the one before`);
    expect(
      labelledDigest('publication', contents) === row['publicationDigest'],
      `publication ${row['version']} of ${name(row)} differs from its digest`,
    );
    last.set(name(row), row);
  }
  const heads = rowsOf(db, 'SELECT * FROM AutomationPublicationHeads');
  for (const head of heads) {
    const isLast = last.get(name(head))?.['publicationDigest'] === head['publicationDigest'];
    expect(isLast, `the head of ${name(head)} is not its last publication`);
  }
  expect(heads.length === last.size, `${last.size} packages have publications, ${heads.length} a head`);
  return trouble;
}

function name(row: Row): string {
  return `${row['projectId']}/${row['packageName']}`;
}

function targetOf(row: Row): Row {
  const { projectId, packageName, installationId, lockDigest, generation, materializedRevisionDigest } = row;
  return { projectId, packageName, installationId, lockDigest, generation, materializedRevisionDigest };
}
