// Failures of system calls that say nothing of what was asked for: this process or the system was short of descriptors,
// processes or memory at that moment. Whoever takes one for an answer ("there is no receipt") tells a lie, so every
// look that may meet one throws it on, and is made again later.

const errnos: ReadonlySet<string> = new Set(['EAGAIN', 'ENOMEM', 'EMFILE', 'ENFILE']);

/** The errno of a failed system call, or an empty text. */
export function errnoOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? `${error.code}` : '';
}

/** Whether the same call may work in a moment. */
export function isShortage(error: unknown): boolean {
  return errnos.has(errnoOf(error));
}

/** Null for what is not there, or is not to be had at all; throws where that cannot be told now. */
export function nullUnlessShort(error: unknown): null {
  if (isShortage(error)) {
    throw error;
  }
  return null;
}
