// The form of what the second fold reads: canonical text, labelled digests, derived ids, and the shape of every event.
// Written apart from src/core (types alone are shared), so that a mistake in one is not repeated by the other.
import { createHash } from 'node:crypto';
import type { EventType, RunEvent } from '../src/core/events.ts';

const labels = {
  plan: 'qinglong/workflow-plan@v1',
  receipt: 'qinglong/workflow-admission-receipt@v1',
  publication: 'qinglong/automation-publication@v1',
  lifecycleEvent: 'qinglong/package-lifecycle-event@v1',
  generation: 'qinglong/package-generation@v1',
  run: 'qinglong/run@v1',
  step: 'qinglong/step-run@v1',
  attempt: 'qinglong/run-attempt@v1',
  history: 'qinglong/run-history@v1',
  eventId: 'qinglong/run-event-id@v1',
  mutationId: 'qinglong/step-run-mutation-id@v1',
  attemptId: 'qinglong/run-attempt-id@v1',
  stepRunId: 'qinglong/step-run-id@v1',
};

const shortEscapes: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\b': '\\b',
  '\t': '\\t',
  '\n': '\\n',
  '\f': '\\f',
  '\r': '\\r',
};

function quote(text: string): string {
  let quoted = '"';
  for (let index = 0; index < text.length; index += 1) {
    const unit = text[index]!;
    const code = text.charCodeAt(index);
    quoted += shortEscapes[unit] ?? (code < 0x20 ? `\\u${code.toString(16).padStart(4, '0')}` : unit);
  }
  return `${quoted}"`;
}

/** RFC 8785 over objects, arrays, text, safe integers, booleans and null. Throws TypeError for anything else. */
export function canonicalText(value: unknown): string {
  if (value === null || value === true || value === false) {
    return `${value}`;
  }
  if (typeof value === 'number' && Number.isSafeInteger(value)) {
    return value === 0 ? '0' : value.toString(10);
  }
  if (typeof value === 'string' && value.isWellFormed()) {
    return quote(value);
  }
  if (Array.isArray(value)) {
    return `[${Array.from(value, canonicalText).join()}]`;
  }
  if (typeof value === 'object') {
    const members = Object.entries(value).sort(([left], [right]) => compareUnits(left, right));
    return `{${members.map(([key, member]) => `${canonicalText(key)}:${canonicalText(member)}`).join()}}`;
  }
  throw new TypeError(`${typeof value} has no canonical text`);
}

function compareUnits(left: string, right: string): number {
  for (let index = 0; index < Math.min(left.length, right.length); index += 1) {
    const distance = left.charCodeAt(index) - right.charCodeAt(index);
    if (distance !== 0) {
      return distance;
    }
  }
  return left.length - right.length;
}

/** SHA-256 over label, NUL and canonical text, in lowercase hex. */
export function labelledDigest(kind: keyof typeof labels, value: unknown): string {
  const sha256 = createHash('sha256');
  sha256.update(Buffer.from(labels[kind], 'utf8'));
  sha256.update(Buffer.of(0));
  sha256.update(Buffer.from(canonicalText(value), 'utf8'));
  return sha256.digest().toString('hex');
}

/** Two letters and the first 16 bytes of the digest of a primary key. */
function deriveId(prefix: string, kind: keyof typeof labels, key: Readonly<Record<string, unknown>>): string {
  return `${prefix}_${labelledDigest(kind, key).substring(0, 32)}`;
}

/** The ids that follow from what they name. A mutation's is that of the step run as it is after the change. */
export const derivedIds = {
  event: (runId: string, sequence: number, type: string) => deriveId('ev', 'eventId', { runId, sequence, type }),
  mutation: (planId: string, { id, version, status }: { id: string; version: number; status: string }) =>
    deriveId('mu', 'mutationId', { planId, stepRunId: id, version, status }),
  attempt: (runId: string, stepRunId: string, epoch: number) =>
    deriveId('at', 'attemptId', { runId, stepRunId, epoch }),
  stepRun: (runId: string, stepKey: string) => deriveId('st', 'stepRunId', { runId, stepKey }),
};

// One line a type: `field:kind`, `?` for one that may be null, `a|b` for one of a closed set.
const attemptEnd =
  'exitCode:int? signal:text? outputBytes:int? outputTruncated:bool? finishedAtMs:int? durationMs:int? ' +
  'errorCode:text? errorSummary:summary? ' +
  'stepStatus:succeeded|failed|cancelled|timed_out|lost|ready stepResultCode:text? stepDue:span?';
const stepEnd = 'resultCode:text errorSummary:summary?';
const runEnd = 'errorCode:text? errorSummary:summary?';
const news = 'summary:summary';
const payloadForms: Readonly<Record<EventType, string>> = {
  'workflow.admitted':
    'planId:id planDigest:hex projectId:text workflowId:text publicationDigest:hex packageName:text generation:count ' +
    'triggerId:text? scheduledForMs:int? requestedBy:text idempotencyKey:text? retryOfRunId:id? deadline:span?',
  'step.created':
    'stepKey:name kind:task|tool|model|agent|condition|approval|subworkflow taskRef:text taskSourceDigest:hex ' +
    'required:bool status:ready|pending',
  'step.readied': 'due:span?',
  'step.skipped': stepEnd,
  'step.failed': stepEnd,
  'step.cancelled': stepEnd,
  'step.timed_out': stepEnd,
  'attempt.claimed': 'number:count stepRunVersion:count executorType:process|handler executionDigest:hex',
  'attempt.started': 'deadline:span? bootId:text',
  'attempt.observed': '',
  'attempt.succeeded': attemptEnd,
  'attempt.failed': attemptEnd,
  'attempt.cancelled': attemptEnd,
  'attempt.timed_out': attemptEnd,
  'attempt.lost': attemptEnd,
  'workflow.task_timeout_requested': '',
  'workflow.attempt_stop_requested': 'reason:shutdown',
  'workflow.cancel_requested': 'reason:user|policy|shutdown|reconcile|timeout',
  'workflow.succeeded': runEnd,
  'workflow.failed': runEnd,
  'workflow.cancelled': runEnd,
  'workflow.timed_out': runEnd,
  'workflow.leftover_found': news,
  'workflow.stop_forced': news,
  'workflow.late_receipt_found': news,
};
const eventForm =
  'id:id runId:id sequence:count type:text actorType:runtime|operator|executor actorId:text? stepRunId:id? ' +
  'attemptId:id? payload:object createdAtMs:int';
const spanForm = 'startMs:int startUptimeMs:int bootId:text lengthMs:int';

const kinds: Readonly<Record<string, (value: unknown) => boolean>> = {
  text: (value) => typeof value === 'string' && value !== '' && value.isWellFormed(),
  summary: (value) => typeof value === 'string' && value.isWellFormed() && Buffer.byteLength(value) <= 2048,
  id: (value) => typeof value === 'string' && /^[A-Za-z0-9][A-Za-z0-9._:-]{0,35}$/.test(value),
  name: (value) => typeof value === 'string' && /^[a-z][a-z0-9-]{0,62}$/.test(value),
  hex: (value) => typeof value === 'string' && /^[0-9a-f]{64}$/.test(value),
  int: (value) => Number.isSafeInteger(value) && (value as number) >= 0,
  count: (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 31,
  bool: (value) => typeof value === 'boolean',
  object: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  span: (value) => typeof value === 'object' && value !== null && misfit(spanForm, value) === null,
};

/** The fields of a type's payload; of none for a type that does not exist. */
export function payloadFieldsOf(type: string): readonly string[] {
  const form = Object.hasOwn(payloadForms, type) ? payloadForms[type as EventType] : '';
  return form === '' ? [] : form.split(' ').map((entry) => entry.split(':')[0] ?? '');
}

/** The first field that is missing, unknown or of a wrong kind; null if the object has exactly this form. */
function misfit(form: string, value: object): string | null {
  const fields = new Map(form.split(' ').map((entry) => entry.split(':') as [string, string]));
  if (form === '') {
    fields.clear();
  }
  const unknown = Object.keys(value).find((key) => !fields.has(key));
  if (unknown !== undefined) {
    return unknown;
  }
  for (const [name, kind] of fields) {
    const member: unknown = Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined;
    const plain = kind.endsWith('?') ? kind.slice(0, -1) : kind;
    const fits = kinds[plain] ?? ((text: unknown) => typeof text === 'string' && plain.split('|').includes(text));
    if (!(member === null && plain !== kind) && !fits(member)) {
      return name;
    }
  }
  return null;
}

/** What is wrong with the form of an event, in words; null for one of exactly the right fields, kinds and bounds. */
export function findFormFault(event: RunEvent): string | null {
  const field = misfit(eventForm, event);
  if (field !== null) {
    return `its ${field} is missing, unknown or malformed`;
  }
  const form = Object.hasOwn(payloadForms, event.type) ? payloadForms[event.type] : null;
  if (form === null) {
    return `its type ${event.type} is unknown`;
  }
  const member = misfit(form, event.payload);
  if (member !== null) {
    return `its payload.${member} is missing, unknown or malformed`;
  }
  return Buffer.byteLength(canonicalText(event.payload)) > 16_384 ? 'its payload has more than 16 KiB' : null;
}
