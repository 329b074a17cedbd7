// What `status` shows, collected: who holds the directory, what runs, what waits and for what, in one consistent read
// beside any holder; then what the processes and the files say. Decides no words.
import { remainingMs } from '../core/deadline.ts';
import { isEdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Now } from '../core/ports.ts';
import type { RunAttempt } from '../core/records.ts';
import { isTerminalAttempt } from '../core/states.ts';
import type { HolderStatus } from '../http/routes.ts';
import { read, type SetAside, type StepContext, type StepPlace } from '../protocol/reads.ts';
import { buildInfo } from '../runtime/build-info.generated.ts';
import type { RuntimeSettings } from '../runtime/settings.ts';
import { type AttemptLook, lookAtAttempt } from './attempt-look.ts';
import type { Context } from './command.ts';
import { readSettingsToLook, runDirectoryFor, withQuietReader } from './session.ts';
import type { Holder, Look, Reader } from './storage.ts';

export type StepName = {
  readonly runId: string;
  readonly packageName: string;
  readonly workflowId: string;
  readonly stepKey: string;
};

export type ActiveAttempt = StepName & {
  readonly attemptId: string;
  /** Which attempt of its step, counted from 1. */
  readonly ordinal: number;
  readonly status: RunAttempt['status'];
  readonly isStopping: boolean;
  readonly startedAtMs: number | null;
  /** By the monotonic clock where it began in this boot; null where it did not, or has not begun. */
  readonly elapsedMs: number | null;
  readonly look: AttemptLook;
};

/**
 * What a ready step waits for: a retry's time, its workflow's limit, a free slot, that anything is started at all, or
 * somebody who starts it.
 */
export type WaitingFor = 'due' | 'workflow' | 'slot' | 'held-back' | 'holder' | 'nothing';

export type WaitingStep = StepName & {
  readonly waitsFor: WaitingFor;
  readonly dueInMs: number | null;
  /** The workflow's limit where it waits for that. */
  readonly workflowConcurrency: number | null;
};

export type StatusFacts = {
  /** Null where config.json does not say. */
  readonly profile: string | null;
  readonly durability: string | null;
  readonly isHeld: boolean;
  /** Null where nobody holds the directory, or whoever does left no word. */
  readonly holder: Holder | null;
  /** What the holder says of itself; null where it does not answer. */
  readonly answer: HolderStatus | null;
  readonly settings: RuntimeSettings;
  /** Why the settings could not be read; then they are the profile's defaults. */
  readonly settingsError: string | null;
  readonly runningCount: number;
  readonly setAside: readonly SetAside[];
  readonly setAsideCount: number;
  readonly active: readonly ActiveAttempt[];
  /** In the order in which they will start. */
  readonly waiting: readonly WaitingStep[];
  readonly hasMoreWaiting: boolean;
  /** Runs whose evidence is damaged, as this read met it. */
  readonly damaged: readonly { readonly runId: string; readonly why: string }[];
};

type Found = StepContext;

type Rows = Pick<StatusFacts, 'runningCount' | 'setAside' | 'setAsideCount' | 'hasMoreWaiting' | 'damaged'> & {
  readonly active: readonly Found[];
  readonly ready: readonly Found[];
};

export async function collectStatus(context: Context): Promise<StatusFacts> {
  const { storage, data, clock } = context;
  return await withQuietReader(context, async (reader) => {
    const isHeld = await storage.isHeld(data);
    const holder = isHeld ? await storage.readHolder(data) : null;
    const answer = holder === null ? null : await askHolder(holder);
    const rows = reader.readTogether(readRows);
    const { profile, durability } = reader.configError === null ? reader.info : { profile: null, durability: null };
    const { settings, settingsError } = await settleSettings(context, answer, reader);
    const now = { ...clock.observe(), ...(settings.bootId === null ? {} : { bootId: settings.bootId }) };
    const runDirectory = runDirectoryFor(context, holder);
    const active = rows.active.flatMap((found) => describeActive(found, { now, runDirectory }));
    const starts = holder !== null && holder.socket !== null;
    const waiting = describeWaiting(rows.ready, { active, settings, now, starts, answer });
    return { ...rows, profile, durability, isHeld, holder, answer, settings, settingsError, active, waiting };
  });
}

async function askHolder({ socket }: Holder): Promise<HolderStatus | null> {
  if (socket === null) {
    return null;
  }
  const { askStatus } = await import('../http/holder-client.ts');
  try {
    return await askStatus(socket);
  } catch {
    return null;
  }
}

async function settleSettings(
  context: Context,
  answer: HolderStatus | null,
  reader: Reader,
): Promise<Pick<StatusFacts, 'settings' | 'settingsError'>> {
  if (answer !== null) {
    return { settings: answer.settings, settingsError: null };
  }
  const { settings, error } = await readSettingsToLook(context, reader);
  return { settings, settingsError: (error ?? reader.configError)?.message ?? null };
}

/** As many as one page of ready steps, and as can run at most. */
function readRows(look: Look): Rows {
  const damaged: { runId: string; why: string }[] = [];
  const findAll = (places: readonly StepPlace[]): readonly Found[] =>
    places.flatMap(({ runId, stepRunId }) => {
      try {
        const context = look(read('step', { runId, stepRunId }));
        return context === null ? [] : [context];
      } catch (error) {
        // One damaged run never hides the others.
        if (isEdgeError(error) && error.code === 'damaged') {
          damaged.push({ runId, why: error.message });
          return [];
        }
        throw error;
      }
    });
  const { runningCount, setAsideCount } = look(read('runCounts', {}));
  const ready = look(read('readySteps', { limit: limits.pageMax, after: null }));
  return {
    runningCount,
    setAsideCount,
    setAside: look(read('allSetAside', { limit: limits.pageMax })),
    active: findAll(look(read('activeSteps', { limit: limits.concurrencyMax }))),
    ready: findAll(ready.steps),
    hasMoreWaiting: ready.next !== null,
    damaged,
  };
}

function nameOf({ rows, step, plan }: Found): StepName {
  const { packageName } = plan.target;
  return { runId: rows.run.id, packageName, workflowId: plan.workflowId, stepKey: step.stepKey };
}

function describeActive(
  found: Found,
  { now, runDirectory }: { readonly now: Now; readonly runDirectory: string },
): readonly ActiveAttempt[] {
  const { rows, attempts } = found;
  return attempts.flatMap((attempt, index) => {
    if (isTerminalAttempt(attempt.status)) {
      return [];
    }
    const { id: attemptId, status, startedAtMs, deadline, stopReason } = attempt;
    return [
      {
        ...nameOf(found),
        attemptId,
        ordinal: index + 1,
        status,
        isStopping: stopReason !== null || rows.run.cancelRequestedAtMs !== null,
        startedAtMs,
        // A deadline begins with its attempt.
        elapsedMs: deadline?.bootId === now.bootId ? now.uptimeMs - deadline.startUptimeMs : null,
        look: lookAtAttempt(attempt, { runDirectory, bootId: now.bootId }),
      },
    ];
  });
}

/** Goes through them as the runtime does: oldest run first, each taking a slot that the next no longer finds. */
function describeWaiting(
  ready: readonly Found[],
  options: {
    readonly active: readonly ActiveAttempt[];
    readonly settings: RuntimeSettings;
    readonly now: Now;
    readonly starts: boolean;
    readonly answer: HolderStatus | null;
  },
): readonly WaitingStep[] {
  const { active, settings, now, starts, answer } = options;
  const workflowOf = ({ packageName, workflowId }: StepName) => `${packageName}/${workflowId}`;
  // One that has ended has its slot until its holder knows that; without one the next holder frees it.
  const isFree = ({ look }: ActiveAttempt) =>
    look.state === 'undecidable' || (look.state === 'over' && answer === null);
  const busy = active.filter((attempt) => !isFree(attempt));
  const busyOf = new Map<string, number>();
  const take = (name: StepName) => busyOf.set(workflowOf(name), (busyOf.get(workflowOf(name)) ?? 0) + 1);
  busy.forEach(take);
  let free = settings.concurrency - busy.length;
  return ready.map((found) => {
    const { step, workflow } = found;
    const name = nameOf(found);
    const leftMs = step.due === null ? 0 : remainingMs(step.due, now, buildInfo.buildDateMs);
    const waiting = { ...name, dueInMs: leftMs > 0 ? leftMs : null, workflowConcurrency: workflow.concurrency };
    if (leftMs > 0) {
      return { ...waiting, waitsFor: 'due' };
    }
    if (workflow.concurrency !== null && (busyOf.get(workflowOf(name)) ?? 0) >= workflow.concurrency) {
      return { ...waiting, waitsFor: 'workflow' };
    }
    if ((answer?.heldBack ?? null) !== null) {
      return { ...waiting, waitsFor: 'held-back' };
    }
    if (free <= 0) {
      return { ...waiting, waitsFor: 'slot' };
    }
    free -= 1;
    take(name);
    return { ...waiting, waitsFor: starts ? 'nothing' : 'holder' };
  });
}
