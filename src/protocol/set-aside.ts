// Runs whose evidence is damaged: put aside so that they stop nothing else, and taken back when they are sound.
import { type Decision, protocol } from './protocol.ts';
import { read } from './reads.ts';

export type SetAsideOutcome = { readonly kind: 'set-aside' | 'existing'; readonly runId: string };

export const setAsideRun = protocol({
  name: 'set-aside',
  load: ({ runId }: { readonly runId: string; readonly code: string; readonly summary: string }) => ({
    present: read('setAside', { runId }),
  }),
  decide: ({ present }, { runId, code, summary }, { now }): Decision<SetAsideOutcome> =>
    present !== null
      ? { outcome: { kind: 'existing', runId } }
      : {
          outcome: { kind: 'set-aside', runId },
          ledger: [{ write: 'set-aside', setAside: { runId, code, summary, atMs: now.wallMs } }],
        },
});

export type ClearOutcome = { readonly kind: 'cleared' | 'unchanged' };

/** The caller has verified the run. */
export const clearSetAside = protocol({
  name: 'clear-set-aside',
  load: ({ runId }: { readonly runId: string }) => ({ present: read('setAside', { runId }) }),
  decide: ({ present }, { runId }): Decision<ClearOutcome> =>
    present === null
      ? { outcome: { kind: 'unchanged' } }
      : { outcome: { kind: 'cleared' }, ledger: [{ write: 'clear-set-aside', runId }] },
});
