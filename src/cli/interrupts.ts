// Signals that ask a foreground command to come to an end, kept from the moment it begins until somebody can act on
// them: one that comes while a run is only being started is not lost.
import type { Context } from './command.ts';

export type Interrupts = {
  /** Whether one came that nobody has acted on. */
  isPending(): boolean;
  /** Hands over what came so far, and from now on what comes. */
  attach(listener: (signal: NodeJS.Signals) => void): void;
  /** Signals do again what they do by default. */
  stop(): void;
};

export function catchInterrupts(context: Pick<Context, 'onSignal'>): Interrupts {
  // A terminal that went away asks for nothing.
  const pending: NodeJS.Signals[] = [];
  let act: ((signal: NodeJS.Signals) => void) | null = null;
  const stop = context.onSignal((signal) => {
    if (act === null) {
      pending.push(...(signal === 'SIGHUP' ? [] : [signal]));
    } else {
      act(signal);
    }
  });
  return {
    isPending: () => pending.length > 0,
    attach(listener) {
      act = listener;
      pending.splice(0).forEach(listener);
    },
    stop,
  };
}
