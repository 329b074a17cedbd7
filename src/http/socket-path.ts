// Where the Unix socket of a holder is: what a dead holder left there, and paths that are too
// long for the kernel. Owns no connection.
import { closeSync, constants, lstatSync, openSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { EdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { removeFile } from '../store/remove-file.ts';

/** What to listen on or connect to; `release` once that is over. */
export type SocketAddress = { readonly address: string; release(): void };

/**
 * An address that the kernel takes for any path: one above 107 bytes is reached through an open descriptor of its
 * directory, so that the socket is always where the layout has it. Throws the error of the file system.
 */
export function openSocketAddress(socketPath: string): SocketAddress {
  if (Buffer.byteLength(socketPath) <= limits.socketPathBytesMax) {
    return { address: socketPath, release: () => {} };
  }
  const descriptor = openSync(path.dirname(socketPath), constants.O_RDONLY | constants.O_DIRECTORY);
  return {
    address: `/proc/self/fd/${descriptor}/${path.basename(socketPath)}`,
    release: () => closeSync(descriptor),
  };
}

/**
 * Takes away the socket that a dead holder left. Throws `busy` where somebody listens on it, `invalid` where something
 * else has its name.
 */
export async function removeStaleSocket(socketPath: string, address: string): Promise<void> {
  const stats = lstatSync(socketPath, { throwIfNoEntry: false });
  if (stats === undefined) {
    return;
  }
  if (!stats.isSocket()) {
    throw new EdgeError('invalid', `${socketPath} is not a socket`, {
      hint: 'move that file away, or name another directory with --run-dir',
    });
  }
  // Whoever calls holds the lock of its data directory: a listener can only be the holder of another one.
  const refusal = await tryConnect(address);
  if (refusal !== 'ECONNREFUSED' && refusal !== 'ENOENT') {
    throw new EdgeError('busy', `another process listens on ${socketPath}`, {
      hint: 'give each data directory a run directory of its own (--run-dir)',
    });
  }
  removeFile(socketPath);
}

/** The code with which a connection is refused; null where it is accepted. */
function tryConnect(address: string): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = connect(address);
    socket.once('connect', () => {
      socket.destroy();
      resolve(null);
    });
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''));
  });
}
