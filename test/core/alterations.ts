// Ways to falsify a history. Those of `places` break the order of the events and leave the rest; those of `contents`
// put everything in order again (numbers, ids, times), so that only the meaning can give them away.
import type { AttemptEndPayload, EventType, RunEvent } from '../../src/core/events.ts';
import { deriveEventId } from '../../src/core/ids.ts';

/** Null where this alteration finds nothing to change at this place. `pick` chooses among what it could put there. */
export type Alteration = (events: readonly RunEvent[], at: number, pick: number) => readonly RunEvent[] | null;

function change(events: readonly RunEvent[], at: number, fields: Readonly<Record<string, unknown>>): RunEvent[] {
  return events.with(at, { ...events[at]!, ...fields } as RunEvent);
}

/** Numbers and dates the events anew, with the ids that follow from that. */
export function reorder(events: readonly RunEvent[]): readonly RunEvent[] {
  let createdAtMs = 0;
  return events.map((event, index) => {
    const sequence = index + 1;
    createdAtMs = Math.max(createdAtMs, event.createdAtMs);
    return { ...event, sequence, createdAtMs, id: deriveEventId({ runId: event.runId, sequence, type: event.type }) };
  });
}

export const places: Readonly<Record<string, Alteration>> = {
  'an event is missing': (events, at) => (at === events.length - 1 ? null : events.toSpliced(at, 1)),
  'an event is there twice': (events, at) => events.toSpliced(at, 0, events[at]!),
  'two events have changed places': (events, at) =>
    at === 0 ? null : events.toSpliced(at - 1, 2, events[at]!, events[at - 1]!),
  'an event is of another run': (events, at) => change(events, at, { runId: 'run-2' }),
  'an event has another number': (events, at, pick) => change(events, at, { sequence: at + 2 + pick }),
  'time goes back': (events, at) => {
    const beforeMs = events[at - 1]?.createdAtMs ?? 0;
    return beforeMs === 0 ? null : change(events, at, { createdAtMs: beforeMs - 1 });
  },
};

const sameForm: readonly (readonly EventType[])[] = [
  ['attempt.succeeded', 'attempt.failed', 'attempt.cancelled', 'attempt.timed_out', 'attempt.lost'],
  ['step.skipped', 'step.failed', 'step.cancelled', 'step.timed_out'],
  ['workflow.succeeded', 'workflow.failed', 'workflow.cancelled', 'workflow.timed_out'],
  ['attempt.observed', 'workflow.task_timeout_requested'],
];
const stepEnds: readonly AttemptEndPayload['stepStatus'][] = [
  ...(['succeeded', 'failed', 'cancelled', 'timed_out', 'lost', 'ready'] as const),
];

/** One field of one event, replaced by another value that occurs in this history. */
function borrow(field: 'stepRunId' | 'attemptId'): Alteration {
  return (events, at, pick) => {
    const others = events.map((event) => event[field]).filter((id) => id !== null && id !== events[at]![field]);
    const isThere = events[at]![field] !== null && others.length > 0;
    return isThere ? reorder(change(events, at, { [field]: others[pick % others.length] })) : null;
  };
}

function withPayload(field: string, replace: (old: unknown, pick: number) => unknown): Alteration {
  return (events, at, pick) => {
    const payload: Readonly<Record<string, unknown>> = events[at]!.payload;
    return Object.hasOwn(payload, field)
      ? reorder(change(events, at, { payload: { ...payload, [field]: replace(payload[field], pick) } }))
      : null;
  };
}

export const contents: Readonly<Record<string, Alteration>> = {
  'an event was taken out': (events, at) => (events.length === 1 ? null : reorder(events.toSpliced(at, 1))),
  'an event was repeated': (events, at) => reorder(events.toSpliced(at, 0, events[at]!)),
  'two events were exchanged': (events, at) =>
    at === 0 ? null : reorder(events.toSpliced(at - 1, 2, events[at]!, events[at - 1]!)),
  'an event became one of another type': (events, at, pick) => {
    const group = sameForm.find((types) => types.includes(events[at]!.type));
    return group === undefined ? null : reorder(change(events, at, { type: group[pick % group.length]! }));
  },
  'an event speaks of another step': borrow('stepRunId'),
  'an event speaks of another attempt': borrow('attemptId'),
  'an event speaks of no step': (events, at) =>
    events[at]!.stepRunId === null ? null : reorder(change(events, at, { stepRunId: null })),
  'an event speaks of no attempt': (events, at) =>
    events[at]!.attemptId === null ? null : reorder(change(events, at, { attemptId: null })),
  'an attempt left its step otherwise': withPayload('stepStatus', (_, pick) => stepEnds[pick % stepEnds.length]),
  'an attempt was of another epoch': withPayload('stepRunVersion', (old, pick) => Number(old) + 1 + pick),
  'an outcome was another': withPayload('exitCode', (_, pick) => pick),
  'a due time was another': withPayload('due', () => null),
};
