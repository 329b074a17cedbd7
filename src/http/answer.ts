// What the server says: documents, errors with their status, and the few lines that it writes where there is no request
// to answer. Owns the form of an answer, not when it is given.
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { EdgeError, errorTable, isEdgeError } from '../core/errors.ts';

export type Answer = {
  readonly status: number;
  readonly document: unknown;
  /** Methods that the path knows, where the one used is not among them. */
  readonly allow?: string;
};

/** An error as the client gets it. `status` only where HTTP has a narrower one than the error table. */
export function errorAnswer(error: EdgeError, status: number = errorTable[error.code].httpStatus): Answer {
  const { code, message, hint, mistakes } = error;
  return { status, document: { error: { code, message, hint, mistakes } } };
}

/** What a verb threw, as the one kind of error that may be shown. Anything but an EdgeError is a defect. */
export function toEdgeError(error: unknown): EdgeError {
  if (isEdgeError(error)) {
    return error;
  }
  return new EdgeError('internal', 'the holder failed in a way that it did not expect', {
    cause: error,
    hint: 'look at its log, and report what it says',
  });
}

/** No Date: it would keep a timer, and the clock of a router is often wrong. */
export function writeHead(response: ServerResponse, status: number, headers: Readonly<Record<string, string>>): void {
  response.sendDate = false;
  response.shouldKeepAlive = false;
  response.writeHead(status, {
    ...headers,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  });
}

export function writeAnswer(response: ServerResponse, answer: Answer): void {
  const body = Buffer.from(JSON.stringify(answer.document));
  writeHead(response, answer.status, {
    'content-type': 'application/json',
    'content-length': String(body.length),
    ...(answer.allow === undefined ? {} : { allow: answer.allow }),
  });
  response.end(body);
}

/** Answers where no request could be read, and closes the connection. */
export function writeRawAnswer(socket: Socket, { status, document }: Answer): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const body = JSON.stringify(document);
  const head = [
    `HTTP/1.1 ${status} Refused`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
  socket.destroySoon();
}
