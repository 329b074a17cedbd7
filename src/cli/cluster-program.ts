// The command line of the cluster's bundle: what a database is brought up to date with, what serves it, and what is
// asked of it. Answers with JSON, one object a line. Names no adapter: it is handed in.
import path from 'node:path';
import { parseArgs } from 'node:util';
import { EdgeError } from '../core/errors.ts';
import { Cluster } from '../runtime/cluster.ts';
import { realAlarm, realClock, realIds } from '../runtime/ports.ts';
import { type OnStop, readRuntimeSettings } from '../runtime/settings.ts';
import { makeDirectories } from '../store/make-directories.ts';
import type { ClusterAdapter, ClusterCall } from './cluster-call.ts';
import { askCluster } from './cluster-verbs.ts';
import { exitCodes, failureLines, failureOf } from './failure.ts';

export type ClusterProgramOptions = {
  readonly argv: readonly string[];
  readonly adapter: ClusterAdapter;
  readonly environment: (name: string) => string | null;
  readonly onSignal: (listener: (signal: NodeJS.Signals) => void) => void;
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
};

const usage = `qinglong-edge-postgres --store postgres://… [--data DIR] COMMAND
  serve [--until-idle] [--lease-ms N] [--concurrency N]
  migrate
  package install DIR
  workflow start PACKAGE/WORKFLOW [--key KEY]
  runs list | runs show ID | runs cancel ID | runs retry ID
  verify
`;

const leaseMsDefault = 15_000;
const leaseMsMin = 1_000;

const optionTypes = {
  store: { type: 'string' },
  data: { type: 'string' },
  key: { type: 'string' },
  concurrency: { type: 'string' },
  'lease-ms': { type: 'string' },
  'until-idle': { type: 'boolean' },
  help: { type: 'boolean' },
} as const;

/** Returns the exit code; never throws. */
export async function runClusterProgram(options: ClusterProgramOptions): Promise<number> {
  const { stdout, stderr } = options;
  try {
    const call = readCall(options);
    if (call === null) {
      stdout(usage);
      return exitCodes.done;
    }
    makeDirectories(call.data);
    switch (call.words[0]) {
      case 'serve':
        return await serve(call, options);
      case 'migrate':
        call.print({ applied: await call.adapter.migrate(call.url) });
        return exitCodes.done;
      default:
        return await askCluster(call);
    }
  } catch (error) {
    const failure = failureOf(error);
    stderr(`${failureLines(failure).join('\n')}\n`);
    return failure.exitCode;
  }
}

/** Null where help was asked for. Throws `invalid`. */
function readCall({ argv, adapter, environment, stdout, stderr }: ClusterProgramOptions): ClusterCall | null {
  const { values, positionals } = readArguments(argv);
  if (values.help === true) {
    return null;
  }
  const url = values.store ?? environment('QINGLONG_EDGE_STORE');
  if (url === null || positionals.length === 0) {
    const what = url === null ? '--store is missing' : 'a command is missing';
    throw new EdgeError('invalid', what, { hint: 'see `qinglong-edge-postgres --help`' });
  }
  const given =
    values.concurrency === undefined ? {} : { concurrency: readNumber('--concurrency', values.concurrency) };
  const settings = readRuntimeSettings({ given, environment, config: null, profile: 'standalone' });
  const leaseMs = readNumber('--lease-ms', values['lease-ms'] ?? `${leaseMsDefault}`);
  if (leaseMs < leaseMsMin) {
    throw new EdgeError('invalid', `--lease-ms must be at least ${leaseMsMin}`, { hint: 'give a longer one' });
  }
  const clock = realClock(settings.bootId);
  return {
    ...{ url, words: positionals, settings, leaseMs, adapter, clock },
    data: path.resolve(values.data ?? environment('QINGLONG_EDGE_DATA') ?? '.qinglong-edge'),
    key: values.key ?? null,
    isUntilIdle: values['until-idle'] === true,
    alarm: realAlarm(clock),
    ids: realIds(clock),
    log: (line) => stderr(`${new Date(clock.observe().wallMs).toISOString()} ${line}\n`),
    print: (document) => stdout(`${JSON.stringify(document)}\n`),
  };
}

function readArguments(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options: optionTypes, allowPositionals: true });
  } catch (cause) {
    const what = cause instanceof Error ? cause.message : `${cause}`;
    throw new EdgeError('invalid', what, { cause, hint: 'see `qinglong-edge-postgres --help`' });
  }
}

function readNumber(name: string, text: string): number {
  if (!/^[1-9][0-9]{0,6}$/.test(text)) {
    throw new EdgeError('invalid', `${name} must be a positive whole number`, { hint: 'correct it' });
  }
  return Number(text);
}

async function serve(call: ClusterCall, { onSignal }: ClusterProgramOptions): Promise<number> {
  const { url, data, settings, leaseMs, isUntilIdle, adapter, log, print } = call;
  const stopped = Promise.withResolvers<OnStop>();
  onSignal((signal) => stopped.resolve(signal === 'SIGQUIT' ? 'detach' : settings.onStop));
  const shared = await adapter.openStore(url, call, log);
  const leases = adapter.openLeases(url, call, leaseMs);
  const engine = { data, runDirectory: null, handlers: {}, log, onOutput: null, settings };
  const cluster = await Cluster.open({ ...call, engine, shared, leases });
  print({ type: 'ready', data, engine: shared.info.engine, durability: shared.info.durability, pid: process.pid });
  const idle = isUntilIdle ? cluster.idle().then((): OnStop => settings.onStop) : null;
  const onStop = await Promise.race(idle === null ? [stopped.promise] : [stopped.promise, idle]);
  await cluster.close(onStop);
  return exitCodes.done;
}
