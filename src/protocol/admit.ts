// Admission: a plan becomes a run whole or not at all. Replay first, then the start guard, then drift, then the rows.
import {
  type AdmissionEvidence,
  type AdmissionRequest,
  buildAdmission,
  type Receipt,
  verifyAdmission,
} from '../core/admission.ts';
import { startSpan } from '../core/deadline.ts';
import { limits } from '../core/limits.ts';
import { buildPlan, type Plan } from '../core/plan.ts';
import { decideStart, findDrift } from '../core/start-guard.ts';
import { type Circumstances, type Decision, protocol } from './protocol.ts';
import { type AdmissionKey, type PackageHead, read, type StartFacts } from './reads.ts';

export type AdmitOutcome =
  | { readonly kind: 'created'; readonly receipt: Receipt }
  | { readonly kind: 'existing'; readonly receipt: Receipt }
  /** The run is known by its keys alone; its history was pruned. */
  | { readonly kind: 'existing-pruned'; readonly runId: string; readonly receiptDigest: string }
  | { readonly kind: 'conflict'; readonly reason: string }
  | { readonly kind: 'not-allowed'; readonly code: string; readonly reason: string };

export type StartOutcome = AdmitOutcome | { readonly kind: 'not-found'; readonly reason: string };

export type AdmitInput = { readonly plan: Plan; readonly requestedBy: string };

/** `plan` is normalized. Lost answer: look the plan id up by giving the same plan again. */
export const admit = protocol({
  name: 'admit',
  load: ({ plan }: AdmitInput) => ({
    admission: read('admission', { planId: plan.planId }),
    key: read('keyOfPlan', { planId: plan.planId }),
    isRunKnown: read('isRunKnown', { runId: plan.runId }),
    facts: read('startFacts', plan.target),
  }),
  decide: (rows, { plan, requestedBy }, circumstances): Decision<AdmitOutcome> => {
    const replayed = replay(plan, rows.admission, rows.key);
    if (replayed !== null) {
      return { outcome: replayed };
    }
    if (rows.isRunKnown) {
      return { outcome: { kind: 'conflict', reason: `run ${plan.runId} belongs to another plan` } };
    }
    const request = { ...ordinaryRequest, requestedBy };
    return decideAdmission({ plan, facts: rows.facts, request, circumstances });
  },
  collided: ({ plan }): AdmitOutcome => ({ kind: 'conflict', reason: `an identity of plan ${plan.planId} is taken` }),
});

export type StartInput = {
  readonly projectId: string;
  readonly packageName: string;
  readonly workflowId: string;
  readonly idempotencyKey: string | null;
  readonly requestedBy: string;
};

/** Plans and admits in one transaction, unless the idempotency key already led to a run. */
export const start = protocol({
  name: 'start',
  freshIds: 2,
  load: ({ projectId, packageName, idempotencyKey }: StartInput) => ({
    // No key is empty, so the empty one finds nothing.
    key: read('keyOfStart', { projectId, idempotencyKey: idempotencyKey ?? '' }),
    admission: read('admissionOfStart', { projectId, idempotencyKey: idempotencyKey ?? '' }),
    head: read('package', { projectId, packageName }),
  }),
  decide: ({ key, admission, head }, input, circumstances): Decision<StartOutcome> => {
    const { packageName, workflowId, idempotencyKey, requestedBy } = input;
    if (key !== null) {
      return { outcome: replayStart(input, key, admission) };
    }
    if (head === null) {
      return { outcome: { kind: 'not-found', reason: `package ${packageName} is not installed` } };
    }
    const request = { ...ordinaryRequest, idempotencyKey, requestedBy };
    return planAndAdmit({ head, workflowId, request, circumstances });
  },
  collided: ({ idempotencyKey }): StartOutcome => ({
    kind: 'conflict',
    reason: `${nameKey(idempotencyKey)} was taken at the same moment`,
  }),
});

/** What two starts at the same moment can both have taken. */
export function nameKey(idempotencyKey: string | null): string {
  return idempotencyKey === null ? 'an id' : `the idempotency key ${idempotencyKey}`;
}

/** Plans a run of a workflow of the present generation with the first two fresh ids, and admits it. */
export function planAndAdmit(options: {
  readonly head: PackageHead;
  readonly workflowId: string;
  readonly request: Omit<AdmissionRequest, 'deadline'>;
  readonly circumstances: Circumstances;
}): Decision<StartOutcome> {
  const { head, workflowId, request, circumstances } = options;
  const planned = buildPlan({
    planId: circumstances.freshIds[0]!,
    runId: circumstances.freshIds[1]!,
    target: head.installation.target,
    publicationDigest: head.publication.publicationDigest,
    revision: head.revision,
    workflowId,
    nowMs: circumstances.now.wallMs,
  });
  if ('refusal' in planned) {
    const { kind, reason } = planned.refusal;
    return { outcome: kind === 'not-found' ? { kind, reason } : { kind, code: 'not_startable', reason } };
  }
  const { isQuarantined, quarantineReason, isPublisherRevoked } = head;
  const facts = { head, isQuarantined, quarantineReason, isPublisherRevoked };
  return decideAdmission({ plan: planned.plan, facts, request, circumstances });
}

/** What no request for a run has unless it says so. */
export const ordinaryRequest = {
  idempotencyKey: null,
  triggerId: null,
  scheduledForMs: null,
  retryOfRunId: null,
} as const;

function replay(plan: Plan, admission: AdmissionEvidence | null, key: AdmissionKey | null): AdmitOutcome | null {
  if (admission !== null) {
    if (admission.plan.planDigest !== plan.planDigest) {
      return { kind: 'conflict', reason: `plan ${plan.planId} was admitted with other contents` };
    }
    return { kind: 'existing', receipt: verifyAdmission(admission) };
  }
  if (key === null) {
    return null;
  }
  return key.planDigest === plan.planDigest
    ? { kind: 'existing-pruned', runId: key.runId, receiptDigest: key.receiptDigest }
    : { kind: 'conflict', reason: `plan ${plan.planId} was admitted with other contents` };
}

function replayStart(input: StartInput, key: AdmissionKey, admission: AdmissionEvidence | null): StartOutcome {
  if (key.packageName !== input.packageName || key.workflowId !== input.workflowId) {
    const reason = `the idempotency key ${key.idempotencyKey} started ${key.packageName}/${key.workflowId}`;
    return { kind: 'conflict', reason };
  }
  return admission === null
    ? { kind: 'existing-pruned', runId: key.runId, receiptDigest: key.receiptDigest }
    : { kind: 'existing', receipt: verifyAdmission(admission) };
}

function decideAdmission(options: {
  readonly plan: Plan;
  readonly facts: StartFacts;
  readonly request: Omit<AdmissionRequest, 'deadline'>;
  readonly circumstances: Circumstances;
}): Decision<AdmitOutcome> {
  const { plan, facts, request, circumstances } = options;
  const { now } = circumstances;
  if (now.wallMs - plan.plannedAtMs > limits.admissionKeyMsMax) {
    const reason = `plan ${plan.planId} is older than plans are remembered; make it again`;
    return { outcome: { kind: 'not-allowed', code: 'plan_expired', reason } };
  }
  const refusal = decideStart(plan.target, facts);
  if (refusal !== null || facts.head === null) {
    return { outcome: { kind: 'not-allowed', ...(refusal ?? { code: 'not_installed', reason: 'not installed' }) } };
  }
  const drift = findDrift(plan, facts.head.revision, facts.head.publication);
  if (drift !== null) {
    return { outcome: { kind: 'conflict', reason: drift } };
  }
  const workflow = facts.head.revision.workflows.find(({ id }) => id === plan.workflowId);
  const timeoutMs = workflow?.timeoutMs ?? null;
  const deadline = timeoutMs === null ? null : startSpan(now, timeoutMs);
  const bundle = buildAdmission(plan, { ...request, deadline }, now.wallMs);
  const { receipt } = bundle;
  const key: AdmissionKey = {
    projectId: plan.target.projectId,
    idempotencyKey: request.idempotencyKey,
    planId: plan.planId,
    planDigest: plan.planDigest,
    packageName: plan.target.packageName,
    workflowId: plan.workflowId,
    runId: plan.runId,
    receiptDigest: receipt.receiptDigest,
    expiresAtMs: now.wallMs + limits.admissionKeyMsMax,
  };
  return { outcome: { kind: 'created', receipt }, ledger: [{ write: 'admission', plan, bundle, key }] };
}
