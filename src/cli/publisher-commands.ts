// `publisher add`, `list`, `revoke`: whose signatures on packages are believed on this device.
import { EdgeError, isEdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Publisher } from '../core/publisher.ts';
import { remedyOfRevoked } from '../protocol/package.ts';
import { type PackageHead, read } from '../protocol/reads.ts';
import { localProjectId } from '../runtime/settings.ts';
import { readBounded } from './bounded-input.ts';
import { type Cell, formatTable } from './columns.ts';
import type { Context, Input } from './command.ts';
import { exitCodes, refusal } from './failure.ts';
import { operatorName } from './operator.ts';
import { neutralize } from './plain-text.ts';
import { withReader, withVerbs } from './session.ts';
import { formatTime } from './times.ts';

export async function addCommand(context: Context, input: Input): Promise<number> {
  const { output } = context;
  const publicKey = await readKeyFile(input.arguments[0]!);
  return await withVerbs(context, { command: 'publisher add', mayCreate: true }, async ({ verbs }) => {
    const outcome = await verbs.addPublisher({ publicKey });
    if (outcome.kind === 'not-allowed') {
      return output.fail(refusal('not-allowed', outcome.reason, 'ask the publisher for a new key'));
    }
    const { keyId } = outcome.publisher;
    if (output.isJson) {
      output.printJson({ outcome: outcome.kind, keyId, publicKey });
    } else {
      output.print(outcome.kind === 'added' ? `trusted from now on: ${keyId}` : `${keyId} is trusted already`);
    }
    return exitCodes.done;
  });
}

async function readKeyFile(file: string): Promise<string> {
  const { readPublicKey } = await import('../runtime/package-signature.ts');
  const bytes = await readBounded({
    file,
    bytesMax: limits.keyFileBytesMax,
    hint: 'name a file with an Ed25519 public key',
    tooLongHint: 'a key is smaller',
  });
  try {
    return readPublicKey(new TextDecoder().decode(bytes));
  } catch (error) {
    if (!isEdgeError(error)) {
      throw error;
    }
    throw new EdgeError(error.code, `${file}: ${error.message}`, { hint: error.hint, cause: error });
  }
}

export async function listCommand(context: Context): Promise<number> {
  const { output, self } = context;
  const { publishers, heads } = await withReader(context, async (reads) => ({
    publishers: await reads.read(read('publishers', {})),
    heads: await reads.read(read('packages', { projectId: localProjectId })),
  }));
  if (output.isJson) {
    output.printJson({
      publishers: publishers.map((publisher) => ({ ...publisher, packages: signedBy(publisher, heads) })),
    });
  } else if (publishers.length === 0) {
    output.note(`no publishers; trust one: ${self} publisher add KEYFILE`);
  } else {
    const rows = publishers.map((publisher): readonly Cell[] => [
      publisher.keyId,
      publisher.revokedAtMs === null ? { text: 'trusted', tone: 'green' } : { text: 'revoked', tone: 'red' },
      formatTime(publisher.revokedAtMs ?? publisher.addedAtMs),
      signedBy(publisher, heads).join(', '),
      publisher.revokeReason ?? '',
    ]);
    output.print(...formatTable(['KEY', 'STATE', 'SINCE', 'PACKAGES', 'REASON'], rows, output.paint));
  }
  return exitCodes.done;
}

/** Packages whose present generation has its signature. */
function signedBy({ keyId }: Publisher, heads: readonly PackageHead[]): readonly string[] {
  const signed = heads.filter(
    ({ installation, lifecycle }) => installation.publisherKeyId === keyId && lifecycle.state !== 'uninstalled',
  );
  return signed.map(({ installation }) => installation.target.packageName);
}

export async function revokeCommand(context: Context, input: Input): Promise<number> {
  const { output, self } = context;
  const request = { keyId: input.arguments[0]!, reason: input.options.reason!, requestedBy: operatorName() };
  return await withVerbs(context, { command: 'publisher revoke', mayCreate: false }, async ({ verbs }) => {
    const outcome = await verbs.revokePublisher(request);
    if (outcome.kind === 'not-found') {
      return output.fail(refusal('not-found', outcome.reason, `see \`${self} publisher list\``));
    }
    const { keyId, packageNames } = outcome;
    if (output.isJson) {
      output.printJson({ outcome: outcome.kind, keyId, packages: packageNames });
    } else {
      output.print(neutralize(describeRevocation(outcome)));
    }
    return exitCodes.done;
  });
}

function describeRevocation({
  kind,
  keyId,
  packageNames,
}: {
  readonly kind: 'revoked' | 'existing';
  readonly keyId: string;
  readonly packageNames: readonly string[];
}): string {
  const signed = packageNames.length === 0 ? 'no package that is installed now' : packageNames.join(', ');
  if (kind === 'existing') {
    return `${keyId} is revoked already; it signed ${signed}`;
  }
  const effect = 'nothing that it signed starts any more, and what runs of it is cancelled';
  // Said to whoever thinks of signing the same files with another key.
  const bytes = `what was installed with its signature stays refused, whoever signs it anew: ${remedyOfRevoked}`;
  return `revoked ${keyId}, for good: ${effect}; it signed ${signed}; ${bytes}`;
}
