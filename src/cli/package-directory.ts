// The directory of a package as a person named it.
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { EdgeError } from '../core/errors.ts';

/** Its absolute path. Throws `invalid` with the directory that is meant where a file in it was named. */
export async function packageDirectory(text: string): Promise<string> {
  const directory = path.resolve(text);
  // What is not there, or may not be looked at, is told by the check of the package.
  const stats = await stat(directory).catch(() => null);
  if (stats?.isFile() === true) {
    const hint = `give the directory that it is in: ${path.dirname(text)}`;
    throw new EdgeError('invalid', `${text} is a file, not the directory of a package`, { hint });
  }
  return directory;
}
