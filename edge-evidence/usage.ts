// How a command of the checkout says that it was called wrongly.

/** What `read` makes of the arguments. Where it throws, the process says why and how it is used, and ends with 2. */
export function readOrExit<T>(usage: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\nusage: ${usage}\n`);
    process.exit(2);
  }
}
