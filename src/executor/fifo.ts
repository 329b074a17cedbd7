// Waits for the end of whoever holds the write end of a FIFO, without polling and without asking whose pid it is.
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { Socket } from 'node:net';
import { nullUnlessShort } from './shortage.ts';

const probe = Buffer.alloc(1);

/** Whether somebody has it open for writing; false where there is none. Throws where this process is short. */
export function isFifoHeld(file: string): boolean {
  const fd = openFifo(file);
  if (fd === null) {
    return false;
  }
  closeSync(fd);
  return true;
}

/**
 * Calls `onGone` once, when the last writer has closed the FIFO. Null, without a call, where nobody holds it now: it is
 * gone already, or there is no FIFO. Until then there is no system call; the answer ends the watch. Throws where this
 * process is short of descriptors.
 */
export function watchFifo(file: string, onGone: () => void): (() => void) | null {
  const fd = openFifo(file);
  if (fd === null) {
    return null;
  }
  const socket = new Socket({ fd, readable: true, writable: false });
  // An end and an error mean the same: look at what is there.
  socket.on('error', () => {});
  socket.once('close', onGone);
  socket.resume();
  return () => {
    socket.removeListener('close', onGone);
    socket.destroy();
  };
}

/** Null where nobody writes to it, or nothing is there. */
function openFifo(file: string): number | null {
  let fd: number;
  try {
    fd = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  } catch (error) {
    return nullUnlessShort(error);
  }
  // A descriptor that was opened after the last writer had gone never reports an end: one read tells.
  if (fstatSync(fd).isFIFO() && hasWriter(fd)) {
    return fd;
  }
  closeSync(fd);
  return null;
}

function hasWriter(fd: number): boolean {
  try {
    return readSync(fd, probe, 0, 1, null) > 0;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EAGAIN';
  }
}
