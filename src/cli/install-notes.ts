// What whoever installs a package must still do before its commands can run: settings without a value, and a data
// directory that the commands of other users cannot get to. Notes; the package is installed all the same.
import { read } from '../protocol/reads.ts';
import { inspectSettings } from '../runtime/package-setting.ts';
import { localProjectId } from '../runtime/settings.ts';
import type { ReadPort } from '../runtime/verification.ts';
import type { Context } from './command.ts';
import { findClosedDirectory, reachHint } from './user-reach.ts';

export type InstallNeeds = {
  /** Settings that have neither a value on this device nor a default, by name. */
  readonly missingSettings: readonly string[];
  /** The directory that keeps the commands of other users from their files; null where none does, or none needs to. */
  readonly closedDirectory: string | null;
};

/** Reads what the installed package asks for. */
export async function findNeeds({ data }: Context, reads: ReadPort, packageName: string): Promise<InstallNeeds> {
  const place = { projectId: localProjectId, packageName };
  const head = await reads.read(read('package', place));
  if (head === null) {
    return { missingSettings: [], closedDirectory: null };
  }
  const settings = inspectSettings(head, await reads.read(read('settings', place)));
  const hasUsers = head.revision.tasks.some(({ user }) => user !== null);
  return {
    missingSettings: settings.filter(({ state }) => state === 'missing').map(({ name }) => name),
    // Who is not root runs nothing as another user anyway.
    closedDirectory: hasUsers && process.geteuid?.() === 0 ? findClosedDirectory(data) : null,
  };
}

/** One line a need, each with the command that meets it; `self` is how this program is called. */
export function describeNeeds({ missingSettings, closedDirectory }: InstallNeeds, packageName: string, self: string) {
  return [
    ...missingSettings.map(
      (name) =>
        `it needs the setting ${name}, which has no value yet: ${self} settings set ${packageName} ${name} - ` +
        '(reads it from standard input)',
    ),
    ...(closedDirectory === null ? [] : [`its tasks that set \`user\` cannot run: ${reachHint(closedDirectory)}`]),
  ];
}
