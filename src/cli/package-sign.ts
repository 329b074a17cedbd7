// `package sign DIR KEYFILE`: what a publisher does before giving a package away. Needs no data directory.
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { EdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { signatureName } from '../runtime/package-scan.ts';
import { printSignature, signLockDigest } from '../runtime/package-signature.ts';
import { readPackage } from '../runtime/package-source.ts';
import { readBounded } from './bounded-input.ts';
import type { Context, Input } from './command.ts';
import { exitCodes } from './failure.ts';
import { describeWriteTrouble } from './file-trouble.ts';
import { neutralize } from './plain-text.ts';

export async function signCommand({ output }: Context, input: Input): Promise<number> {
  const [packageText, keyFile] = input.arguments as [string, string];
  const pem = await readBounded({
    file: keyFile,
    bytesMax: limits.keyFileBytesMax,
    hint: 'name a file with an Ed25519 private key in PEM',
    tooLongHint: 'a key is smaller',
  });
  const { contents, manifest, lockDigest } = await readPackage(path.resolve(packageText));
  const { signatureFile } = contents;
  if (signatureFile === null) {
    throw new EdgeError('invalid', `${packageText} has a ${signatureName} in it`, {
      hint: 'sign the directory, and make the archive anew',
    });
  }
  const signature = signLockDigest(lockDigest, new TextDecoder().decode(pem));
  await write(signatureFile, printSignature(signature));
  if (output.isJson) {
    const { name: packageName, version } = manifest;
    output.printJson({ packageName, version, lockDigest, signedBy: signature.keyId, file: signatureFile });
  } else {
    output.print(neutralize(`signed ${manifest.name} ${manifest.version} with ${signature.keyId}: ${signatureFile}`));
  }
  return exitCodes.done;
}

// Written in place: a file beside it would be a part of the package, and one that is cut off is refused as such.
async function write(file: string, text: string): Promise<void> {
  try {
    await writeFile(file, text);
  } catch (cause) {
    throw new EdgeError('unavailable', describeWriteTrouble(cause, file), {
      hint: 'sign it where you may write',
      cause,
    });
  }
}
