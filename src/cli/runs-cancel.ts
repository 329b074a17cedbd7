// `runs cancel`: the intent, durable when this answers; and without a holder also the end of what still runs.
import { read } from '../protocol/reads.ts';
import type { Context, Input } from './command.ts';
import { exitCodes, refusal } from './failure.ts';
import { operatorName } from './operator.ts';
import { findRunId, hintRunId } from './run-id.ts';
import { type Session, withReader, withVerbs } from './session.ts';
import { describeRun } from './step-state.ts';

export async function cancelCommand(context: Context, input: Input): Promise<number> {
  const { output, self } = context;
  const runId = await withReader(context, (reads) => findRunId(reads, input.arguments[0]!));
  return await withVerbs(context, { command: 'runs cancel', mayCreate: false }, async (session) => {
    const outcome = await session.verbs.cancel({ runId, requestedBy: operatorName() });
    if (outcome.kind === 'not-found') {
      return output.fail(refusal('not-found', `run ${runId} is unknown`, `see \`${self} runs list\``));
    }
    if (outcome.kind === 'settled' && outcome.status !== 'cancelled') {
      const word = outcome.status.replaceAll('_', ' ');
      const message = `run ${runId} has ended already: ${word}; nothing was cancelled`;
      return output.fail(refusal('conflict', message, `see \`${self} runs show ${hintRunId(runId)}\``));
    }
    await waitForStops(session, runId);
    const run = (await session.reads.read(read('run', { runId })))?.run ?? null;
    if (output.isJson) {
      output.printJson({
        outcome: outcome.kind,
        runId,
        status: run?.status ?? null,
        cancelReason: run?.cancelReason ?? null,
      });
    } else {
      output.print(`${runId} ${run === null ? 'cancelled' : describeRun(run).word}`);
    }
    return exitCodes.done;
  });
}

/** This process alone stops what it took over: it must stay until those commands are gone, and that is recorded. */
async function waitForStops({ engine, verbs, reads }: Session, runId: string): Promise<void> {
  const attempts = engine?.runtime.attempts;
  const after = (await reads.read(read('run', { runId })))?.run.eventSequence ?? 0;
  // Asked last: from here on a commit wakes what follows, and until here none was needed.
  if (attempts === undefined || attempts.count === 0) {
    return;
  }
  for await (const _event of verbs.follow({ runId, after })) {
    if (attempts.count === 0) {
      return;
    }
  }
}
