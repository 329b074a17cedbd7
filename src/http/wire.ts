// One request over a Unix socket and what comes back, or what is known when nothing does. Loads node:http when the
// first request is made.
import type { ClientRequest, IncomingMessage } from 'node:http';
import { EdgeError, type ErrorCode, errorTable, isEdgeError, type Mistake } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { openSocketAddress } from './socket-path.ts';

export type WireRequest = {
  readonly socketPath: string;
  readonly target: string;
  /** Sent as JSON by POST; with null it is a GET. */
  readonly body: unknown;
  /** How to find out whether it was done, when the answer is lost; null for what changes nothing. */
  readonly lookUp: string | null;
  /** Milliseconds without a byte; 0 for any length. */
  readonly patienceMs: number;
  readonly signal: AbortSignal | null;
};

/**
 * Resolves with the head of the answer. Rejects with `unavailable` where the request certainly reached no verb (a verb
 * begins when it has the whole body), `unknown-outcome` where it may have, `busy` where too many wait to connect.
 */
export function sendRequest(wireRequest: WireRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    let isSent = false;
    const fail = (error: unknown) => reject(explainLoss(error, { ...wireRequest, isSent }));
    try {
      const outgoing = beginRequest(wireRequest);
      outgoing.once('finish', () => {
        isSent = true;
      });
      outgoing.once('response', resolve);
      outgoing.once('timeout', () => outgoing.destroy());
      outgoing.on('error', fail);
    } catch (error) {
      fail(error);
    }
  });
}

function beginRequest({ socketPath, target, body, patienceMs, signal }: WireRequest): ClientRequest {
  const { request } = process.getBuiltinModule('node:http');
  const bytes = body === null ? null : Buffer.from(JSON.stringify(body));
  const { address, release } = openSocketAddress(socketPath);
  const outgoing = request({
    socketPath: address,
    path: target,
    method: bytes === null ? 'GET' : 'POST',
    headers: {
      host: 'qinglong-edge',
      ...(bytes === null ? {} : { 'content-type': 'application/json', 'content-length': bytes.length }),
    },
    agent: false,
    ...(signal === null ? {} : { signal }),
    ...(patienceMs === 0 ? {} : { timeout: patienceMs }),
  });
  outgoing.once('close', release);
  outgoing.end(bytes);
  return outgoing;
}

/** The document of an answer, or the error that it carries, thrown. A lost end of it is a lost answer. */
export async function readDocument(response: IncomingMessage, lookUp: string | null): Promise<unknown> {
  const document = parseDocument(await readText(response, lookUp));
  if (response.statusCode === 200) {
    return document;
  }
  throw readError(document);
}

async function readText(response: IncomingMessage, lookUp: string | null): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > limits.httpAnswerBytesMax) {
        throw notUnderstood('is too long');
      }
      chunks.push(chunk);
    }
  } catch (error) {
    throw explainLoss(error, { lookUp, isSent: true });
  }
  return Buffer.concat(chunks).toString();
}

function parseDocument(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw notUnderstood('is no JSON');
  }
}

/** The error in `{"error": …}`, as it was thrown in the holder. */
export function readError(document: unknown): EdgeError {
  const { error = null } = isRecord(document) ? document : {};
  if (!isRecord(error)) {
    return notUnderstood('is neither an answer nor an error');
  }
  const { code, message, hint, mistakes } = error;
  const isKnown = typeof code === 'string' && Object.hasOwn(errorTable, code);
  if (!isKnown || typeof message !== 'string' || typeof hint !== 'string') {
    return notUnderstood('has an error that is not known here');
  }
  return new EdgeError(code as ErrorCode, message, { hint, mistakes: readMistakes(mistakes) });
}

function readMistakes(value: unknown): readonly Mistake[] {
  const entries: readonly unknown[] = Array.isArray(value) ? value.slice(0, limits.mistakesMax) : [];
  return entries.filter(isRecord).map(({ file, path, line, rule }) => ({
    file: typeof file === 'string' ? file : null,
    path: typeof path === 'string' ? path : '',
    line: typeof line === 'number' ? line : null,
    rule: typeof rule === 'string' ? rule : '',
  }));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function notUnderstood(what: string): EdgeError {
  return new EdgeError('unavailable', `what the holder sent ${what}`, {
    hint: 'stop the holder and start it again: it may be another version',
  });
}

/** What is known when there is no answer. */
export function explainLoss(
  error: unknown,
  { lookUp, isSent }: { readonly lookUp: string | null; readonly isSent: boolean },
): EdgeError {
  if (isEdgeError(error)) {
    return error;
  }
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const isConnected = !(error instanceof Error && 'syscall' in error && error.syscall === 'connect');
  if (!isConnected && code === 'EAGAIN') {
    return new EdgeError('busy', 'too many wait for the holder', { cause: error, hint: 'try again in a moment' });
  }
  if (code === 'EACCES' || code === 'EPERM') {
    const hint = 'run this as the user that runs the holder';
    return new EdgeError('unavailable', 'this user may not talk to the holder', { cause: error, hint });
  }
  if (code.startsWith('HPE_')) {
    return notUnderstood('is no HTTP');
  }
  if (isSent && isConnected && lookUp !== null) {
    const hint = `it may have been done all the same: ${lookUp}`;
    return new EdgeError('unknown-outcome', 'no answer came from the holder', { cause: error, hint });
  }
  return new EdgeError('unavailable', 'the holder went away', {
    cause: error,
    hint: 'try again: without a holder a command does its work itself',
  });
}
