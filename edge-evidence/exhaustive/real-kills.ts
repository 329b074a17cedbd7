// Real kills, as a confirmation of those that are replayed: the process is killed by the shim at one call, and the
// folder that it leaves must be, byte for byte, the disk that its own recording replays to. Left out of the comparison:
// shared memory of a WAL (a map, not written by calls), and what commands of the package note, who are not watched.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { runBundle } from '../operation.ts';
import { findEndTrouble } from '../recorder/carry-on.ts';
import { Disk, type Image, liveImage, withoutSharedMemory } from '../recorder/disk.ts';
import { compareImages } from '../recorder/image.ts';
import { type Recorded, readSite, restoreSite, type Subject, watchOf } from '../recorder/record.ts';
import { type Call, readRecording } from '../recorder/recording.ts';
import { type Judge, judgeCut, readStandard, type Standard } from '../recorder/standard.ts';

export type RealKill = {
  readonly number: number;
  readonly when: 'before' | 'after';
  readonly recorded: Recorded;
  readonly standard: Standard;
  readonly judge: Judge;
};

/** Kills once for real, compares, and lets the bundle come back to it. What is wrong, one line each. */
export async function findKillTrouble(subject: Subject, kill: RealKill): Promise<readonly string[]> {
  const { number, when, recorded } = kill;
  const site = restoreSite(subject);
  const log = join(subject.scratch, 'killed-calls');
  rmSync(log, { force: true });
  const env = watchOf(subject, { log, kill: { number, when } });
  const { signal, code } = await runBundle(site, subject.operation.act(site), { env });
  // Some tools let a process live that they say they have killed.
  if (signal !== 'SIGKILL') {
    return [`killed ${when} call ${number}, it ended with ${signal ?? code} instead of SIGKILL`];
  }
  // Commands go on meanwhile, as they do after any kill: the disk is not theirs.
  const calls = readRecording(log);
  const found = plain(readSite(site));
  const trouble = [
    ...compareCount(calls, kill),
    ...compareReplay(found, calls, kill),
    ...compareUncut(found, calls, kill),
    ...(await findEndTrouble(subject, site, { recorded, isRebooted: false })),
  ];
  return trouble.map((what) => `killed ${when} call ${number}: ${what}`);
}

function plain(image: Image): Image {
  return new Map([...withoutSharedMemory(image)].filter(([path]) => path !== 'trace'));
}

function compareCount(calls: readonly Call[], { number, when }: RealKill): readonly string[] {
  const expected = when === 'before' ? number - 1 : number;
  return calls.length === expected ? [] : [`${calls.length} calls are recorded instead of ${expected}`];
}

/** Byte for byte with the disk that its own calls replay to, and judged as that is. */
function compareReplay(found: Image, calls: readonly Call[], { recorded, judge }: RealKill): readonly string[] {
  const standard = readStandard({ ...recorded, calls }, judge);
  const { commit, trouble } = judgeCut(standard, found, judge, { calls: calls.length, lostMax: 0 });
  const differences = compareImages(found, plain(replay(recorded, calls)));
  return [
    ...trouble,
    ...differences.map((what) => `it replays to another disk: ${what}`),
    ...(standard.facts[commit] === standard.facts.at(-1) ? [] : [`commit ${commit} is found, which is not the last`]),
  ];
}

/** With the uncut execution, which has ids and times of its own, as far as that made the same calls. */
function compareUncut(
  found: Image,
  calls: readonly Call[],
  { recorded, standard, judge }: RealKill,
): readonly string[] {
  const uncut = recorded.calls.slice(0, calls.length);
  const isSame = uncut.every(({ kind, path }, index) => {
    const own = calls[index];
    return kind === own?.kind && unnamed(path) === unnamed(own.path);
  });
  if (!isSame) {
    // Processes that end a moment sooner or later: what they are is compared with their own calls alone.
    return [];
  }
  const files = namesOf(plain(replay(recorded, uncut)));
  const isEqual = judge.judge(found).facts === standard.facts[standard.commitsAt[calls.length] ?? 0];
  return [
    ...(isEqual ? [] : ['its facts are not those of the uncut execution']),
    ...(files === namesOf(found) ? [] : [`there is ${namesOf(found)} instead of ${files}`]),
  ];
}

function replay({ site, before }: Recorded, calls: readonly Call[]): Image {
  const disk = new Disk(site.root, before);
  for (const call of calls) {
    disk.apply(call);
  }
  return liveImage(disk);
}

function namesOf(image: Image): string {
  return [...image.keys()].map(unnamed).sort().join(', ');
}

/** Names of files differ by pid and by the ids of runs. */
function unnamed(path: string): string {
  return path.replaceAll(/probe-\d+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[a-z]{2}_[0-9a-f]{32}/g, '#');
}
