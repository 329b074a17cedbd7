// An end and what follows from it, as one operation: its run is moved on, and what that makes ready is claimed and
// started. Pure: which steps are started is for whoever counts the slots.
import type { Run } from '../core/records.ts';
import type { AdvanceOutcome } from '../protocol/advance.ts';
import { advance } from '../protocol/advance.ts';
import type { CompleteOutcome, StartAttemptOutcome } from '../protocol/attempt.ts';
import type { Decision, Operation } from '../protocol/protocol.ts';
import type { Settled } from '../store/store.ts';

export type Carried<O> = {
  readonly operation: Operation<O>;
  /** To be called once, when it was settled one way or the other. */
  readonly over: () => void;
};

export type Followers = {
  /** A try of the transaction begins: what an earlier one has chosen did not happen. */
  readonly begin: () => void;
  /** What is done with the steps of a run that are ready. */
  readonly next: (run: Run, readyStepRunIds: readonly string[]) => readonly Operation[];
};

/** The operation with `next` behind it, where it is an advance, and behind each advance that follows it. */
export function withFollowers<O>(submitted: Operation<O>, { begin, next }: Followers): Operation<O> {
  const operation = submitted.name === advance.name ? withNext(submitted, next) : submitted;
  return {
    ...operation,
    decide(rows, circumstances) {
      begin();
      const decision = operation.decide(rows, circumstances);
      const follow = (decision.follow ?? []).map((follower) =>
        follower.name === advance.name ? withNext(follower, next) : follower,
      );
      return { ...decision, follow };
    },
  };
}

function withNext<O>(follower: Operation<O>, next: Followers['next']): Operation<O> {
  return {
    ...follower,
    decide(rows, circumstances): Decision<O> {
      const decision = follower.decide(rows, circumstances);
      const { kind, readyStepRunIds = [] } = decision.outcome as Partial<Extract<AdvanceOutcome, { kind: 'advanced' }>>;
      const read = rows['rows'] as { readonly run: Run } | null;
      const isGoingOn = (kind === 'advanced' || `${kind}` === 'unchanged') && read !== null;
      return isGoingOn
        ? { ...decision, follow: [...(decision.follow ?? []), ...next(read.run, readyStepRunIds)] }
        : decision;
    },
  };
}

// Whatever else makes a history longer may make something ready.
const knownNames: ReadonlySet<string> = new Set(['complete', 'advance', 'admit-attempt', 'start-attempt']);
const idleNames: ReadonlySet<string> = new Set(['observe-attempt', 'request-stop']);

/** The runs whose histories became longer and that may have a step to start which was not started with it. */
export function findStartable(settled: readonly Settled[]): ReadonlySet<string> {
  const started = new Set<string>();
  for (const { operation, outcome } of settled) {
    const { kind, launch } = outcome as { kind: string } & Partial<Extract<StartAttemptOutcome, { kind: 'started' }>>;
    if (operation.name === 'start-attempt' && kind === 'started' && launch !== undefined) {
      started.add(launch.stepRunId);
    }
  }
  const runIds = new Set<string>();
  for (const { operation, outcome, runId } of settled) {
    const touched = runId ?? runOf(outcome);
    const isLeft = knownNames.has(operation.name)
      ? readyOf(operation.name, outcome).some((stepRunId) => !started.has(stepRunId))
      : runId !== null && !idleNames.has(operation.name);
    if (isLeft && touched !== null) {
      runIds.add(touched);
    }
  }
  return runIds;
}

function runOf(outcome: unknown): string | null {
  return (outcome as { readonly runId?: string }).runId ?? null;
}

function readyOf(name: string, outcome: unknown): readonly string[] {
  switch (name) {
    case 'complete': {
      const { stepRunId, ...rest } = outcome as CompleteOutcome;
      return rest.kind === 'completed' && rest.stepStatus === 'ready' ? [stepRunId] : [];
    }
    case 'advance': {
      const moved = outcome as AdvanceOutcome;
      return 'readyStepRunIds' in moved ? moved.readyStepRunIds : [];
    }
    default:
      // A claim that did not cross its barrier is looked at again.
      return (outcome as StartAttemptOutcome).kind === 'refused' ? [''] : [];
  }
}
