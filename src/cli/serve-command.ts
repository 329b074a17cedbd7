// `serve`: holds a data directory and carries its runs on until it is stopped, or until nothing can progress.
import type { EdgeError } from '../core/errors.ts';
import type { Run } from '../core/records.ts';
import { buildInfo } from '../runtime/build-info.generated.ts';
import type { OnStop } from '../runtime/settings.ts';
import type { Context, Input } from './command.ts';
import { giveBackMemory } from './engine-settings.ts';
import { exitCodes, failureOf } from './failure.ts';
import { neutralize } from './plain-text.ts';
import { hintRunId } from './run-id.ts';
import { openHolding, readSettings } from './session.ts';
import { describeRun } from './step-state.ts';
import { formatTime } from './times.ts';

/** `run 01a22d40-9156 (demo/main) failed: step a failed; see …`. */
function describeEnd({ id, packageName, workflowId, status, errorSummary }: Run, self: string): string {
  const { word } = describeRun({ status, cancelRequestedAtMs: null });
  const how = errorSummary === null ? word : errorSummary.startsWith(word) ? errorSummary : `${word}: ${errorSummary}`;
  const what = `run ${hintRunId(id)} (${packageName}/${workflowId}) ${how}`;
  return status === 'succeeded' ? what : `${what}; see \`${self} runs show ${hintRunId(id)}\``;
}

export async function serveCommand(context: Context, input: Input): Promise<number> {
  const { output, clock } = context;
  // A daemon whose log nobody reads goes on.
  output.onUnread(() => {});
  const stopped = Promise.withResolvers<OnStop>();
  const damaged = Promise.withResolvers<EdgeError>();
  const settings = await readSettings(context);
  // Ctrl-\ is for who has no time: nothing is stopped first.
  const stopListening = context.onSignal((signal) =>
    stopped.resolve(signal === 'SIGQUIT' ? 'detach' : settings.onStop),
  );
  const log = (line: string) => output.note(`${formatTime(clock.observe().wallMs)} ${neutralize(line)}`);
  try {
    const onRunEnd = (run: Run) => {
      if (run.status !== 'succeeded' || input.options.verbose === true) {
        log(describeEnd(run, context.self));
      }
    };
    const holder = await openHolding(context, {
      settings,
      command: 'serve',
      onOutput: null,
      log,
      onRunEnd,
      onDamage: damaged.resolve,
      onQuiet: giveBackMemory,
      onStopRequest: (onStop) => stopped.resolve(onStop ?? settings.onStop),
    });
    const { profile, durability } = holder.store.info;
    const facts = { data: context.data, profile, durability, socket: holder.socketPath, pid: process.pid };
    if (output.isJson) {
      output.printJson({ type: 'ready', version: buildInfo.version, ...facts });
    } else {
      const who = `qinglong-edge ${buildInfo.version} (process ${facts.pid})`;
      output.print(`${who} serves ${facts.data} (${profile}, ${durability}); socket ${facts.socket}`);
    }
    if (input.options['until-idle'] !== true) {
      // What the start alone needed: the unpacked program, and statements that were prepared once.
      setImmediate(giveBackMemory);
      await holder.close(await stopped.promise);
      return exitCodes.done;
    }
    const idle = holder.runtime.idle().then(() => settings.onStop);
    const end = await Promise.race([damaged.promise, stopped.promise, idle]);
    // Nothing more is started, so waiting leads nowhere; what runs is left to whoever comes once that is mended.
    await holder.close(typeof end === 'string' ? end : 'detach');
    return typeof end === 'string' ? exitCodes.done : output.fail(failureOf(end));
  } finally {
    stopListening();
  }
}
