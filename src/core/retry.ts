// Whether and when a step is tried again.
import { startSpan } from './deadline.ts';
import { limits } from './limits.ts';
import type { Now } from './ports.ts';
import type { RunAttempt, Span } from './records.ts';
import type { MaterializedTask } from './revision.ts';

/** `limit` counts automatic retries after the first command: 2 means at most 3 commands. */
export type RetryPolicy = MaterializedTask['retry'];
export type RetryCause = RetryPolicy['on'][number];

/** Its start was taken back before a command took it: certain proof that nothing ran. */
export const startWithdrawn = 'start_withdrawn';

/** Whether an attempt may have run a command: it crossed the start barrier and was not proven unstarted. */
export function isUsed(attempt: RunAttempt): boolean {
  return attempt.startedAtMs !== null && attempt.errorCode !== startWithdrawn;
}

export type RetryDecision =
  | { readonly kind: 'retry'; readonly due: Span | null }
  | { readonly kind: 'give-up'; readonly resultCode: string };

/**
 * After an attempt that ended `cause`. `attempts` are all of the step, the one that just ended included (its status
 * does not matter here). Counts survive crashes because they are counts of durable attempts.
 */
export function decideRetry(options: {
  readonly cause: RetryCause;
  readonly resultCode: string;
  readonly attempts: readonly RunAttempt[];
  readonly policy: RetryPolicy;
  readonly now: Now;
}): RetryDecision {
  const { cause, resultCode, attempts, policy, now } = options;
  const used = attempts.filter(isUsed).length;
  if (!policy.on.includes(cause) || used > policy.limit) {
    return { kind: 'give-up', resultCode };
  }
  const delayMs = Math.min(policy.maxMs, Math.round(policy.backoffMs * policy.factor ** Math.max(0, used - 1)));
  return { kind: 'retry', due: delayMs === 0 ? null : startSpan(now, delayMs) };
}

/**
 * After an attempt that certainly never started: no retry is used up, but it backs off from 1 s, doubling to 60 s with
 * every one of the `earlier` attempts of the step that did not start either.
 */
export function decideRestart(earlier: readonly RunAttempt[], now: Now): Span {
  const unstarted = earlier.filter((attempt) => !isUsed(attempt)).length;
  const delayMs = limits.unstartedBackoffMsMin * 2 ** Math.min(16, unstarted);
  return startSpan(now, Math.min(limits.unstartedBackoffMsMax, delayMs));
}

/** One step has at most 64 attempts, unstarted ones included: then it fails with `attempts_exhausted`. */
export function isExhausted(attempts: readonly RunAttempt[]): boolean {
  return attempts.length >= limits.attemptsPerStepMax;
}
