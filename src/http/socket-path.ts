// Where the Unix socket of a holder is: its private directory, what a dead holder left there, and paths that are too
// long for the kernel. Owns no connection.
import { chmodSync, closeSync, constants, lstatSync, openSync, readdirSync, rmSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { EdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { makeDirectories } from '../store/make-directories.ts';

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
 * Makes the directory (0700) where it is missing. Another user who could write there could stand in for the holder, so
 * an existing one must be this user's and closed to all others; an empty one is closed here.
 */
export function makeSocketDirectory(directory: string): void {
  try {
    makeDirectories(directory);
    const { uid, mode } = statSync(directory);
    const isOwn = uid === process.geteuid?.();
    if (isOwn && (mode & 0o077) === 0) {
      return;
    }
    if (isOwn && readdirSync(directory).length === 0) {
      chmodSync(directory, 0o700);
      return;
    }
    throw new EdgeError('unavailable', `${directory} is open to other users`, {
      hint: isOwn ? `chmod 700 ${directory}, or name another one with --run-dir` : 'name another one with --run-dir',
    });
  } catch (error) {
    throw fromSystem(error, `make the run directory ${directory}`);
  }
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
  rmSync(socketPath, { force: true });
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

/** An error of the system as `unavailable`; any other comes back as it is. `doing` completes "cannot …". */
export function fromSystem(error: unknown, doing: string): unknown {
  if (!(error instanceof Error) || !('syscall' in error) || !('code' in error)) {
    return error;
  }
  return new EdgeError('unavailable', `cannot ${doing}: ${error.code}`, {
    cause: error,
    hint: 'name another directory with --run-dir: it must be writable, and its file system must know sockets',
  });
}
