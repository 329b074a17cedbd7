// A page of ready steps, as every store gives it.
import { deriveStepRunId } from '../core/ids.ts';
import type { RunCursor, StepPage } from '../protocol/reads.ts';

export type ReadyRow = {
  readonly runId: string;
  readonly packageName: string;
  readonly workflowId: string;
  readonly stepKey: string;
};

/**
 * The cursor is a run's, so a page holds whole runs: it ends with the one in which the limit is reached. The rows are
 * in order, run by run, and at least `limits.stepsMax` more than `limit` where there are so many.
 */
export function cutSteps<R extends ReadyRow>(
  rows: readonly R[],
  limit: number,
  cursorOf: (row: R) => RunCursor,
): StepPage {
  const last = rows[limit - 1];
  const cut = last === undefined ? -1 : rows.findIndex((row, index) => index >= limit && row.runId !== last.runId);
  const kept = cut < 0 ? rows : rows.slice(0, cut);
  return {
    steps: kept.map(({ runId, stepKey, packageName, workflowId }) => ({
      runId,
      stepRunId: deriveStepRunId({ runId, stepKey }),
      packageName,
      workflowId,
    })),
    next: last === undefined ? null : cursorOf(last),
  };
}
