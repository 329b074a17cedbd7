// `runs retry`: a new run of the same workflow, as it is installed now, in place of one that has ended.
import { read } from '../protocol/reads.ts';
import type { RetryOutcome } from '../protocol/retry.ts';
import type { RetryRequest } from '../runtime/runtime.ts';
import type { Context, Input } from './command.ts';
import { exitCodes, type Failure, refusal } from './failure.ts';
import { inForeground } from './foreground.ts';
import { operatorName } from './operator.ts';
import { watchStart } from './run-command.ts';
import { findRunId, hintRunId } from './run-id.ts';
import { type Session, withReader, withVerbs } from './session.ts';
import { readStart, startDocument, tellStart } from './start-text.ts';

type Retry = RetryRequest & { readonly packageName: string };

export async function retryCommand(context: Context, input: Input): Promise<number> {
  const { output, self } = context;
  const retry = await withReader(context, async (reads): Promise<Retry> => {
    const runId = await findRunId(reads, input.arguments[0]!);
    const packageName = (await reads.read(read('run', { runId })))?.run.packageName ?? '';
    return { runId, packageName, idempotencyKey: input.options.key ?? null, requestedBy: operatorName() };
  });
  const options = { command: 'runs retry', mayCreate: false };
  if (input.options.wait === true) {
    return await inForeground(context, options, async (foreground) => {
      const outcome = await ask(foreground.session, retry);
      const refused = refusalOf(outcome, retry, self);
      if (refused !== null) {
        return output.fail(refused);
      }
      tellGeneration(context, outcome);
      return await watchStart(context, foreground, outcome, retry);
    });
  }
  return await withVerbs(context, options, async (session) => {
    const outcome = await ask(session, retry);
    const started = readStart(outcome, { self, packageName: retry.packageName });
    if (started.kind === 'refused') {
      return output.fail(refusalOf(outcome, retry, self) ?? started.failure);
    }
    if (output.isJson) {
      output.printJson({
        runId: started.runId,
        retryOfRunId: retry.runId,
        ...generationsOf(outcome),
        ...startDocument(outcome),
      });
    } else {
      tellStart(context, session, started);
      tellGeneration(context, outcome);
    }
    return exitCodes.done;
  });
}

function ask({ verbs }: Session, { runId, idempotencyKey, requestedBy }: Retry): Promise<RetryOutcome> {
  return verbs.retry({ runId, idempotencyKey, requestedBy });
}

/** What only a retry can be refused for; null for everything else. */
function refusalOf(outcome: RetryOutcome, { runId }: Retry, self: string): Failure | null {
  if (outcome.kind !== 'not-allowed') {
    return null;
  }
  const id = hintRunId(runId);
  switch (outcome.code) {
    case 'run_not_ended':
      return refusal('not-allowed', outcome.reason, `wait for its end, or cancel it first: ${self} runs cancel ${id}`);
    case 'not_installed':
      return refusal('not-allowed', outcome.reason, `install it first: ${self} package install DIR`);
    case 'workflow_gone':
      return refusal('not-allowed', outcome.reason, `start one that it has: ${self} workflow list`);
    default:
      return null;
  }
}

function generationsOf(outcome: RetryOutcome): { readonly generation?: number; readonly retriedGeneration?: number } {
  return outcome.kind === 'created'
    ? { generation: outcome.generation, retriedGeneration: outcome.retriedGeneration }
    : {};
}

/** What is done now may not be what was done then. */
function tellGeneration({ output }: Context, outcome: RetryOutcome): void {
  if (outcome.kind === 'created' && outcome.generation !== outcome.retriedGeneration && !output.isJson) {
    output.note(
      `the package was changed since: this run is of generation ${outcome.generation}, ` +
        `the one that it retries was of ${outcome.retriedGeneration}`,
    );
  }
}
