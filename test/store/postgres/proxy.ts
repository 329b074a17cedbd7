// A way to a server that can be cut: everything passes, until a test says what becomes of the next COMMIT.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import path from 'node:path';
import type { TestServer } from '../../../edge-evidence/postgres-server.ts';

/** What becomes of the next COMMIT: it never arrives, or its answer never does. */
export type Cut = 'before-commit' | 'after-commit';

export type Proxy = {
  urlOf(database: string, user: string): string;
  /** Cuts the session of the next COMMIT, once. */
  cutNext(cut: Cut): void;
  /** Ends every session at once. */
  cutAll(): void;
  /** Lets nobody in any more, or again. */
  refuse(isRefusing: boolean): void;
  close(): Promise<void>;
};

// COMMIT alone is a simple query, and so is the tag of its answer.
const commitQuery = Buffer.from('COMMIT\0');

export async function openProxy(server: TestServer): Promise<Proxy> {
  const sockets = new Set<Socket>();
  let cut: Cut | null = null;
  let isRefusing = false;
  const listener = createServer((client) => {
    if (isRefusing) {
      client.destroy();
      return;
    }
    const upstream = connect(path.join(server.host, `.s.PGSQL.${server.port}`));
    let isSwallowing = false;
    const end = () => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', end);
      socket.on('close', () => {
        sockets.delete(socket);
        end();
      });
    }
    client.on('data', (bytes) => {
      if (bytes.includes(commitQuery) && cut !== null) {
        const how = cut;
        cut = null;
        if (how === 'before-commit') {
          end();
          return;
        }
        isSwallowing = true;
      }
      upstream.write(bytes);
    });
    upstream.on('data', (bytes) => {
      if (!isSwallowing) {
        client.write(bytes);
      } else if (bytes.includes(commitQuery)) {
        end();
      }
    });
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;
  const cutAll = () => {
    for (const socket of sockets) {
      socket.destroy();
    }
  };
  return {
    urlOf: (database, user) => `postgres://${user}@127.0.0.1:${port}/${database}`,
    cutNext(how) {
      cut = how;
    },
    cutAll,
    refuse(refusing) {
      isRefusing = refusing;
    },
    async close() {
      cutAll();
      const closed = once(listener, 'close');
      listener.close();
      await closed;
    },
  };
}
