// Follows one run to its end and shows it; an interrupt of the terminal cancels it, a second one leaves it alone.
// Owns the way from events to a view. Knows neither how the run was started nor who carries it on.
import type { AdmissionEvidence } from '../core/admission.ts';
import { EdgeError } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import { evolve } from '../core/evolve.ts';
import type { RunRows } from '../core/records.ts';
import { isTerminalRun } from '../core/states.ts';
import { read } from '../protocol/reads.ts';
import { inspectRun, type RunInspection } from '../runtime/inspection.ts';
import { describeError } from '../runtime/log.ts';
import { localProjectId } from '../runtime/settings.ts';
import type { Context } from './command.ts';
import { exitCodes, failureOf, runExitCodes } from './failure.ts';
import type { Foreground } from './foreground.ts';
import type { Interrupts } from './interrupts.ts';
import { operatorName } from './operator.ts';
import { createJsonView, createPlainView, type RunView, type RunViewOptions } from './run-view.ts';
import type { Session } from './session.ts';

/** Returns the exit code of the run, or that of an interrupt where it was left running. */
export async function watchRun(context: Context, foreground: Foreground, runId: string): Promise<number> {
  const { session, outputs, interrupts } = foreground;
  const evidence = await session.reads.read(read('admissionOfRun', { runId }));
  if (evidence === null) {
    const hint = `see \`${context.self} runs list\``;
    throw new EdgeError('not-found', `run ${runId} is not recorded here`, { hint });
  }
  const titles = await readTitles(session, evidence);
  const view = await createView({ context, evidence, titles, outputs });
  foreground.showThrough(view);
  try {
    const left = cancelOnInterrupt(interrupts, { session, runId, view });
    const rows = await showEvents(session, { runId, view, left });
    if (rows === null) {
      view.close();
      context.output.note(`run ${runId} goes on; look at it: ${context.self} runs show ${runId}`);
      return exitCodes.interrupted;
    }
    return await showEnd(context, { session, view, inspection: inspectRun(rows, evidence) });
  } finally {
    view.close();
  }
}

async function createView(options: RunViewOptions): Promise<RunView> {
  const { output } = options.context;
  if (output.isJson) {
    return createJsonView(options);
  }
  return output.terminal().canRedraw
    ? (await import('./tree-view.ts')).createTreeView(options)
    : createPlainView(options);
}

/** Titles of the generation that the run has, where it is the present one; they are a courtesy. */
async function readTitles(session: Session, { plan }: AdmissionEvidence): Promise<ReadonlyMap<string, string>> {
  const { packageName, materializedRevisionDigest } = plan.target;
  const head = await session.reads.read(read('package', { projectId: localProjectId, packageName }));
  const revision = head?.revision.digest === materializedRevisionDigest ? head.revision : null;
  const workflow = revision?.workflows.find(({ id }) => id === plan.workflowId);
  return new Map(
    (workflow?.steps ?? []).flatMap(({ stepKey, title, taskId }) => {
      const text = title ?? revision?.tasks.find(({ id }) => id === taskId)?.title ?? null;
      return text === null ? [] : [[stepKey, text] as const];
    }),
  );
}

/** The records at the end of the events; null where the watch was left before. */
async function showEvents(
  session: Session,
  { runId, view, left }: { readonly runId: string; readonly view: RunView; readonly left: Promise<null> },
): Promise<RunRows | null> {
  const events: AsyncIterator<RunEvent> = session.verbs.follow({ runId, after: 0 })[Symbol.asyncIterator]();
  let rows: RunRows | null = null;
  for (;;) {
    const next = events.next();
    // Left alone, it may still fail when the directory is let go of.
    next.catch(() => {});
    const result = await Promise.race([next, left]);
    if (result === null) {
      // Of a holder's stream this ends the connection; a generator that waits ends with its runtime.
      Promise.resolve(events.return?.()).catch(() => {});
      return null;
    }
    if (result.done === true) {
      return rows;
    }
    rows = evolve(rows, result.value);
    view.event(result.value, rows);
  }
}

/** First signal: cancel and wait. Second: resolves, and the run is left alone. */
function cancelOnInterrupt(
  interrupts: Interrupts,
  { session, runId, view }: { readonly session: Session; readonly runId: string; readonly view: RunView },
): Promise<null> {
  const left = Promise.withResolvers<null>();
  let count = 0;
  interrupts.attach((signal) => {
    count += 1;
    // At SIGHUP nobody is at the terminal any more to see how it ends.
    if (signal === 'SIGHUP' || count > 1) {
      left.resolve(null);
      return;
    }
    view.note('cancelling: waiting for what runs to stop (once more: leave it running)');
    session.verbs
      .cancel({ runId, requestedBy: operatorName() })
      .catch((error: unknown) => view.note(`cannot cancel: ${describeError(error)}`));
  });
  return left.promise;
}

async function showEnd(
  context: Context,
  {
    session,
    view,
    inspection,
  }: { readonly session: Session; readonly view: RunView; readonly inspection: RunInspection },
): Promise<number> {
  const { id, status } = inspection.run;
  if (isTerminalRun(status) && status !== 'running') {
    view.end(inspection);
    return runExitCodes[status];
  }
  view.close();
  const setAside = await session.reads.read(read('setAside', { runId: id }));
  if (setAside !== null) {
    const error = new EdgeError('damaged', `run ${id} was set aside: ${setAside.summary}`, {
      hint: `look at it: ${context.self} verify ${id}`,
    });
    return context.output.fail(failureOf(error));
  }
  throw new EdgeError('unavailable', `run ${id} goes on, but its holder has stopped`, {
    hint: `carry it on: ${context.self} serve --until-idle`,
  });
}
