// The verbs of a holder, through its Unix socket: the same contract as in its own process. Owns which request is which
// verb, and how to look up what a lost answer leaves open. One connection a request, none in between.
import type { IncomingMessage } from 'node:http';
import path from 'node:path';
import { EdgeError } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import { isIdentifier, isPackageName } from '../core/ids.ts';
import { limits } from '../core/limits.ts';
import type { Verbs } from '../runtime/verbs.ts';
import { readMessages } from './event-stream-reader.ts';
import { explainLoss, notUnderstood, readDocument, readError, sendRequest } from './wire.ts';

export type SocketClientOptions = { readonly socketPath: string };

type FollowRequest = Parameters<Verbs['follow']>[0];

/**
 * Makes no connection until a verb is called. Each throws what it throws in the holder; besides, `unavailable` where
 * the holder is gone and nothing was done, and `unknown-outcome` where it went before it answered.
 */
export function createSocketClient({ socketPath }: SocketClientOptions): Verbs {
  const post = async <T>(target: string, body: unknown, lookUp: string): Promise<T> => {
    const patienceMs = limits.httpPatienceMsMax;
    const response = await sendRequest({ socketPath, target, body, lookUp, patienceMs, signal: null });
    // A holder of this version answers as the verb does; of another one, the commands say so.
    return (await readDocument(response, lookUp)) as T;
  };
  return {
    // The holder has a working directory of its own.
    install: async (request) =>
      post('/v1/packages', { path: path.resolve(request.path) }, 'install it again: the same bytes install once'),
    changeLifecycle: async ({ packageName, to, reason }) =>
      post(packageTarget(packageName, 'lifecycle'), { to, reason }, `see \`package show ${packageName}\``),
    quarantine: async ({ packageName, reason, requestedBy }) =>
      post(packageTarget(packageName, 'quarantine'), { reason, requestedBy }, 'do it again: it happens once'),
    addPublisher: async ({ publicKey }) => post('/v1/publishers', { publicKey }, 'add it again: it happens once'),
    revokePublisher: async ({ keyId, reason, requestedBy }) => {
      const target = `/v1/publishers/${checkName('keyId', keyId, isIdentifier)}/revocation`;
      return post(target, { reason, requestedBy }, 'see `publisher list`');
    },
    changeSetting: async ({ packageName, name, value }) =>
      post(packageTarget(packageName, 'settings'), { name, value }, `see \`settings list ${packageName}\``),
    start: async ({ packageName, workflowId, idempotencyKey, requestedBy }) => {
      const lookUp = idempotencyKey === null ? 'see `runs list`' : `start it again with the key ${idempotencyKey}`;
      return post('/v1/runs', { packageName, workflowId, idempotencyKey, requestedBy }, lookUp);
    },
    retry: async ({ runId, idempotencyKey, requestedBy }) => {
      const lookUp = idempotencyKey === null ? 'see `runs list`' : `retry it again with the key ${idempotencyKey}`;
      return post(runTarget(runId, 'retry'), { idempotencyKey, requestedBy }, lookUp);
    },
    admit: async ({ plan, requestedBy }) =>
      post('/v1/admissions', { plan, requestedBy }, 'admit the same plan again: it gives the same receipt'),
    advance: async ({ limit }) => post('/v1/advance', { limit }, 'advance again'),
    cancel: async ({ runId, requestedBy }) =>
      post(runTarget(runId, 'cancel'), { requestedBy }, `see \`runs show ${runId}\``),
    clearSetAside: async ({ runId }) => post(runTarget(runId, 'clear'), {}, 'clear it again'),
    follow: (request) => followRemotely(socketPath, request),
  };
}

function packageTarget(packageName: string, what: string): string {
  return `/v1/packages/${checkName('packageName', packageName, isPackageName)}/${what}`;
}

function runTarget(runId: string, what: string): string {
  return `/v1/runs/${checkName('runId', runId, isIdentifier)}/${what}`;
}

/** What becomes part of a path is looked at here: the holder would only see a path that it does not know. */
function checkName(field: string, value: string, accepts: (value: string) => boolean): string {
  if (accepts(value)) {
    return value;
  }
  const rule = 'is not a name that can be';
  throw new EdgeError('invalid', `${field} ${JSON.stringify(value)} ${rule}`, {
    hint: 'correct it and try again',
    mistakes: [{ file: null, path: field, line: null, rule }],
  });
}

/** Connects when it is first asked. `return` ends the connection at once, also while an event is waited for. */
function followRemotely(socketPath: string, request: FollowRequest): AsyncIterable<RunEvent> {
  return {
    [Symbol.asyncIterator]() {
      const abort = new AbortController();
      const events = readEvents(socketPath, request, abort.signal);
      return {
        next: () => events.next(),
        return: async () => {
          abort.abort();
          await events.return();
          return { done: true, value: undefined };
        },
      };
    },
  };
}

async function* readEvents(
  socketPath: string,
  { runId, after }: FollowRequest,
  signal: AbortSignal,
): AsyncGenerator<RunEvent, void> {
  const target = `${runTarget(runId, 'events')}?after=${after}`;
  try {
    const response = await sendRequest({ socketPath, target, body: null, lookUp: null, patienceMs: 0, signal });
    if (response.statusCode !== 200) {
      await readDocument(response, null);
      return;
    }
    yield* readStream(response);
  } catch (error) {
    // Who asked for the end is not told of it.
    if (!signal.aborted) {
      throw explainLoss(error, { lookUp: null, isSent: true });
    }
  }
}

async function* readStream(response: IncomingMessage): AsyncGenerator<RunEvent, void> {
  for await (const { event, data } of readMessages(response)) {
    const document = parse(data);
    if (event === 'end') {
      return;
    }
    if (event === 'error') {
      throw readError(document);
    }
    yield document as RunEvent;
  }
  throw explainLoss(null, { lookUp: null, isSent: true });
}

function parse(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    throw notUnderstood('has an event that is no JSON');
  }
}
