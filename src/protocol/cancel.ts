// Cancellation: the intent, and the bounded convergence of one run that has one. One transaction a run.
import { decideConvergence } from '../core/cancellation.ts';
import { draft } from '../core/events.ts';
import { type CancelReason, isTerminalRun, type RunStatus } from '../core/states.ts';
import { type Decision, operation, protocol } from './protocol.ts';
import { read } from './reads.ts';

export type ConvergeOutcome = {
  readonly kind: 'unchanged' | 'blocked' | 'ended';
  readonly runId: string;
  /** Attempts that may be running: their starts are to be taken back, or their commands stopped. */
  readonly blockingAttemptIds: readonly string[];
};

/** Ends everything of a cancelled run that certainly does not run, and the run itself when nothing else is left. */
export const converge = protocol({
  name: 'converge',
  load: ({ runId }: { readonly runId: string }) => ({ rows: read('run', { runId }) }),
  decide: ({ rows }, { runId }): Decision<ConvergeOutcome> => {
    if (rows === null) {
      return { outcome: { kind: 'unchanged', runId, blockingAttemptIds: [] } };
    }
    const { events, ...convergence } = decideConvergence(rows);
    const outcome = { ...convergence, runId };
    return events.length === 0 ? { outcome } : { outcome, append: { rows, events } };
  },
});

export type CancelInput = { readonly runId: string; readonly reason: CancelReason; readonly requestedBy: string };

export type CancelOutcome =
  | { readonly kind: 'requested' }
  /** An earlier intent stands; it is never replaced. */
  | { readonly kind: 'existing'; readonly reason: CancelReason }
  | { readonly kind: 'settled'; readonly status: RunStatus }
  | { readonly kind: 'not-found' };

/** Freezes a run at once. Idempotent; the first intent wins. Lost answer: look at the run's cancel fields. */
export const cancel = protocol({
  name: 'cancel',
  load: ({ runId }: CancelInput) => ({ rows: read('run', { runId }) }),
  decide: ({ rows }, { runId, reason, requestedBy }): Decision<CancelOutcome> => {
    if (rows === null) {
      return { outcome: { kind: 'not-found' } };
    }
    const { run } = rows;
    if (isTerminalRun(run.status)) {
      return { outcome: { kind: 'settled', status: run.status } };
    }
    if (run.cancelReason !== null) {
      return { outcome: { kind: 'existing', reason: run.cancelReason } };
    }
    const actorType = reason === 'user' ? 'operator' : 'runtime';
    const events = [draft('workflow.cancel_requested', { reason }, { actorType, actorId: requestedBy })];
    return { outcome: { kind: 'requested' }, append: { rows, events }, follow: [operation(converge, { runId })] };
  },
});
