// Which steps may be claimed where several processes share a database, and the claim where the workflow has a limit.
// Pure.
import type { Run, RunRows, StepRun } from '../core/records.ts';
import { isTerminalAttempt } from '../core/states.ts';
import { type AdmitAttemptInput, type AdmitAttemptOutcome, admitAttempt } from '../protocol/attempt.ts';
import { type Operation, operation } from '../protocol/protocol.ts';
import { read } from '../protocol/reads.ts';

/** The claim of a step whose workflow has a limit. Not of its run alone, so that two of them never miss each other. */
export function claimCounted(
  claim: Omit<AdmitAttemptInput, 'busyOfWorkflow'>,
  { packageName, workflowId }: Run,
): Operation<AdmitAttemptOutcome> {
  const counted = (busyOfWorkflow: number) => operation(admitAttempt, { ...claim, busyOfWorkflow });
  const uncounted = counted(0);
  return {
    ...uncounted,
    load: () => ({ ...uncounted.load(), busy: read('busyOfWorkflow', { packageName, workflowId }) }),
    decide: (rows, circumstances) => counted(rows['busy'] as number).decide(rows, circumstances),
  };
}

/** One name for a workflow in one generation, which has one limit. */
export function limitKeyOf({ packageName, generation, workflowId }: Run): string {
  return `${packageName}/${workflowId}/${generation}`;
}

/** Ready, and without an attempt that has not ended. */
export function isStartable({ attempts }: RunRows, step: StepRun): boolean {
  const isTried = [...attempts.values()].some(
    ({ stepRunId, status }) => stepRunId === step.id && !isTerminalAttempt(status),
  );
  return step.status === 'ready' && !isTried;
}
