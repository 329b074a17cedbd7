// Runs whose evidence is damaged. The rule has one place: whoever meets one in the runtime's store, by whichever read
// or operation, has it set aside, so that health tells of it and it stops nothing else. Who asked is told as before.
import { type EdgeError, isEdgeError } from '../core/errors.ts';
import { operation } from '../protocol/protocol.ts';
import { setAsideRun } from '../protocol/set-aside.ts';
import type { Store } from '../store/store.ts';
import { describeError, type Log } from './log.ts';

export type DamageWork = { readonly store: Pick<Store, 'submit'>; readonly log: Log };

export function isDamage(error: unknown): error is EdgeError {
  return isEdgeError(error) && error.code === 'damaged';
}

/** Where that cannot be written, whoever meets the run next does it. Logged once, when it is durable. */
export async function setAsideDamaged({ store, log }: DamageWork, runId: string, error: EdgeError): Promise<void> {
  const aside = operation(setAsideRun, { runId, code: error.code, summary: error.message });
  try {
    const { kind } = await store.submit(aside);
    if (kind === 'set-aside') {
      log(`run ${runId}: set aside: ${describeError(error)}`);
    }
  } catch (reason) {
    log(`run ${runId} is damaged, and cannot be set aside yet: ${describeError(reason)}`);
  }
}

/** The store, with that rule. What is submitted or read after such an error comes after the setting aside. */
export function setAsideWhatIsDamaged(store: Store, log: Log): Store {
  const note = (error: unknown): void => {
    if (isDamage(error) && error.runId) {
      void setAsideDamaged({ store, log }, error.runId, error);
    }
  };
  // Beside whoever asked, who is told no later for it; but first.
  const watch = <T>(answer: Promise<T>): Promise<T> => {
    answer.catch(note);
    return answer;
  };
  return {
    ...store,
    submit: (asked) => watch(store.submit(asked)),
    read: (asked) => watch(store.read(asked)),
    attach: (hooks) =>
      store.attach({
        ...hooks,
        owed(owed, error) {
          note(error);
          hooks.owed?.(owed, error);
        },
      }),
  };
}
