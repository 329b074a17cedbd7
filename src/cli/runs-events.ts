// `runs events`: the history of a run, one event a line; with `--follow` also what comes.
import { EdgeError, isEdgeError } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import { limits } from '../core/limits.ts';
import { read } from '../protocol/reads.ts';
import { createEventInspector, type EventInspection } from '../runtime/inspection.ts';
import { hasEnded } from '../runtime/run-end.ts';
import type { ReadPort } from '../runtime/verification.ts';
import type { Context, Input } from './command.ts';
import { eventPhrase } from './event-phrase.ts';
import { exitCodes } from './failure.ts';
import { neutralize } from './plain-text.ts';
import { findRunId, hintRunId } from './run-id.ts';
import { pause, withReader } from './session.ts';
import { formatTime } from './times.ts';

/** Between two looks where no holder tells of a commit. */
const lookAgainMs = 1_000;

export async function eventsCommand(context: Context, input: Input): Promise<number> {
  const { output } = context;
  return await withReader(context, async (reads) => {
    const runId = await findRunId(reads, input.arguments[0]!);
    const plan = await reads.read(read('plan', { runId }));
    if (plan === null) {
      throw new EdgeError('damaged', `run ${runId} has lost its plan`, { hint: `run \`verify ${hintRunId(runId)}\`` });
    }
    const inspect = createEventInspector(plan.planId);
    const isVerbose = input.options.verbose === true;
    const keys = new Map(plan.steps.map(({ stepRunId, stepKey }) => [stepRunId, stepKey]));
    const show = (event: RunEvent) => {
      const inspection = inspect(event);
      if (output.isJson) {
        output.printJson(inspection);
      } else {
        output.print(eventLine(inspection, keys, isVerbose ? payloadText(event) : eventPhrase(event)));
      }
    };
    if (input.options.follow === true) {
      await follow(context, { reads, runId, show });
    } else {
      await showPast(reads, { runId, after: 0, show });
    }
    return exitCodes.done;
  });
}

/** Its payload as JSON; what an event does not say is left out. */
function payloadText({ payload }: RunEvent): string {
  const known = Object.fromEntries(Object.entries(payload).filter(([, value]) => value !== null));
  return Object.keys(known).length === 0 ? '' : JSON.stringify(known);
}

/** `7  2026-03-01 12:03:01  attempt.failed  merge  exit code 3, 12 B of output`. */
function eventLine(event: EventInspection, keys: ReadonlyMap<string, string>, detail: string): string {
  const step = event.stepRunId === null ? '' : (keys.get(event.stepRunId) ?? event.stepRunId);
  const parts = [
    `${event.sequence}`.padStart(4),
    formatTime(event.createdAtMs),
    event.type.padEnd('workflow.cancel_requested'.length),
    step,
    detail,
  ];
  return neutralize(parts.filter((part) => part !== '').join('  ')).trimEnd();
}

type Watched = { readonly reads: ReadPort; readonly runId: string; readonly show: (event: RunEvent) => void };

/** Returns the sequence number of the last event there is. */
async function showPast(
  reads: ReadPort,
  watched: Omit<Watched, 'reads'> & { readonly after: number },
): Promise<number> {
  const { runId, show } = watched;
  for (let last = watched.after; ; ) {
    const page = await reads.read(read('events', { runId, after: last, limit: limits.pageMax }));
    page.forEach(show);
    last = page.at(-1)?.sequence ?? last;
    if (page.length < limits.pageMax) {
      return last;
    }
  }
}

/** Through the holder, which tells of every commit; without one, by looking again: the next may come any time. */
async function follow(context: Context, { reads, runId, show }: Watched): Promise<void> {
  let last = 0;
  const note = (event: RunEvent) => {
    last = event.sequence;
    show(event);
  };
  for (;;) {
    await followHolder(context, { runId, after: last, show: note });
    last = await showPast(reads, { runId, after: last, show: note });
    if (await hasEnded(reads, runId, last)) {
      return;
    }
    await pause(context, lookAgainMs);
  }
}

async function followHolder(
  context: Context,
  { runId, after, show }: Omit<Watched, 'reads'> & { readonly after: number },
): Promise<void> {
  const holder = await context.storage.readHolder(context.data);
  if (holder === null || holder.socket === null) {
    return;
  }
  const { createSocketClient } = await import('../http/client.ts');
  try {
    for await (const event of createSocketClient({ socketPath: holder.socket }).follow({ runId, after })) {
      show(event);
    }
  } catch (error) {
    // It went away, or is only coming: what is durable is read all the same.
    if (!isEdgeError(error) || error.code !== 'unavailable') {
      throw error;
    }
  }
}
