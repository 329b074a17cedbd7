// Which attempts' output is asked for, and how one of them is named. Pure.
import type { AttemptInspection, RunInspection, StepInspection } from '../runtime/inspection.ts';
import { attemptWord } from './step-state.ts';

/** One attempt of a step. */
export type LogEntry = {
  readonly stepKey: string;
  /** Counted from 1 within the step. */
  readonly ordinal: number;
  readonly attempt: AttemptInspection;
};

/** Of one step or of all, and of each the last attempt or a certain one. */
export type Selection = { readonly stepKey: string | null; readonly ordinal: number | null };

/** The attempts that are asked for, as far as there are any, in the order of the plan. */
export function selectEntries({ steps }: RunInspection, { stepKey, ordinal }: Selection): readonly LogEntry[] {
  return steps
    .filter((step) => stepKey === null || step.stepKey === stepKey)
    .flatMap((step) => entryOf(step, ordinal ?? step.attempts.length));
}

/** Empty where the step has no such attempt. */
export function entryOf(step: StepInspection, ordinal: number): readonly LogEntry[] {
  const attempt = step.attempts[ordinal - 1];
  return attempt === undefined ? [] : [{ stepKey: step.stepKey, ordinal, attempt }];
}

/** `build (attempt 2, failed)`. */
export function entryText({ stepKey, attempt, ordinal }: LogEntry): string {
  return `${stepKey} (attempt ${ordinal}, ${attemptWord(attempt)})`;
}
