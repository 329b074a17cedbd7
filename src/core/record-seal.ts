// The digest of a record over its own contents: made by sealing it, looked at by `isIntact`. What was computed of an
// object is remembered with it, and the object is frozen.
import { digestLabels, digestOfText } from './digest.ts';
import { attemptText, runText, stepRunText } from './record-text.ts';
import type { Run, RunAttempt, Span, StepRun } from './records.ts';

/**
 * Records whose digest was computed here, by sealing them or by looking whether they are intact. They are frozen, so
 * what was found of one stays true as long as the object lives.
 */
const intact = new WeakSet<object>();

/** A record with the digest of its contents; a digest that is given with them counts for nothing. Frozen. */
export function sealRun(run: Omit<Run, 'digest'>): Run {
  return keep({ ...run, digest: runDigest(run) }, run.deadline);
}

/** As `sealRun`. */
export function sealStepRun(step: Omit<StepRun, 'digest'>): StepRun {
  return keep({ ...step, digest: stepRunDigest(step) }, step.due);
}

/** As `sealRun`. */
export function sealAttempt(attempt: Omit<RunAttempt, 'digest'>): RunAttempt {
  return keep({ ...attempt, digest: attemptDigest(attempt) }, attempt.deadline);
}

/** Whether a stored record still has the digest of its own contents. One that has is frozen, so that it keeps it. */
export function isIntact(record: Run | StepRun | RunAttempt): boolean {
  if (intact.has(record)) {
    return true;
  }
  if (digestOf(record) !== record.digest) {
    return false;
  }
  keep(record, 'due' in record ? record.due : record.deadline);
  return true;
}

function keep<T extends object>(record: T, span: Span | null): T {
  Object.freeze(span);
  intact.add(Object.freeze(record));
  return record;
}

function digestOf(record: Run | StepRun | RunAttempt): string {
  if ('stepKey' in record) {
    return stepRunDigest(record);
  }
  return 'number' in record ? attemptDigest(record) : runDigest(record);
}

function runDigest(run: Omit<Run, 'digest'>): string {
  return digestOfText(digestLabels.run, runText(run));
}

function stepRunDigest(step: Omit<StepRun, 'digest'>): string {
  return digestOfText(digestLabels.stepRun, stepRunText(step));
}

function attemptDigest(attempt: Omit<RunAttempt, 'digest'>): string {
  return digestOfText(digestLabels.attempt, attemptText(attempt));
}
