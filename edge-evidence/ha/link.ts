// The network between two servers: connections to one server's socket, which can be cut and are refused until they are
// allowed again. What was on its way when it was cut is lost, as in a network.
import { once } from 'node:events';
import { chmodSync } from 'node:fs';
import { createConnection, createServer, type Socket } from 'node:net';
import { join } from 'node:path';

export type Link = {
  /** The folder of the socket, which is what libpq calls a host. */
  readonly host: string;
  /** Ends all connections, and those to come. */
  cut(): void;
  heal(): void;
  close(): Promise<void>;
};

export const socketName = '.s.PGSQL.5432';

/** Opens a way to the server whose socket is in `to`, with a socket of its own in the existing folder `host`. */
export async function openLink(host: string, to: string): Promise<Link> {
  const open = new Set<Socket>();
  let isCut = false;
  const server = createServer((near) => {
    const far = createConnection(join(to, socketName));
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(socket);
      // A reset is an end like any other here.
      socket.on('error', () => {});
      socket.on('close', () => {
        open.delete(socket);
        other.destroy();
      });
    }
    if (isCut) {
      near.destroy();
      return;
    }
    near.pipe(far).pipe(near);
  });
  server.listen(join(host, socketName));
  await once(server, 'listening');
  // Whoever the servers run as is let in.
  chmodSync(join(host, socketName), 0o777);
  const cut = () => {
    isCut = true;
    for (const socket of open) {
      socket.destroy();
    }
  };
  return {
    host,
    cut,
    heal: () => {
      isCut = false;
    },
    async close() {
      cut();
      const closed = once(server, 'close');
      server.close();
      await closed;
    },
  };
}
