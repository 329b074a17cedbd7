// Follows one run to its end and shows it; an interrupt of the terminal cancels it, a second one leaves it alone.
// Owns the way from events to a view. Knows neither how the run was started nor who carries it on.
import type { AdmissionEvidence } from '../core/admission.ts';
import { EdgeError } from '../core/errors.ts';
import type { RunEvent } from '../core/events.ts';
import { evolve } from '../core/evolve.ts';
import { limits } from '../core/limits.ts';
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
import { hintRunId } from './run-id.ts';
import { createJsonView, createPlainView, type RunView, type RunViewOptions } from './run-view.ts';
import type { Session } from './session.ts';

/** Returns the exit code of the run, or that of one that was left running. */
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
    const { left, isCancelling } = cancelOnInterrupt(interrupts, { session, runId, view });
    const rows = await showEvents(session, { runId, view, left });
    if (rows === null) {
      view.close();
      tellLeft(context, session, { runId, isCancelling: isCancelling() });
      return exitCodes.left;
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
    : (await import('./run-waiting.ts')).withWaiting(options.context, createPlainView(options));
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

/**
 * First signal: cancel and wait. A second one, or SIGQUIT: `left` resolves, and the run is left as it is then. A
 * terminal that goes away ends nothing: who only follows a run leaves, who carries it on does so to its end.
 */
function cancelOnInterrupt(
  interrupts: Interrupts,
  { session, runId, view }: { readonly session: Session; readonly runId: string; readonly view: RunView },
): { readonly left: Promise<null>; readonly isCancelling: () => boolean } {
  const left = Promise.withResolvers<null>();
  let count = 0;
  let isCancelling = false;
  interrupts.attach((signal) => {
    if (signal === 'SIGHUP') {
      if (session.holder !== null || session.isShared) {
        left.resolve(null);
      }
      return;
    }
    count += 1;
    if (signal === 'SIGQUIT' || count > 1) {
      left.resolve(null);
      return;
    }
    view.note('cancelling: waiting for what runs to stop (once more: do not wait)');
    isCancelling = true;
    session.verbs.cancel({ runId, requestedBy: operatorName() }).catch((error: unknown) => {
      isCancelling = false;
      view.note(`cannot cancel: ${describeError(error)}`);
    });
  });
  return { left: left.promise, isCancelling: () => isCancelling };
}

/** What becomes of a run that nobody waits for: where this process held the directory, nothing until somebody does. */
function tellLeft(
  { output, self }: Context,
  { holder, isShared, engine }: Session,
  { runId, isCancelling }: { readonly runId: string; readonly isCancelling: boolean },
): void {
  const what = `run ${hintRunId(runId)} ${isCancelling ? 'is being cancelled' : 'goes on'}`;
  if (holder !== null) {
    const where = `in process ${holder.pid} (${holder.command})`;
    output.note(`${what} ${where}; see \`${self} runs show ${hintRunId(runId)}\``);
    return;
  }
  if (isShared) {
    output.note(`${what}; see \`${self} runs show ${hintRunId(runId)}\``);
    return;
  }
  const meanwhile =
    engine?.settings.onStop === 'stop'
      ? 'what runs is stopped, and nothing more starts'
      : isCancelling
        ? 'a command that does not stop by itself is not killed'
        : 'what runs goes on, and nothing more starts';
  output.note(`${what}, but nobody holds the directory now: ${meanwhile}`);
  output.note(`carry it to its end: ${self} serve --until-idle`);
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
    await tellUnfinished(context, session);
    return runExitCodes[status];
  }
  view.close();
  const setAside = await session.reads.read(read('setAside', { runId: id }));
  if (setAside !== null) {
    const error = new EdgeError('damaged', `run ${id} was set aside: ${setAside.summary}`, {
      hint: `look at it: ${context.self} verify ${hintRunId(id)}`,
    });
    return context.output.fail(failureOf(error));
  }
  throw new EdgeError('unavailable', `run ${id} goes on, but its holder has stopped`, {
    hint: `carry it on: ${context.self} serve --until-idle`,
  });
}

/** A process that held the directory leaves its other runs alone too. */
async function tellUnfinished({ output, self }: Context, { holder, isShared, reads }: Session): Promise<void> {
  if (holder !== null || isShared || output.isJson) {
    return;
  }
  const { runIds, next } = await reads.read(read('runningRuns', { limit: limits.pageMax, after: null }));
  if (runIds.length > 0) {
    const count = `${runIds.length}${next === null ? '' : ' or more'}`;
    output.note(`other runs of this directory that are not finished: ${count}; carry on: ${self} serve --until-idle`);
  }
}
