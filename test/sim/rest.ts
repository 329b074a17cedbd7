// What must hold between two events, when nothing is under way: nobody waits who could go on. And what must hold when
// nothing is left to happen at all.

import type { Now } from '../../src/core/ports.ts';
import type { Machine } from './machine.ts';
import { isPast, type ModelAttempt, type ModelStep, type RunModel } from './model.ts';
import type { SimulatedTime } from './time.ts';

/** As much of the witness as is asked here. */
export type Seen = {
  readonly models: ReadonlyMap<string, RunModel>;
  readonly damaged: ReadonlySet<string>;
  readonly world: {
    readonly time: SimulatedTime;
    readonly machine: () => Machine;
    readonly trustedFromMs: number;
    readonly concurrencyMax: number;
  };
  aside(): ReadonlySet<string>;
  isForbidden(runId: string): boolean;
};

export type Startable = { readonly model: RunModel; readonly step: ModelStep };

export function isLive({ status }: ModelAttempt): boolean {
  return status === 'claimed' || status === 'starting' || status === 'running';
}

/** Steps that are ready, due, within the limit of their workflow, and not started. */
export function listStartable(witness: Seen, now: Now): readonly Startable[] {
  const { trustedFromMs } = witness.world;
  const aside = witness.aside();
  return [...witness.models.values()].flatMap((model) => {
    const { runId, status, cancelReason, deadline } = model;
    const isOut = status !== 'running' || cancelReason !== null || aside.has(runId) || witness.damaged.has(runId);
    // Nothing of a run starts after its time, also while that cannot be recorded.
    const isOver = deadline !== null && isPast(deadline, { now, trustedFromMs });
    if (
      isOut ||
      isOver ||
      witness.isForbidden(runId) ||
      countBusy(witness.models.values(), model) >= limitOf(witness.models.values(), model)
    ) {
      return [];
    }
    return [...model.steps.values()]
      .filter(
        (step) => step.status === 'ready' && model.liveAttempt(step) === null && !hasRemains(witness, model, step),
      )
      .filter(({ due }) => due === null || (due.bootId === now.bootId && isPast(due, { now, trustedFromMs })))
      .map((step) => ({ model, step }));
  });
}

/** Attempts of its workflow, in all runs, that have not ended in the records. */
function countBusy(models: Iterable<RunModel>, { packageName, rule }: RunModel): number {
  return [...models]
    .filter((other) => other.packageName === packageName && other.rule.id === rule.id && other.status === 'running')
    .flatMap((other) => [...other.steps.values()].filter((step) => other.liveAttempt(step) !== null)).length;
}

/** Generations of a workflow may differ in their limit: while a run of one waits, its limit holds for all. */
function limitOf(models: Iterable<RunModel>, { packageName, rule }: RunModel): number {
  const limits = [...models]
    .filter((other) => other.packageName === packageName && other.rule.id === rule.id && other.status === 'running')
    .map((other) => other.rule.concurrency ?? Number.MAX_SAFE_INTEGER);
  return Math.min(...limits);
}

/** What an ended attempt of the step has left is looked after first. */
function hasRemains({ world }: Seen, model: RunModel, step: ModelStep): boolean {
  const { commands } = world.machine();
  return step.attempts.some(({ id }) => commands.get(id)?.hasDirectory === true && model.liveAttempt(step)?.id !== id);
}

/** What an open process without any trouble must have done by now. */
export function findNeglected(witness: Seen, busy: readonly string[]): readonly string[] {
  const { time, concurrencyMax } = witness.world;
  const now = time.now();
  const neglected: string[] = [];
  const aside = witness.aside();
  // One whose output is still being taken has no slot, but its completion makes the next turn, not its end.
  const open = [...witness.models.values()].flatMap(({ attempts }) => [...attempts.values()].filter(isLive));
  const held = new Set([...busy, ...open.map(({ id }) => id)]).size;
  for (const { model, step } of held < concurrencyMax ? listStartable(witness, now) : []) {
    neglected.push(
      `step ${step.rule.key} of run ${model.runId} could start, ${held} of ${concurrencyMax} slots are taken`,
    );
  }
  for (const model of witness.models.values()) {
    const { runId, status, cancelReason, deadline } = model;
    if (status !== 'running' || witness.damaged.has(runId)) {
      continue;
    }
    neglected.push(...(aside.has(runId) ? [] : model.findUnfinished().map((missing) => `run ${runId}: ${missing}`)));
    if (cancelReason !== null) {
      continue;
    }
    const goneMs = now.uptimeMs - (deadline?.bootId === now.bootId ? deadline.startUptimeMs : 0);
    if (deadline !== null && goneMs >= deadline.lengthMs) {
      neglected.push(`run ${runId} is beyond its timeout of ${deadline.lengthMs} ms`);
    }
    for (const attempt of model.attempts.values()) {
      const isRunning = witness.world.machine().commands.get(attempt.id)?.stage === 'taken' && isLive(attempt);
      const ranMs = now.uptimeMs - (attempt.bootId === now.bootId ? attempt.startedUptimeMs : now.uptimeMs);
      if (isRunning && busy.includes(attempt.id) && attempt.stopReason === null && ranMs >= attempt.timeoutMs) {
        neglected.push(`attempt ${attempt.id} is beyond its timeout of ${attempt.timeoutMs} ms`);
      }
    }
  }
  return neglected;
}

/** What must hold when nothing is left to happen. */
export function findUnsettled(witness: Seen): readonly string[] {
  const aside = witness.aside();
  const unsettled: string[] = [];
  for (const { runId, status } of witness.models.values()) {
    const isSound = !witness.damaged.has(runId);
    if (!isSound && !aside.has(runId) && status === 'running') {
      unsettled.push(`run ${runId} was damaged, and is not set aside`);
    } else if (isSound && aside.has(runId)) {
      unsettled.push(`run ${runId} is set aside, and nothing is wrong with it`);
    } else if (isSound && status === 'running') {
      unsettled.push(`run ${runId} is stuck: nothing is left to happen, and it has not ended`);
    }
  }
  for (const { attemptId, runId, hasDirectory, stage } of witness.world.machine().commands.values()) {
    // While a run is set aside, directories of no record are kept.
    const isKept = runId === '' && aside.size > 0;
    if (!isKept && !witness.damaged.has(runId) && (hasDirectory || stage === 'taken')) {
      const what = stage === 'taken' ? 'its command lives' : 'its directory is left';
      unsettled.push(`attempt ${attemptId} of run ${runId} is over, and ${what}`);
    }
  }
  return unsettled;
}
