// The frontier against its slow reference: every graph of up to five steps, and random ones up to 128.
import fc from 'fast-check';
import t from 'tap';
import { decideFrontier, type FrontierDecision } from '../../src/core/frontier.ts';
import type { Plan } from '../../src/core/plan.ts';
import type { RunStatus, StepStatus } from '../../src/core/states.ts';
import { shapesUpTo } from './arbitraries.ts';
import {
  type Answer,
  plainPlan,
  possibleStatuses,
  referenceFrontier,
  rowsOf,
  runningOrder,
  type Statuses,
} from './frontier-reference.ts';
import type { Shape } from './samples.ts';

/** Every acyclic graph over the first `size` letters, as what each letter needs. */
function* graphsOf(size: number): Generator<Shape> {
  const keys = 'abcde'.slice(0, size).split('');
  const subsets = Array.from({ length: 2 ** size }, (_, mask) => keys.filter((__, at) => mask & (1 << at)));
  const masks: number[] = Array(size).fill(0);
  const isAcyclic = () => {
    let left = 2 ** size - 1;
    for (let before = -1; before !== left; ) {
      before = left;
      masks.forEach((mask, at) => {
        left &= (mask & left) === 0 ? ~(1 << at) : -1;
      });
    }
    return left === 0;
  };
  function* choose(at: number): Generator<Shape> {
    if (at === size) {
      if (isAcyclic()) {
        yield Object.fromEntries(keys.map((key, index) => [key, subsets[masks[index]!]!]));
      }
      return;
    }
    for (let mask = 0; mask < 2 ** size; mask += 1) {
      if ((mask & (1 << at)) === 0) {
        masks[at] = mask;
        yield* choose(at + 1);
      }
    }
  }
  yield* choose(0);
}

/** Every state in which a run of this shape can be. */
function* statesOf(shape: Shape, order: readonly string[], known: Statuses = {}): Generator<Statuses> {
  const key = order[Object.keys(known).length];
  if (key === undefined) {
    yield known;
    return;
  }
  for (const status of possibleStatuses(shape[key]!.map((need) => known[need]!))) {
    yield* statesOf(shape, order, { ...known, [key]: status });
  }
}

/** One of those states: `choose` takes a number below its argument. Half of what can have succeeded has. */
function pickState(shape: Shape, order: readonly string[], choose: (below: number) => number): Statuses {
  const picked: Record<string, StepStatus> = {};
  for (const key of order) {
    const possible = possibleStatuses(shape[key]!.map((need) => picked[need]!));
    const hasSucceeded = possible.includes('succeeded') && choose(2) === 0;
    picked[key] = hasSucceeded ? 'succeeded' : possible[choose(possible.length)]!;
  }
  return picked;
}

const active: readonly StepStatus[] = ['ready', 'running', 'lost', 'waiting_approval'];

/** `running` stands for every status in which a step neither waits for its needs nor has ended. */
function varyActive(statuses: Statuses, from: number): Statuses {
  let next = from;
  const vary = (status: StepStatus) => (status === 'running' ? active[next++ % active.length]! : status);
  return Object.fromEntries(Object.entries(statuses).map(([key, status]) => [key, vary(status)]));
}

function movesOf(plan: Plan, decision: FrontierDecision): readonly string[] {
  const keyOf = new Map(plan.steps.map((step) => [step.stepRunId, step.stepKey]));
  const events = decision.kind === 'advanced' || decision.kind === 'terminal' ? decision.events : [];
  return events.map(({ type, stepRunId }) => {
    const [noun, verb] = type.split('.');
    return noun === 'step' ? `${keyOf.get(stepRunId!)} ${verb === 'readied' ? 'ready' : verb}` : `end ${verb}`;
  });
}

/** Everything that a decision says, as one text; and what it must say. */
function describe(plan: Plan, decision: FrontierDecision): string {
  const keyOf = new Map(plan.steps.map((step) => [step.stepRunId, step.stepKey]));
  const ready = 'readyStepRunIds' in decision ? decision.readyStepRunIds.map((id) => keyOf.get(id)) : null;
  const status = 'status' in decision ? decision.status : null;
  return JSON.stringify([decision.kind, movesOf(plan, decision), ready, status]);
}

function expectedDescription({ moves, after, end }: Answer): string {
  if (end !== null) {
    return JSON.stringify(['terminal', [...moves, `end ${end}`], null, end]);
  }
  const ready = Object.keys(after).filter((key) => after[key] === 'ready');
  return JSON.stringify([moves.length > 0 ? 'advanced' : 'unchanged', moves, ready.sort(), null]);
}

/** Null if frontier and reference agree here, and a second pass writes nothing. */
function disagreement(shape: Shape, plan: Plan, before: Statuses, options: { isAgain: boolean }): string | null {
  const answer = referenceFrontier(shape, before);
  const said = describe(plan, decideFrontier(plan, rowsOf(plan, before)));
  const expected = expectedDescription(answer);
  if (said !== expected) {
    return `${JSON.stringify({ shape, before })}\n  frontier  ${said}\n  reference ${expected}`;
  }
  if (options.isAgain) {
    const run = answer.end === null ? {} : { status: answer.end as RunStatus, finishedAtMs: 1 };
    const again = decideFrontier(plan, rowsOf(plan, answer.after, run)).kind;
    if (again !== (answer.end === null ? 'unchanged' : 'settled')) {
      return `${JSON.stringify({ shape, before })}: advanced again, it says ${again}`;
    }
  }
  return null;
}

t.test(
  'for every graph of up to four steps and every state that it can be in, it answers as the reference',
  async (t) => {
    const counts = [0, 0, 0, 0];
    let states = 0;
    for (const size of [1, 2, 3, 4]) {
      for (const shape of graphsOf(size)) {
        const plan = plainPlan(shape);
        counts[size - 1]! += 1;
        for (const state of statesOf(shape, runningOrder(shape)!)) {
          states += 1;
          const fault = disagreement(shape, plan, varyActive(state, states), { isAgain: states % 8 === 0 });
          if (fault !== null) {
            t.fail(fault);
            return;
          }
        }
      }
    }
    // The numbers of labelled acyclic graphs (OEIS A003024): none was left out.
    t.same(counts, [1, 3, 25, 543]);
    t.equal(states, 55_960);
  },
);

t.test(
  'for every graph of five steps, in two of the states that it can be in, it answers as the reference',
  async (t) => {
    let seed = 20_260_730;
    const choose = (below: number) => {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
      return (seed >>> 8) % below;
    };
    let count = 0;
    for (const shape of graphsOf(5)) {
      const plan = plainPlan(shape);
      const order = runningOrder(shape)!;
      count += 1;
      for (const turn of [0, 1]) {
        const state = varyActive(pickState(shape, order, choose), count);
        const fault = disagreement(shape, plan, state, { isAgain: turn === 1 && count % 8 === 0 });
        if (fault !== null) {
          t.fail(fault);
          return;
        }
      }
    }
    t.equal(count, 29_281);
  },
);

t.test(
  'for random graphs of up to 128 steps it answers as the reference, and a second pass writes nothing',
  async () => {
    const numbersOf = fc.array(fc.nat(), { minLength: 300, maxLength: 300 });
    fc.assert(
      fc.property(shapesUpTo(128), numbersOf, (shape, numbers) => {
        let used = 0;
        const choose = (below: number) => numbers[used++ % numbers.length]! % below;
        const state = varyActive(pickState(shape, runningOrder(shape)!, choose), numbers[0]!);
        const fault = disagreement(shape, plainPlan(shape), state, { isAgain: true });
        if (fault !== null) {
          throw new RangeError(fault);
        }
      }),
      { numRuns: 150 },
    );
  },
);
