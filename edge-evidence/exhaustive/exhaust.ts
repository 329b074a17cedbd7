// One operation in one mode, killed at every call: each window judged by replay, some carried on by the bundle, one or
// more confirmed by a real kill.
import { EvidenceError } from '../operation.ts';
import { findReturnTrouble } from '../recorder/carry-on.ts';
import { Disk, type Image } from '../recorder/disk.ts';
import { compareImages, digestImage } from '../recorder/image.ts';
import { createJudge } from '../recorder/judge.ts';
import { type Recorded, recordSubject, type Subject } from '../recorder/record.ts';
import { describeCall } from '../recorder/recording.ts';
import { type Judge, judgeCut, readStandard, type Standard } from '../recorder/standard.ts';
import { Tally } from '../recorder/tally.ts';
import type { Scenario } from '../report.ts';
import { findKillTrouble } from './real-kills.ts';
import { listWindows, type Window } from './windows.ts';

export type Exhaustion = {
  readonly subject: Subject;
  /** Disks that the bundle carries on from: one of each sort, of so many sorts at equal distances. */
  readonly returnsMax: number;
  readonly realKills: number;
};

export async function exhaustSubject({ subject, returnsMax, realKills }: Exhaustion): Promise<Scenario> {
  const tally = new Tally();
  const recorded = await recordSubject(subject);
  const judge = createJudge(`${subject.scratch}/judged`);
  const standard = readStandard(recorded, judge);
  const { disks, sorts, windows, torn } = judgeWindows({ recorded, standard, judge, tally });
  const chosen = spread(sorts, returnsMax);
  for (const { image, calls } of chosen) {
    const trouble = await findReturnTrouble(subject, { image, recorded, judge, isRebooted: false });
    tally.add(trouble, () => `carried on ${describeWindow(recorded, calls)}`);
  }
  const numbers = spread(
    recorded.calls.map(({ number }) => number),
    realKills + 2,
  ).slice(1, -1);
  for (const [index, number] of numbers.entries()) {
    const when = index % 2 === 0 ? 'before' : 'after';
    tally.add(await findKillTrouble(subject, { number, when, recorded, standard, judge }), () => 'a real kill');
  }
  return {
    name: subject.operation.name,
    mode: subject.mode,
    isControl: false,
    passed: tally.failures.length === 0,
    figures: {
      calls: recorded.calls.length,
      commits: standard.facts.length - 1,
      windows,
      tornWindows: torn,
      distinctDisks: disks,
      sortsOfDisks: sorts.length,
      carriedOn: chosen.length,
      realKills: numbers.length,
    },
    failures: tally.failures,
  };
}

type Judging = {
  readonly recorded: Recorded;
  readonly standard: Standard;
  readonly judge: Judge;
  readonly tally: Tally;
};

type Sample = Pick<Window, 'image' | 'calls'>;

type Judged = {
  /** With different contents. */
  readonly disks: number;
  /** The first disk of each sort: with the same files, which come to the same commit. */
  readonly sorts: readonly Sample[];
  readonly windows: number;
  readonly torn: number;
};

function judgeWindows({ recorded, standard, judge, tally }: Judging): Judged {
  const digests = new Set<string>();
  const sorts = new Map<string, Sample>();
  let [windows, torn] = [0, 0];
  let last: Image = new Map();
  for (const { image, calls, isTorn } of listWindows(new Disk(recorded.site.root, recorded.before), recorded.calls)) {
    [windows, torn, last] = [windows + 1, torn + (isTorn ? 1 : 0), image];
    const { commit, trouble } = judgeCut(standard, image, judge, { calls, lostMax: 0 });
    // A kill leaves every call that was made: nothing but the commits that are complete, and all of them.
    const expected = standard.commitsAt[calls] ?? 0;
    const isExact = commit < 0 || standard.facts[commit] === standard.facts[expected];
    const found = isExact ? trouble : [...trouble, `commit ${commit} is found instead of ${expected}`];
    tally.add(found, () => `${isTorn ? 'torn ' : ''}${describeWindow(recorded, calls)}`);
    digests.add(digestImage(image));
    const sort = `${commit} ${[...image.keys()].sort().join()}`;
    if (!sorts.has(sort)) {
      sorts.set(sort, { image, calls });
    }
  }
  checkReplay(recorded, last);
  return { disks: digests.size, sorts: [...sorts.values()], windows, torn };
}

/** A replay that does not end where the execution ended judges disks that never were. */
function checkReplay({ after }: Recorded, last: Image): void {
  const isPlain = ([path]: readonly [string, unknown]) => path !== 'trace' && !path.endsWith('-shm');
  const differences = compareImages(new Map([...last].filter(isPlain)), new Map([...after].filter(isPlain)));
  if (differences.length > 0) {
    throw new EvidenceError(`the recording replays to another disk: ${differences.join('; ')}`);
  }
}

function describeWindow({ calls, site }: Recorded, count: number): string {
  const next = calls[count];
  return next === undefined ? 'behind the last call' : `before ${describeCall(next, site.root)}`;
}

/** So many of a list, at equal distances, the first and the last among them. */
export function spread<T>(list: readonly T[], count: number): readonly T[] {
  if (list.length <= count) {
    return list;
  }
  return Array.from({ length: count }, (_, index) => list[Math.round((index * (list.length - 1)) / (count - 1))]!);
}
