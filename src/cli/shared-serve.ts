// `serve` on a shared database: one of the runtimes that carry its runs on, until it is stopped, or until nothing of
// the whole database runs any more.
import { buildInfo } from '../runtime/build-info.generated.ts';
import { closeAll } from '../runtime/close-all.ts';
import { Cluster } from '../runtime/cluster.ts';
import type { OnStop } from '../runtime/settings.ts';
import { makeDirectories } from '../store/make-directories.ts';
import type { Context, Input } from './command.ts';
import { exitCodes } from './failure.ts';
import { neutralize } from './plain-text.ts';
import { readSettings } from './session.ts';
import { placeOf } from './shared-place.ts';
import { leaseMsDefault, openPorts } from './shared-session.ts';
import { formatTime } from './times.ts';

/** Why it ends, and what becomes of what runs. */
type Ending = { readonly why: string; readonly onStop: OnStop };

export async function serveCommand(context: Context, input: Input): Promise<number> {
  const { output, clock, data, runDirectory } = context;
  // A daemon whose log nobody reads goes on.
  output.onUnread(() => {});
  const place = placeOf(context);
  const settings = await readSettings(context);
  const stopped = Promise.withResolvers<Ending>();
  const stopListening = context.onSignal((signal) =>
    stopped.resolve({ why: `at ${signal}`, onStop: signal === 'SIGQUIT' ? 'detach' : settings.onStop }),
  );
  const log = (line: string) => output.note(`${formatTime(clock.observe().wallMs)} ${neutralize(line)}`);
  makeDirectories(data);
  const ports = openPorts(settings);
  const { lease } = input.options;
  const leases = place.openLeases(ports, lease === undefined ? leaseMsDefault : lease * 1_000);
  const shared = await place.openStore(ports, log);
  try {
    const engine = { data, runDirectory, handlers: {}, log, onOutput: null, settings };
    const cluster = await Cluster.open({ ...ports, engine, shared, leases });
    tellReady(context, { place: place.name, engine: shared.info.engine });
    const idle = (): Promise<Ending> =>
      cluster.idle().then(() => ({ why: 'as nothing runs any more', onStop: settings.onStop }));
    const isUntilIdle = input.options['until-idle'] === true;
    const end = Promise.race(isUntilIdle ? [stopped.promise, idle()] : [stopped.promise]);
    await endWith(cluster, end, log);
    return exitCodes.done;
  } finally {
    stopListening();
    await closeAll([shared, leases]);
  }
}

/** Whatever ends it, nothing stays behind of which nobody knows. */
async function endWith(cluster: Cluster, ending: Promise<Ending>, log: (line: string) => void): Promise<void> {
  let onStop: OnStop = 'detach';
  try {
    const end = await ending;
    onStop = end.onStop;
    log(`ends ${end.why}: ${onStop === 'stop' ? 'to stop what runs here' : 'and leaves what runs here to run on'}`);
  } finally {
    await cluster.close(onStop);
  }
}

function tellReady(
  { output, data }: Context,
  { place, engine }: { readonly place: string; readonly engine: string },
): void {
  if (output.isJson) {
    const { version } = buildInfo;
    output.printJson({ type: 'ready', version, store: place, engine, data, pid: process.pid });
  } else {
    output.print(
      `qinglong-edge ${buildInfo.version} (process ${process.pid}) serves ${place} (${engine}); data ${data}`,
    );
  }
}
