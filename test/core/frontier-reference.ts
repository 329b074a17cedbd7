// The frontier once more, slow and written from the two seed records and the design alone; and the states in which a
// run of a given shape can be. Statuses here are plain maps by step key.
import type { Plan } from '../../src/core/plan.ts';
import type { RunRows, StepRun } from '../../src/core/records.ts';
import type { StepStatus } from '../../src/core/states.ts';
import { admitStory, changeRun, changeStep, planOf, type Shape, sampleTarget } from './samples.ts';

export type Statuses = Readonly<Record<string, StepStatus>>;
export type Answer = { readonly moves: readonly string[]; readonly after: Statuses; readonly end: string | null };

const succeedsNever: readonly StepStatus[] = ['failed', 'skipped', 'cancelled', 'timed_out'];
const ends: readonly StepStatus[] = [...succeedsNever, 'succeeded'];

/** Everything that a step needs, directly or through others, by adding needs until nothing new comes. */
function ancestorsOf(shape: Shape, stepKey: string): ReadonlySet<string> {
  const found = new Set(shape[stepKey]);
  for (let size = -1; size !== found.size; ) {
    size = found.size;
    for (const key of [...found]) {
      for (const need of shape[key]!) {
        found.add(need);
      }
    }
  }
  return found;
}

export function referenceFrontier(shape: Shape, before: Statuses): Answer {
  const after: Record<string, StepStatus> = { ...before };
  const moves: string[] = [];
  for (const key of Object.keys(shape).sort()) {
    if (before[key] !== 'pending') {
      continue;
    }
    if ([...ancestorsOf(shape, key)].some((ancestor) => succeedsNever.includes(before[ancestor]!))) {
      after[key] = 'skipped';
    } else if (shape[key]!.every((need) => before[need] === 'succeeded')) {
      after[key] = 'ready';
    } else {
      continue;
    }
    moves.push(`${key} ${after[key]}`);
  }
  const all = Object.values(after);
  if (!all.every((status) => ends.includes(status))) {
    return { moves, after, end: null };
  }
  const worst = (['failed', 'skipped', 'timed_out', 'cancelled'] as const).find((status) => all.includes(status));
  return { moves, after, end: worst === undefined ? 'succeeded' : worst === 'skipped' ? 'failed' : worst };
}

/** What a step can be, given what its needs are: the frontier may not have looked yet, so it may still be pending. */
export function possibleStatuses(needs: readonly StepStatus[]): readonly StepStatus[] {
  if (needs.every((status) => status === 'succeeded')) {
    const moved: readonly StepStatus[] = ['running', 'succeeded', 'failed', 'cancelled', 'timed_out'];
    return needs.length === 0 ? moved : ['pending', ...moved];
  }
  return needs.some((status) => succeedsNever.includes(status)) ? ['pending', 'skipped'] : ['pending'];
}

/** The steps of a shape so that each comes after its needs; null where a cycle forbids that. */
export function runningOrder(shape: Shape): readonly string[] | null {
  const order: string[] = [];
  const keys = Object.keys(shape);
  while (order.length < keys.length) {
    const next = keys.find((key) => !order.includes(key) && shape[key]!.every((need) => order.includes(need)));
    if (next === undefined) {
      return null;
    }
    order.push(next);
  }
  return order;
}

const template = admitStory(planOf({ a: [] }));
const templateStep = [...template.rows.steps.values()][0]!;
const sealedSteps = new Map<string, StepRun>();

/** A StepRun of `plan` in this status, sealed. Kept, because exhaustive tests need the same few again and again. */
function stepRunOf({ stepRunId, stepKey }: Plan['steps'][number], status: StepStatus): StepRun {
  const name = `${stepRunId} ${status}`;
  let step = sealedSteps.get(name);
  if (step === undefined) {
    step = changeStep(templateStep, { id: stepRunId, stepKey, status });
    sealedSteps.set(name, step);
  }
  return step;
}

// The frontier takes a normalized plan at its word, so one digest stands for all of them here.
const plainDigest = template.plan.planDigest;
export const plainRun = template.rows.run;

/** The plan of a shape, not sealed for itself: cheap enough for a hundred thousand of them. */
export function plainPlan(shape: Shape): Plan {
  return { ...planOf(shape), planDigest: plainDigest, target: sampleTarget };
}

export function rowsOf(plan: Plan, statuses: Statuses, change: Partial<RunRows['run']> = {}): RunRows {
  const run = Object.keys(change).length === 0 ? plainRun : changeRun(plainRun, change);
  const steps = plan.steps.map((step) => stepRunOf(step, statuses[step.stepKey]!));
  return { run, steps: new Map(steps.map((step) => [step.id, step])), attempts: new Map() };
}
