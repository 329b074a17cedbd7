// `workflow list`, `workflow plan`, `advance`.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { canonicalJson } from '../core/canonical-json.ts';
import { EdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { buildPlan } from '../core/plan.ts';
import { decideStart } from '../core/start-guard.ts';
import type { AdvanceOutcome } from '../protocol/advance.ts';
import { type PackageHead, read } from '../protocol/reads.ts';
import { realIds } from '../runtime/ports.ts';
import { localProjectId } from '../runtime/settings.ts';
import { type Cell, formatTable } from './columns.ts';
import type { Context, Input } from './command.ts';
import { exitCodes, refusal } from './failure.ts';
import { describeWriteTrouble } from './file-trouble.ts';
import { packageState } from './package-list.ts';
import { withReader, withVerbs } from './session.ts';
import { formatElapsed } from './times.ts';

export async function listCommand(context: Context): Promise<number> {
  const { output, self } = context;
  const heads = await withReader(context, (reader) => reader.read(read('packages', { projectId: localProjectId })));
  const present = heads.filter(({ lifecycle }) => lifecycle.state !== 'uninstalled');
  if (output.isJson) {
    output.printJson({ workflows: present.flatMap(workflowDocuments) });
  } else if (present.every(({ revision }) => revision.workflows.length === 0)) {
    output.note(`no workflows; install a package that has some: ${self} package install DIR`);
  } else {
    const heading = ['WORKFLOW', 'STATE', 'STEPS', 'TIMEOUT', 'TITLE'];
    output.print(...formatTable(heading, present.flatMap(workflowRows), output.paint));
  }
  return exitCodes.done;
}

function workflowRows(head: PackageHead): readonly (readonly Cell[])[] {
  const ofPackage = packageState(head);
  return head.revision.workflows.map(({ id, enabled, steps, timeoutMs, title }) => [
    `${head.installation.target.packageName}/${id}`,
    ofPackage.text === 'active' && !enabled ? { text: 'disabled', tone: 'yellow' } : ofPackage,
    `${steps.length}`,
    timeoutMs === null ? '' : formatElapsed(timeoutMs),
    title ?? '',
  ]);
}

function workflowDocuments(head: PackageHead): readonly object[] {
  const { packageName, generation } = head.installation.target;
  return head.revision.workflows.map(({ id, enabled, title, steps, timeoutMs, definitionDigest }) => ({
    packageName,
    workflowId: id,
    title,
    generation,
    isEnabled: enabled,
    packageState: head.lifecycle.state,
    isQuarantined: head.isQuarantined,
    isPublisherRevoked: head.isPublisherRevoked,
    timeoutMs,
    steps: steps.map(({ stepKey, taskId, needs }) => ({ stepKey, taskId, needs })),
    definitionDigest,
  }));
}

export async function planCommand(context: Context, input: Input): Promise<number> {
  const { output, clock, self } = context;
  const [packageName = '', workflowId = ''] = input.arguments[0]!.split('/');
  const head = await withReader(context, (reader) =>
    reader.read(read('package', { projectId: localProjectId, packageName })),
  );
  const hint = `see \`${self} workflow list\``;
  if (head === null) {
    return output.fail(refusal('not-found', `package ${packageName} is not installed`, hint));
  }
  const ids = realIds(clock);
  const { target } = head.installation;
  const planned = buildPlan({
    planId: ids.fresh(),
    runId: ids.fresh(),
    target,
    publicationDigest: head.publication.publicationDigest,
    revision: head.revision,
    workflowId,
    nowMs: clock.observe().wallMs,
  });
  if ('refusal' in planned) {
    return output.fail(refusal(planned.refusal.kind, planned.refusal.reason, hint));
  }
  const { plan } = planned;
  // A plan decides nothing; but whoever makes one should know that it would not be admitted now.
  const guard = decideStart(plan.target, {
    head,
    isQuarantined: head.isQuarantined,
    quarantineReason: head.quarantineReason,
    isPublisherRevoked: head.isPublisherRevoked,
  });
  if (guard !== null) {
    output.note(`qinglong-edge: this plan would not be admitted now: ${guard.reason}`);
  }
  const text = `${canonicalJson(plan)}\n`;
  const file = input.options.out ?? null;
  if (file === null) {
    output.write(text);
  } else {
    writePlan(path.resolve(file), text);
    output.note(`wrote plan ${plan.planId} of run ${plan.runId} to ${file}; admit it: ${self} workflow admit ${file}`);
  }
  return exitCodes.done;
}

function writePlan(file: string, text: string): void {
  try {
    writeFileSync(file, text);
  } catch (cause) {
    const hint = 'name another file with --out, or leave it out to print the plan';
    throw new EdgeError('unavailable', describeWriteTrouble(cause, file), { cause, hint });
  }
}

export async function advanceCommand(context: Context, input: Input): Promise<number> {
  const { output } = context;
  const limit = input.options.page ?? limits.pageMax;
  return await withVerbs(context, { command: 'advance', mayCreate: false }, async ({ verbs }) => {
    const report = await verbs.advance({ limit });
    if (output.isJson) {
      output.printJson(report);
    } else {
      output.print(...report.outcomes.map(describeAdvance));
      const more = report.hasMore ? '; more wait' : '';
      output.note(`${report.outcomes.length} of at most ${limit} runs looked at${more}`);
    }
    return exitCodes.done;
  });
}

function describeAdvance(outcome: AdvanceOutcome): string {
  switch (outcome.kind) {
    case 'advanced':
    case 'unchanged':
      return `${outcome.runId}  ${outcome.kind}, ${outcome.readyStepRunIds.length} ready`;
    case 'terminal':
    case 'settled':
      return `${outcome.runId}  ${outcome.kind}: ${outcome.status.replaceAll('_', ' ')}`;
    case 'not-found':
      return `${outcome.runId}  not found`;
  }
}
