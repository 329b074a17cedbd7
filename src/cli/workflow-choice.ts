// Which workflow of a package directory is meant, when a person named none or one.
import { realpath } from 'node:fs/promises';
import { EdgeError } from '../core/errors.ts';
import { didYouMean } from '../core/nearest.ts';
import { readManifestFile } from '../runtime/manifest-file.ts';
import { omittedNames, scanPackage } from '../runtime/package-scan.ts';
import { checkPackage } from '../runtime/package-source.ts';
import { cutInput } from './plain-text.ts';

/**
 * The workflow that was asked for, or the only one. Throws `invalid` where that is not one, and for a package with
 * mistakes, with all of them; reads the manifest alone where it is sound.
 */
export async function chooseWorkflow(directory: string, asked: string | null): Promise<string> {
  const { name, workflowIds } = await readWorkflows(directory);
  if (asked !== null) {
    if (workflowIds.includes(asked)) {
      return asked;
    }
    const rule = `is no workflow of package ${name}${didYouMean(asked, workflowIds)}`;
    throw choiceError(`--workflow ${cutInput(asked)} ${rule}`, hintFor(workflowIds), '--workflow', rule);
  }
  const [only] = workflowIds;
  if (only !== undefined && workflowIds.length === 1) {
    return only;
  }
  const rule = only === undefined ? 'has no workflow to run' : `has ${workflowIds.length} workflows`;
  throw choiceError(`package ${name} ${rule}`, hintFor(workflowIds), name, rule);
}

function hintFor(workflowIds: readonly string[]): string {
  return workflowIds.length === 0
    ? 'add one under `workflows` in its manifest'
    : `choose one with --workflow: ${workflowIds.join(', ')}`;
}

function choiceError(message: string, hint: string, path: string, rule: string): EdgeError {
  return new EdgeError('invalid', message, { hint, mistakes: [{ file: null, path, line: null, rule }] });
}

async function readWorkflows(
  directory: string,
): Promise<{ readonly name: string; readonly workflowIds: readonly string[] }> {
  const manifest = (await readManifest(directory)) ?? (await checkPackage(directory)).manifest;
  const workflowIds = manifest.workflows.filter(({ enabled }) => enabled).map(({ id }) => id);
  return { name: manifest.name, workflowIds };
}

/** Null where there is anything wrong: then the whole check tells everything at once. */
async function readManifest(directory: string) {
  const root = await realpath(directory).catch(() => null);
  const scan = root === null ? null : await scanPackage(root, omittedNames).catch(() => null);
  const source = root === null || scan === null ? null : await readManifestFile(root, scan).catch(() => null);
  return source === null || 'mistakes' in source ? null : source.manifest;
}
