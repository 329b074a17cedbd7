// Refusals of what never became a whole request.
import { EdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { errorAnswer, writeRawAnswer } from './answer.ts';
import type { Connection } from './connection.ts';

/** A request that took longer than a request may. */
export function refuseLate(connection: Connection): void {
  const error = new EdgeError('invalid', 'the request did not arrive in time', { hint: 'send it in one go' });
  refuse(connection, error, 408);
}

const unreadableStatus: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
};

/** Bytes that are no request, as node:http's error tells them. */
export function refuseUnreadable({ code = '' }: NodeJS.ErrnoException, connection: Connection | undefined): void {
  if (connection?.phase === 'reading') {
    const refusal = new EdgeError('invalid', 'this is no request that is understood here', {
      hint: `send HTTP/1.1 with headers of at most ${limits.httpHeaderBytesMax} bytes`,
    });
    refuse(connection, refusal, unreadableStatus[code] ?? 400);
  }
}

/** Answers where there is no whole request, and leaves the rest of it unread. */
function refuse(connection: Connection, error: EdgeError, status: number): void {
  connection.enter('answering');
  writeRawAnswer(connection.socket, errorAnswer(error, status));
}
