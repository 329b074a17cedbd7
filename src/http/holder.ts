// A long holder of a data directory: the engine, and the socket through which other commands reach it. Owns their
// order. The socket opens as soon as the lock is held, before the runs are taken over: who asks in between waits.
import path from 'node:path';
import { EdgeError } from '../core/errors.ts';
import { buildInfo } from '../runtime/build-info.generated.ts';
import { type Engine, type EngineOptions, openEngine, type StorePorts } from '../runtime/engine.ts';
import { makeRunDirectory, runDirectoryOf } from '../runtime/run-directory.ts';
import type { OnStop } from '../runtime/settings.ts';
import type { Verbs } from '../runtime/verbs.ts';
import type { Store } from '../store/store.ts';
import type { HolderStatus, Served } from './routes.ts';
import { type SocketServer, serveSocket } from './server.ts';

/** What holder.json says of the holder. */
export type HolderIdentity = { readonly command: string; readonly socket: string };

export type HolderOptions = Omit<EngineOptions, 'openStore'> & {
  /** Ends this process as a SIGTERM does; null where a request may not end it. */
  readonly onStopRequest?: ((onStop: OnStop | null) => void) | null;
  /** What this process runs, such as `serve`. */
  readonly command: string;
  /** Opens the store of `data` under its holder lock, with this identity in holder.json. */
  readonly openStore: (ports: StorePorts, identity: HolderIdentity) => Promise<Store>;
};

export type Holder = Engine & { readonly socketPath: string };

/** Throws what opening the store, the engine or the socket throws; nothing is left then. */
export async function openHolder(options: HolderOptions): Promise<Holder> {
  const { command, settings, onStopRequest = null } = options;
  const socketPath = path.join(runDirectoryOf(options.data, options.runDirectory), 'sock');
  const opening = Promise.withResolvers<Verbs>();
  // Nobody may ever ask.
  opening.promise.catch(() => {});
  let phase: 'opening' | 'open' | 'closing' = 'opening';
  let server: SocketServer | null = null;
  const describe = () => ({ phase, pid: process.pid, command, version: buildInfo.version });
  let opened: Engine | null = null;
  const status = (): HolderStatus => ({ ...describe(), settings, heldBack: opened?.runtime.heldBack() ?? null });
  const requestStop: Served['requestStop'] = ({ onStop }) => {
    if (onStopRequest === null) {
      return { kind: 'not-allowed', pid: process.pid, command };
    }
    // After the answer is on its way: closing lets it be finished.
    queueMicrotask(() => onStopRequest(onStop));
    return {
      kind: 'stopping',
      pid: process.pid,
      onStop: onStop ?? settings.onStop,
      stopLimitMs: settings.stopLimitMs,
    };
  };
  const openStore = async (ports: StorePorts): Promise<Store> => {
    const store = await options.openStore(ports, { command, socket: socketPath });
    try {
      makeRunDirectory(options.data, options.runDirectory);
      const verbs = verbsOf(opening.promise);
      server = await serveSocket({ socketPath, verbs, describe, status, requestStop, ...ports, log: options.log });
      return store;
    } catch (error) {
      await store.close();
      throw error;
    }
  };
  try {
    const engine = await openEngine({ ...options, openStore });
    opened = engine;
    opening.resolve(engine.verbs);
    phase = 'open';
    const close = async (onStop: 'stop' | 'detach') => {
      phase = 'closing';
      // First, so that nobody is promised what this process no longer does. Commands end while the last answers leave.
      await engine.close(onStop, server?.close());
    };
    return { ...engine, socketPath, close };
  } catch (error) {
    opening.reject(new EdgeError('unavailable', 'the holder did not start', { cause: error, hint: 'see its log' }));
    await (server as SocketServer | null)?.close();
    throw error;
  }
}

/** The verbs of an engine that may still be opening. */
function verbsOf(opening: Promise<Verbs>): Verbs {
  return {
    install: async (request) => (await opening).install(request),
    changeLifecycle: async (request) => (await opening).changeLifecycle(request),
    quarantine: async (request) => (await opening).quarantine(request),
    addPublisher: async (request) => (await opening).addPublisher(request),
    revokePublisher: async (request) => (await opening).revokePublisher(request),
    changeSetting: async (request) => (await opening).changeSetting(request),
    start: async (request) => (await opening).start(request),
    retry: async (request) => (await opening).retry(request),
    admit: async (request) => (await opening).admit(request),
    advance: async (request) => (await opening).advance(request),
    cancel: async (request) => (await opening).cancel(request),
    clearSetAside: async (request) => (await opening).clearSetAside(request),
    follow: (request) => followLater(opening, request),
  };
}

/** By hand: a generator around another one would keep whoever leaves until the next event. */
function followLater(opening: Promise<Verbs>, request: Parameters<Verbs['follow']>[0]): ReturnType<Verbs['follow']> {
  return {
    [Symbol.asyncIterator]() {
      const events = opening.then((verbs) => verbs.follow(request)[Symbol.asyncIterator]());
      // Told to whoever asks for an event.
      events.catch(() => {});
      return {
        next: async () => (await events).next(),
        return: async () => {
          await (await events).return?.();
          return { done: true, value: undefined };
        },
      };
    },
  };
}
