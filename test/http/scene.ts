// A real server on a real socket, with verbs that are kept in memory: at this layer the verbs are the contract. Not a
// test itself.
import { mkdtempSync, rmSync } from 'node:fs';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { EdgeError } from '../../src/core/errors.ts';
import type { RunEvent } from '../../src/core/events.ts';
import type { Alarm, Clock } from '../../src/core/ports.ts';
import { createSocketClient } from '../../src/http/client.ts';
import type { Served } from '../../src/http/routes.ts';
import { type SocketServer, serveSocket } from '../../src/http/server.ts';
import { realAlarm, realClock } from '../../src/runtime/ports.ts';
import { defaultSettings } from '../../src/runtime/settings.ts';
import type { Verbs } from '../../src/runtime/verbs.ts';

type Teardown = { teardown(action: () => unknown): void };

/** A directory that is gone after the test; its name is short, as the path of a socket must be. */
export function makeDirectory(t: Teardown): string {
  const directory = mkdtempSync(path.join(tmpdir(), 'qle-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

export const sampleTarget = {
  projectId: 'local',
  packageName: 'net-watch',
  installationId: 'inst-1',
  lockDigest: '1'.repeat(64),
  generation: 3,
  generationDigest: '2'.repeat(64),
  materializedRevisionDigest: '3'.repeat(64),
} as const;

export function sampleEvent(sequence: number, summary = 'ok'): RunEvent {
  return {
    id: `ev_${sequence}`,
    runId: 'run-1',
    sequence,
    createdAtMs: 1_785_000_000_000 + sequence,
    actorType: 'runtime',
    actorId: null,
    stepRunId: null,
    attemptId: null,
    type: 'workflow.stop_forced',
    payload: { summary },
  };
}

const samplePublisher = {
  keyId: 'pk_1',
  publicKey: 'ab'.repeat(32),
  addedAtMs: 1,
  revokedAtMs: null,
  revokeReason: null,
};

export type Call = { readonly verb: keyof Verbs; readonly request: unknown };

/** Verbs that note each call and give a fixed outcome, where a test does not say otherwise. */
export function createVerbs(overrides: Partial<Verbs> = {}): { readonly verbs: Verbs; readonly calls: Call[] } {
  const calls: Call[] = [];
  const note = <T>(verb: keyof Verbs, request: unknown, outcome: T): T => {
    calls.push({ verb, request });
    return outcome;
  };
  const verbs: Verbs = {
    install: async (request) =>
      note('install', request, {
        packageName: 'net-watch',
        version: '1.0.0',
        files: 2,
        bytes: 100,
        leftOut: [],
        mended: [],
        outcome: { kind: 'existing', target: sampleTarget, lifecycleState: 'active', trust: { kind: 'unsigned' } },
      }),
    changeLifecycle: async (request) => note('changeLifecycle', request, { kind: 'changed', target: sampleTarget }),
    quarantine: async (request) => note('quarantine', request, { kind: 'quarantined', target: sampleTarget }),
    addPublisher: async (request) => note('addPublisher', request, { kind: 'existing', publisher: samplePublisher }),
    revokePublisher: async (request) =>
      note('revokePublisher', request, { kind: 'revoked', keyId: request.keyId, packageNames: ['net-watch'] }),
    changeSetting: async (request) =>
      note('changeSetting', request, { kind: 'changed', isAsked: true, nearestName: null }),
    start: async (request) => note('start', request, { kind: 'not-found', reason: 'no package “net-watch”' }),
    retry: async (request) => note('retry', request, { kind: 'not-found', reason: 'run run-1 is unknown' }),
    admit: async (request) => note('admit', request, { kind: 'conflict', reason: 'another plan has this id' }),
    advance: async (request) =>
      note('advance', request, { outcomes: [{ runId: 'run-1', kind: 'not-found' }], hasMore: true }),
    cancel: async (request) => note('cancel', request, { kind: 'requested' }),
    clearSetAside: async (request) => note('clearSetAside', request, { kind: 'unchanged' }),
    follow: async function* (request) {
      note('follow', request, null);
      yield* [1, 2, 3].filter((sequence) => sequence > request.after).map((sequence) => sampleEvent(sequence));
    },
    ...overrides,
  };
  return { verbs, calls };
}

/** A process that says who it is, and that nobody ends. */
export const idleHolder: Omit<Served, 'verbs'> = {
  describe: () => ({ command: 'test' }),
  status: () => ({
    phase: 'open',
    pid: 1,
    command: 'test',
    version: '0.0.0',
    settings: defaultSettings('edge'),
    heldBack: null,
  }),
  requestStop: () => ({ kind: 'not-allowed', pid: 1, command: 'test' }),
};

export type SimulatedTime = {
  readonly clock: Clock;
  readonly alarm: Alarm;
  /** Entries that are set now. */
  readonly count: () => number;
  readonly advance: (byMs: number) => void;
};

/** Time that moves only by `advance`. */
export function simulateTime(): SimulatedTime {
  const entries = new Set<{ readonly atMs: number; readonly ring: () => void }>();
  let nowMs = 1_000;
  return {
    clock: { observe: () => ({ wallMs: nowMs, uptimeMs: nowMs, bootId: 'boot-1' }) },
    alarm: {
      set(atMs, ring) {
        const entry = { atMs, ring };
        entries.add(entry);
        return () => entries.delete(entry);
      },
    },
    count: () => entries.size,
    advance(byMs) {
      nowMs += byMs;
      for (const entry of [...entries].filter(({ atMs }) => atMs <= nowMs)) {
        entries.delete(entry);
        entry.ring();
      }
    },
  };
}

export type Scene = {
  readonly socketPath: string;
  readonly server: SocketServer;
  readonly client: Verbs;
  readonly calls: readonly Call[];
  readonly lines: readonly string[];
};

/** Serves in a fresh directory; closed after the test. */
export async function openScene(
  t: Teardown,
  options: Partial<Verbs> & { readonly socketPath?: string; readonly time?: SimulatedTime } = {},
): Promise<Scene> {
  const { socketPath = path.join(makeDirectory(t), 'run', 'sock'), time, ...overrides } = options;
  const { verbs, calls } = createVerbs(overrides);
  const lines: string[] = [];
  const clock = time?.clock ?? realClock();
  const server = await serveSocket({
    socketPath,
    verbs,
    ...idleHolder,
    clock,
    alarm: time?.alarm ?? realAlarm(clock),
    log: (line) => lines.push(line),
  });
  t.teardown(() => server.close());
  return { socketPath, server, client: createSocketClient({ socketPath }), calls, lines };
}

export type Reply = {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
  readonly document: unknown;
};

export type Asked = {
  readonly method?: string;
  readonly target: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
};

/** One ordinary request, with node:http as any client would make it. JSON where it has a body. */
export function ask(socketPath: string, { method, target, headers, body }: Asked): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const outgoing: ClientRequest = request({
      socketPath,
      path: target,
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      agent: false,
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    });
    outgoing.on('error', reject);
    outgoing.on('response', async (response) => {
      const chunks: Buffer[] = [];
      try {
        for await (const chunk of response) {
          chunks.push(chunk);
        }
        const text = Buffer.concat(chunks).toString();
        const isJson = response.headers['content-type'] === 'application/json';
        const { statusCode: status = 0 } = response;
        resolve({ status, headers: response.headers, text, document: isJson && text !== '' ? JSON.parse(text) : null });
      } catch (error) {
        reject(error);
      }
    });
    outgoing.end(body);
  });
}

export function askJson(socketPath: string, target: string, body: unknown): Promise<Reply> {
  return ask(socketPath, { target, body: JSON.stringify(body) });
}

/** Sends bytes as they are and resolves with everything that comes back until the server closes. */
export async function sendBytes(socketPath: string, bytes: string | Uint8Array): Promise<string> {
  const socket = await connectTo(socketPath);
  socket.write(bytes);
  return readToEnd(socket);
}

export function connectTo(socketPath: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(socketPath, () => resolve(socket));
    socket.once('error', reject);
  });
}

/** Until the other side is done; a reset is an end too. */
export function readToEnd(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  return new Promise((resolve) => {
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('error', () => {});
    socket.once('close', () => resolve(Buffer.concat(chunks).toString()));
  });
}

/** What a promise rejects with; fails where it does not. */
export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new EdgeError('internal', 'nothing was thrown', { hint: 'see the test' });
}
