// `workflow start`: a run of an installed workflow.
import type { Context, Input } from './command.ts';
import { exitCodes } from './failure.ts';
import { inForeground } from './foreground.ts';
import { operatorName } from './operator.ts';
import { startAndWatch } from './run-command.ts';
import { withVerbs } from './session.ts';
import { readStart, startDocument, tellStart } from './start-text.ts';

export async function startCommand(context: Context, input: Input): Promise<number> {
  const [packageName = '', workflowId = ''] = input.arguments[0]!.split('/');
  const request = { packageName, workflowId, idempotencyKey: input.options.key ?? null };
  if (input.options.wait === true) {
    // Without a holder nothing would move while it waits: it carries the run on itself.
    const options = { command: 'workflow start', mayCreate: false };
    return await inForeground(context, options, (foreground) => startAndWatch(context, foreground, request));
  }
  return await withVerbs(context, { command: 'workflow start', mayCreate: false }, async (session) => {
    const outcome = await session.verbs.start({ ...request, requestedBy: operatorName() });
    const started = readStart(outcome, { self: context.self, packageName });
    if (started.kind === 'refused') {
      return context.output.fail(started.failure);
    }
    if (context.output.isJson) {
      context.output.printJson({ runId: started.runId, ...startDocument(outcome) });
    } else {
      tellStart(context, session, started);
    }
    return exitCodes.done;
  });
}
