// What is said at the end of a run: how it ended, which steps failed and why, and what to do next. Pure.
import type { RunInspection, StepInspection } from '../runtime/inspection.ts';
import { type Line, piece } from './line.ts';
import { hintRunId } from './run-id.ts';
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

/** The command that shows what the first failed step wrote; null where none wrote anything that is kept. */
export function outputHint(inspection: RunInspection, self: string): string | null {
  const failed = failedSteps(inspection).find(hasOutput);
  return failed === undefined
    ? null
    : `its output: ${self} runs logs ${hintRunId(inspection.run.id)} ${failed.stepKey}`;
}

/** Of a lost attempt nobody can say, and what was found of its output is kept. */
function hasOutput({ attempts }: StepInspection): boolean {
  const last = attempts.at(-1);
  return (
    last !== undefined &&
    last.executorType === 'process' &&
    (last.outputBytes === null ? last.status === 'lost' : last.outputBytes > 0)
  );
}

/** Commands that show more of a run that did not succeed; `self` is how this program is called. */
export function nextSteps(inspection: RunInspection, self: string): readonly string[] {
  const { id, status } = inspection.run;
  if (status === 'succeeded' || status === 'running') {
    return [];
  }
  const hint = outputHint(inspection, self);
  return [...(hint === null ? [] : [hint]), `everything: ${self} runs show ${hintRunId(id)}`];
}
