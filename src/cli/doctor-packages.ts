// What `doctor` says of the installed packages: whether their files are what was installed.
import { read } from '../protocol/reads.ts';
import { localProjectId } from '../runtime/settings.ts';
import type { Check } from './check.ts';
import type { Context } from './command.ts';
import { exitCodes, failureOf } from './failure.ts';
import { isSoundPackage, type PackageVerification, verifyPackage } from './package-verify.ts';
import type { Reader } from './storage.ts';
import { formatCount } from './times.ts';

const name = 'packages';

/** Reads every byte of every installed package again. */
export async function checkPackages(context: Context, reader: Reader): Promise<Check> {
  try {
    const heads = await reader.read(read('packages', { projectId: localProjectId }));
    const packages: PackageVerification[] = [];
    for (const head of heads.filter(({ lifecycle }) => lifecycle.state !== 'uninstalled')) {
      packages.push(await verifyPackage(context, reader, head));
    }
    return describe(packages);
  } catch (error) {
    const { code, message, hint, exitCode } = failureOf(error);
    return { name, state: 'bad', text: `${code}: ${message}; ${hint}`, facts: { code }, exitCode };
  }
}

function describe(packages: readonly PackageVerification[]): Check {
  const unsound = packages.filter((verification) => !isSoundPackage(verification));
  const facts = {
    packages: packages.map((verification) => ({ ...verification, isSound: isSoundPackage(verification) })),
  };
  if (unsound.length > 0) {
    const names = unsound.map(({ packageName }) => packageName).join(', ');
    const text = `the files of ${names} are not those that were installed: see \`package verify NAME\``;
    return { name, state: 'bad', text, facts, exitCode: exitCodes.damaged };
  }
  const added = packages.filter((verification) => verification.added.length > 0);
  const note = added.length === 0 ? '' : `; something was added beside those of ${added.map(nameOf).join(', ')}`;
  return {
    name,
    state: 'ok',
    text: `${formatCount(packages.length, 'package')}: every byte as installed${note}`,
    facts,
  };
}

function nameOf({ packageName }: PackageVerification): string {
  return packageName;
}
