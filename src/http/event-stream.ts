// Sends the events of a run as Server-Sent Events, as fast as the client takes them and not faster.
//
//   id: SEQUENCE   data: the event          one for each
//   event: end     data: {}                 the last one: the run has ended, or was set aside
//   event: error   data: {"error": …}       the last one instead, where the events could not be had
import type { ServerResponse } from 'node:http';
import { EdgeError } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import { errorAnswer, writeAnswer, writeHead } from './answer.ts';
import type { Connection } from './connection.ts';

export type EventStream = {
  readonly response: ServerResponse;
  readonly connection: Connection;
  readonly events: AsyncIterable<RunEvent>;
  /** What is told of an error of the events. */
  readonly explain: (error: unknown) => EdgeError;
};

/**
 * Resolves when the stream is over. The head is sent with the first event, so that an unknown run has its own status.
 * A client that went away, or a server that closes, stops the iteration.
 */
export async function streamEvents({ response, connection, events, explain }: EventStream): Promise<void> {
  const iterator = events[Symbol.asyncIterator]();
  let isOver = false;
  const stop = () => {
    isOver = true;
    // Not waited for: an iterator that waits for an event comes back when there is one.
    iterator.return?.()?.then(undefined, () => {});
  };
  const finish = (last: string) => {
    connection.enter('answering');
    response.end(last);
  };
  const fail = (error: EdgeError) => {
    if (response.headersSent) {
      finish(`event: error\ndata: ${JSON.stringify(errorAnswer(error).document)}\n\n`);
    } else {
      connection.enter('answering');
      writeAnswer(response, errorAnswer(error));
    }
  };
  response.once('close', stop);
  if (connection.socket.destroyed) {
    return stop();
  }
  connection.enter('streaming');
  connection.endStream = () => {
    stop();
    fail(new EdgeError('unavailable', 'the holder is stopping', { hint: 'follow again once it is back' }));
  };
  try {
    let step = await iterator.next();
    while (!isOver && step.done !== true) {
      await send({ response, connection }, step.value);
      step = isOver ? step : await iterator.next();
    }
    if (!isOver) {
      open(response);
      finish('event: end\ndata: {}\n\n');
    }
  } catch (error) {
    if (!isOver) {
      fail(explain(error));
    }
  } finally {
    connection.endStream = null;
  }
}

async function send(
  { response, connection }: Pick<EventStream, 'response' | 'connection'>,
  event: RunEvent,
): Promise<void> {
  open(response);
  if (!response.write(`id: ${event.sequence}\ndata: ${JSON.stringify(event)}\n\n`)) {
    connection.enter('stalled');
    await takenOrGone(response);
    if (connection.phase === 'stalled') {
      connection.enter('streaming');
    }
  }
}

function open(response: ServerResponse): void {
  if (!response.headersSent) {
    writeHead(response, 200, { 'content-type': 'text/event-stream' });
  }
}

/** Until the client has taken what was written, or can take no more. */
function takenOrGone(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const settle = () => {
      response.off('drain', settle);
      response.off('close', settle);
      resolve();
    };
    response.on('drain', settle);
    response.on('close', settle);
    if (response.destroyed) {
      settle();
    }
  });
}
