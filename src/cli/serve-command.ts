// `serve`: holds a data directory and carries its runs on until it is stopped, or until nothing can progress.
import type { EdgeError } from '../core/errors.ts';
import type { Run } from '../core/records.ts';
import type { Holder } from '../http/holder.ts';
import { buildInfo } from '../runtime/build-info.generated.ts';
import type { OnStop } from '../runtime/settings.ts';
import type { Context, Input } from './command.ts';
import { giveBackMemory } from './engine-settings.ts';
import { exitCodes, failureOf } from './failure.ts';
import { neutralize } from './plain-text.ts';
import { hintRunId } from './run-id.ts';
import { openHolding, readSettings } from './session.ts';
import { describeRun } from './step-state.ts';
import { formatCount, formatTime } from './times.ts';

/** `run 01a22d40-9156 (demo/main) failed: step a failed; see …`. */
function describeEnd({ id, packageName, workflowId, status, errorSummary }: Run, self: string): string {
  const { word } = describeRun({ status, cancelRequestedAtMs: null });
  const how = errorSummary === null ? word : errorSummary.startsWith(word) ? errorSummary : `${word}: ${errorSummary}`;
  const what = `run ${hintRunId(id)} (${packageName}/${workflowId}) ${how}`;
  return status === 'succeeded' ? what : `${what}; see \`${self} runs show ${hintRunId(id)}\``;
}

/** Why a daemon ends, and what becomes of what runs. */
type Ending = { readonly why: string; readonly onStop: OnStop; readonly error?: EdgeError };

/** `ends at SIGTERM: stops 2 commands that run`. */
function describeEnding({ why, onStop }: Ending, runningCount: number): string {
  const count = `${formatCount(runningCount, 'command')} that ${runningCount === 1 ? 'runs' : 'run'}`;
  const effect = onStop === 'stop' ? `stops ${count}` : `leaves ${count} to whoever holds the directory next`;
  return `ends ${why}: ${runningCount === 0 ? 'nothing runs' : effect}`;
}

export async function serveCommand(given: Context, input: Input): Promise<number> {
  // Whoever reads its log is somewhere else.
  const context = { ...given, self: given.selfAnywhere };
  const { output, clock } = context;
  // A daemon whose log nobody reads goes on.
  output.onUnread(() => {});
  const stopped = Promise.withResolvers<Ending>();
  const damaged = Promise.withResolvers<Ending>();
  const settings = await readSettings(context);
  // Ctrl-\ is for who has no time: nothing is stopped first.
  const stopListening = context.onSignal((signal) =>
    stopped.resolve({ why: `at ${signal}`, onStop: signal === 'SIGQUIT' ? 'detach' : settings.onStop }),
  );
  const log = (line: string) => output.note(`${formatTime(clock.observe().wallMs)} ${neutralize(line)}`);
  const ends = listEnds((run) => log(describeEnd(run, context.self)), { isVerbose: input.options.verbose === true });
  try {
    const holder = await openHolding(context, {
      settings,
      command: 'serve',
      onOutput: null,
      log,
      onRunEnd: ends.add,
      // Nothing more is started, so waiting leads nowhere; what runs is left to whoever comes once that is mended.
      onDamage: (error) => damaged.resolve({ why: 'as the database is damaged', onStop: 'detach', error }),
      onQuiet: giveBackMemory,
      onStopRequest: (onStop) => stopped.resolve({ why: 'as `stop` asks', onStop: onStop ?? settings.onStop }),
    });
    tellReady(context, holder);
    ends.open();
    const isUntilIdle = input.options['until-idle'] === true;
    if (!isUntilIdle) {
      // What the start alone needed: the unpacked program, and statements that were prepared once.
      setImmediate(giveBackMemory);
    }
    const idle = (): Promise<Ending> =>
      holder.runtime.idle().then(() => ({ why: 'as nothing can progress', onStop: settings.onStop }));
    const end = await Promise.race(isUntilIdle ? [damaged.promise, stopped.promise, idle()] : [stopped.promise]);
    log(describeEnding(end, holder.runtime.attempts.count));
    await holder.close(end.onStop);
    return end.error === undefined ? exitCodes.done : output.fail(failureOf(end.error));
  } finally {
    stopListening();
  }
}

/** What ended while the directory was taken over is told once it is said who serves it. */
function listEnds(tell: (run: Run) => void, { isVerbose }: { readonly isVerbose: boolean }) {
  let early: Run[] | null = [];
  return {
    add(run: Run): void {
      if (run.status === 'succeeded' && !isVerbose) {
        return;
      }
      if (early === null) {
        tell(run);
      } else {
        early.push(run);
      }
    },
    open(): void {
      early?.forEach(tell);
      early = null;
    },
  };
}

function tellReady({ output, data }: Context, { store, socketPath }: Holder): void {
  const { profile, durability } = store.info;
  const facts = { data, profile, durability, socket: socketPath, pid: process.pid };
  if (output.isJson) {
    output.printJson({ type: 'ready', version: buildInfo.version, ...facts });
  } else {
    const who = `qinglong-edge ${buildInfo.version} (process ${facts.pid})`;
    output.print(`${who} serves ${facts.data} (${profile}, ${durability}); socket ${facts.socket}`);
  }
}
