// `run DIR`: from a package to the end of a run, in the foreground. And what `workflow start --wait` shares
// with it: starting a run and following it.
import path from 'node:path';
import type { StartOutcome } from '../protocol/admit.ts';
import type { StartRequest } from '../runtime/runtime.ts';
import type { Context, Input } from './command.ts';
import { exitCodes, refusal } from './failure.ts';
import { type Foreground, inForeground } from './foreground.ts';
import { describeNeeds, findNeeds } from './install-notes.ts';
import { describeInstall, refusedInstall } from './install-text.ts';
import { operatorName } from './operator.ts';
import { neutralize } from './plain-text.ts';
import { hintRunId } from './run-id.ts';
import { watchRun } from './run-watch.ts';
import type { Session } from './session.ts';
import { readStart } from './start-text.ts';
import type { Holder } from './storage.ts';
import { chooseWorkflow } from './workflow-choice.ts';

export async function runCommand(context: Context, input: Input): Promise<number> {
  const packagePath = path.resolve(input.arguments[0]!);
  // Before anything is written: which workflow is meant must be clear from what was typed and the package alone.
  const choice = await chooseWorkflow(packagePath, input.options.workflow ?? null);
  if (choice.kind === 'refused') {
    return context.output.fail(choice.failure);
  }
  const { workflowId } = choice;
  return await inForeground(context, { command: 'run', mayCreate: true }, async (foreground) => {
    const packageName = await install(context, foreground.session, packagePath);
    if (packageName === null) {
      return exitCodes.refused;
    }
    if (foreground.interrupts.isPending()) {
      return exitCodes.interrupted;
    }
    return await startAndWatch(context, foreground, {
      packageName,
      workflowId,
      idempotencyKey: input.options.key ?? null,
    });
  });
}

/** Null where it was refused, which is told. */
async function install(context: Context, { verbs, reads }: Session, packagePath: string): Promise<string | null> {
  const { output, self } = context;
  const report = await verbs.install({ path: packagePath });
  const refused = refusedInstall(report);
  if (refused !== null) {
    output.fail(refused);
    return null;
  }
  if (!output.isJson && (report.outcome.kind === 'installed' || report.mended.length > 0)) {
    output.note(neutralize(describeInstall(report, self)));
  }
  if (!output.isJson) {
    const needs = await findNeeds(context, reads, report.packageName);
    describeNeeds(needs, report.packageName, self).map(neutralize).forEach(output.note);
  }
  return report.packageName;
}

/** Starts a run, or takes the one that its key led to, and follows it to its end. */
export async function startAndWatch(
  context: Context,
  foreground: Foreground,
  request: Omit<StartRequest, 'requestedBy'>,
): Promise<number> {
  const outcome = await foreground.session.verbs.start({ ...request, requestedBy: operatorName() });
  return await watchStart(context, foreground, outcome, request);
}

/** Follows the run that starting it led to, to its end; or tells why there is none. */
export async function watchStart(
  context: Context,
  foreground: Foreground,
  outcome: StartOutcome,
  request: Pick<StartRequest, 'packageName' | 'idempotencyKey'>,
): Promise<number> {
  const { output, self } = context;
  const { session } = foreground;
  const started = readStart(outcome, { self, packageName: request.packageName });
  if (started.kind === 'refused') {
    return output.fail(started.failure);
  }
  const { runId, isNew, isPruned } = started;
  if (isPruned) {
    const message = `the key ${request.idempotencyKey} led to run ${runId}, whose history was removed since`;
    return output.fail(refusal('not-found', message, 'use another key for another run'));
  }
  if (!isNew && !output.isJson) {
    output.note(`the key ${request.idempotencyKey} led to run ${runId} already`);
  }
  if (session.holder !== null && !output.isJson) {
    output.note(`carried on by process ${session.holder.pid} (${session.holder.command})`);
    output.note(await describeKept(session.holder, `${self} runs logs ${hintRunId(runId)} [STEP]`));
  }
  return await watchRun(context, foreground, runId);
}

/** The attempt directories of another process are gone before anyone could read them whole: its settings decide. */
async function describeKept({ socket }: Holder, logs: string): Promise<string> {
  const { askStatus } = await import('../http/holder-client.ts');
  const keepOutput =
    socket === null
      ? null
      : await askStatus(socket).then(
          ({ settings }) => settings.keepOutput,
          () => null,
        );
  switch (keepOutput) {
    case 'always':
      return `what the steps write: ${logs}`;
    case 'never':
      return `output is not kept; while a step runs: ${logs}`;
    case 'failures':
      return `output is kept of failed steps only; while one runs: ${logs}`;
    case null:
      return `while a step runs: ${logs}`;
  }
}
