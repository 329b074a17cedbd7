// What is true of every file of a package, wherever it is read. Loaded with the runtime, so it must not load
// `node:fs/promises`: that costs 4 ms and 1 MiB at start, for what an idle daemon never does.

// One buffer of this size serves a whole package: 64 KiB is what the kernel's read-ahead works with.
const chunkBytes = 64 * 1024;

export function createChunkBuffer(): Uint8Array {
  return new Uint8Array(chunkBytes);
}

/** The mode of a file as a package has it: whether it can be executed, and nothing about users. */
export function packageModeOf(mode: number): number {
  return (mode & 0o111) === 0 ? 0o600 : 0o700;
}

/** The name of a system error, such as ENOENT. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error);
}
