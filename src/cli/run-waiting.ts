// What a run waits for that does not move, said once: where lines are printed, nothing else shows that it waits.

import type { RunRows } from '../core/records.ts';
import { isTerminalRun } from '../core/states.ts';
import type { Context } from './command.ts';
import { neutralize } from './plain-text.ts';
import type { RunView } from './run-view.ts';

/** A step that has a slot starts in much less. */
const patienceMs = 1_000;

/** The same view, which tells once what its run waits for when nothing of it runs and nothing happens for a second. */
export function withWaiting(context: Context, view: RunView): RunView {
  const { alarm, clock } = context;
  let cancel: (() => void) | null = null;
  let isTold = false;
  const stop = () => {
    cancel?.();
    cancel = null;
  };
  const look = (runId: string) => {
    const asked = cancel;
    findWaiting(context, runId).then(
      (text) => {
        // Something may have happened meanwhile.
        if (text !== null && cancel === asked) {
          isTold = true;
          view.note(text);
        }
      },
      // A courtesy: whoever needs it asks `status`.
      () => {},
    );
  };
  return {
    ...view,
    event(event, rows) {
      view.event(event, rows);
      stop();
      if (!isTold && isIdle(rows)) {
        cancel = alarm.set(clock.observe().uptimeMs + patienceMs, () => look(event.runId));
      }
    },
    end(inspection) {
      stop();
      view.end(inspection);
    },
    close() {
      stop();
      view.close();
    },
  };
}

function isIdle({ run, steps }: RunRows): boolean {
  const all = [...steps.values()];
  return (
    !isTerminalRun(run.status) &&
    run.cancelRequestedAtMs === null &&
    all.some(({ status, due }) => status === 'ready' && due === null) &&
    all.every(({ status }) => status !== 'running')
  );
}

async function findWaiting(context: Context, runId: string): Promise<string | null> {
  const { collectStatus } = await import('./status-facts.ts');
  const { describeWaiting } = await import('./status-command.ts');
  const facts = await collectStatus(context);
  const step = facts.waiting.find((waiting) => waiting.runId === runId);
  if (step === undefined || step.waitsFor === 'nothing' || step.waitsFor === 'due') {
    return null;
  }
  const why = step.waitsFor === 'held-back' ? `: ${facts.answer?.heldBack}` : '';
  return neutralize(`step ${step.stepKey} waits for ${describeWaiting(step, facts, context)}${why}`);
}
