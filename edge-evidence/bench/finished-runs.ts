// Data directories that hold thousands of finished runs. They are made once for a bundle, by its own library, and kept
// below the scratch; a row gets a copy. A larger one grows out of a smaller one.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { sha256 } from '../../src/core/hash.ts';
import type { Site } from '../stress/site.ts';
import { type Bench, durabilityOf } from './bench-run.ts';
import type { Profile } from './figure.ts';
import { bundleFile, libraryFile, runProgram, siteIn, writeChainPackage } from './programs.ts';

const sizes = [1_000, 10_000, 100_000] as const;
/** 1 to 2 ms a run on an idle machine, ten times that on a busy one. */
const makeMsMax = 3_600_000;
export type FinishedRuns = (typeof sizes)[number];

/** A site with so many finished one-step runs of `chain/one`, in a place. */
export async function copyFinishedRuns(
  bench: Bench,
  { place, runs, profile }: { readonly place: string; readonly runs: FinishedRuns; readonly profile: Profile },
): Promise<Site> {
  const site = siteIn(place, `${profile}-${runs}`, profile);
  cpSync(await provideFinishedRuns(bench, runs), site.data, { recursive: true });
  settleProfile(site);
  return site;
}

/** What is kept was made as `standalone`, which is faster; the tables are the same, only the journal differs. */
function settleProfile({ data, profile }: Site): void {
  const durability = durabilityOf[profile];
  if (durability === 'wal-full') {
    return;
  }
  const db = new DatabaseSync(join(data, 'qinglong.db'));
  db.exec('PRAGMA journal_mode = DELETE');
  db.close();
  writeFileSync(join(data, 'config.json'), JSON.stringify({ profile, durability }));
}

async function provideFinishedRuns(bench: Bench, runs: FinishedRuns): Promise<string> {
  const cache = openCache(bench);
  const folder = join(cache, `${runs}`);
  if (existsSync(folder)) {
    return folder;
  }
  const smaller = sizes.findLast((size) => size < runs);
  const base = smaller === undefined ? null : await provideFinishedRuns(bench, smaller);
  bench.note(`making ${runs} finished runs, once for this bundle`);
  const unfinished = join(bench.root, `unfinished-${runs}`);
  mkdirSync(unfinished);
  try {
    const data = join(unfinished, 'data');
    if (base !== null) {
      cpSync(base, data, { recursive: true });
    }
    const options = {
      library: libraryFile(bench),
      data,
      runDirectory: join(unfinished, 'run'),
      package: writeChainPackage(unfinished, 8),
      runs: runs - (smaller ?? 0),
    };
    await runProgram('finished-runs.cjs', options, { limitMs: makeMsMax });
    renameSync(data, folder);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
  return folder;
}

/** The folder of this bundle; those of other bundles go. */
function openCache(bench: Bench): string {
  const all = join(bench.scratch, 'finished-runs');
  const own = sha256(readFileSync(bundleFile(bench))).slice(0, 16);
  mkdirSync(join(all, own), { recursive: true });
  for (const name of readdirSync(all).filter((other) => other !== own)) {
    rmSync(join(all, name), { recursive: true });
  }
  return join(all, own);
}
