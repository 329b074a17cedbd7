// Cancel intents on the running runs of what was forbidden: quarantined installations, and those that a revoked key has
// signed. The fact itself stops every further start; this ends what runs already.
import { limits } from '../core/limits.ts';
import { cancel } from './cancel.ts';
import { type Decision, operation, protocol } from './protocol.ts';
import { type RunCursor, read } from './reads.ts';

export type CancelCondemnedOutcome = { readonly runIds: readonly string[] };

type CancelCondemnedInput = { readonly after: RunCursor | null; readonly requestedBy: string };

/**
 * One page of intents (`policy`), followed by the next. The cursor moves past a run that cannot be cancelled, so that
 * one damaged run keeps no other alive. Also for the start: it finds whom an earlier process did not reach any more.
 */
export const cancelCondemned = protocol({
  name: 'cancel-condemned',
  load: ({ after }: CancelCondemnedInput) => ({ page: read('condemnedRuns', { limit: limits.pageMax, after }) }),
  decide: ({ page }, { requestedBy }): Decision<CancelCondemnedOutcome> => {
    const { runIds, next } = page;
    const cancels = runIds.map((runId) => operation(cancel, { runId, reason: 'policy', requestedBy }));
    const more = next === null ? [] : [operation(cancelCondemned, { after: next, requestedBy })];
    return { outcome: { runIds }, follow: [...cancels, ...more] };
  },
});
