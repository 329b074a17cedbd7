// One request and its answer: head, body, fields, verb, answer. Owns their order; each has its own file.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { EdgeError, isEdgeError } from '../core/errors.ts';
import { describeError, type Log } from '../runtime/log.ts';
import { type Answer, errorAnswer, toEdgeError, writeAnswer } from './answer.ts';
import type { Connection } from './connection.ts';
import { streamEvents } from './event-stream.ts';
import { type BodyReading, type ByteBudget, readBody } from './request-body.ts';
import { type Head, mistakesAnswer, readHead, tooLongAnswer } from './request-head.ts';
import type { Prepared, Served } from './routes.ts';

export type Exchange = {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly connection: Connection;
  readonly served: Served;
  readonly budget: ByteBudget;
  /** Whether more clients are connected than are served. */
  readonly isBusy: boolean;
  readonly log: Log;
};

/** Resolves when the answer is written, or the client is gone. Rejects only for a defect of this layer. */
export async function answerRequest(exchange: Exchange): Promise<void> {
  const { request, response, connection, budget } = exchange;
  // A client that goes away is no error of this process; `close` tells whoever waits.
  request.on('error', () => {});
  response.on('error', () => {});
  const head: Head = exchange.isBusy ? { kind: 'refused', answer: busyAnswer() } : readHead(request);
  const hasWaitingBody = request.headers.expect !== undefined;
  if (head.kind === 'refused' && hasWaitingBody) {
    finish(exchange, head.answer);
    return;
  }
  if (hasWaitingBody) {
    response.writeContinue();
  }
  const bytesMax = head.kind === 'accepted' ? head.route.bodyBytesMax : 0;
  const reading = await readBody(request, { bytesMax, budget });
  // Refused in the meantime: what came after the head was no body, or not in time.
  if (reading.kind === 'gone' || connection.phase !== 'reading') {
    return;
  }
  connection.enter('working');
  if (head.kind === 'refused') {
    finish(exchange, head.answer);
    return;
  }
  const prepared = prepare(head, reading);
  if ('status' in prepared) {
    finish(exchange, prepared);
  } else if (prepared.kind === 'document') {
    finish(exchange, await ask(exchange, prepared));
  } else {
    const events = prepared.open(exchange.served);
    await streamEvents({ response, connection, events, explain: (error) => explain(error, exchange.log) });
  }
}

type Ready = Exclude<Prepared, { kind: 'refused' }>;

function prepare(
  { route, input }: Extract<Head, { kind: 'accepted' }>,
  reading: Exclude<BodyReading, { kind: 'gone' }>,
): Ready | Answer {
  if (reading.kind === 'too-long') {
    return tooLongAnswer(route);
  }
  if (reading.kind === 'busy') {
    return busyAnswer();
  }
  const body = route.bodyBytesMax === 0 ? { value: undefined } : parseJson(reading.bytes);
  if ('rule' in body) {
    return mistakesAnswer([{ file: null, path: '', line: null, rule: body.rule }]);
  }
  const prepared = route.prepare({ ...input, body: body.value });
  return prepared.kind === 'refused' ? mistakesAnswer(prepared.mistakes) : prepared;
}

function parseJson(bytes: Buffer): { readonly value: unknown } | { readonly rule: string } {
  try {
    return { value: JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) };
  } catch (error) {
    // Not the parser's own words: they quote what stands there, which may be the value of a setting.
    return { rule: error instanceof SyntaxError ? 'has a body that is no JSON' : 'is no UTF-8' };
  }
}

async function ask({ served, log }: Exchange, prepared: Extract<Ready, { kind: 'document' }>): Promise<Answer> {
  try {
    return { status: 200, document: await prepared.ask(served) };
  } catch (error) {
    return errorAnswer(explain(error, log));
  }
}

function explain(error: unknown, log: Log): EdgeError {
  if (!isEdgeError(error)) {
    log(`a request failed: ${describeError(error)}`);
  }
  return toEdgeError(error);
}

function finish({ response, connection }: Exchange, answer: Answer): void {
  connection.enter('answering');
  writeAnswer(response, answer);
}

function busyAnswer(): Answer {
  return errorAnswer(new EdgeError('busy', 'too many requests at once', { hint: 'try again in a moment' }));
}
