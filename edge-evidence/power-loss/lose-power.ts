// One operation in one mode, with the power cut at every point: each disk that is looked at is judged, and some of them
// are carried on by the bundle.
import { createRandom, type Random } from '../random.ts';
import { findReturnTrouble } from '../recorder/carry-on.ts';
import type { Image } from '../recorder/disk.ts';
import { createJudge } from '../recorder/judge.ts';
import { type Recorded, recordSubject, type Subject } from '../recorder/record.ts';
import { describeCall } from '../recorder/recording.ts';
import { type Judge, judgeCut, readStandard, type Standard } from '../recorder/standard.ts';
import { Tally } from '../recorder/tally.ts';
import type { Scenario } from '../report.ts';
import { type Bounds, listStates, type State } from './states.ts';

export type PowerLoss = {
  readonly subject: Subject;
  /** Of a control: what it shows. */
  readonly control: string | null;
  readonly seed: number;
  readonly ripe: Bounds;
  readonly between: Bounds;
  /** Disks that the bundle carries on from, drawn from all of them. */
  readonly returns: number;
};

/** Acknowledged commits that a cut may take back: with FULL in DELETE mode the last one, until the next begins. */
const lostMaxOf = { 'delete-extra': 0, 'delete-full': 1, 'wal-full': 0 } as const;

export async function losePower({ subject, control, ...options }: PowerLoss): Promise<Scenario> {
  const { operation, mode } = subject;
  const tally = new Tally();
  const recorded = await recordSubject(subject);
  const judge = createJudge(`${subject.scratch}/judged`);
  const standard = readStandard(recorded, judge);
  const random = createRandom(options.seed).fork(`${operation.name}/${mode}`);
  const cutting = { recorded, standard, judge, tally, random, lostMax: lostMaxOf[mode], ...options };
  const { figures, drawn } = judgeStates(cutting);
  for (const { image, calls } of control === null ? drawn : []) {
    const trouble = await findReturnTrouble(subject, { image, recorded, judge, isRebooted: true });
    tally.add(trouble, () => `carried on, ${describeCut(recorded, calls)}`);
  }
  const isFailed = tally.failures.length > 0;
  return {
    name: control ?? operation.name,
    mode,
    isControl: control !== null,
    passed: isFailed === (control !== null),
    figures: {
      calls: recorded.calls.length,
      commits: standard.facts.length - 1,
      ...figures,
      troubledDisks: tally.cuts,
      carriedOn: control === null ? drawn.length : 0,
    },
    failures: tally.failures,
  };
}

type Cutting = Pick<PowerLoss, 'ripe' | 'between' | 'returns'> & {
  readonly recorded: Recorded;
  readonly standard: Standard;
  readonly judge: Judge;
  readonly tally: Tally;
  readonly random: Random;
  readonly lostMax: number;
};

type Drawn = { readonly image: Image; readonly calls: number };

function judgeStates({ recorded, standard, judge, tally, random, lostMax, returns, ...bounds }: Cutting) {
  const drawn = new Reservoir(returns, random.fork('returns'));
  let [tried, disks, lost] = [0, 0, 0];
  const options = { ...bounds, random, acknowledgedAt: standard.acknowledgedAt };
  for (const { image, calls, isNew } of listStates(recorded, options)) {
    const verdict = judgeCut(standard, image, judge, { calls, lostMax });
    tally.add(verdict.trouble, () => describeCut(recorded, calls));
    tried += 1;
    disks += isNew ? 1 : 0;
    lost += verdict.lost > 0 ? 1 : 0;
    if (verdict.trouble.length === 0) {
      drawn.offer({ image, calls });
    }
  }
  return { figures: { tried, distinctDisks: disks, disksWithLostCommits: lost }, drawn: drawn.kept };
}

/** So many of a list whose length nobody knows yet, each with the same chance. */
class Reservoir {
  readonly kept: Drawn[] = [];
  readonly #random: Random;
  readonly #size: number;
  #offered = 0;

  constructor(size: number, random: Random) {
    this.#size = size;
    this.#random = random;
  }

  offer(entry: Drawn): void {
    this.#offered += 1;
    const place = this.kept.length < this.#size ? this.kept.length : this.#random.between(0, this.#offered - 1);
    if (place < this.#size) {
      this.kept[place] = entry;
    }
  }
}

function describeCut({ calls, site }: Recorded, count: State['calls']): string {
  const next = calls[count];
  return next === undefined ? 'cut behind the last call' : `cut before ${describeCall(next, site.root)}`;
}
