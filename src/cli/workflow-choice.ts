// Which workflow of a package is meant, when a person named none or one.
import { EdgeError } from '../core/errors.ts';
import { didYouMean } from '../core/nearest.ts';
import { readManifestFile } from '../runtime/manifest-file.ts';
import { checkPackage, openContents } from '../runtime/package-source.ts';
import { type Failure, refusal } from './failure.ts';
import { cutInput } from './plain-text.ts';

export type WorkflowChoice =
  | { readonly kind: 'chosen'; readonly workflowId: string }
  | { readonly kind: 'refused'; readonly failure: Failure };

/**
 * The workflow that was asked for, or the only one that may start. Refuses one that is disabled. Throws `invalid` where
 * that is not one, and for a package with mistakes, with all of them; reads the manifest alone where it is sound.
 */
export async function chooseWorkflow(path: string, asked: string | null): Promise<WorkflowChoice> {
  const { name, workflows } = await readWorkflows(path);
  const enabledIds = workflows.filter(({ enabled }) => enabled).map(({ id }) => id);
  if (asked === null) {
    return { kind: 'chosen', workflowId: chooseOnly(name, enabledIds, workflows.length) };
  }
  const found = workflows.find(({ id }) => id === asked);
  if (found === undefined) {
    const rule = `is no workflow of package ${name}${didYouMean(asked, enabledIds)}`;
    throw choiceError(`--workflow ${cutInput(asked)} ${rule}`, hintFor(enabledIds), '--workflow', rule);
  }
  if (!found.enabled) {
    const hint = 'remove `enabled: false` from it in the manifest, or start another one';
    return { kind: 'refused', failure: refusal('not-allowed', `workflow ${asked} is disabled in its package`, hint) };
  }
  return { kind: 'chosen', workflowId: asked };
}

function chooseOnly(name: string, enabledIds: readonly string[], count: number): string {
  const [only] = enabledIds;
  if (only !== undefined && enabledIds.length === 1) {
    return only;
  }
  const none = count === 0 ? 'has no workflow to run' : 'has no workflow that is enabled';
  const rule = only === undefined ? none : `has ${enabledIds.length} workflows`;
  const hint =
    only === undefined && count > 0 ? 'remove `enabled: false` from one in its manifest' : hintFor(enabledIds);
  throw choiceError(`package ${name} ${rule}`, hint, name, rule);
}

function hintFor(workflowIds: readonly string[]): string {
  return workflowIds.length === 0
    ? 'add one under `workflows` in its manifest'
    : `choose one with --workflow: ${workflowIds.join(', ')}`;
}

function choiceError(message: string, hint: string, path: string, rule: string): EdgeError {
  return new EdgeError('invalid', message, { hint, mistakes: [{ file: null, path, line: null, rule }] });
}

async function readWorkflows(path: string) {
  const { name, workflows } = (await readManifest(path)) ?? (await checkPackage(path)).manifest;
  return { name, workflows };
}

/** Null where there is anything wrong: then the whole check tells everything at once. */
async function readManifest(path: string) {
  const contents = await openContents(path).catch(() => null);
  const source = contents === null ? null : await readManifestFile(contents).catch(() => null);
  return source === null || 'mistakes' in source ? null : source.manifest;
}
