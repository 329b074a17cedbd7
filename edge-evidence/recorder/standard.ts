// What an uncut recording says that every cut of it must leave: the facts after each commit, what was acknowledged by
// when, and each of the product's own files as it came to be, whole, under its name.
import { basename } from 'node:path';
import type { Judged } from '../database.ts';
import { databaseOf } from '../operation.ts';
import { watchCommits } from './commits.ts';
import { Disk, type Image, liveImage } from './disk.ts';
import { digestEntry, digestImage, subImage } from './image.ts';
import type { Recorded } from './record.ts';
import type { Call } from './recording.ts';

/** Where a file, or a package's whole directory, is another one from `from` calls on; null: it is gone. */
type Version = { readonly from: number; readonly digest: string | null };

export type Standard = {
  /** Before the first commit, and after each. */
  readonly facts: readonly string[];
  /** Lock digests of the packages whose workflows can be started, by commit. */
  readonly needed: readonly (readonly string[])[];
  /** Commits that are complete when the first n calls are made, for each n from 0. */
  readonly commitsAt: readonly number[];
  /** How many calls there are up to the last answer or start among the first n; 0 where there is none. */
  readonly acknowledgedAt: readonly number[];
  readonly versions: ReadonlyMap<string, readonly Version[]>;
};

/** Of a database. */
export type Row = Readonly<Record<string, unknown>>;

export type Query = {
  /** Without this table there are no rows: a database may be half made. */
  readonly table: string;
  readonly sql: string;
};

/** How the databases of images are judged and read. */
export type Judge = {
  readonly judge: (image: Image) => Judged;
  /** Rows of a database that is sound. */
  readonly query: (image: Image, asked: Query) => readonly Row[];
};

const startable = {
  table: 'AutomationPublicationHeads',
  sql: `SELECT p.lockDigest FROM AutomationPublicationHeads AS h
          JOIN AutomationPublications AS p ON p.publicationDigest = h.publicationDigest WHERE p.state = 'active'`,
};

// What is judged as a database, what is only there for a moment, and what means nothing after a reboot.
const leftOut =
  /^data\/(qinglong\.db(-journal|-wal|-shm)?|lock\.db.*|holder\.json|run-directory|probe-.*|.*\.partial(\/.*)?)$/;
const packageFile = /^data\/packages\/[^/]+/;

/** The product's own files in an image, each with what it is; a package's directory is one of them. */
export function digestUnits(image: Image): ReadonlyMap<string, string> {
  const units = new Map<string, string>();
  for (const [path, entry] of image) {
    const name = packageFile.exec(path)?.[0];
    if (!path.startsWith('data/') || leftOut.test(path) || (name !== undefined && leftOut.test(name))) {
      continue;
    }
    if (name !== undefined && !units.has(name)) {
      units.set(name, digestImage(subImage(image, name) ?? new Map()));
    } else if (name === undefined && entry.kind !== 'directory') {
      units.set(path, digestEntry(entry));
    }
  }
  return units;
}

// Only with these does a file come under the name that counts, or go: one that was written where it stands would never
// be a version, and every cut in it a trouble.
const namingCalls: readonly Call['kind'][] = ['rename', 'link', 'symlink', 'unlink', 'rmdir'];

export function readStandard({ site, before, calls }: Recorded, judge: Judge): Standard {
  const disk = new Disk(site.root, before);
  const watch = watchCommits(disk, databaseOf(site));
  const versions = new Map<string, Version[]>();
  const facts: string[] = [];
  const needed: (readonly string[])[] = [];
  const commitsAt = [0];
  const acknowledgedAt = [0];
  const noteCommit = () => {
    const image = liveImage(disk);
    facts.push(judge.judge(image).facts);
    needed.push(judge.query(image, startable).map(({ lockDigest }) => printDigest(lockDigest)));
  };
  noteCommit();
  noteVersions(versions, digestUnits(before), 0);
  for (const [index, call] of calls.entries()) {
    const completes = watch.completes(call);
    disk.apply(call);
    if (completes) {
      noteCommit();
    }
    if (namingCalls.includes(call.kind)) {
      noteVersions(versions, digestUnits(liveImage(disk)), index + 1);
    }
    const isAcknowledgement = call.kind === 'answer' || call.kind === 'start';
    commitsAt.push(facts.length - 1);
    acknowledgedAt.push(isAcknowledgement ? index + 1 : (acknowledgedAt.at(-1) ?? 0));
  }
  return { facts, needed, commitsAt, acknowledgedAt, versions };
}

function printDigest(value: unknown): string {
  return value instanceof Uint8Array ? Buffer.from(value).toString('hex') : `${value}`;
}

function noteVersions(versions: Map<string, Version[]>, units: ReadonlyMap<string, string>, from: number): void {
  for (const [path, digest] of units) {
    const known = versions.get(path) ?? (from === 0 ? [] : [{ from: 0, digest: null }]);
    versions.set(path, known.at(-1)?.digest === digest ? known : [...known, { from, digest }]);
  }
  for (const [path, known] of versions) {
    if (!units.has(path) && known.at(-1)?.digest !== null) {
      versions.set(path, [...known, { from, digest: null }]);
    }
  }
}

/** What a cut after the first `calls` calls may have left. */
export type Cut = {
  readonly calls: number;
  /** Complete commits that may be taken back; 0 but for a durability that does not promise them. */
  readonly lostMax: number;
};

export type Verdict = {
  /** Which of the standard's facts these are; -1 for none of them. */
  readonly commit: number;
  /** Acknowledged commits that are gone. */
  readonly lost: number;
  readonly trouble: readonly string[];
};

/** Judges what a cut has left. */
export function judgeCut(standard: Standard, image: Image, judge: Judge, { calls, lostMax }: Cut): Verdict {
  const { facts, trouble } = judge.judge(image);
  const acknowledged = standard.acknowledgedAt[calls] ?? 0;
  const [least, most] = [standard.commitsAt[acknowledged] ?? 0, standard.commitsAt[calls] ?? 0];
  // The latest that it can be: two commits may have the same facts.
  const commit = standard.facts.lastIndexOf(facts, most);
  const lost = commit < 0 ? 0 : Math.max(0, least - commit);
  // What followed a commit that is taken back was done all the same: files that it made needless are gone.
  const isTakenBack = lostMax > 0 && commit < most;
  const needed = commit < 0 || isTakenBack ? [] : (standard.needed[commit] ?? []);
  return {
    commit,
    lost,
    trouble: [
      ...trouble,
      ...(commit < 0 && trouble.length === 0 ? ['its facts are those of no commit'] : []),
      ...(lost > lostMax ? [`${lost} acknowledged commits are gone`] : []),
      ...findUnitTrouble(standard, image, { calls, acknowledged, needed }),
      ...findMarkerTrouble(image),
    ],
  };
}

type Span = { readonly calls: number; readonly acknowledged: number; readonly needed: readonly string[] };

function findUnitTrouble(standard: Standard, image: Image, span: Span): readonly string[] {
  const units = digestUnits(image);
  const paths = new Set([...units.keys(), ...standard.versions.keys()]);
  return [...paths].flatMap((path) => {
    const digest = units.get(path) ?? null;
    const versions = standard.versions.get(path) ?? [];
    const isWhole = versions.some((version) => version.digest === digest);
    if (packageFile.test(path)) {
      // One that nobody can start from is removed at the next start, or compared and mended when it is installed.
      const isNeeded = span.needed.includes(basename(path));
      return isNeeded && (digest === null || !isWhole) ? [`${path} can be started from, and is not whole`] : [];
    }
    if (!isWhole) {
      return [`${path} is half of what it should be`];
    }
    return isInForce(versions, digest, span) ? [] : [`${path} is not what was acknowledged`];
  });
}

/**
 * Whether a version was in force between the last acknowledgement and the cut. That a file stays away is promised of
 * none: one that comes back is removed at the next start.
 */
function isInForce(versions: readonly Version[], digest: string | null, { calls, acknowledged }: Span): boolean {
  const isGone = versions.findLast(({ from }) => from <= acknowledged)?.digest === null;
  return versions.some((version, index) => {
    const end = versions[index + 1]?.from ?? Number.POSITIVE_INFINITY;
    return version.digest === digest && version.from <= calls && (end > acknowledged || isGone);
  });
}

/** The marker tells a fresh directory from a lost database: it has to tell the truth after every cut. */
function findMarkerTrouble(image: Image): readonly string[] {
  const marker = image.get('data/qinglong.db.marker');
  const database = image.get('data/qinglong.db');
  const isEmpty = database?.kind !== 'file' || database.bytes.length === 0;
  if (marker?.kind !== 'file') {
    return isEmpty ? [] : ['there is a database without its marker'];
  }
  return isEmpty && marker.bytes.includes('"made"')
    ? ['the marker says that there is a database, and there is none']
    : [];
}
