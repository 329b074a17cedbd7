// Rows of RunEvents as events, and back. Codes are positions in the lists below, which only ever grow at their end; the
// view RunHistory shows the names.
import { stepCreatedPayload } from '../../core/admission.ts';
import { canonicalJson, type Json } from '../../core/canonical-json.ts';
import { assert } from '../../core/errors.ts';
import { type ActorType, type EventType, payloadKeys, type RunEvent } from '../../core/events.ts';
import { deriveAttemptId, deriveEventId } from '../../core/ids.ts';
import type { Plan } from '../../core/plan.ts';
import { damaged } from '../damaged.ts';
import { parseCanonical } from './codec.ts';

export const eventTypeCodes = [
  'workflow.admitted',
  'step.created',
  'step.readied',
  'step.skipped',
  'step.failed',
  'step.cancelled',
  'step.timed_out',
  'attempt.claimed',
  'attempt.started',
  'attempt.observed',
  'attempt.succeeded',
  'attempt.failed',
  'attempt.cancelled',
  'attempt.timed_out',
  'attempt.lost',
  'workflow.task_timeout_requested',
  'workflow.attempt_stop_requested',
  'workflow.cancel_requested',
  'workflow.succeeded',
  'workflow.failed',
  'workflow.cancelled',
  'workflow.timed_out',
  'workflow.leftover_found',
  'workflow.stop_forced',
  'workflow.late_receipt_found',
] as const satisfies readonly EventType[];

export const actorTypeCodes = ['runtime', 'operator', 'executor'] as const satisfies readonly ActorType[];

export type EventRow = {
  readonly sequence: number;
  readonly type: number;
  readonly actorType: number;
  readonly actorId: string | null;
  readonly stepNumber: number | null;
  readonly attemptEpoch: number | null;
  readonly payload: string | null;
  readonly createdAtMs: number;
};

/** What an event's row says of the step and the attempt that it concerns. */
export type EventPlace = { readonly stepNumber: number | null; readonly attemptEpoch: number | null };

/** The columns of an event. An event or actor type without a code is a broken invariant. */
export function encodeEvent(event: RunEvent, place: EventPlace): EventRow {
  const type = eventTypeCodes.indexOf(event.type);
  const actorType = actorTypeCodes.indexOf(event.actorType);
  assert(type >= 0 && actorType >= 0, `${event.type} by ${event.actorType} has a code`);
  return {
    sequence: event.sequence,
    type,
    actorType,
    actorId: event.actorId,
    ...place,
    payload: event.type === 'step.created' ? null : encodePayload(event),
    createdAtMs: event.createdAtMs,
  };
}

/** The payload without its nulls; null where nothing is left. */
function encodePayload(event: RunEvent): string | null {
  const payload = shorten(event) as Readonly<Record<string, Json>>;
  const said: Record<string, Json> = {};
  let isEmpty = true;
  for (const key of Object.keys(payload)) {
    if (payload[key] !== null) {
      said[key] = payload[key]!;
      isEmpty = false;
    }
  }
  return isEmpty ? null : canonicalJson(said);
}

/** A deadline begins in the boot that its attempt began in, which the payload names already: 50 of 170 bytes. */
function shorten(event: RunEvent): object {
  if (event.type !== 'attempt.started' || event.payload.deadline?.bootId !== event.payload.bootId) {
    return event.payload;
  }
  const { bootId: _same, ...deadline } = event.payload.deadline;
  return { ...event.payload, deadline };
}

function lengthen(type: EventType, payload: Readonly<Record<string, Json>>): Readonly<Record<string, Json>> {
  const { deadline, bootId } = payload;
  const isShort = type === 'attempt.started' && isObject(deadline) && !Object.hasOwn(deadline, 'bootId');
  return isShort && bootId !== undefined ? { ...payload, deadline: { ...deadline, bootId } } : payload;
}

function isObject(value: Json | undefined): value is { readonly [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Throws `damaged` for a row that this program cannot have written. The run's history digest vouches for the rest. */
export function decodeEvent(row: EventRow, plan: Plan): RunEvent {
  const { runId } = plan;
  const { sequence } = row;
  const place = `RunEvents ${sequence}`;
  const type = eventTypeCodes[row.type];
  const actorType = actorTypeCodes[row.actorType];
  const step = row.stepNumber === null ? null : plan.steps[row.stepNumber - 1];
  if (type === undefined || actorType === undefined || step === undefined) {
    throw damaged(place, 'has a type, actor or step that does not exist', { runId });
  }
  if (row.attemptEpoch !== null && step === null) {
    throw damaged(place, 'names an attempt of no step', { runId });
  }
  if (type === 'step.created' && (step === null || row.payload !== null)) {
    throw damaged(place, 'does not create a step of the plan', { runId });
  }
  const epoch = row.attemptEpoch;
  const ids = {
    id: deriveEventId({ runId, sequence, type }),
    attemptId: epoch === null ? null : deriveAttemptId({ runId, stepRunId: step!.stepRunId, epoch }),
  };
  const payload =
    type === 'step.created' ? stepCreatedPayload(step!) : decodePayload(type, row.payload, { place, runId });
  return assemble(row, plan, { ...ids, payload });
}

/**
 * As `decodeEvent`, of a row that this process has encoded itself, with the ids that it was encoded with: nothing of it
 * is looked at again.
 */
export function decodeOwnEvent(row: EventRow, plan: Plan, ids: { id: string; attemptId: string | null }): RunEvent {
  const type = eventTypeCodes[row.type]!;
  const said = row.payload === null ? {} : (JSON.parse(row.payload) as Readonly<Record<string, Json>>);
  const payload =
    type === 'step.created'
      ? stepCreatedPayload(plan.steps[row.stepNumber! - 1]!)
      : fillPayload(type, lengthen(type, said));
  return assemble(row, plan, { ...ids, payload });
}

type Decoded = { readonly id: string; readonly attemptId: string | null; readonly payload: unknown };

function assemble(row: EventRow, plan: Plan, { id, attemptId, payload }: Decoded): RunEvent {
  return {
    type: eventTypeCodes[row.type]!,
    actorType: actorTypeCodes[row.actorType]!,
    actorId: row.actorId,
    stepRunId: row.stepNumber === null ? null : plan.steps[row.stepNumber - 1]!.stepRunId,
    attemptId,
    payload,
    id,
    runId: plan.runId,
    sequence: row.sequence,
    createdAtMs: row.createdAtMs,
  } as RunEvent;
}

function decodePayload(type: EventType, text: string | null, subject: { place: string; runId: string }): unknown {
  const where = `${subject.place}.payload`;
  const said = text === null ? {} : parseCanonical(text, where, subject.runId);
  const keys: readonly string[] = payloadKeys[type];
  if (!isObject(said) || text === '{}') {
    throw damaged(where, 'is not a payload', { runId: subject.runId });
  }
  const members = lengthen(type, said);
  const stray = Object.keys(members).find((key) => !keys.includes(key) || members[key] === null);
  if (stray !== undefined) {
    throw damaged(where, `has ${stray}, which ${type} does not have`, { runId: subject.runId });
  }
  return fillPayload(type, members);
}

/** With the nulls that were left out. */
function fillPayload(type: EventType, members: Readonly<Record<string, Json>>): Readonly<Record<string, Json>> {
  const payload: Record<string, Json> = {};
  for (const key of payloadKeys[type] as readonly string[]) {
    payload[key] = members[key] ?? null;
  }
  return payload;
}
