// Admission: the bundle of rows that a plan becomes, the receipt that proves it, and the verification of an admission
// that was made before. Pure: the same plan and request give the same bundle.
import { canonicalJson, utf8Bytes } from './canonical-json.ts';
import { digest, digestLabels } from './digest.ts';
import { assert, EdgeError } from './errors.ts';
import { draft, type EventDraft, type EventOf, type EventPayloads, type RunEvent, stampEvents } from './events.ts';
import { foldEvents } from './evolve.ts';
import { deriveEventId, deriveMutationId } from './ids.ts';
import { limits } from './limits.ts';
import type { Plan, PlanStep } from './plan.ts';
import type { RunRows, Span } from './records.ts';
import {
  counter,
  digestText,
  list,
  normalize,
  object,
  oneOf,
  portableId,
  type Read,
  resourceId,
  timeMs,
} from './shape.ts';

const receiptReader = object({
  schema: oneOf(['qinglong/workflow-admission-receipt@v1']),
  planId: portableId,
  planDigest: digestText,
  runId: portableId,
  publicationDigest: digestText,
  workflowId: resourceId,
  steps: list(
    object({
      stepKey: resourceId,
      stepRunId: portableId,
      stepRunDigest: digestText,
      mutationId: portableId,
      eventId: portableId,
    }),
    { min: 1, max: limits.stepsMax },
  ),
  finalRunVersion: counter,
  finalRunEventSequence: counter,
  historyDigest: digestText,
  admittedAtMs: timeMs,
  receiptDigest: digestText,
});

export type Receipt = Read<typeof receiptReader>;

/** Who asked for the run and how: what an admission adds to its plan. */
export type AdmissionRequest = {
  readonly requestedBy: string;
  readonly idempotencyKey: string | null;
  readonly triggerId: string | null;
  readonly scheduledForMs: number | null;
  readonly retryOfRunId: string | null;
  readonly deadline: Span | null;
};

export type AdmissionBundle = {
  readonly events: readonly RunEvent[];
  readonly rows: RunRows;
  readonly receipt: Receipt;
};

/** The payload of the `step.created` event of a plan's step: what a store need not write twice. */
export function stepCreatedPayload(step: PlanStep): EventPayloads['step.created'] {
  return {
    stepKey: step.stepKey,
    kind: 'task',
    taskRef: step.taskRef,
    taskSourceDigest: step.taskSourceDigest,
    required: step.required,
    status: step.initialStatus,
  };
}

/** The n + 1 events of an admission, in order: `workflow.admitted`, then `step.created` in step-key order. */
export function admissionDrafts(plan: Plan, request: AdmissionRequest): readonly EventDraft[] {
  const { target } = plan;
  const admitted = draft(
    'workflow.admitted',
    {
      planId: plan.planId,
      planDigest: plan.planDigest,
      projectId: target.projectId,
      workflowId: plan.workflowId,
      publicationDigest: target.publicationDigest,
      packageName: target.packageName,
      generation: target.generation,
      ...request,
    },
    { actorType: 'operator', actorId: request.requestedBy },
  );
  const created = plan.steps.map((step) =>
    draft('step.created', stepCreatedPayload(step), { stepRunId: step.stepRunId }),
  );
  return [admitted, ...created];
}

/** Everything that an admission inserts. `plan` is normalized. Throws `invalid` if the receipt would pass its bound. */
export function buildAdmission(plan: Plan, request: AdmissionRequest, wallMs: number): AdmissionBundle {
  const unborn = { id: plan.runId, version: 0, updatedAtMs: 0 } as const;
  const events = stampEvents(unborn, admissionDrafts(plan, request), wallMs);
  const rows = foldEvents(null, events);
  assert(rows !== null, 'an admission has events');
  const receipt = buildReceipt(plan, rows);
  const bytes = utf8Bytes(canonicalJson(receipt));
  if (bytes > limits.receiptBytesMax) {
    throw new EdgeError('invalid', `the receipt would have ${bytes} bytes of at most ${limits.receiptBytesMax}`, {
      hint: 'split the workflow',
    });
  }
  return { events, rows, receipt };
}

/** The receipt of a plan whose admission, folded, is `rows`: the run as it was at version n + 1. */
export function buildReceipt(plan: Plan, rows: RunRows): Receipt {
  const { run } = rows;
  assert(run.version === plan.steps.length + 1, 'a receipt is made of the admission alone');
  const steps = plan.steps.map((step, index) => {
    const stepRun = rows.steps.get(step.stepRunId);
    assert(stepRun !== undefined, 'an admission creates every step of its plan');
    const mutation = { planId: plan.planId, stepRunId: step.stepRunId, version: 1, status: step.initialStatus };
    return {
      stepKey: step.stepKey,
      stepRunId: step.stepRunId,
      stepRunDigest: stepRun.digest,
      mutationId: deriveMutationId(mutation),
      eventId: deriveEventId({ runId: run.id, sequence: index + 2, type: 'step.created' }),
    };
  });
  const contents = {
    schema: 'qinglong/workflow-admission-receipt@v1' as const,
    planId: plan.planId,
    planDigest: plan.planDigest,
    runId: run.id,
    publicationDigest: plan.target.publicationDigest,
    workflowId: plan.workflowId,
    steps,
    finalRunVersion: run.version,
    finalRunEventSequence: run.eventSequence,
    historyDigest: run.historyDigest,
    admittedAtMs: run.createdAtMs,
  };
  return { ...contents, receiptDigest: digest(digestLabels.receipt, contents) };
}

/** A receipt as it was read back. Throws `damaged` for a wrong shape; its contents are checked by `verifyAdmission`. */
export function readReceipt(value: unknown): Receipt {
  return normalize(receiptReader, value, { what: 'receipt', code: 'damaged' });
}

/** What is durable of one admission: ledger rows, and exactly the first n + 1 events. */
export type AdmissionEvidence = {
  readonly plan: Plan;
  readonly receipt: Receipt;
  readonly events: readonly RunEvent[];
};

/**
 * Verifies an earlier admission from its evidence alone, whatever the run has become since: the events are exactly
 * those that the plan makes, the receipt is exactly what they yield. Throws `damaged` naming what differs; repairs
 * nothing.
 */
export function verifyAdmission(evidence: AdmissionEvidence): Receipt {
  const { plan, receipt, events } = evidence;
  const admitted = events[0];
  if (events.length !== plan.steps.length + 1 || admitted?.type !== 'workflow.admitted') {
    throw damaged(plan, `has ${events.length} of ${plan.steps.length + 1} admission events`);
  }
  const rebuilt = buildAdmission(plan, requestOf(admitted), admitted.createdAtMs);
  events.forEach((event, index) => {
    if (canonicalJson(event) !== canonicalJson(rebuilt.events[index])) {
      throw damaged(plan, `event ${index + 1} is not the one that its plan makes`);
    }
  });
  if (canonicalJson(receipt) !== canonicalJson(rebuilt.receipt)) {
    throw damaged(plan, 'the receipt is not the one that its plan and events make');
  }
  return receipt;
}

function requestOf(admitted: EventOf<'workflow.admitted'>): AdmissionRequest {
  const { requestedBy, idempotencyKey, triggerId, scheduledForMs, retryOfRunId, deadline } = admitted.payload;
  return { requestedBy, idempotencyKey, triggerId, scheduledForMs, retryOfRunId, deadline };
}

function damaged(plan: Plan, what: string): EdgeError {
  return new EdgeError('damaged', `admission of plan ${plan.planId}: ${what}`, {
    hint: `run \`verify ${plan.runId}\`; restore a backup if the evidence is needed`,
    runId: plan.runId,
  });
}
