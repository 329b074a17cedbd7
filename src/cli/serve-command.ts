// `serve`: holds a data directory and carries its runs on until it is stopped, or until nothing can progress.
import { buildInfo } from '../runtime/build-info.generated.ts';
import type { Context, Input } from './command.ts';
import { exitCodes } from './failure.ts';
import { neutralize } from './plain-text.ts';
import { openHolding } from './session.ts';
import { formatTime } from './times.ts';

export async function serveCommand(context: Context, input: Input): Promise<number> {
  const { output, clock } = context;
  // A daemon whose log nobody reads goes on.
  output.onUnread(() => {});
  const stopped = Promise.withResolvers<'stopped'>();
  const stopListening = context.onSignal(() => stopped.resolve('stopped'));
  const log = (line: string) => output.note(`${formatTime(clock.observe().wallMs)} ${neutralize(line)}`);
  try {
    const holder = await openHolding(context, { command: 'serve', onOutput: null, log });
    const { profile, durability } = holder.store.info;
    const facts = { data: context.data, profile, durability, socket: holder.socketPath, pid: process.pid };
    if (output.isJson) {
      output.printJson({ type: 'ready', version: buildInfo.version, ...facts });
    } else {
      const who = `qinglong-edge ${buildInfo.version} (process ${facts.pid})`;
      output.print(`${who} serves ${facts.data} (${profile}, ${durability}); socket ${facts.socket}`);
    }
    const idle = input.options['until-idle'] === true ? holder.runtime.idle() : null;
    await (idle === null ? stopped.promise : Promise.race([stopped.promise, idle]));
    await holder.close('stop');
    return exitCodes.done;
  } finally {
    stopListening();
  }
}
