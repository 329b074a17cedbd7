// What is said at the end of a run: how it ended, which steps failed and why, and what to do next. Pure.
import type { RunInspection, StepInspection } from '../runtime/inspection.ts';
import { type Line, piece } from './line.ts';
import { describeRun, elapsedOf, reasonOf } from './step-state.ts';
import { formatCount } from './times.ts';
import { countStatuses } from './window.ts';

const badEnds: readonly StepInspection['status'][] = ['failed', 'timed_out', 'lost'];

/** The steps that are why a run did not succeed. */
export function failedSteps({ steps }: Pick<RunInspection, 'steps'>): readonly StepInspection[] {
  return steps.filter(({ status }) => badEnds.includes(status));
}

/** `failed: blocklist/refresh, 5 steps (3 succeeded, 1 failed, 1 skipped) in 2.3s`. */
export function resultLine({ run, steps }: Pick<RunInspection, 'run' | 'steps'>, nowMs: number): Line {
  const { word, tone } = describeRun(run);
  const isPlain = steps.every(({ status }) => status === 'succeeded');
  const counts = isPlain ? '' : ` (${countStatuses(steps.map(({ status }) => status))})`;
  return [
    piece(word, tone),
    piece(`: ${run.packageName}/${run.workflowId}, ${formatCount(steps.length, 'step')}${counts}`),
    piece(` in ${elapsedOf(run, nowMs)}`),
  ];
}

/** `step merge failed: exit code 3`. */
export function failureLine(step: StepInspection): Line {
  const reason = reasonOf(step);
  const what = `step ${step.stepKey} ${step.status.replaceAll('_', ' ')}`;
  return [piece(what, 'red'), piece(reason === null ? '' : `: ${reason}`)];
}

/** Commands that show more; `self` is how this program is called. */
export function nextSteps(inspection: RunInspection, self: string): readonly string[] {
  const { run } = inspection;
  const [failed] = failedSteps(inspection);
  if (run.status === 'succeeded' || run.status === 'running') {
    return [];
  }
  return [
    ...(failed === undefined ? [] : [`its output: ${self} runs logs ${run.id} ${failed.stepKey}`]),
    `all of it:  ${self} runs show ${run.id}`,
  ];
}
