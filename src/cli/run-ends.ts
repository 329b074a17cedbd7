// What a process that holds a directory learns from its store: which runs end, read off the operations that a commit
// made durable; and that the store is damaged, so that nothing can be started.
import { type EdgeError, isEdgeError } from '../core/errors.ts';
import type { Run } from '../core/records.ts';
import { isTerminalRun } from '../core/states.ts';
import type { AdvanceOutcome } from '../protocol/advance.ts';
import type { ConvergeOutcome } from '../protocol/cancel.ts';
import { read } from '../protocol/reads.ts';
import type { Settled, Store } from '../store/store.ts';

/** Called after the commit in which the run ended, with its record as it is then. */
export type RunEndListener = (run: Run) => void;

/** The same store, with a listener to what ends in it: one more read for each run that ends. */
export function watchRunEnds(store: Store, listener: RunEndListener): Store {
  const tell = async (runId: string): Promise<void> => {
    // A store that is closing answers nothing any more; the record is there for whoever looks.
    const rows = await store.read(read('run', { runId })).catch(() => null);
    if (rows !== null && isTerminalRun(rows.run.status)) {
      listener(rows.run);
    }
  };
  return {
    ...store,
    attach: (hooks) =>
      store.attach({
        ...hooks,
        committed(settled) {
          hooks.committed(settled);
          settled.flatMap(endedRunOf).forEach((runId) => void tell(runId));
        },
      }),
  };
}

/** The same store, with a listener to damage that keeps anything from being started: not that of one run alone. */
export function watchDamage(store: Store, listener: (error: EdgeError) => void): Store {
  return {
    ...store,
    attach: (hooks) =>
      store.attach({
        ...hooks,
        undone(error) {
          hooks.undone?.(error);
          if (isEdgeError(error) && error.code === 'damaged') {
            listener(error);
          }
        },
      }),
  };
}

function endedRunOf({ operation, outcome }: Settled): readonly string[] {
  const { kind, runId } = outcome as AdvanceOutcome | ConvergeOutcome;
  const isEnd =
    (operation.name === 'advance' && kind === 'terminal') || (operation.name === 'converge' && kind === 'ended');
  return isEnd ? [runId] : [];
}
