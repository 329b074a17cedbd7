// HTTP/1.1 on a Unix socket. Owns the socket, its connections and the order of closing. While nobody is connected there
// is no timer, and before the first connection no node:http: the socket listens through node:net.
import { chmodSync } from 'node:fs';
import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import path from 'node:path';
import { EdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { describeError, type Log } from '../runtime/log.ts';
import { errorAnswer, writeRawAnswer } from './answer.ts';
import { Connection, type TimePorts } from './connection.ts';
import { answerRequest } from './exchange.ts';
import { createByteBudget } from './request-body.ts';
import type { Served } from './routes.ts';
import { fromSystem, makeSocketDirectory, openSocketAddress, removeStaleSocket } from './socket-path.ts';

export type SocketServerOptions = Served &
  TimePorts & {
    /** Absolute; its directory is made where it is missing. */
    readonly socketPath: string;
    readonly log: Log;
  };

export type SocketServer = {
  /**
   * Accepts nothing more, lets requests that reached a verb be answered (at most `httpDrainMsMax`), ends streams, drops
   * the rest, and takes the socket away. May be called again.
   */
  close(): Promise<void>;
};

/**
 * Serves the verbs to this user's processes. Whoever calls holds the lock of the data directory. Throws `unavailable`
 * where the socket cannot be made, `busy` where another process listens on it, `invalid` where it is no socket.
 */
export async function serveSocket(options: SocketServerOptions): Promise<SocketServer> {
  const { socketPath } = options;
  makeSocketDirectory(path.dirname(socketPath));
  const place = openSocketAddress(socketPath);
  const connections = new Set<Connection>();
  let httpServer: HttpServer | null = null;
  // Paused until node:http has the socket, so that no byte is read before there is a parser.
  const server = createServer({ pauseOnConnect: true }, (socket) => {
    httpServer ??= createHttpServer(options, connections);
    accept(socket, { options, connections, httpServer });
  });
  server.maxConnections = 2 * limits.httpConnectionsMax;
  try {
    await removeStaleSocket(socketPath, place.address);
    await listen(server, place.address);
    chmodSync(socketPath, 0o600);
  } catch (error) {
    await stopListening(server);
    place.release();
    throw fromSystem(error, `listen on ${socketPath}`);
  }
  server.on('error', (error) => options.log(`the socket: ${describeError(error)}`));
  let closed: Promise<void> | null = null;
  return {
    close: () => {
      closed ??= closeAll(server, connections, options).finally(place.release);
      return closed;
    },
  };
}

function listen(server: Server, address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(address, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** Ends at once if no connection is left. Takes the socket away. */
function stopListening(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}

async function closeAll(
  server: Server,
  connections: ReadonlySet<Connection>,
  { clock, alarm }: TimePorts,
): Promise<void> {
  const isClosed = stopListening(server);
  for (const connection of connections) {
    if (connection.phase === 'reading') {
      connection.socket.destroy();
    } else {
      connection.endStream?.();
    }
  }
  const cancelAlarm = alarm.set(clock.observe().uptimeMs + limits.httpDrainMsMax, () => {
    for (const connection of connections) {
      connection.socket.destroy();
    }
  });
  await isClosed;
  cancelAlarm();
}

type Accepting = {
  readonly options: SocketServerOptions;
  readonly connections: Set<Connection>;
  readonly httpServer: HttpServer;
};

// node:http's events name a socket; this is the connection that it is.
const connectionOf = new WeakMap<Socket, Connection>();

function accept(socket: Socket, { options, connections, httpServer }: Accepting): void {
  const connection = new Connection(socket, options, refuseLate);
  connections.add(connection);
  connectionOf.set(socket, connection);
  socket.once('close', () => connections.delete(connection));
  httpServer.emit('connection', socket);
  socket.resume();
}

function createHttpServer(options: SocketServerOptions, connections: ReadonlySet<Connection>): HttpServer {
  const { verbs, describe, log } = options;
  const served: Served = { verbs, describe };
  const budget = createByteBudget(limits.httpBodiesBytesMax);
  // Loaded here, and synchronously, so that no connection waits for it half accepted.
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
  return httpServer;
}

function refuseLate(connection: Connection): void {
  const error = new EdgeError('invalid', 'the request did not arrive in time', { hint: 'send it in one go' });
  refuse(connection, error, 408);
}

const unreadableStatus: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
};

function refuseUnreadable({ code = '' }: NodeJS.ErrnoException, connection: Connection | undefined): void {
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
