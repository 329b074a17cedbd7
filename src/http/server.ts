// HTTP/1.1 on a Unix socket. Owns the socket, its connections and the order of closing. While nobody is connected there
// is no timer, and before the first connection neither node:http nor anything that reads a request: the socket listens
// through node:net.
import { chmodSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import path from 'node:path';
import { fromFileError } from '../core/file-error.ts';
import { limits } from '../core/limits.ts';
import { describeError, type Log } from '../runtime/log.ts';
import { makePrivateDirectory } from '../runtime/run-directory.ts';
import { Connection, type TimePorts } from './connection.ts';
import { refuseLate } from './refusal.ts';
import type { Served } from './routes.ts';
import type { Serve } from './serving.ts';
import { openSocketAddress, removeStaleSocket } from './socket-path.ts';

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
  makePrivateDirectory(path.dirname(socketPath));
  const place = openSocketAddress(socketPath);
  const connections = new Set<Connection>();
  let serving: Promise<Serve> | null = null;
  // Paused until node:http has the socket, so that no byte is read before there is a parser.
  const server = createServer({ pauseOnConnect: true }, (socket) => {
    const connection = new Connection(socket, options, refuseLate);
    connections.add(connection);
    socket.once('close', () => connections.delete(connection));
    serving ??= import('./serving.ts').then(({ createServing }) => createServing(options, connections));
    serving.then(
      (serve) => serve(connection),
      (error: unknown) => {
        options.log(`a connection failed: ${describeError(error)}`);
        socket.destroy();
      },
    );
  });
  server.maxConnections = 2 * limits.httpConnectionsMax;
  try {
    await removeStaleSocket(socketPath, place.address);
    await listen(server, place.address);
    chmodSync(socketPath, 0o600);
  } catch (error) {
    await stopListening(server);
    place.release();
    const hint = 'name another directory with --run-dir: it must be writable, and its file system must know sockets';
    throw fromFileError(error, { doing: `listen on ${socketPath}`, access: 'writes', hint });
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
