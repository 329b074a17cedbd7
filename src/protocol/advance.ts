// Advance: applies one frontier pass to a run. Writes nothing the second time.
import { decideFrontier } from '../core/frontier.ts';
import type { RunStatus } from '../core/states.ts';
import { type Decision, protocol } from './protocol.ts';
import { read } from './reads.ts';

export type AdvanceOutcome = { readonly runId: string } & (
  | { readonly kind: 'advanced'; readonly readyStepRunIds: readonly string[] }
  | { readonly kind: 'unchanged'; readonly readyStepRunIds: readonly string[] }
  | { readonly kind: 'terminal'; readonly status: RunStatus }
  | { readonly kind: 'settled'; readonly status: RunStatus }
  | { readonly kind: 'not-found' }
);

/** Lost answer: advance again; what was committed then is `unchanged` or `settled`. */
export const advance = protocol({
  name: 'advance',
  load: ({ runId }: { readonly runId: string }) => ({ plan: read('plan', { runId }), rows: read('run', { runId }) }),
  decide: ({ plan, rows }, { runId }): Decision<AdvanceOutcome> => {
    if (plan === null || rows === null) {
      return { outcome: { kind: 'not-found', runId } };
    }
    const decision = decideFrontier(plan, rows);
    switch (decision.kind) {
      case 'advanced':
      case 'terminal': {
        const { events, ...outcome } = decision;
        return { outcome: { ...outcome, runId }, append: { rows, events } };
      }
      case 'unchanged':
      case 'settled':
        return { outcome: { ...decision, runId } };
    }
  },
});
