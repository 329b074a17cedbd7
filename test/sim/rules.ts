// The rules that the model judges by, each a small function of plain values: how an attempt and its step end, when a
// step is tried again, what follows from needs, how a run ends. Written from the design pages, apart from src/core.

/** What truly became of a command. */
export type Outcome = 'success' | 'failure' | 'unstarted' | 'lost';

export type RetryRule = {
  readonly limit: number;
  readonly backoffMs: number;
  readonly factor: number;
  readonly maxMs: number;
  readonly on: readonly string[];
};

export type StepRule = {
  readonly key: string;
  readonly taskId: string;
  readonly needs: readonly string[];
  readonly retry: RetryRule;
  readonly timeoutMs: number;
};

export type WorkflowRule = {
  readonly id: string;
  readonly steps: ReadonlyMap<string, StepRule>;
  readonly timeoutMs: number | null;
  readonly concurrency: number | null;
};

export type EndFacts = {
  readonly outcome: Outcome;
  readonly stopReason: 'timeout' | 'shutdown' | null;
  /** Whether a shutdown's stop was carried out before the end: what ended by itself was stopped by nobody. */
  readonly isStopped: boolean;
  readonly cancelReason: string | null;
  /** Attempts of the step that crossed the barrier and were not proven unstarted, this one included. */
  readonly used: number;
  readonly policy: RetryRule;
};

export type ExpectedEnd = {
  readonly attempt: string;
  readonly step: string;
  /** Whether another try follows, and after how long; null: at once. */
  readonly isRetried: boolean;
  readonly delayMs: number | null;
};

/** First row that fits: cancel, unstarted, timeout, shutdown or lost, the command's own word. */
export function expectEnd({ outcome, stopReason, isStopped, cancelReason, used, policy }: EndFacts): ExpectedEnd {
  const done = (attempt: string, step = attempt): ExpectedEnd => ({ attempt, step, isRetried: false, delayMs: null });
  if (cancelReason !== null && stopReason !== 'timeout') {
    return done(cancelReason === 'timeout' ? 'timed_out' : 'cancelled');
  }
  if (outcome === 'unstarted') {
    return stopReason === 'timeout' ? done('timed_out') : { ...done('lost', 'ready'), isRetried: true };
  }
  const isLoss = (stopReason === 'shutdown' && isStopped) || outcome === 'lost';
  const cause = stopReason === 'timeout' ? 'timed_out' : isLoss ? 'lost' : outcome === 'success' ? null : 'failed';
  if (cause === null) {
    return done('succeeded');
  }
  const isRetried = cancelReason === null && policy.on.includes(cause) && used <= policy.limit;
  const waitMs = Math.min(policy.maxMs, Math.round(policy.backoffMs * policy.factor ** (used - 1)));
  const delayMs = isRetried && waitMs > 0 ? waitMs : null;
  return { attempt: cause, step: cause === 'lost' ? 'lost' : isRetried ? 'ready' : cause, isRetried, delayMs };
}

/** Of an attempt that never started, after so many others of its step that did not either. */
export function unstartedDelayMs(earlier: number): number {
  return Math.min(60_000, 1_000 * 2 ** earlier);
}

/** The intent decides; else the worst end of a step. */
export function expectRunEnd(statuses: readonly string[], cancelReason: string | null): string {
  if (cancelReason !== null) {
    return cancelReason === 'timeout' ? 'timed_out' : 'cancelled';
  }
  if (statuses.some((status) => status === 'failed' || status === 'skipped')) {
    return 'failed';
  }
  return ['timed_out', 'cancelled'].find((end) => statuses.includes(end)) ?? 'succeeded';
}

/** What pending steps become, as deep as it goes: blocked ones wins over those that still wait. */
export function spreadNeeds(rule: WorkflowRule, statuses: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const after = new Map(statuses);
  const blocking = ['failed', 'skipped', 'cancelled', 'timed_out'];
  for (let moved = true; moved; ) {
    moved = false;
    for (const { key, needs } of rule.steps.values()) {
      const ends = needs.map((need) => after.get(need) ?? 'missing');
      if (after.get(key) === 'pending' && ends.some((end) => blocking.includes(end))) {
        after.set(key, 'skipped');
        moved = true;
      }
    }
  }
  for (const { key, needs } of rule.steps.values()) {
    if (after.get(key) === 'pending' && needs.every((need) => statuses.get(need) === 'succeeded')) {
      after.set(key, 'ready');
    }
  }
  return after;
}
