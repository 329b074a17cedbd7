// How this program is called again, as a person types it: for what a command says to do next.
import path from 'node:path';

export type Call = {
  /** How Node.js was named, such as `node`. */
  readonly node: string;
  /** Absolute path of the program as it was named, links not followed. */
  readonly file: string;
  /** From where it is called; null for anywhere. */
  readonly directory: string | null;
  /** The value of `PATH`. */
  readonly searchPath: string;
};

/** The bare name where `PATH` leads to the program, else `node dist/qinglong-edge.cjs`, from that directory. */
export function calledAs({ node, file, directory, searchPath }: Call): string {
  if (searchPath.split(':').includes(path.dirname(file))) {
    return quoteForShell(path.basename(file));
  }
  const relative = directory === null ? file : path.relative(directory, file);
  return [node, relative.startsWith('..') ? file : relative].map(quoteForShell).join(' ');
}

/** One word of a command line for a POSIX shell. */
export function quoteForShell(text: string): string {
  return /^[A-Za-z0-9_./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
