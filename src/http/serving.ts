// What reads requests and answers them: loaded with the first connection, so that a holder whom nobody asks pays
// nothing.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { limits } from '../core/limits.ts';
import { describeError, type Log } from '../runtime/log.ts';
import type { Connection } from './connection.ts';
import { answerRequest } from './exchange.ts';
import { refuseUnreadable } from './refusal.ts';
import { createByteBudget } from './request-body.ts';
import type { Served } from './routes.ts';

/** Takes over one accepted, paused connection. */
export type Serve = (connection: Connection) => void;

/** `connections` are all that are open: their number decides who is told to come again. */
export function createServing(options: Served & { readonly log: Log }, connections: ReadonlySet<Connection>): Serve {
  // node:http's events name a socket; this is the connection that it is.
  const connectionOf = new WeakMap<Socket, Connection>();
  const { verbs, describe, status, requestStop, log } = options;
  const served: Served = { verbs, describe, status, requestStop };
  const budget = createByteBudget(limits.httpBodiesBytesMax);
  const { createServer: createHttp } = process.getBuiltinModule('node:http');
  // It never listens itself, so its 30 s look at its connections never begins.
  const httpServer = createHttp({ maxHeaderSize: limits.httpHeaderBytesMax, requireHostHeader: false });
  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    const connection = connectionOf.get(request.socket);
    // What follows the first request on a connection is never carried out: its answer would not be sent.
    if (connection !== undefined && connection.request === null) {
      connection.request = request;
      const isBusy = connections.size > limits.httpConnectionsMax;
      answerRequest({ request, response, connection, served, budget, isBusy, log }).catch((error: unknown) => {
        log(`a connection failed: ${describeError(error)}`);
        connection.socket.destroy();
      });
    }
  };
  httpServer.on('request', onRequest);
  httpServer.on('checkContinue', onRequest);
  httpServer.on('checkExpectation', onRequest);
  httpServer.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const connection = connectionOf.get(socket as Socket);
    // Once a request is complete, what follows it changes nothing.
    if (connection?.request?.complete !== true) {
      refuseUnreadable(error, connection);
    }
  });
  return (connection) => {
    if (!connection.socket.destroyed) {
      connectionOf.set(connection.socket, connection);
      httpServer.emit('connection', connection.socket);
      connection.socket.resume();
    }
  };
}
