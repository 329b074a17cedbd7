// A command that stays in the foreground with a run: the directory held and its runs carried on, unless another process
// does that; what the run's commands write; and the signals of whoever waits.
import { type AttemptOutputs, createAttemptOutputs } from './attempt-outputs.ts';
import type { Context } from './command.ts';
import { catchInterrupts, type Interrupts } from './interrupts.ts';
import { neutralize } from './plain-text.ts';
import type { RunView } from './run-view.ts';
import { openSession, type Session } from './session.ts';

export type Foreground = {
  readonly session: Session;
  readonly outputs: AttemptOutputs;
  readonly interrupts: Interrupts;
  /** From now on lines of the runtime go through the view, so that they do not tear it. */
  showThrough(view: RunView): void;
};

/** Runs `work`, then lets go of the directory; what still runs is left to whoever holds it next. */
export async function inForeground(
  context: Context,
  options: { readonly command: string; readonly mayCreate: boolean },
  work: (foreground: Foreground) => Promise<number>,
): Promise<number> {
  const interrupts = catchInterrupts(context);
  const places: { session: Session | null; view: RunView | null } = { session: null, view: null };
  const outputs = createAttemptOutputs({
    data: context.data,
    runDirectory: () => places.session?.runDirectory ?? null,
  });
  const note = (line: string) => (places.view ?? context.output).note(`qinglong-edge: ${neutralize(line)}`);
  // Nobody reads on: the run is carried to its end all the same.
  context.output.onUnread(() => {});
  const session = await openSession(context, { ...options, drives: true, onOutput: outputs.collect, log: note });
  places.session = session;
  const showThrough = (view: RunView) => {
    places.view = view;
  };
  try {
    return await work({ session, outputs, interrupts, showThrough });
  } finally {
    await session.close();
    interrupts.stop();
  }
}
