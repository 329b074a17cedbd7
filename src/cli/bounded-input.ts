// Reads a file, a pipe that has a name, or standard input where that is `-`, up to a bound. Owns neither what it means
// nor its encoding.
import { createReadStream } from 'node:fs';
import { EdgeError } from '../core/errors.ts';
import { describeReadTrouble } from './file-trouble.ts';

export type BoundedInput = {
  readonly file: string;
  readonly bytesMax: number;
  /** What to give instead of what cannot be read. */
  readonly hint: string;
  /** Why so much is certainly a mistake. */
  readonly tooLongHint: string;
};

/** As messages name it. */
export function inputName(file: string): string {
  return file === '-' ? 'standard input' : file;
}

/** Throws `invalid` for what cannot be read or is longer than the bound; of that, it reads no more than tells so. */
export async function readBounded({ file, bytesMax, hint, tooLongHint }: BoundedInput): Promise<Uint8Array> {
  const name = inputName(file);
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    const stream: AsyncIterable<Buffer> = file === '-' ? process.stdin : createReadStream(file);
    for await (const chunk of stream) {
      bytes += chunk.length;
      if (bytes > bytesMax) {
        break;
      }
      chunks.push(chunk);
    }
  } catch (cause) {
    throw new EdgeError('invalid', describeReadTrouble(cause, name), { cause, hint });
  }
  if (bytes > bytesMax) {
    throw new EdgeError('invalid', `${name} has more than ${bytesMax} bytes`, { hint: tooLongHint });
  }
  return Buffer.concat(chunks);
}
