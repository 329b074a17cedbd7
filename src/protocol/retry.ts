// Retrying a run that has ended: a new run of the same workflow, of the generation that is active now, which names the
// old one. Nothing of the old run changes. Replay first, as in `start`.
import { verifyAdmission } from '../core/admission.ts';
import { isTerminalRun } from '../core/states.ts';
import { nameKey, ordinaryRequest, planAndAdmit, type StartOutcome } from './admit.ts';
import { type Decision, protocol } from './protocol.ts';
import { type AdmissionKey, type Reads, read } from './reads.ts';

export type RetryOutcome =
  | Exclude<StartOutcome, { readonly kind: 'created' }>
  | (Extract<StartOutcome, { readonly kind: 'created' }> & {
      /** Of the new run, and of the one that it retries: what is done may differ where these do. */
      readonly generation: number;
      readonly retriedGeneration: number;
    });

export type RetryInput = {
  readonly projectId: string;
  readonly runId: string;
  readonly idempotencyKey: string | null;
  readonly requestedBy: string;
};

/** Lost answer: look the idempotency key up by retrying with it again. */
export const retry = protocol({
  name: 'retry',
  freshIds: 2,
  load: ({ projectId, runId, idempotencyKey }: RetryInput) => ({
    // No key is empty, so the empty one finds nothing.
    key: read('keyOfStart', { projectId, idempotencyKey: idempotencyKey ?? '' }),
    admission: read('admissionOfStart', { projectId, idempotencyKey: idempotencyKey ?? '' }),
    retried: read('run', { runId }),
    head: read('packageOfRun', { runId }),
  }),
  decide: ({ key, admission, retried, head }, input, circumstances): Decision<RetryOutcome> => {
    const { runId, idempotencyKey, requestedBy } = input;
    if (key !== null) {
      return { outcome: replayRetry(runId, key, admission) };
    }
    if (retried === null) {
      return { outcome: { kind: 'not-found', reason: `run ${runId} is unknown` } };
    }
    const { status, packageName, workflowId, generation: retriedGeneration } = retried.run;
    if (!isTerminalRun(status)) {
      const reason = `run ${runId} has not ended: only a run that has ended is retried`;
      return { outcome: { kind: 'not-allowed', code: 'run_not_ended', reason } };
    }
    if (head === null) {
      const reason = `package ${packageName} is not installed any more`;
      return { outcome: { kind: 'not-allowed', code: 'not_installed', reason } };
    }
    const request = { ...ordinaryRequest, idempotencyKey, requestedBy, retryOfRunId: runId };
    const { outcome, ...rest } = planAndAdmit({ head, workflowId, request, circumstances });
    switch (outcome.kind) {
      case 'created': {
        const { generation } = head.installation.target;
        return { ...rest, outcome: { ...outcome, generation, retriedGeneration } };
      }
      // Of the run that was asked for something was found; it is the workflow that is gone.
      case 'not-found':
        return { outcome: { kind: 'not-allowed', code: 'workflow_gone', reason: outcome.reason } };
      default:
        return { outcome };
    }
  },
  collided: ({ idempotencyKey }): RetryOutcome => ({
    kind: 'conflict',
    reason: `${nameKey(idempotencyKey)} was taken at the same moment`,
  }),
});

/** Of a key whose run was pruned nobody can say any more which run that one retried. */
function replayRetry(runId: string, key: AdmissionKey, admission: Reads['admissionOfStart']['rows']): RetryOutcome {
  if (admission === null) {
    return { kind: 'existing-pruned', runId: key.runId, receiptDigest: key.receiptDigest };
  }
  const receipt = verifyAdmission(admission);
  const [admitted] = admission.events;
  const isRetry = admitted?.type === 'workflow.admitted' && admitted.payload.retryOfRunId === runId;
  return isRetry
    ? { kind: 'existing', receipt }
    : {
        kind: 'conflict',
        reason: `the idempotency key ${key.idempotencyKey} led to run ${key.runId}, which does not retry ${runId}`,
      };
}
