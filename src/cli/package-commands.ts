// `package check`, `install`, `disable`, `enable`, `uninstall`, `quarantine`: what changes packages, or says before
// whether it could.
import path from 'node:path';
import type { LifecycleOutcome, QuarantineOutcome } from '../protocol/package.ts';
import type { Context, Handler, Input } from './command.ts';
import { exitCodes, refusal } from './failure.ts';
import { describeNeeds, findNeeds } from './install-notes.ts';
import { describeInstall, installDocument, refusedInstall } from './install-text.ts';
import { operatorName } from './operator.ts';
import { neutralize } from './plain-text.ts';
import { withVerbs } from './session.ts';
import { formatBytes, formatCount } from './times.ts';

export async function checkCommand({ output }: Context, input: Input): Promise<number> {
  const { checkPackage } = await import('../runtime/package-source.ts');
  const { contents, manifest, files, lockDigest, manifestFile, signature, warnings } = await checkPackage(
    path.resolve(input.arguments[0]!),
  );
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  const { name, version, tasks, workflows } = manifest;
  if (output.isJson) {
    output.printJson({
      packageName: name,
      version,
      directory: contents.kind === 'directory' ? contents.path : null,
      archive: contents.kind === 'archive' ? contents.path : null,
      manifestFile,
      lockDigest,
      signedBy: signature?.keyId ?? null,
      files: files.length,
      bytes,
      leftOut: contents.scan.leftOut,
      tasks: tasks.map(({ id }) => id),
      workflows: workflows.map(({ id }) => id),
      warnings,
    });
  } else {
    const parts = [formatCount(tasks.length, 'task'), formatCount(workflows.length, 'workflow')];
    const { leftOut } = contents.scan;
    const without = leftOut.length === 0 ? '' : `, without ${leftOut.join(' and ')}`;
    const size = `${formatCount(files.length, 'file')}, ${formatBytes(bytes)}${without}`;
    const signed = signature === null ? '' : `, signed by ${signature.keyId}`;
    output.print(`${name} ${version} is sound: ${parts.join(', ')} in ${size}${signed}`);
    for (const { file, rule } of warnings) {
      output.note(neutralize(`warning: ${file} ${rule}`));
    }
  }
  return exitCodes.done;
}

export async function installCommand(context: Context, input: Input): Promise<number> {
  const { output, self } = context;
  const packagePath = path.resolve(input.arguments[0]!);
  // A mistyped path makes no data directory.
  const { locatePackage } = await import('../runtime/package-source.ts');
  await locatePackage(packagePath);
  return await withVerbs(context, { command: 'package install', mayCreate: true }, async ({ verbs, reads }) => {
    const report = await verbs.install({ path: packagePath });
    const refused = refusedInstall(report);
    if (refused !== null) {
      return output.fail(refused);
    }
    const needs = await findNeeds(context, reads, report.packageName);
    if (output.isJson) {
      output.printJson({ ...installDocument(report), ...needs });
    } else {
      output.print(neutralize(describeInstall(report, self)));
      describeNeeds(needs, report.packageName, self).map(neutralize).forEach(output.note);
    }
    return exitCodes.done;
  });
}

export const disableCommand = lifecycleCommand('disable', 'disabled');
export const enableCommand = lifecycleCommand('enable', 'active');
export const uninstallCommand = lifecycleCommand('uninstall', 'uninstalled');

function lifecycleCommand(word: string, to: 'active' | 'disabled' | 'uninstalled'): Handler {
  const past = to === 'active' ? 'enabled' : to;
  return async (context, input) => {
    const packageName = input.arguments[0]!;
    const reason = input.options.reason ?? null;
    return await withVerbs(context, { command: `package ${word}`, mayCreate: false }, async ({ verbs }) => {
      const outcome = await verbs.changeLifecycle({ packageName, to, reason });
      return tellChange(context, outcome, {
        document: { outcome: outcome.kind, packageName, state: to },
        text: outcome.kind === 'unchanged' ? `${packageName} is ${past} already` : `${past} ${packageName}`,
      });
    });
  };
}

export async function quarantineCommand(context: Context, input: Input): Promise<number> {
  const packageName = input.arguments[0]!;
  const request = { packageName, reason: input.options.reason!, requestedBy: operatorName() };
  return await withVerbs(context, { command: 'package quarantine', mayCreate: false }, async ({ verbs }) => {
    const outcome = await verbs.quarantine(request);
    const generation = outcome.kind === 'not-found' ? '' : `generation ${outcome.target.generation} of ${packageName}`;
    return tellChange(context, outcome, {
      document: { outcome: outcome.kind, packageName },
      text:
        outcome.kind === 'existing'
          ? `${generation} is quarantined already`
          : `quarantined ${generation}: nothing of it starts any more, and what runs of it is cancelled`,
    });
  });
}

function tellChange(
  { output, self }: Context,
  outcome: LifecycleOutcome | QuarantineOutcome,
  { document, text }: { readonly document: object; readonly text: string },
): number {
  if (outcome.kind === 'not-found' || outcome.kind === 'not-allowed') {
    return output.fail(refusal(outcome.kind, outcome.reason, `see \`${self} package list\``));
  }
  if (output.isJson) {
    output.printJson({ ...document, generation: outcome.target.generation });
  } else {
    output.print(text);
  }
  return exitCodes.done;
}
