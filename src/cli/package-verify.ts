// `package verify NAME`: whether the installed files are those that were digested, and whose they are. Reads every byte
// of them again; changes nothing.
import path from 'node:path';
import type { Mistake } from '../core/errors.ts';
import { quarantined } from '../core/start-guard.ts';
import { remedyOfRevoked } from '../protocol/package.ts';
import { type PackageHead, read } from '../protocol/reads.ts';
import { localProjectId } from '../runtime/settings.ts';
import type { Context, Input } from './command.ts';
import { exitCodes, mistakeLine, refusal } from './failure.ts';
import { neutralize } from './plain-text.ts';
import { withReader } from './session.ts';
import type { Reader } from './storage.ts';
import { formatCount } from './times.ts';

export type PackageVerification = {
  readonly packageName: string;
  readonly version: string;
  readonly generation: number;
  readonly lockDigest: string;
  readonly files: number;
  readonly differences: readonly Mistake[];
  /** Files that are no part of the package; no command is kept from running by them. */
  readonly added: readonly string[];
  readonly signature: {
    /** `wrong`: what is recorded as its signature is not one of these files by that key. */
    readonly state: 'unsigned' | 'trusted' | 'revoked' | 'wrong';
    readonly keyId: string | null;
  };
  readonly isQuarantined: boolean;
  readonly quarantineReason: string | null;
};

/** Throws `damaged` where not even the list of the files is what it was. */
export async function verifyPackage(
  { data }: Context,
  reader: Reader,
  head: PackageHead,
): Promise<PackageVerification> {
  const { lookAtPackage } = await import('../runtime/package-look.ts');
  const { target, version } = head.installation;
  const { packageName, generation, lockDigest } = target;
  const files = await reader.read(read('packageFiles', { lockDigest }));
  const directory = path.join(data, 'packages', lockDigest);
  const missing: Mistake = { file: directory, path: '', line: null, rule: 'has no list of its files any more' };
  const look = files === null ? { differences: [missing], added: [] } : await lookAtPackage(directory, files);
  const { differences, added } = look;
  const signature = await verifySignature(reader, head);
  return {
    packageName,
    version,
    generation,
    lockDigest,
    files: files?.length ?? 0,
    differences,
    added,
    signature,
    isQuarantined: head.isQuarantined,
    quarantineReason: head.quarantineReason,
  };
}

async function verifySignature(
  reader: Reader,
  { installation }: PackageHead,
): Promise<PackageVerification['signature']> {
  const { publisherKeyId: keyId, signature, target } = installation;
  if (keyId === null || signature === null) {
    return { state: 'unsigned', keyId: null };
  }
  const { isSignatureOf } = await import('../runtime/package-signature.ts');
  const publisher = await reader.read(read('publisher', { keyId }));
  if (publisher === null || !isSignatureOf(target.lockDigest, { publicKey: publisher.publicKey, signature })) {
    return { state: 'wrong', keyId };
  }
  return { state: publisher.revokedAtMs === null ? 'trusted' : 'revoked', keyId };
}

/** Whether everything is as it was recorded. What is forbidden is no damage: the record says so. */
export function isSoundPackage({ differences, signature }: PackageVerification): boolean {
  return differences.length === 0 && signature.state !== 'wrong';
}

function isForbidden({ isQuarantined, signature }: PackageVerification): boolean {
  return isQuarantined || signature.state === 'revoked';
}

export async function verifyCommand(context: Context, input: Input): Promise<number> {
  const { output, self } = context;
  const packageName = input.arguments[0]!;
  const verification = await withReader(context, async (reader) => {
    const head = await reader.read(read('package', { projectId: localProjectId, packageName }));
    return head === null || head.lifecycle.state === 'uninstalled' ? null : await verifyPackage(context, reader, head);
  });
  if (verification === null) {
    const hint = `see \`${self} package list\``;
    return output.fail(refusal('not-found', `package ${packageName} is not installed`, hint));
  }
  const isSound = isSoundPackage(verification);
  if (output.isJson) {
    output.printJson({ ...verification, isSound, isForbidden: isForbidden(verification) });
  } else {
    output.print(...describe(verification, self).map(neutralize));
  }
  const code = isForbidden(verification) ? exitCodes.refused : exitCodes.done;
  return isSound ? code : exitCodes.damaged;
}

function describe(verification: PackageVerification, self: string): readonly string[] {
  const { packageName, version, generation, files, differences, added, signature } = verification;
  const what = `${packageName} ${version}, generation ${generation}`;
  const head =
    differences.length === 0
      ? [`${what}: ${formatCount(files, 'file')}, every byte as it was installed`]
      : [
          `${what} is not what was installed:`,
          ...differences.map((difference) => `  ${mistakeLine(difference)}`),
          `put these right: ${self} package install DIR, with the same package`,
        ];
  const more = added.map(
    (file) => `  ${file} was added since; it is no part of the package, and no install removes it`,
  );
  const told = verification.isQuarantined
    ? [`${quarantined('quarantined', verification)}: nothing of it starts; install other bytes`]
    : [];
  return [...head, ...more, ...told, describeSignature(signature)];
}

function describeSignature({ state, keyId }: PackageVerification['signature']): string {
  switch (state) {
    case 'unsigned':
      return 'unsigned';
    case 'trusted':
      return `signed by ${keyId}, which is trusted here`;
    case 'revoked':
      return `signed by ${keyId}, which is revoked: nothing of it starts; ${remedyOfRevoked}`;
    case 'wrong':
      return `recorded as signed by ${keyId}, but that is not its signature: the record was altered`;
  }
}
