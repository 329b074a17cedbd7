// A command that stays in the foreground with a run: the directory held and its runs carried on, unless another process
// does that; what the run's commands write; and the signals of whoever waits.
import { errorTable } from '../core/errors.ts';
import { settingFlag, settingNames } from '../runtime/settings.ts';
import { type AttemptOutputs, createAttemptOutputs } from './attempt-outputs.ts';
import type { Context } from './command.ts';
import { exitCodes } from './failure.ts';
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
  // Nobody reads on, or the disk that is written to is full: the run is carried to its end all the same.
  context.output.onUnread(() => {
    if (context.output.isLost()) {
      context.output.note('what follows is not shown; the run is carried to its end all the same');
    }
  });
  const session = await openSession(context, { ...options, drives: true, onOutput: outputs.collect, log: note });
  places.session = session;
  tellUnused(context, session);
  const showThrough = (view: RunView) => {
    places.view = view;
  };
  try {
    const code = await work({ session, outputs, interrupts, showThrough });
    await context.output.flush();
    // What succeeded, but could not be told, is no success to whoever reads this.
    return code === exitCodes.done && context.output.isLost() ? errorTable.unavailable.exitCode : code;
  } finally {
    await session.close();
    interrupts.stop();
  }
}

/** A process that holds the directory has settings of its own. */
function tellUnused({ output, givenSettings }: Context, { holder }: Session): void {
  const unused = settingNames.filter((name) => givenSettings[name] !== undefined);
  if (holder !== null && unused.length > 0) {
    const flags = unused.map((name) => `--${settingFlag(name)}`).join(', ');
    output.note(`${flags}: not used, the settings are those of process ${holder.pid} (${holder.command})`);
  }
}
