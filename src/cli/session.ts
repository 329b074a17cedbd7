// How a command reaches a data directory: through the process that holds it, else by holding it for a moment itself;
// and for reading beside anyone. Owns the choice, and the short wait while one holder goes and another comes.
import path from 'node:path';
import { EdgeError, isEdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Holder as HoldingEngine } from '../http/holder.ts';
import type { Engine, EngineOptions } from '../runtime/engine.ts';
import { describeError } from '../runtime/log.ts';
import { runDirectoryOf } from '../runtime/run-directory.ts';
import {
  defaultSettings,
  type OnStop,
  type RuntimeSettings,
  readRuntimeSettings,
  type SettingsSources,
} from '../runtime/settings.ts';
import type { Verbs } from '../runtime/verbs.ts';
import type { ReadPort } from '../runtime/verification.ts';
import type { Context } from './command.ts';
import { neutralize } from './plain-text.ts';
import { type RunEndListener, watchDamage, watchRunEnds } from './run-ends.ts';
import type { Holder, OpenStoreOptions, Reader } from './storage.ts';
import { formatTime } from './times.ts';

export type Session = {
  readonly verbs: Verbs;
  readonly reads: ReadPort;
  /** The process that the verbs reach; null where it is this one, or a shared database. */
  readonly holder: Holder | null;
  /** Whether the runtimes of a shared database carry runs on, whichever there are. */
  readonly isShared: boolean;
  /** Null where this process holds nothing. */
  readonly engine: Engine | null;
  /** Where running attempts are. */
  readonly runDirectory: string;
  /** Lets go of the directory; commands that run are left to whoever holds it next. */
  close(): Promise<void>;
};

export type SessionOptions = {
  /** What this process says that it is while it holds the directory. */
  readonly command: string;
  /** Whether to make the directory where it is missing; else that is `not-found`. */
  readonly mayCreate: boolean;
  /** Whether to carry runs on while this process holds the directory, reachable by others through its socket. */
  readonly drives: boolean;
  readonly onOutput: EngineOptions['onOutput'];
  readonly log: (line: string) => void;
};

/** Between two looks at a directory that somebody is leaving or entering. */
const lookAgainMs = 100;

/** Opens whichever way there is. Throws `busy` naming the holder where it cannot be reached for 5 s. */
export async function openSession(context: Context, options: SessionOptions): Promise<Session> {
  if (context.shared !== null) {
    const { data, runDirectory } = context;
    const settings = await readSettings(context);
    const shared = await context.shared.openSession({ data, runDirectory, settings, log: options.log });
    return { ...shared, holder: null, isShared: true, engine: null };
  }
  if (!options.mayCreate) {
    await (await context.storage.openReader({ data: context.data })).close();
  }
  const open = async () => (await openRemote(context)) ?? (await openOwn(context, options));
  try {
    return await openPatiently(context, open, async () => true);
  } catch (error) {
    throw await explainBusy(context, error, ({ pid, command }) => {
      const end = command === 'serve' ? `${context.self} stop` : `kill ${pid}`;
      return `it does not answer: try again, or end it: ${end}`;
    });
  }
}

/** A directory that is held, told as to a person: by whom, since when by the local clock, and what to do here. */
async function explainBusy(
  { storage, data }: Context,
  error: unknown,
  hintFor: (holder: Holder) => string,
): Promise<unknown> {
  const isBusy = isEdgeError(error) && error.code === 'busy';
  const holder = isBusy ? await storage.readHolder(data) : null;
  if (holder === null) {
    return error;
  }
  const { pid, command, startedAtMs } = holder;
  const message = `${data} is held by process ${pid} (${command}) since ${formatTime(startedAtMs)}`;
  return new EdgeError('busy', message, { cause: error, hint: hintFor(holder) });
}

/** Tries again for 5 s while the directory is busy and that is worth it. */
async function openPatiently<T>(
  context: Context,
  open: () => Promise<T>,
  isWorthWaiting: () => Promise<boolean>,
): Promise<T> {
  const triesUntilMs = context.clock.observe().uptimeMs + limits.turnRetryMsMax;
  for (;;) {
    try {
      return await open();
    } catch (error) {
      const isBusy = isEdgeError(error) && error.code === 'busy';
      if (!isBusy || context.clock.observe().uptimeMs >= triesUntilMs || !(await isWorthWaiting())) {
        throw error;
      }
    }
    await pause(context, lookAgainMs);
  }
}

export function pause({ alarm, clock }: Pick<Context, 'alarm' | 'clock'>, delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    alarm.set(clock.observe().uptimeMs + delayMs, resolve);
  });
}

/** Null where nobody holds the directory, or nobody that can be reached. */
async function openRemote(context: Context): Promise<Session | null> {
  const holder = await context.storage.readHolder(context.data);
  if (holder === null || holder.socket === null || !(await isReachable(holder.socket))) {
    return null;
  }
  const { createSocketClient } = await import('../http/client.ts');
  const reader = await context.storage.openReader({ data: context.data });
  return {
    verbs: createSocketClient({ socketPath: holder.socket }),
    reads: reader,
    holder,
    isShared: false,
    engine: null,
    runDirectory: path.dirname(holder.socket),
    close: async () => await reader.close(),
  };
}

/** Whether a holder answers and means to stay. Throws `unavailable` where this user may not ask it. */
async function isReachable(socketPath: string): Promise<boolean> {
  const { readDocument, sendRequest } = await import('../http/wire.ts');
  const patienceMs = limits.turnRetryMsMax;
  const request = { socketPath, target: '/v1/health', body: null, lookUp: null, patienceMs, signal: null };
  try {
    const health = await readDocument(await sendRequest(request), null);
    return (health as { readonly phase?: unknown }).phase !== 'closing';
  } catch (error) {
    if (isForbidden(error)) {
      throw error;
    }
    return false;
  }
}

/** Whether a holder could not be asked because this user may not. */
export function isForbidden(error: unknown): boolean {
  const code = isEdgeError(error) && error.cause instanceof Error && 'code' in error.cause ? error.cause.code : null;
  return code === 'EACCES' || code === 'EPERM';
}

/**
 * Holds the directory, carries its runs on, and is reached by others through its socket. Throws `busy` naming who holds
 * it: at once where that process means to stay, after 5 s where it is a short command that only records something.
 */
export async function openHolding(context: Context, options: HoldingOptions): Promise<HoldingEngine> {
  const isShort = async () => (await context.storage.readHolder(context.data))?.socket === null;
  try {
    return await openPatiently(context, () => openHoldingOnce(context, options), isShort);
  } catch (error) {
    const hint = 'other commands go through it by themselves; to hold the directory here, end it first';
    throw await explainBusy(context, error, ({ pid, command }) =>
      command === 'serve' ? `${hint}: ${context.self} stop` : `${hint}: kill ${pid}`,
    );
  }
}

type HoldingOptions = Pick<SessionOptions, 'command' | 'onOutput' | 'log'> & {
  readonly settings: RuntimeSettings;
  /** Told of each run that ends while this process holds the directory. */
  readonly onRunEnd?: RunEndListener;
  /** Told when nothing can be started because the database is damaged. */
  readonly onDamage?: (error: EdgeError) => void;
  /** See `HolderOptions`. */
  readonly onStopRequest?: (onStop: OnStop | null) => void;
  /** See `EngineOptions`. */
  readonly onQuiet?: () => void;
};

async function openHoldingOnce(context: Context, options: HoldingOptions): Promise<HoldingEngine> {
  const { openHolder } = await import('../http/holder.ts');
  const { command, onOutput, log, onRunEnd, onDamage, onQuiet, onStopRequest = null, settings } = options;
  return await openHolder({
    ...engineOptions(context, { onOutput, log, settings }),
    ...(onQuiet === undefined ? {} : { onQuiet }),
    onStopRequest,
    drives: true,
    command,
    openStore: async (ports, identity) => {
      const store = await openStore(context, { ...identity, log })(ports);
      const watched = onDamage === undefined ? store : watchDamage(store, onDamage);
      return onRunEnd === undefined ? watched : watchRunEnds(watched, onRunEnd);
    },
  });
}

async function openOwn(context: Context, options: SessionOptions): Promise<Session> {
  // Whoever stays for one run alone has no leave to end what others started, unless that is asked for.
  const settings = await readSettings(context, { onStopDefault: 'detach' });
  const engine = options.drives
    ? await openHoldingOnce(context, { ...options, settings })
    : await openShortly(context, options, settings);
  const { store, verbs, runDirectory } = engine;
  const onStop = options.drives ? settings.onStop : 'detach';
  return {
    verbs,
    reads: store,
    holder: null,
    isShared: false,
    engine,
    runDirectory,
    close: () => engine.close(onStop),
  };
}

async function openShortly(
  context: Context,
  { command, onOutput, log }: SessionOptions,
  settings: RuntimeSettings,
): Promise<Engine> {
  const { openEngine } = await import('../runtime/engine.ts');
  return await openEngine({
    ...engineOptions(context, { onOutput, log, settings }),
    drives: false,
    openStore: openStore(context, { command, socket: null, log }),
  });
}

function engineOptions(
  { data, runDirectory }: Context,
  { onOutput, log, settings }: Pick<EngineOptions, 'onOutput' | 'log' | 'settings'>,
) {
  return { data, runDirectory, handlers: {}, onOutput, log, settings };
}

/** The settings that a holder of the directory has when this command is it. */
export async function readSettings(
  context: Context,
  options: Pick<SettingsSources, 'onStopDefault'> = {},
): Promise<RuntimeSettings> {
  const { storage, data, profile, environment, givenSettings: given } = context;
  return readRuntimeSettings({ ...options, given, environment, config: await storage.readConfig(data), profile });
}

/** The same for whoever only looks: where they cannot be read, the profile's defaults, and why. */
export async function readSettingsToLook(
  context: Context,
  { info: { profile } }: Pick<Reader, 'info'>,
): Promise<{ readonly settings: RuntimeSettings; readonly error: EdgeError | null }> {
  try {
    return { settings: await readSettings(context), error: null };
  } catch (error) {
    if (!isEdgeError(error)) {
      throw error;
    }
    return { settings: defaultSettings(profile === 'standalone' ? 'standalone' : 'edge'), error };
  }
}

function openStore(
  { storage, data, profile, durability }: Context,
  { command, socket, log }: Pick<OpenStoreOptions, 'command' | 'socket'> & Pick<SessionOptions, 'log'>,
) {
  return storage.openStore({ data, profile, durability, command, socket, report: reportTo(log) });
}

/**
 * What nobody waits for goes to the log; a database that is lost ends the process: recovery starts from what is
 * durable.
 */
function reportTo(log: (line: string) => void): OpenStoreOptions['report'] {
  return {
    failed: log,
    closedForGood(error) {
      log(describeError(error));
      process.exit(4);
    },
  };
}

/** Reads for the length of one piece of work. Of a broken config.json it is said that it is, and no more. */
export async function withReader<T>(context: Context, work: (reader: Reader) => T | Promise<T>): Promise<T> {
  return await withQuietReader(context, (reader) => {
    if (reader.configError !== null) {
      const { message, hint } = reader.configError;
      context.output.note(neutralize(`${message}; ${hint}; until then nothing can hold the directory`));
    }
    return work(reader);
  });
}

/** The same for whoever tells of a broken config.json itself. */
export async function withQuietReader<T>(context: Context, work: (reader: Reader) => T | Promise<T>): Promise<T> {
  const reader = await context.storage.openReader({ data: context.data });
  try {
    return await work(reader);
  } finally {
    await reader.close();
  }
}

/** Where the attempts of a directory run: with its holder, else where this command would put them. */
export function runDirectoryFor(context: Context, holder: Holder | null): string {
  const socket = context.runDirectory === null ? (holder?.socket ?? null) : null;
  return socket === null ? runDirectoryOf(context.data, context.runDirectory) : path.dirname(socket);
}

/** A short command: recorded by the holder, or by this process where there is none. */
export async function withVerbs<T>(
  context: Context,
  options: Pick<SessionOptions, 'command' | 'mayCreate'>,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const log = (line: string) => context.output.note(`qinglong-edge: ${neutralize(line)}`);
  const session = await openSession(context, { ...options, drives: false, onOutput: null, log });
  try {
    return await work(session);
  } finally {
    await session.close();
  }
}
