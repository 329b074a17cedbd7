// Which workflow of a package is meant, when a person named none or one.
import { EdgeError } from '../core/errors.ts';
import { didYouMean } from '../core/nearest.ts';
import { readManifestFile } from '../runtime/manifest-file.ts';
import { checkPackage, openContents } from '../runtime/package-source.ts';
import { cutInput } from './plain-text.ts';

/**
 * The workflow that was asked for, or the only one. Throws `invalid` where that is not one, and for a package with
 * mistakes, with all of them; reads the manifest alone where it is sound.
 */
export async function chooseWorkflow(path: string, asked: string | null): Promise<string> {
  const { name, workflowIds } = await readWorkflows(path);
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
  path: string,
): Promise<{ readonly name: string; readonly workflowIds: readonly string[] }> {
  const manifest = (await readManifest(path)) ?? (await checkPackage(path)).manifest;
  const workflowIds = manifest.workflows.filter(({ enabled }) => enabled).map(({ id }) => id);
  return { name: manifest.name, workflowIds };
}

/** Null where there is anything wrong: then the whole check tells everything at once. */
async function readManifest(path: string) {
  const contents = await openContents(path).catch(() => null);
  const source = contents === null ? null : await readManifestFile(contents).catch(() => null);
  return source === null || 'mistakes' in source ? null : source.manifest;
}
