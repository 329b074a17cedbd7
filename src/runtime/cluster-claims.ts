// Which steps may be claimed where several processes share a database; the claim where the workflow has a limit, and a
// claim with what belongs to it in one transaction.
import type { Run, RunRows, StepRun } from '../core/records.ts';
import { isTerminalAttempt } from '../core/states.ts';
import type { Executor } from '../executor/executor.ts';
import {
  type AdmitAttemptInput,
  type AdmitAttemptOutcome,
  type AttemptPlace,
  admitAttempt,
  startAttempt,
} from '../protocol/attempt.ts';
import { type Decision, type Operation, operation } from '../protocol/protocol.ts';
import { read } from '../protocol/reads.ts';
import { refuseWithoutRoom } from './run-directory.ts';

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

/** Ready, and without an attempt that has not ended. */
export function isStartable({ attempts }: RunRows, step: StepRun): boolean {
  const isTried = [...attempts.values()].some(
    ({ stepRunId, status }) => stepRunId === step.id && !isTerminalAttempt(status),
  );
  return step.status === 'ready' && !isTried;
}

type Barrier = {
  readonly executor: Pick<Executor, 'prepare'>;
  readonly runDirectory: string;
  /** Takes the error, where there is no place for an attempt. */
  readonly trouble: { place: unknown };
};

/** Claim, place and barrier in one transaction: where there is no place for an attempt, there is no attempt. */
export function withBarrier(
  claim: Operation<AdmitAttemptOutcome>,
  place: Omit<AttemptPlace, 'attemptId'>,
  { executor, runDirectory, trouble }: Barrier,
): Operation<AdmitAttemptOutcome> {
  return {
    ...claim,
    decide: (rows, circumstances): Decision<AdmitAttemptOutcome> => {
      const decision = claim.decide(rows, circumstances);
      const { outcome, follow = [] } = decision;
      if (outcome.kind !== 'claimed' && outcome.kind !== 'existing') {
        return decision;
      }
      try {
        if (outcome.executorType === 'process') {
          refuseWithoutRoom(runDirectory);
          executor.prepare(outcome.attemptId);
        }
      } catch (error) {
        trouble.place = error;
        throw error;
      }
      const barrier = operation(startAttempt, { ...place, attemptId: outcome.attemptId });
      return { ...decision, follow: [...follow, barrier] };
    },
  };
}
